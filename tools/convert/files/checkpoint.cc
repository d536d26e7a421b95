// SPDX-License-Identifier: Apache-2.0
// Detects checkpoint formats, reads safetensors, and gives access to the tensors.
#include "convert/files/checkpoint.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/files/json_file.h"

namespace arenite::convert {
namespace {

// ---- safetensors ----

using nlohmann::json;

constexpr const char* kMetadataName = "__metadata__";
constexpr std::string_view kEntryFields[] = {"dtype", "shape", "data_offsets"};
constexpr uint64_t kLengthBytes = 8;

std::string_view safetensors_header(std::span<const std::byte> file, const std::string& file_name) {
  refuse_if(file.size() < kLengthBytes,
            "{} has {} bytes: a safetensors file begins with 8 bytes of header length",
            quote(file_name), file.size());
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), sizeof header_bytes);
  refuse_if(
      header_bytes > kSafetensorsHeaderBytesMax,
      "{}: the header length is {} bytes: at most {} are accepted; the file is damaged, or it is "
      "not a safetensors file",
      quote(file_name), header_bytes, kSafetensorsHeaderBytesMax);
  refuse_if(
      header_bytes > file.size() - kLengthBytes,
      "{}: the header length is {} bytes, but only {} follow: the file is cut short; fetch or "
      "save it again",
      quote(file_name), header_bytes, file.size() - kLengthBytes);
  const std::span<const std::byte> header =
      file.subspan(kLengthBytes, static_cast<size_t>(header_bytes));
  if (header.empty() || header[0] != std::byte{'{'}) {
    throw InputError("{}: the header does not start with '{{': it is not a safetensors file",
                     quote(file_name));
  }
  return {reinterpret_cast<const char*>(header.data()), header.size()};
}

std::map<std::string, std::string> read_metadata(const json& metadata,
                                                 const std::string& file_name) {
  const std::string where = fmt::format("{}, __metadata__", quote(file_name));
  if (!metadata.is_object()) {
    throw InputError("{}: it is {}: expected an object", where, show(metadata));
  }
  refuse_if(metadata.size() > kSafetensorsMetadataMax, "{}: it has more than {} keys", where,
            kSafetensorsMetadataMax);
  std::map<std::string, std::string> values;
  for (const auto& [key, value] : metadata.items()) {
    if (!value.is_string()) {
      throw InputError("{}: {} is {}: expected a string", where, quote(key), show(value));
    }
    values.emplace(key, value.get<std::string>());
  }
  return values;
}

// Returns the integers in a tensor's header field.
std::vector<uint64_t> numbers_of(const json& entry, const char* field, const std::string& where) {
  const json& list = entry.at(field);
  refuse_if(list.size() > kRankMax, "{}: field '{}' has more than {} values", where, field,
            kRankMax);
  if (!list.is_array() ||
      !std::ranges::all_of(list, [](const json& number) { return number.is_number_unsigned(); })) {
    throw InputError("{}: field '{}' holds {}: expected an array of non-negative integers", where,
                     field, show(list));
  }
  return list.get<std::vector<uint64_t>>();
}

DType dtype_of(const json& entry, const std::string& where) {
  const json& dtype = entry.at("dtype");
  if (!dtype.is_string()) {
    throw InputError("{}: field 'dtype' holds {}: expected a string", where, show(dtype));
  }
  const auto name = dtype.get<std::string>();
  if (const auto known = dtype_called(&DTypeRow::safetensors, name)) return *known;
  throw InputError(
      "{}: dtype {} is not supported: expected one of F64, F32, F16, BF16, I64, I32, I16, I8, U8, "
      "BOOL; convert the tensor to one of these before saving{}",
      where, quote(name),
      name.starts_with('F') ? ", or convert the original weights, with --weights q4 or q8" : "");
}

