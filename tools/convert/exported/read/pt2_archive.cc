// SPDX-License-Identifier: Apache-2.0
// Reads the archives of torch.export.save, PyTorch 2.9 and later: NAME/models/model.json,
// NAME/data/weights/..., NAME/data/constants/..., NAME/data/sample_inputs/model.pt.
#include "convert/exported/read/pt2_archive.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"
#include "core/crc32c.h"

#ifdef ARENITE_HAVE_LIBZIP
#include "convert/files/zip_archive.h"
#endif

namespace arenite::convert {

using nlohmann::json;

const json* find_field(const json& object, std::string_view key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nullptr : &*found;
}

const json& field(const json& object, const char* key, const std::string& where) {
  const json* found = find_field(object, key);
  if (found == nullptr) {
    throw InputError("{}: field '{}' is missing: the file is damaged", where, key);
  }
  return *found;
}

int64_t integer(const json& value, const std::string& where) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
    throw InputError("{}: found {}: expected an integer", where, show(value));
  }
  return value.get<int64_t>();
}

const std::string& text(const json& value, const std::string& where) {
  if (!value.is_string()) throw InputError("{}: found {}: expected a name", where, show(value));
  return value.get_ref<const std::string&>();
}

namespace {

// PyTorch's number for a type, and the stored type of its elements; a complex element is stored as
// a pair.
struct StoredType {
  int64_t number;
  ElementType type;
  DType stored;
};
constexpr StoredType kStoredTypes[] = {
    {1, ElementType::kU8, DType::kU8},          {2, ElementType::kI8, DType::kI8},
    {3, ElementType::kI16, DType::kI16},        {4, ElementType::kI32, DType::kI32},
    {5, ElementType::kI64, DType::kI64},        {6, ElementType::kF16, DType::kF16},
    {7, ElementType::kF32, DType::kF32},        {8, ElementType::kF64, DType::kF64},
    {10, ElementType::kComplex64, DType::kF32}, {11, ElementType::kComplex128, DType::kF64},
    {12, ElementType::kBool, DType::kBool},     {13, ElementType::kBF16, DType::kBF16},
};

}  // namespace

ElementType element_type(const json& number, const std::string& where) {
  const int64_t wanted = integer(number, where);
  for (const StoredType& row : kStoredTypes) {
    if (row.number == wanted) return row.type;
  }
  throw InputError(
      "{}: PyTorch's dtype number {} is not supported: convert the model to float32, float16 or "
      "bfloat16 before torch.export.export",
      where, show(number));
}

#ifdef ARENITE_HAVE_LIBZIP

namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr int64_t kExtentMax = int64_t{1} << 40;

DType stored_type(ElementType type) {
  return std::ranges::find(kStoredTypes, type, &StoredType::type)->stored;
}

// Returns the element type of an example's tensor; all integers become int64.
ElementType type_of(DType type) {
  const auto* row = std::ranges::find(kStoredTypes, type, &StoredType::stored);
  return row == std::end(kStoredTypes) || is_integer(row->type) ? ElementType::kI64 : row->type;
}

class ArchiveReader {
 public:
  ArchiveReader(std::span<const std::byte> file, const std::string& file_name)
      : file_(file), file_name_(file_name), archive_(file, file_name) {}

  Pt2Archive run() {
    find_model();
    check_byte_order();
    result_.model = read_json(prefix_ + "models/" + model_ + ".json");
    check_version();
    result_.tensors = std::make_shared<TensorStore>(file_name_);
    add_tensors("data/weights/", "_weights_config.json");
    add_tensors("data/constants/", "_constants_config.json");
    for (const CheckpointTensor& tensor : contents_->tensors) {
      result_.tensors->add(tensor, contents_, file_name_);
    }
    read_sample_inputs();
    return std::move(result_);
  }

