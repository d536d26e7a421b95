// SPDX-License-Identifier: Apache-2.0
// Changes single fields of a model file in place, to make files that no converter would write.
#ifndef ARENITE_TESTS_SUPPORT_MODEL_SURGERY_H_
#define ARENITE_TESTS_SUPPORT_MODEL_SURGERY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "convert/files/memory.h"
#include "format/file_layout.h"
#include "model_generated.h"

namespace arenite::test {

// A copy of a sound model file. Fields are found through the generated accessors, which point into
// the copy. Checksums are only right again after repair().
class ModelSurgery {
 public:
  explicit ModelSurgery(std::span<const std::byte> file) { assign(file); }

  std::span<std::byte> file() { return bytes_.span(); }
  std::span<const std::byte> file() const { return bytes_.span(); }
  const format::Model& model() const { return *format::GetModel(bytes_.span().data()); }
  const format::Packed* packed(uint32_t index) const { return model().packed()->Get(index); }

  format::Footer footer() const;
  void set_footer(const format::Footer& footer);

  // Writes a scalar of a table. The converter stores every scalar, defaults too.
  template <typename Table, typename T>
  void set(const Table& table, flatbuffers::voffset_t field, T value) {
    overwrite(untyped(table).GetAddressOf(field), value);
  }

  // The table forgets the field. So do other tables of the same shape, which share the record of
  // where their fields are.
  template <typename Table>
  void remove(const Table& table, flatbuffers::voffset_t field) {
    overwrite(untyped(table).GetVTable() + field, flatbuffers::voffset_t{0});
  }

  // Writes over a struct or an element of a vector, given its place.
  template <typename T>
  void overwrite(const void* place, const T& value) {
    std::memcpy(const_cast<void*>(place), &value, sizeof(value));
  }

  // Says that a vector has `count` elements, without moving anything.
  template <typename Vector>
  void set_count(const Vector* vector, uint32_t count) {
    overwrite(vector, count);
  }

  // Puts zeros before the footer until the file is a multiple of `unit` bytes long.
  void pad_to(size_t unit);

  void repair();

 private:
  void assign(std::span<const std::byte> file);

  // Generated tables keep their base class to themselves.
  template <typename Table>
  static const flatbuffers::Table& untyped(const Table& table) {
    return reinterpret_cast<const flatbuffers::Table&>(table);
  }

  convert::AlignedBytes bytes_;
};

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_MODEL_SURGERY_H_