// Checks one entry on its own: its fields, its offsets, and that its shape matches its bytes.
CheckpointTensor read_entry(const std::string& name, const json& entry,
                            std::span<const std::byte> data, const std::string& file_name) {
  const std::string where = fmt::format("{}, tensor {}", quote(file_name), quote(name));
  if (!entry.is_object()) {
    throw InputError("{}: it is {}: expected an object", where, show(entry));
  }
  for (const auto& [field, value] : entry.items()) {
    if (std::ranges::count(kEntryFields, field) != 0) continue;
    throw InputError("{}: field {} is not known: expected dtype, shape and data_offsets", where,
                     quote(field));
  }
  for (const std::string_view field : kEntryFields) {
    if (entry.contains(field)) continue;
    throw InputError("{}: field '{}' is missing: expected dtype, shape and data_offsets", where,
                     field);
  }
  CheckpointTensor tensor;
  tensor.name = name;
  tensor.dtype = dtype_of(entry, where);
  tensor.shape = numbers_of(entry, "shape", where);
  const std::vector<uint64_t> offsets = numbers_of(entry, "data_offsets", where);
  refuse_if(offsets.size() != 2, "{}: data_offsets has {} values: expected begin and end", where,
            offsets.size());
  const uint64_t begin = offsets[0];
  const uint64_t end = offsets[1];
  refuse_if(
      begin > end || end > data.size(),
      "{}: data_offsets are {} to {}: expected begin <= end <= {}, the bytes after the header; "
      "the file is cut short or damaged",
      where, begin, end, data.size());
  uint64_t tensor_bytes = bytes(tensor.dtype);
  for (const uint64_t extent : tensor.shape) {
    if (multiply(tensor_bytes, extent, tensor_bytes)) continue;
    throw InputError("{}: the size of shape {} overflows 64 bits: the file is damaged", where,
                     shape_text(tensor.shape));
  }
  if (tensor_bytes != end - begin) {
    throw InputError(
        "{}: shape {} of {} takes {} bytes, but data_offsets {} to {} hold {}: the file is damaged",
        where, shape_text(tensor.shape), convert::name(tensor.dtype), tensor_bytes, begin, end,
        end - begin);
  }
  tensor.strides = contiguous_strides(tensor.shape);
  tensor.data = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(tensor_bytes));
  return tensor;
}

// Sorts the tensors by their data, which they must cover exactly. A byte of two tensors, or of
// none, would leave room for hidden data.
void sort_by_data(std::vector<CheckpointTensor>& tensors, std::span<const std::byte> data,
                  const std::string& file_name) {
  std::ranges::stable_sort(tensors, {}, [](const CheckpointTensor& tensor) {
    return std::pair(tensor.data.data(), tensor.data.size());
  });
  uint64_t covered_bytes = 0;
  for (const CheckpointTensor& tensor : tensors) {
    const auto begin = static_cast<uint64_t>(tensor.data.data() - data.data());
    if (begin != covered_bytes) {
      throw InputError(
          "{}, tensor {}: its data begins at byte {}, but the tensors before it end at {}: {}; "
          "save the file again with the safetensors library",
          quote(file_name), quote(tensor.name), begin, covered_bytes,
          begin < covered_bytes ? "they overlap" : "there is a gap");
    }
    covered_bytes += tensor.data.size();
  }
  refuse_if(covered_bytes != data.size(),
            "{}: the tensors end at byte {} of the data, but {} bytes follow the header: expected "
            "nothing after the last tensor",
            quote(file_name), covered_bytes, data.size());
}

// Returns tensors that view `file`, the bytes of the whole file, in the order of their data. Checks
// everything: the header's fields, types, sizes, and that the tensors cover the data.
CheckpointContents read_safetensors(std::span<const std::byte> file, const std::string& file_name) {
  const std::string_view text = safetensors_header(file, file_name);
  const json header = parse_json(text, fmt::format("{}: the header", quote(file_name)));
  const std::span<const std::byte> data = file.subspan(kLengthBytes + text.size());
  refuse_if(header.size() > kTensorsMax,
            "{}: it has more than {} tensors: save the model in several files", quote(file_name),
            kTensorsMax);
  CheckpointContents contents;
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadataName) {
      contents.metadata = read_metadata(entry, file_name);
    } else {
      contents.tensors.push_back(read_entry(name, entry, data, file_name));
    }
  }
  sort_by_data(contents.tensors, data, file_name);
  return contents;
}