 private:
  void find_model() {
    bool is_older = false;
    for (const auto& [name, member] : archive_.members()) {
      is_older = is_older || name.ends_with("serialized_exported_program.json");
      const size_t at = name.find("models/");
      if (at == std::string::npos || !name.ends_with(".json")) continue;
      if (name.find('/', at + 7) != std::string::npos) continue;
      if (at != 0 && name.find('/') != at - 1) continue;
      if (!model_.empty()) {
        throw InputError("{} holds several models: expected one, saved with torch.export.save",
                         quote(file_name_));
      }
      prefix_ = name.substr(0, at);
      model_ = name.substr(at + 7, name.size() - at - 12);
    }
    if (!model_.empty()) return;
    if (is_older) {
      throw InputError(
          "{} was written by torch.export.save of PyTorch before 2.9: load it with "
          "torch.export.load and save it again with PyTorch 2.9 or later",
          quote(file_name_));
    }
    throw InputError(
        "{} is a zip archive without models/<name>.json: write it with "
        "torch.export.save",
        quote(file_name_));
  }

  const ZipMember& member(const std::string& name) const {
    const auto found = archive_.members().find(name);
    if (found == archive_.members().end()) {
      throw InputError("{}: the zip archive has no member {}: the file is damaged",
                       quote(file_name_), quote(name));
    }
    return found->second;
  }

  json read_json(const std::string& name) {
    const ZipMember& found = member(name);
    const std::string where = fmt::format("{}, {}", quote(file_name_), printable(name));
    if (found.bytes > kJsonBytesMax) {
      throw InputError("{} has {} bytes: at most {} are accepted", where, found.bytes,
                       kJsonBytesMax);
    }
    const auto bytes = archive_.read(name, found);
    return parse_json(
        {reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(found.bytes)}, where);
  }

  void check_byte_order() {
    const auto found = archive_.members().find(prefix_ + "byteorder");
    if (found == archive_.members().end() || found->second.bytes > 64) return;
    const auto bytes = archive_.read(found->first, found->second);
    const std::string order(reinterpret_cast<const char*>(bytes.get()),
                            static_cast<size_t>(found->second.bytes));
    if (order != "little") {
      throw InputError("{}, byteorder: found {}: expected 'little'", quote(file_name_),
                       quote(order));
    }
  }

  void check_version() const {
    const std::string where = fmt::format("{}, schema_version", quote(file_name_));
    const int64_t major =
        integer(field(field(result_.model, "schema_version", where), "major", where), where);
    if (major != kSchemaMajor) {
      throw InputError(
          "{}: found {}: expected {}, as PyTorch 2.9 and later write it; export the model again "
          "with one of these",
          where, major, kSchemaMajor);
    }
  }

  void add_tensors(const char* folder, const char* ending) {
    const std::string name = prefix_ + folder + model_ + ending;
    if (!archive_.members().contains(name)) return;
    const json config = read_json(name);
    const std::string where = fmt::format("{}, {}", quote(file_name_), printable(name));
    const json& tensors = field(config, "config", where);
    if (!tensors.is_object() || tensors.size() > kTensorsMax) {
      throw InputError("{}: expected a list of tensors", where);
    }
    for (const auto& [tensor, payload] : tensors.items()) {
      add_tensor(prefix_ + folder, tensor, payload,
                 fmt::format("{}, tensor {}", quote(file_name_), quote(tensor)));
    }
  }

