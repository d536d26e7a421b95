// SPDX-License-Identifier: Apache-2.0
// Reads a GGUF file front to back, and trusts no count before the bytes are seen.
#include "convert/gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <utility>

#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersion = 3;
constexpr uint64_t kNameBytesMax = 65535;  // of a metadata key; the format's own limit
constexpr uint32_t kDimensionsMax = 4;
constexpr uint64_t kAlignmentDefault = 32;
constexpr uint64_t kAlignmentMax = 1u << 20;

// Sets the bytes of a value, 0 for strings and arrays. Returns false for an unknown type.
bool value_bytes(uint32_t type, uint64_t& bytes) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  if (type >= std::size(kBytes)) return false;
  bytes = kBytes[type];
  return true;
}

}  // namespace

class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), name_(quote(file.file_name())) {}

  void run() {
    const std::span<const std::byte> magic = bytes(kMagic.size(), "the magic number");
    if (std::memcmp(magic.data(), kMagic.data(), kMagic.size()) != 0) {
      throw InputError("{} does not begin with GGUF: expected a GGUF file", name_);
    }
    const auto version = number<uint32_t>("the version");
    if (version != kVersion) {
      throw InputError("{}: GGUF version {}: expected {}, little-endian; convert the model again",
                       name_, version, kVersion);
    }
    const auto tensors = number<uint64_t>("the number of tensors");
    const auto values = number<uint64_t>("the number of metadata values");
    for (uint64_t i = 0; i < values; ++i) read_metadata(i, values);
    const uint64_t alignment = read_alignment();
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < tensors; ++i) offsets.push_back(read_tensor(i, tensors));
    place_tensors(offsets, alignment);
  }

 private:
  std::span<const std::byte> bytes(uint64_t count, std::string_view what) {
    const std::span<const std::byte> rest = file_.map_.bytes().subspan(at_);
    if (count > rest.size()) {
      throw InputError(
          "{}: {} at byte {} takes {} bytes, but {} follow: the file is cut short or damaged",
          name_, what, at_, count, rest.size());
    }
    const auto taken = static_cast<size_t>(count);
    at_ += taken;
    return rest.first(taken);
  }

  template <typename Number>
  Number number(std::string_view what) {
    Number value;
    std::memcpy(&value, bytes(sizeof value, what).data(), sizeof value);
    return value;
  }

  std::string_view text(std::string_view what) {
    const auto length = number<uint64_t>(what);
    const std::span<const std::byte> content = bytes(length, what);
    return {reinterpret_cast<const char*>(content.data()), content.size()};
  }

  std::string short_text(const std::string& what) {
    const std::string_view found = text(what);
    if (found.empty() || found.size() > kNameBytesMax) {
      throw InputError("{}: {} has {} bytes: expected 1 to {}", name_, what, found.size(),
                       kNameBytesMax);
    }
    return std::string(found);
  }

  void read_metadata(uint64_t index, uint64_t count) {
    if (index == kGgufMetadataMax) {
      throw InputError("{}: {} metadata values: at most {} are accepted", name_, count,
                       kGgufMetadataMax);
    }
    const std::string key =
        short_text(fmt::format("the key of metadata value {} of {}", index + 1, count));
    const std::string what = fmt::format("metadata {}", quote(key));
    GgufValue value;
    auto type = number<uint32_t>(what);
    if (type == static_cast<uint32_t>(GgufType::kArray)) {
      value.is_array = true;
      type = number<uint32_t>(what);
      value.count = number<uint64_t>(what);
      if (type == static_cast<uint32_t>(GgufType::kArray)) {
        throw InputError("{}: {} is an array of arrays: expected plain values", name_, what);
      }
    }
    uint64_t element_bytes = 0;
    if (!value_bytes(type, element_bytes)) {
      throw InputError("{}: {} is of type {}: expected one of the 13 types of GGUF", name_, what,
                       type);
    }
    value.type = static_cast<GgufType>(type);
    const size_t start = at_;
    if (value.type == GgufType::kString) {
      for (uint64_t i = 0; i < value.count; ++i) text(what);
    } else {
      uint64_t total = 0;
      if (!multiply(value.count, element_bytes, total)) {
        throw InputError("{}: {} has {} elements: the file is damaged", name_, what, value.count);
      }
      bytes(total, what);
    }
    value.data = file_.map_.bytes().subspan(start, at_ - start);
    if (!file_.metadata_.emplace(key, value).second) {
      throw InputError("{}: {} occurs twice: expected each key once", name_, what);
    }
  }

  uint64_t read_alignment() const {
    const auto found = file_.metadata_.find("general.alignment");
    if (found == file_.metadata_.end()) return kAlignmentDefault;
    uint32_t alignment = 0;
    if (!found->second.is_array && found->second.type == GgufType::kU32) {
      std::memcpy(&alignment, found->second.data.data(), sizeof alignment);
    }
    if (alignment < 8 || alignment > kAlignmentMax || !std::has_single_bit(alignment)) {
      throw InputError(
          "{}: metadata 'general.alignment' is {}: expected a U32, a power of two from 8 to {}",
          name_, alignment, kAlignmentMax);
    }
    return alignment;
  }

  // Reads a tensor's description. Returns the offset of its data from that of the first tensor.
  uint64_t read_tensor(uint64_t index, uint64_t count) {
    if (index == kTensorsMax) {
      throw InputError("{}: {} tensors: at most {} are accepted", name_, count, kTensorsMax);
    }
    GgufTensor tensor;
    tensor.name = short_text(fmt::format("the name of tensor {} of {}", index + 1, count));
    const std::string what = fmt::format("tensor {}", quote(tensor.name));
    if (!tensor_names_.insert(tensor.name).second) {
      throw InputError("{}: {} occurs twice: expected each name once", name_, what);
    }
    const auto dimensions = number<uint32_t>(what);
    if (dimensions == 0 || dimensions > kDimensionsMax) {
      throw InputError("{}: {} has {} dimensions: expected 1 to {}", name_, what, dimensions,
                       kDimensionsMax);
    }
    for (uint32_t i = 0; i < dimensions; ++i) tensor.shape.push_back(number<uint64_t>(what));
    if (std::count(tensor.shape.begin(), tensor.shape.end(), 0u) > 0) {
      throw InputError("{}: {} has a dimension of 0: expected at least 1", name_, what);
    }
    const uint64_t row_elements = tensor.shape[0];
    std::reverse(tensor.shape.begin(), tensor.shape.end());
    const auto type = number<uint32_t>(what);
    tensor.block = find_gguf_block(type);
    if (tensor.block == nullptr || tensor.block->expand == nullptr) {
      throw InputError(
          "{}: {} is stored as {}, which is not supported: expected one of {}; quantize the model "
          "differently, or convert its original weights",
          name_, what, tensor.block == nullptr ? fmt::format("type {}", type) : tensor.block->name,
          readable_gguf_types());
    }
    if (row_elements % tensor.block->elements != 0) {
      throw InputError("{}: {} has rows of {} elements: {} needs a multiple of {}", name_, what,
                       row_elements, tensor.block->name, tensor.block->elements);
    }
    file_.tensors_.push_back(std::move(tensor));
    return number<uint64_t>(what);
  }

  // Assigns the rest of the file to tensors, which may be described in any order.
  void place_tensors(const std::vector<uint64_t>& offsets, uint64_t alignment) {
    const auto aligned = [alignment](uint64_t position) {
      return (position + alignment - 1) / alignment * alignment;
    };
    const auto data_start =
        static_cast<size_t>(std::min<uint64_t>(aligned(at_), file_.map_.bytes().size()));
    const std::span<const std::byte> data = file_.map_.bytes().subspan(data_start);
    std::vector<size_t> order(offsets.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return offsets[a] < offsets[b]; });
    uint64_t end = 0;
    for (const size_t i : order) {
      GgufTensor& tensor = file_.tensors_[i];
      uint64_t tensor_bytes = tensor.block->bytes;
      bool fits = true;
      for (const uint64_t extent : tensor.shape) {
        fits = fits && multiply(tensor_bytes, extent, tensor_bytes);
      }
      tensor_bytes /= tensor.block->elements;
      const std::string what = fmt::format("{}: tensor {}", name_, quote(tensor.name));
      if (offsets[i] != aligned(end)) {
        throw InputError(
            "{} begins at byte {} of the data: expected {}, where the tensor before it ends, "
            "aligned to {}; the file is damaged",
            what, offsets[i], aligned(end), alignment);
      }
      if (!fits || offsets[i] > data.size() || tensor_bytes > data.size() - offsets[i]) {
        throw InputError(
            "{} [{}] of {} does not fit: the file has {} bytes of data from byte {} on; it is cut "
            "short or damaged",
            what, fmt::join(tensor.shape, ", "), tensor.block->name, data.size(), offsets[i]);
      }
      tensor.data =
          data.subspan(static_cast<size_t>(offsets[i]), static_cast<size_t>(tensor_bytes));
      end = offsets[i] + tensor_bytes;
    }
    if (data.size() > aligned(end)) {
      throw InputError(
          "{}: the tensors end at byte {} of the data, but it has {}: expected nothing "
          "after the last tensor",
          name_, aligned(end), data.size());
    }
  }

  GgufFile& file_;
  std::string name_;
  size_t at_ = 0;
  std::set<std::string> tensor_names_;
};

