// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files: one array with its type and shape. Source: the format description in NumPy's
// module numpy.lib.format, versions 1.0 and 2.0.
//
//   const NpyArray x = NpyArray::read("x.npy");  // shape() {2, 7, 64}
//   write_npy("y.npy", x.shape(), x.to_f32());
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/memory.h"
#include "convert/files/output_files.h"

namespace arenite::convert {

// An array in row-major order, mapped from its file.
class NpyArray {
 public:
  // Reads '<f4', '<f8', '<i4', '<i8', '<u4', '|i1', '|u1' or '|b1' in C order. "A,B" concatenates
  // the columns of both arrays. Throws InputError that names the file and the field.
  static NpyArray read(const std::filesystem::path& file);

  // Makes an array of `values` computed from the contents of `file`.
  static NpyArray of(FileMap file, std::string name, std::vector<uint64_t> shape,
                     std::vector<float> values);

  const std::string& name() const { return tensor_.name; }  // of the file
  DType dtype() const { return tensor_.dtype; }
  const std::vector<uint64_t>& shape() const { return tensor_.shape; }
  uint64_t elements() const { return tensor_.elements(); }
  std::span<const std::byte> data() const { return tensor_.data; }  // at any alignment

  void drop_pages() const { file_.drop_pages(); }  // see FileMap

  std::vector<float> to_f32() const { return tensor_.to_f32(); }
  // Returns elements [first, first + count). REQUIRES: they exist.
  std::vector<float> to_f32(uint64_t first, uint64_t count) const;
  std::vector<double> to_f64() const { return tensor_.to_f64(); }
  std::vector<int64_t> to_i64() const { return tensor_.to_i64(); }  // throws InputError for floats

 private:
  NpyArray(FileMap file, CheckpointTensor tensor);

  FileMap file_;
  CheckpointTensor tensor_;  // named like the file
  std::vector<float> made_;  // owned values, if the data is not the file's
};

// Writes a version 1.0 file of '<f4' in pieces, in any order; unwritten elements are zero. The file
// appears on commit or not at all. Throws InputError.
class NpyWriter {
 public:
  NpyWriter(const std::filesystem::path& file, std::span<const uint64_t> shape);

  // Writes elements from index `first` on. REQUIRES: they lie within the shape.
  void write(uint64_t first, std::span<const float> values);
  // Publishes the file. No write may follow.
  void commit();
  AtomicFile& file() { return file_; }  // to commit it together with others

 private:
  AtomicFile file_;
  uint64_t start_bytes_ = 0;  // bytes of the header
  uint64_t elements_ = 1;
};

// Write version 1.0 files of '<f4' and '<i4', atomically. Throw InputError.
// REQUIRES: the product of `shape` is values.size().
void write_npy(const std::filesystem::path& file, std::span<const uint64_t> shape,
               std::span<const float> values);
void write_npy(const std::filesystem::path& file, std::span<const uint64_t> shape,
               std::span<const int32_t> values);

}  // namespace arenite::convert