  void add_tensor(const std::string& folder, const std::string& name, const json& payload,
                  const std::string& where) {
    const json& pickled = field(payload, "use_pickle", where);
    if (!pickled.is_boolean() || pickled.get<bool>()) {
      throw InputError("{}: found a pickled tensor of a subclass: expected a plain tensor", where);
    }
    const json& meta = field(payload, "tensor_meta", where);
    const ElementType type = element_type(field(meta, "dtype", where), where);
    Pt2Tensor described;
    described.index = contents_->tensors.size();
    described.type = type;
    CheckpointTensor tensor;
    tensor.name = name;
    tensor.dtype = stored_type(type);
    described.shape = fixed(field(meta, "sizes", where), where);
    const Shape strides = fixed(field(meta, "strides", where), where);
    const int64_t offset = fixed_one(field(meta, "storage_offset", where), where);
    if (strides.size() != described.shape.size() || strides.size() >= kExportedRankMax) {
      throw InputError("{}: sizes and strides do not fit each other: the file is damaged", where);
    }
    tensor.shape.assign(described.shape.begin(), described.shape.end());
    tensor.strides.assign(strides.begin(), strides.end());
    uint64_t first = static_cast<uint64_t>(offset);
    if (is_complex(type)) {
      for (uint64_t& stride : tensor.strides) stride *= 2;
      tensor.shape.push_back(2);
      tensor.strides.push_back(1);
      first *= 2;
    }
    const std::string path = folder + text(field(payload, "path_name", where), where);
    const std::span<const std::byte> storage = read_storage(path);
    check_inside(tensor, first, storage.size(), where);
    tensor.data = tensor.elements() == 0
                      ? storage.subspan(0, 0)
                      : storage.subspan(static_cast<size_t>(first) * bytes(tensor.dtype));
    const std::string identity =
        fmt::format("{} {} {} {} {}", path, first, convert::name(tensor.dtype),
                    fmt::join(tensor.shape, ","), fmt::join(tensor.strides, ","));
    described.storage =
        storages_seen_.emplace(identity, static_cast<uint32_t>(storages_seen_.size()))
            .first->second;
    contents_->tensors.push_back(std::move(tensor));
    if (!result_.by_name.emplace(name, std::move(described)).second) {
      throw InputError("{}: the name is used for two tensors: the file is damaged", where);
    }
  }

  static int64_t fixed_one(const json& value, const std::string& where) {
    const int64_t number = integer(field(value, "as_int", where), where);
    if (number < 0 || number > kExtentMax) {
      throw InputError("{}: found size {}: the file is damaged", where, number);
    }
    return number;
  }

  static Shape fixed(const json& list, const std::string& where) {
    if (!list.is_array() || list.size() > kExportedRankMax) {
      throw InputError("{}: found {}: expected its sizes", where, show(list));
    }
    Shape numbers;
    for (const json& value : list) numbers.push_back(fixed_one(value, where));
    return numbers;
  }

  std::span<const std::byte> read_storage(const std::string& path) {
    const auto known = storages_.find(path);
    if (known != storages_.end()) return known->second;
    const ZipMember& found = member(path);
    contents_->buffers.push_back(archive_.read(path, found));
    return storages_[path] = {contents_->buffers.back().get(), static_cast<size_t>(found.bytes)};
  }

  // Checks that all elements lie in the storage, and that tensors are not much larger than the
  // file.
  void check_inside(const CheckpointTensor& tensor, uint64_t first, uint64_t storage_bytes,
                    const std::string& where) {
    uint64_t elements = 1, end = first;
    bool is_sound = true;
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      uint64_t reach = 0;
      is_sound = is_sound && multiply(elements, tensor.shape[d], elements);
      if (tensor.shape[d] == 0) continue;
      is_sound = is_sound && multiply(tensor.shape[d] - 1, tensor.strides[d], reach) &&
                 !__builtin_add_overflow(end, reach, &end);
    }
    uint64_t named = 0;
    is_sound = is_sound && multiply(elements, bytes(tensor.dtype), named) &&
               !__builtin_add_overflow(named_bytes_, named, &named_bytes_);
    if (is_sound && elements != 0) {
      is_sound = end < storage_bytes / bytes(tensor.dtype);
    }
    if (!is_sound) {
      throw InputError("{}: the sizes do not fit the {} stored bytes: the file is damaged", where,
                       storage_bytes);
    }
    if (named_bytes_ > kNamedBytesBase + kNamedPerStoredByte * file_.size()) {
      throw InputError("{}: tensors claim {} bytes in a file of {}: the file is damaged", where,
                       named_bytes_, file_.size());
    }
  }

  // Reads the example, which helps checks but is not part of the model. An unreadable example is
  // dropped.
  void read_sample_inputs() {
    const std::string name = prefix_ + "data/sample_inputs/" + model_ + ".pt";
    const auto found = archive_.members().find(name);
    if (found == archive_.members().end()) return;
    const auto bytes = archive_.read(name, found->second);
    try {
      const CheckpointContents example =
          read_pytorch_zip({bytes.get(), static_cast<size_t>(found->second.bytes)}, name);
      for (const CheckpointTensor& tensor : example.tensors) {
        const Shape shape(tensor.shape.begin(), tensor.shape.end());
        static_cast<void>(elements_of(shape));
        const Array values = Array::real(shape, tensor.to_f64(), ElementType::kF64);
        result_.sample_inputs.push_back(values.to(type_of(tensor.dtype)));
      }
    } catch (const InputError&) {
      result_.sample_inputs.clear();
    }
  }

  std::span<const std::byte> file_;
  const std::string& file_name_;
  ZipArchive archive_;
  std::string prefix_, model_;
  std::shared_ptr<CheckpointContents> contents_ = std::make_shared<CheckpointContents>();
  std::map<std::string, std::span<const std::byte>> storages_;
  std::map<std::string, uint32_t> storages_seen_;
  uint64_t named_bytes_ = 0;
  Pt2Archive result_;
};

}  // namespace

