// SPDX-License-Identifier: Apache-2.0
// Checkpoints as lists of named tensors, independent of the file format.
//
//   const Checkpoint checkpoint = Checkpoint::read("model.safetensors");
//   const CheckpointTensor* tensor = checkpoint.find("wte.weight");
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/tensor_type.h"
#include "convert/files/memory.h"

namespace arenite::convert {

// bfloat16: the upper half of a float.
inline float float_of_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// IEEE binary16, including subnormals, infinities and NaN payloads.
inline float float_of_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu;
  const uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t exponent_f32 = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | exponent_f32 << 23 | fraction << 13);
}

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kU32, kI16, kI8, kU8, kBool };

constexpr size_t kRankMax = 64;  // dimensions of a tensor; also PyTorch's limit

const char* name(DType dtype);  // safetensors' name: "F32"
size_t bytes(DType dtype);      // of one element
bool is_real(DType dtype);      // false: integers or bool

// Names of an element type in the file formats; empty if a format lacks it.
struct DTypeRow {
  const char* name;
  size_t bytes;
  bool is_real;
  std::string_view safetensors, npy, torch_storage, torch_name;
};
std::optional<DType> dtype_called(std::string_view DTypeRow::*format, std::string_view name);

// A view of one tensor, valid while its Checkpoint lives.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;        // empty: a scalar
  std::vector<uint64_t> strides;      // in elements, one per dimension
  std::span<const std::byte> data{};  // from the first element to the end of its storage; little
                                      // endian, at any alignment

  uint64_t elements() const;

  // Returns all elements in row-major order, whatever the strides; a bool becomes 0 or 1. to_f32
  // rounds F64, and integers that do not fit, to nearest.
  std::vector<float> to_f32() const;
  std::vector<double> to_f64() const;
  // Returns the elements where they are stored, if these are row-major F32, and aligned.
  std::optional<std::span<const float>> stored_f32() const;
  std::vector<int64_t> to_i64()
      const;  // throws InputError unless the type is whole numbers or bool
};

// The result of a file format's reader, for Checkpoint.
struct CheckpointContents {
  std::vector<CheckpointTensor> tensors;        // names are unique
  std::map<std::string, std::string> metadata;  // __metadata__, or plain_values of pickle.h
  std::vector<std::unique_ptr<std::byte[]>>
      buffers;  // what tensors view, where not the file itself
};

// Owns the memory of its tensors: a read-only mapping of the file, or copies of an archive's
// members.
class Checkpoint {
 public:
  // Reads a safetensors file or a torch.save archive, recognised by content. Throws InputError for
  // other formats, and for any violation of the format.
  static Checkpoint read(const std::filesystem::path& file);
  // Reads a file that is already mapped; `is_whole` keeps all tensors of a training checkpoint.
  static Checkpoint read(const std::filesystem::path& file, FileMap map, bool is_whole = false);

  Checkpoint(Checkpoint&&) noexcept = default;
  Checkpoint& operator=(Checkpoint&&) noexcept = default;

  const std::vector<CheckpointTensor>& tensors() const { return contents_.tensors; }
  const CheckpointTensor* find(std::string_view name) const;  // nullptr when absent
  const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }
  const std::string& file_name() const { return file_name_; }  // as given to read, for messages
  void drop_pages() const { file_.drop_pages(); }              // see FileMap

 private:
  Checkpoint(std::string file_name, FileMap file, CheckpointContents contents);

  std::string file_name_;
  FileMap file_;
  CheckpointContents contents_;
  // Ordered, since the file chooses the keys and could make a hash table collide.
  std::map<std::string, size_t, std::less<>> tensor_indexes_;
};

// Returns row-major strides of `shape`, in elements. REQUIRES: the product of `shape` fits in 64
// bits.
std::vector<uint64_t> contiguous_strides(std::span<const uint64_t> shape);

// Sets `product` to factor_a * factor_b and returns true, or returns false if that overflows.
inline bool multiply(uint64_t factor_a, uint64_t factor_b, uint64_t& product) {
  return !__builtin_mul_overflow(factor_a, factor_b, &product);
}

// Reads the tensors of `file`, the bytes of a whole torch.save archive, into buffers of the result,
// so that `file` may be released afterwards. Reads only members that tensors use. Throws
// InputError, also if this build has no libzip; `file_name` is for messages.
CheckpointContents read_pytorch_zip(std::span<const std::byte> file, const std::string& file_name,
                                    bool is_whole = false);

// Whether a key, or the first part of tensor names, says that the weights below it are an average,
// or a different model trained with the main one: "model_ema", "shadow", "teacher".
bool is_average(std::string_view name);

// Advice for unsupported state dicts: the lines of Python that export the model.
inline constexpr const char* kExportAdvice =
    "PyTorch can export what a model computes, whatever its parts are called:\n\nimport "
    "torch\nauto = torch.export.Dim.AUTO  # of an example [1, tokens] or [1, tokens, "
    "width]\nprogram = torch.export.export(model.eval(), (example,), dynamic_shapes=({1: "
    "auto},))\ntorch.export.save(program, \"model.pt2\")\n\narenite convert model.pt2 -o "
    "model.arn\n";

struct QuantizedMatrix;  // in quantize/quantizers.h

// A quantized format of a matrix in a file that one of our types can hold unchanged.
struct QuantizedForm {
  TensorType type = TensorType::kF32;  // kF32: nothing to take over
  std::string scheme{};                // for messages: "Q4_0", "GPTQ, groups of 128"
};

struct StoredTensor {
  std::string name;
  std::string type;              // the format's name: "BF16", "Q8_0"
  bool is_real = true;           // false: integers or bool, so not weights
  std::vector<uint64_t> shape;   // outermost dimension first
  std::function<Floats()> load;  // row-major; owns its file
  std::string file;
  // Loads the elements as double, if rounding to float32 may change them; else empty.
  std::function<std::vector<double>()> load_f64{};
  // Loads integers and scales whose products are the elements, if `quantized` has a type. Block
  // scales are rounded to bfloat16.
  QuantizedForm quantized{};
  std::function<QuantizedMatrix()> load_quantized{};
  // Whether the weight is [outputs, inputs] even in families that store [inputs, outputs], since
  // programs that quantize layers transpose them.
  bool is_by_outputs = false;
};

class TensorStore {
 public:
  explicit TensorStore(std::string source) : source_(std::move(source)) {}

  const std::string& source() const { return source_; }  // file or folder, for messages
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // nullptr when absent

  // Throws InputError if there is already a tensor of this name.
  void add(StoredTensor tensor);

  // Adds a tensor that is valid while `owner` lives. `file` is for messages.
  void add(const CheckpointTensor& tensor, const std::shared_ptr<const void>& owner,
           const std::string& file);

  void add(const std::shared_ptr<const Checkpoint>& checkpoint);

  // Returns the tensors below `key`, a prefix of whole name parts: "model" of "model.norm.weight".
  TensorStore below(const std::string& key) const;

  // Returns all tensors without the name prefix of programs that wrap a whole model.
  TensorStore unwrapped() const;

 private:
  std::string source_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t, std::less<>> indexes_;
};

// Lists tensors for messages, one "  'name' [2, 3] F32" per line; only the first of many.
std::string list_tensors(const std::vector<StoredTensor>& tensors);

// "[2, 3]"
std::string shape_text(const std::vector<uint64_t>& shape);

}  // namespace arenite::convert
