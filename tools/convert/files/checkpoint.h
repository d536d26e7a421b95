// SPDX-License-Identifier: Apache-2.0
// A checkpoint as the converter sees it: named tensors, wherever they came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/file_map.h"

namespace arenite::convert {

enum class DType { kF64, kF32, kF16, kBF16, kI64, kI32, kU32, kI16, kI8, kU8, kBool };

constexpr size_t kRankMax = 64;  // dimensions of a tensor; PyTorch's limit too

const char* name(DType dtype);  // as safetensors writes it: "F32"
size_t bytes(DType dtype);      // of one element
bool is_real(DType dtype);      // not whole numbers or bool

// A view of one tensor. Valid as long as the Checkpoint that it came from.
struct CheckpointTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;        // empty: a scalar
  std::vector<uint64_t> strides;      // in elements, one per dimension
  std::span<const std::byte> data{};  // from the first element to the end of its storage; little
                                      // endian, at any alignment

  uint64_t elements() const;

  // All elements in row-major order, whatever the strides; bool gives 0 and 1. to_f32 rounds to
  // nearest where F64 or an integer does not fit exactly.
  std::vector<float> to_f32() const;
  std::vector<double> to_f64() const;
  std::vector<int64_t> to_i64()
      const;  // throws InputError unless the type is whole numbers or bool
};

// What a reader of one file format hands to Checkpoint.
struct CheckpointContents {
  std::vector<CheckpointTensor> tensors;        // names are unique
  std::map<std::string, std::string> metadata;  // __metadata__, or plain_values of state_dict.h
  std::vector<std::unique_ptr<std::byte[]>>
      buffers;  // what tensors view, where not the file itself
};

// Owns the memory of its tensors: a read-only map of the file, or copies of what an archive stored.
class Checkpoint {
 public:
  // Reads a safetensors file or what torch.save wrote, told apart by content. Throws InputError for
  // everything else, and for a file that breaks its format's rules anywhere.
  static Checkpoint read(const std::filesystem::path& file);
  // The same of a file that is mapped already.
  static Checkpoint read(const std::filesystem::path& file, FileMap map);

  Checkpoint(Checkpoint&&) noexcept = default;
  Checkpoint& operator=(Checkpoint&&) noexcept = default;

  const std::vector<CheckpointTensor>& tensors() const { return contents_.tensors; }  // file order
  const CheckpointTensor* find(std::string_view name) const;  // nullptr when absent
  const std::map<std::string, std::string>& metadata() const { return contents_.metadata; }
  const std::string& file_name() const { return file_name_; }  // as given to read, for messages

 private:
  Checkpoint(std::string file_name, FileMap file, CheckpointContents contents);

  std::string file_name_;
  FileMap file_;
  CheckpointContents contents_;
  // Ordered, as everywhere where a file chooses the keys: a hash can be made to collide.
  std::map<std::string, size_t, std::less<>> tensor_indexes_;
};

// Row-major strides of `shape`, in elements. REQUIRES: the product of `shape` fits 64 bits.
std::vector<uint64_t> contiguous_strides(std::span<const uint64_t> shape);

// Sets `product` to factor_a * factor_b and returns true, or returns false if that overflows.
inline bool multiply(uint64_t factor_a, uint64_t factor_b, uint64_t& product) {
  return !__builtin_mul_overflow(factor_a, factor_b, &product);
}

}  // namespace arenite::convert