Pt2Archive read_pt2_archive(std::span<const std::byte> file, const std::string& file_name) {
  return ArchiveReader(file, file_name).run();
}

#else

Pt2Archive read_pt2_archive(std::span<const std::byte>, const std::string& file_name) {
  throw InputError("{} is a zip archive: reading it needs a build with libzip", quote(file_name));
}

#endif  // ARENITE_HAVE_LIBZIP

// ---- the program: its tensors and symbolic sizes ----

Shape ExportedValue::shape() const {
  Shape shape;
  for (const Extent& extent : sizes) shape.push_back(extent.size);
  return shape;
}

std::vector<const ExportedInput*> ExportedProgram::user_inputs() const {
  std::vector<const ExportedInput*> found;
  for (const ExportedInput& input : inputs) {
    if (input.kind == InputKind::kUser) found.push_back(&input);
  }
  return found;
}

Array ExportedProgram::load(const ExportedInput& input) const {
  const StoredTensor& stored = tensor(input);
  const ExportedValue& value = values[input.value];
  if (!stored.load_f64 && is_real(value.type)) {
    return Array::of_floats(value.shape(), stored.load().copy(), value.type);
  }
  std::vector<double> numbers;
  if (stored.load_f64) {
    numbers = stored.load_f64();
  } else {
    const Floats floats = stored.load();
    numbers.assign(floats.begin(), floats.end());
  }
  if (is_complex(value.type)) {
    Array::Complexes pairs(numbers.size() / 2);
    for (size_t i = 0; i < pairs.size(); ++i) pairs[i] = {numbers[2 * i], numbers[2 * i + 1]};
    return Array::complex(value.shape(), std::move(pairs), value.type);
  }
  if (is_real(value.type)) return Array::real(value.shape(), std::move(numbers), value.type);
  return Array::real(value.shape(), std::move(numbers), ElementType::kF64).to(value.type);
}

uint64_t ExportedProgram::largest_weight() const {
  uint64_t largest = 0;
  for (const StoredTensor& tensor : tensors->tensors()) {
    uint64_t elements = 1;
    for (const uint64_t extent : tensor.shape) elements *= extent;
    largest = std::max(largest, elements);
  }
  return largest;
}

bool is_exported_program(std::string_view bytes) {
  if (!bytes.starts_with("PK\x03\x04")) return false;
  // The names of members are listed at the end of the archive.
  constexpr size_t kListBytesMax = size_t{1} << 22;
  const std::string_view list = bytes.substr(bytes.size() - std::min(bytes.size(), kListBytesMax));
  return list.find("/models/") != std::string_view::npos ||
         list.find("serialized_exported_program.json") != std::string_view::npos;
}

ExportedProgram read_exported(const std::filesystem::path& file) {
  const FileMap map(file);
  return read_exported(map.bytes(), file.string());
}

ExportedProgram read_exported(std::span<const std::byte> bytes, const std::string& file_name) {
  const Pt2Archive archive = read_pt2_archive(bytes, file_name);
  ExportedProgram program = read_graph(archive, file_name);
  program.checksum = crc32c(bytes);
  return program;
}