// ---- any checkpoint ----

bool starts_with(std::span<const std::byte> bytes, std::string_view magic) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

// Files written before PyTorch 1.6 (2020) begin with a bare pickle of protocol 2.
bool is_bare_pickle(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} &&
         bytes[1] <= std::byte{5};
}

// A model format for which a program exists, but not PyTorch's.
struct ForeignFormat {
  const char* name;
  size_t at;
  std::string_view magic;
};
constexpr ForeignFormat kForeignFormats[] = {
    {"a TensorFlow Lite model", 4, "TFL3"},
    {"an ExecuTorch program", 4, "ET12"},
    {"an HDF5 file, as Keras writes it", 0, "\x89HDF\r\n"},
};

// ONNX is a Protocol Buffers message, which begins with the version: field 1, a small number.
bool is_onnx(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  constexpr std::string_view kNextFields = "\x12\x1a\x22\x3a\x42";  // producer, graph, opsets
  return file.extension() == ".onnx" ||
         (bytes.size() > 4 && bytes[0] == std::byte{8} && bytes[1] < std::byte{32} &&
          kNextFields.find(static_cast<char>(bytes[2])) != std::string_view::npos);
}

void refuse_foreign_format(std::span<const std::byte> bytes, const std::filesystem::path& file) {
  const auto refuse = [&](const char* name) {
    throw InputError(
        "{} is {}, which is not supported: export the PyTorch model that it was made of. {}",
        quote(file.string()), name, kExportAdvice);
  };
  for (const ForeignFormat& format : kForeignFormats) {
    const size_t at = std::min(format.at, bytes.size());
    if (starts_with(bytes.subspan(at), format.magic)) refuse(format.name);
  }
  if (is_onnx(bytes, file)) refuse("an ONNX model");
}

CheckpointContents read_contents(std::span<const std::byte> bytes,
                                 const std::filesystem::path& file, bool is_whole) {
  const std::string file_name = file.string();
  if (bytes.empty()) throw InputError("{} is empty: expected a checkpoint", quote(file_name));
  if (starts_with(bytes, "PK\x03\x04") || starts_with(bytes, "PK\x05\x06")) {
    return read_pytorch_zip(bytes, file_name, is_whole);
  }
  refuse_foreign_format(bytes, file);
  const bool has_json_header = bytes.size() > 8 && bytes[8] == std::byte{'{'};
  refuse_if(
      !has_json_header && is_bare_pickle(bytes),
      "{} is a bare pickle, the legacy form of torch.save, which is not supported: load it with "
      "PyTorch and save it again with torch.save(model.state_dict(), path)",
      quote(file_name));
  refuse_if(starts_with(bytes, "version https://git-lfs"),
            "{} is a Git LFS pointer, not the file itself: run 'git lfs pull'", quote(file_name));
  if (has_json_header || file.extension() == ".safetensors") {
    return read_safetensors(bytes, file_name);
  }
  throw InputError(
      "{} is neither a safetensors file nor a zip archive of torch.save: save the model in one of "
      "these, for instance with torch.save(model.state_dict(), path)",
      quote(file_name));
}

constexpr size_t kTensorsListed = 30;
constexpr const char* kWrappers[] = {"_orig_mod", "module"};  // torch.compile, DDP

constexpr const char* kAverages[] = {"ema",      "shadow", "teacher", "average",
                                     "averaged", "avg",    "swa",     "polyak"};

}  // namespace

bool is_average(std::string_view name) {
  std::string words = "_";  // "ModelEMA" as "_model_ema_"
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool begins_word = i != 0 && std::isupper(c) != 0 &&
                             std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    if (begins_word) words += '_';
    words += std::isalnum(c) != 0 ? static_cast<char>(std::tolower(c)) : '_';
  }
  words += '_';
  return std::ranges::any_of(kAverages, [&](const char* word) {
    return words.find(fmt::format("_{}_", word)) != std::string::npos;
  });
}