bool is_gguf(std::span<const std::byte> file) {
  return file.size() >= kMagic.size() &&
         std::memcmp(file.data(), kMagic.data(), kMagic.size()) == 0;
}

std::shared_ptr<const GgufFile> GgufFile::read(const std::filesystem::path& file) {
  return read(file, FileMap(file));
}

std::shared_ptr<const GgufFile> GgufFile::read(const std::filesystem::path& file, FileMap map) {
  const std::shared_ptr<GgufFile> gguf(new GgufFile(file, std::move(map)));
  GgufParser(*gguf).run();
  return gguf;
}

TensorStore tensors_of(const std::shared_ptr<const GgufFile>& file) {
  TensorStore store(file->file_name());
  for (const GgufTensor& tensor : file->tensors()) {
    StoredTensor stored{
        .name = tensor.name,
        .type = tensor.block->name,
        .shape = tensor.shape,
        .load = [file, view = &tensor] { return read_gguf_blocks(*view->block, view->data); },
        .file = file->file_name()};
    if (tensor.block->type == kGgufF64) {
      stored.load_f64 = [file, view = &tensor] { return read_gguf_f64(view->data); };
    }
    // Sides larger than a matrix may have are refused where the tensor is read.
    if (tensor.block->type == kGgufQ4 && tensor.shape.back() <= kSideMax) {
      stored.quantized = {TensorType::kQ4, tensor.block->name};
      stored.load_quantized = [file, view = &tensor] {
        return keep_integers(read_gguf_q4(view->data, static_cast<uint32_t>(view->shape.back())),
                             TensorType::kQ4,
                             fmt::format("{}: {}", quote(file->file_name()), quote(view->name)));
      };
    }
    store.add(std::move(stored));
  }
  return store;
}

}  // namespace arenite::convert