namespace {

constexpr int kSizeDepthMax = 64;  // nesting of expressions

using Size = std::optional<int64_t>;

Size floor_divided(int64_t a, int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return std::nullopt;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Size size_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (exponent < 0 || exponent > 63) return std::nullopt;
  for (int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

Size applied_size(std::string_view function, int64_t a, int64_t b) {
  int64_t result = 0;
  if (function == "Add") return __builtin_add_overflow(a, b, &result) ? Size() : result;
  if (function == "Mul") return __builtin_mul_overflow(a, b, &result) ? Size() : result;
  if (function == "Max") return std::max(a, b);
  if (function == "Min") return std::min(a, b);
  if (function == "Pow" || function == "PowByNatural") return size_power(a, b);
  if (function == "FloorDiv" || function == "CleanDiv") return floor_divided(a, b);
  if (function == "Mod" || function == "PythonMod") {
    const Size quotient = floor_divided(a, b);
    return quotient ? Size(a - *quotient * b) : Size();
  }
  return std::nullopt;
}

using SymbolValue = std::function<Size(std::string_view symbol)>;

// Reads 's27', positive=True, integer=True.
Size symbol_size(std::string_view inside, const SymbolValue& value_of) {
  const size_t end = inside.find('\'', 1);
  if (!inside.starts_with('\'') || end == std::string_view::npos) return std::nullopt;
  return value_of(inside.substr(1, end - 1));
}

Size integer_size(std::string_view digits) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? Size(number) : Size();
}

// Evaluates one constructor, and removes it from `rest`.
Size read_size(std::string_view& rest, const SymbolValue& value_of, int depth) {
  const size_t open = rest.find('(');
  if (open == std::string_view::npos || depth == kSizeDepthMax) return std::nullopt;
  const std::string_view name = rest.substr(0, open);
  rest.remove_prefix(open + 1);
  if (name == "Integer" || name == "Symbol") {
    const size_t close = rest.find(')');
    if (close == std::string_view::npos) return std::nullopt;
    const std::string_view inside = rest.substr(0, close);
    rest.remove_prefix(close + 1);
    return name == "Integer" ? integer_size(inside) : symbol_size(inside, value_of);
  }
  Size result = read_size(rest, value_of, depth + 1);
  if (!rest.starts_with(", ")) return std::nullopt;  // known functions have two operands or more
  while (result && rest.starts_with(", ")) {
    rest.remove_prefix(2);
    const Size next = read_size(rest, value_of, depth + 1);
    result = next ? applied_size(name, *result, *next) : std::nullopt;
  }
  if (!result || !rest.starts_with(')')) return std::nullopt;
  rest.remove_prefix(1);
  return result;
}

}  // namespace

std::optional<int64_t> evaluate_size(
    std::string_view expression,
    const std::function<std::optional<int64_t>(std::string_view symbol)>& value_of) {
  if (expression.find('(') == std::string_view::npos) return value_of(expression);
  const Size size = read_size(expression, value_of, 0);
  return expression.empty() ? size : std::nullopt;
}

std::set<std::string> symbols_in(const Extent& extent) {
  if (extent.is_fixed()) return {};
  if (extent.symbol.find('(') == std::string::npos) return {extent.symbol};
  std::set<std::string> found;
  constexpr std::string_view kSymbol = "Symbol('";
  for (size_t at = extent.symbol.find(kSymbol); at != std::string::npos;
       at = extent.symbol.find(kSymbol, at)) {
    at += kSymbol.size();
    found.insert(extent.symbol.substr(at, extent.symbol.find('\'', at) - at));
  }
  return found;
}

std::optional<LinearSize> linear_size(const Extent& extent) {
  constexpr int64_t kMost = int64_t{1} << 30;  // of steps and constants
  const std::set<std::string> symbols = symbols_in(extent);
  if (symbols.size() != 1) return std::nullopt;
  const std::string& symbol = *symbols.begin();
  const auto at = [&](int64_t number) {
    return evaluate_size(extent.symbol, [&](std::string_view name) {
      return name == symbol ? std::optional(number) : std::nullopt;
    });
  };
  const Size one = at(1), two = at(2), far = at(1001);
  if (!one || !two || !far) return std::nullopt;
  if (*one < -kMost || *two > kMost || *two <= *one) return std::nullopt;
  const int64_t step = *two - *one;
  if (*far != *one + 1000 * step) return std::nullopt;
  return LinearSize{symbol, step, *one - step};
}

}  // namespace arenite::convert