Checkpoint Checkpoint::read(const std::filesystem::path& file) { return read(file, FileMap(file)); }

Checkpoint Checkpoint::read(const std::filesystem::path& file, FileMap map, bool is_whole) {
  CheckpointContents contents = read_contents(map.bytes(), file, is_whole);
  return Checkpoint(file.string(), std::move(map), std::move(contents));
}

Checkpoint::Checkpoint(std::string file_name, FileMap file, CheckpointContents contents)
    : file_name_(std::move(file_name)), file_(std::move(file)), contents_(std::move(contents)) {
  for (size_t i = 0; i < contents_.tensors.size(); ++i) {
    tensor_indexes_.emplace(contents_.tensors[i].name, i);
  }
}

const CheckpointTensor* Checkpoint::find(std::string_view name) const {
  const auto found = tensor_indexes_.find(name);
  return found == tensor_indexes_.end() ? nullptr : &contents_.tensors[found->second];
}

const StoredTensor* TensorStore::find(std::string_view name) const {
  const auto found = indexes_.find(name);
  return found == indexes_.end() ? nullptr : &tensors_[found->second];
}

// Pages of the file are dropped after large tensors: else all of it stays in memory beside its
// copies.
constexpr size_t kDroppedElements = size_t{1} << 18;

void TensorStore::add(StoredTensor tensor) {
  const auto [place, is_new] = indexes_.emplace(tensor.name, tensors_.size());
  if (!is_new) {
    throw InputError("{}: tensor {} occurs twice, in {} and in {}: expected each name once",
                     quote(source_), quote(tensor.name), quote(tensors_[place->second].file),
                     quote(tensor.file));
  }
  tensors_.push_back(std::move(tensor));
}

void TensorStore::add(const CheckpointTensor& tensor, const std::shared_ptr<const void>& owner,
                      const std::string& file) {
  StoredTensor stored{.name = tensor.name,
                      .type = name(tensor.dtype),
                      .is_real = is_real(tensor.dtype),
                      .shape = tensor.shape,
                      .load = [owner, view = &tensor] { return view->to_f32(); },
                      .file = file};
  if (bytes(tensor.dtype) > 2 && tensor.dtype != DType::kF32) {
    stored.load_f64 = [owner, view = &tensor] { return view->to_f64(); };
  }
  add(std::move(stored));
}

void TensorStore::add(const std::shared_ptr<const Checkpoint>& checkpoint) {
  for (const CheckpointTensor& tensor : checkpoint->tensors()) {
    add(tensor, checkpoint, checkpoint->file_name());
    tensors_.back().load = [checkpoint, view = &tensor]() -> Floats {
      // Drops the pages when the last copy of the values has gone.
      const std::shared_ptr<const void> reader(
          checkpoint.get(), [checkpoint, elements = view->elements()](const void*) {
            if (elements >= kDroppedElements) checkpoint->drop_pages();
          });
      if (const auto stored = view->stored_f32()) return {*stored, reader};
      return view->to_f32();
    };
  }
}

TensorStore TensorStore::below(const std::string& key) const {
  TensorStore store(source_);
  for (StoredTensor tensor : tensors_) {
    if (!tensor.name.starts_with(key + ".")) continue;
    tensor.name.erase(0, key.size() + 1);
    store.add(std::move(tensor));
  }
  return store;
}

TensorStore TensorStore::unwrapped() const {
  for (const char* const wrapper : kWrappers) {
    TensorStore store = below(wrapper);
    if (store.tensors().size() == tensors_.size()) return store;
  }
  return *this;
}

std::string list_tensors(const std::vector<StoredTensor>& tensors) {
  std::string text;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (i == kTensorsListed) {
      text += fmt::format("\n  ... and {} more", tensors.size() - kTensorsListed);
      break;
    }
    text += fmt::format("{}  {} {} {}", i == 0 ? "" : "\n", quote(tensors[i].name),
                        shape_text(tensors[i].shape), tensors[i].type);
  }
  return text.empty() ? "  (no tensors)" : text;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

}  // namespace arenite::convert
