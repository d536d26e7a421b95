// SPDX-License-Identifier: Apache-2.0
// Reads the archives of torch.export.save, PyTorch 2.9 and later: NAME/models/model.json,
// NAME/data/weights/..., NAME/data/constants/..., NAME/data/sample_inputs/model.pt.
#include "convert/exported/read/pt2_archive.h"

#include <algorithm>
#include <iterator>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"

#ifdef ARENITE_HAVE_LIBZIP
#include "convert/files/zip_archive.h"
#endif

namespace arenite::convert {

using nlohmann::json;

const json& field(const json& object, const char* key, const std::string& where) {
  if (!object.is_object() || !object.contains(key)) {
    throw InputError("{}: field '{}' is missing: the file is damaged", where, key);
  }
  return object.at(key);
}

int64_t integer(const json& value, const std::string& where) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
    throw InputError("{}: found {}: expected a whole number", where, show(value));
  }
  return value.get<int64_t>();
}

const std::string& text(const json& value, const std::string& where) {
  if (!value.is_string()) throw InputError("{}: found {}: expected a name", where, show(value));
  return value.get_ref<const std::string&>();
}

namespace {

// PyTorch's number for a type, and what its elements lie in the file as: complex numbers are pairs.
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
      "{}: elements of PyTorch's type number {} are not read: convert the model to float32, "
      "float16 or bfloat16 before torch.export.export",
      where, show(number));
}

#ifdef ARENITE_HAVE_LIBZIP

namespace {

constexpr int64_t kSchemaMajor = 8;
constexpr int64_t kExtentMax = int64_t{1} << 40;

DType stored_type(ElementType type) {
  return std::ranges::find(kStoredTypes, type, &StoredType::type)->stored;
}

// Whole numbers of an example are int64, whatever they are stored as.
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
    for (size_t i = 0; i < contents_->tensors.size(); ++i) add_stored(i);
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
        throw InputError("{} holds several models: save one with torch.export.save",
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
      throw InputError("{}: it does not list tensors", where);
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
      throw InputError(
          "{}: it is stored as a pickle, as subclasses of tensors are: only plain tensors are read",
          where);
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
      throw InputError("{}: its sizes and strides do not fit each other", where);
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
        fmt::format("{} {} {} {} {}", path, first, name_of(tensor), fmt::join(tensor.shape, ","),
                    fmt::join(tensor.strides, ","));
    described.storage =
        storages_seen_.emplace(identity, static_cast<uint32_t>(storages_seen_.size()))
            .first->second;
    contents_->tensors.push_back(std::move(tensor));
    if (!result_.by_name.emplace(name, std::move(described)).second) {
      throw InputError("{}: the name stands for two tensors", where);
    }
  }

  static const char* name_of(const CheckpointTensor& tensor) { return convert::name(tensor.dtype); }

  static int64_t fixed_one(const json& value, const std::string& where) {
    const int64_t number = integer(field(value, "as_int", where), where);
    if (number < 0 || number > kExtentMax) {
      throw InputError("{}: it has the size {}: the file is damaged", where, number);
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

  // Every element lies in the storage, and all tensors together are not much more than the file.
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
      throw InputError("{}: its sizes do not fit the {} bytes that are stored", where,
                       storage_bytes);
    }
    if (named_bytes_ > kNamedBytesBase + kNamedPerStoredByte * file_.size()) {
      throw InputError("{}: with it, tensors stand for {} bytes in a file of {}", where,
                       named_bytes_, file_.size());
    }
  }

  void add_stored(size_t index) {
    const CheckpointTensor& tensor = contents_->tensors[index];
    const std::shared_ptr<const CheckpointContents> shared = contents_;
    StoredTensor stored{.name = tensor.name,
                        .type = convert::name(tensor.dtype),
                        .is_real = is_real(tensor.dtype),
                        .shape = tensor.shape,
                        .load = [shared, index] { return shared->tensors[index].to_f32(); },
                        .file = file_name_};
    if (bytes(tensor.dtype) > 2 && tensor.dtype != DType::kF32) {
      stored.load_f64 = [shared, index] { return shared->tensors[index].to_f64(); };
    }
    result_.tensors->add(std::move(stored));
  }

  // The example is a help, not a part of the model: one that cannot be read is left out.
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
  throw InputError("{} is a zip archive, and this build has no libzip to read it",
                   quote(file_name));
}

#endif  // ARENITE_HAVE_LIBZIP

}  // namespace arenite::convert
