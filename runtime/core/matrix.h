// SPDX-License-Identifier: Apache-2.0
// Views of row-major float matrices: what ops read and write. They own nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite {

// [rows, columns] with `stride` floats from one row to the next; stride >= columns.
template <typename Float>
struct MatrixView {
  Float* data = nullptr;
  uint32_t rows = 0;
  uint32_t columns = 0;
  size_t stride = 0;

  Float* row(uint32_t index) const { return data + index * stride; }
};

using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

}  // namespace arenite
