// SPDX-License-Identifier: Apache-2.0
// Tiles of 16 rows by 16 outputs, in the widest vectors of this CPU. Every sum is a single chain of
// additions, so the vector width does not change any bit.
#include "convert/graph/row_products.h"

#include <algorithm>
#include <vector>

namespace arenite::convert {
namespace {

constexpr size_t kRows = 16;
constexpr size_t kOutputs = 16;

using Lanes [[gnu::vector_size(64)]] = double;
constexpr size_t kLanes = sizeof(Lanes) / sizeof(double);
constexpr size_t kVectors = kRows / kLanes;  // that hold a number of each row

struct alignas(64) Block {
  Lanes vectors[kVectors];
};

// sums[o] += sum over i of columns[i] * panel[i * kOutputs + o], `kAtOnce` outputs at a time.
template <size_t kAtOnce>
[[gnu::always_inline]] inline void add_tile(const Block* columns, const double* panel,
                                            size_t inputs, Block* sums) {
  for (size_t o = 0; o < kOutputs; o += kAtOnce) {
    Block tile[kAtOnce];
    for (size_t k = 0; k < kAtOnce; ++k) tile[k] = sums[o + k];
    const double* factors = panel + o;
    for (size_t i = 0; i < inputs; ++i, factors += kOutputs) {
      for (size_t k = 0; k < kAtOnce; ++k) {
        for (size_t v = 0; v < kVectors; ++v) {
          tile[k].vectors[v] += columns[i].vectors[v] * factors[k];
        }
      }
    }
    for (size_t k = 0; k < kAtOnce; ++k) sums[o + k] = tile[k];
  }
}

using AddTile = void (*)(const Block* columns, const double* panel, size_t inputs, Block* sums);

void add_tile_portable(const Block* columns, const double* panel, size_t inputs, Block* sums) {
  add_tile<1>(columns, panel, inputs, sums);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void add_tile_avx2(const Block* columns, const double* panel, size_t inputs,
                                           Block* sums) {
  add_tile<2>(columns, panel, inputs, sums);
}

[[gnu::target("avx512f")]] void add_tile_avx512(const Block* columns, const double* panel,
                                                size_t inputs, Block* sums) {
  add_tile<8>(columns, panel, inputs, sums);
}
#endif

AddTile best_tile() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return add_tile_avx512;
  if (__builtin_cpu_supports("avx2")) return add_tile_avx2;
#endif
  return add_tile_portable;
}

// Returns [rows / kRows, inputs] blocks; missing rows are zeros.
std::vector<Block> by_columns(const double* x, size_t rows, size_t inputs) {
  std::vector<Block> columns((rows + kRows - 1) / kRows * inputs, Block{});
  for (size_t r = 0; r < rows; ++r) {
    Block* const block = columns.data() + r / kRows * inputs;
    const size_t place = r % kRows;
    for (size_t i = 0; i < inputs; ++i) {
      block[i].vectors[place / kLanes][place % kLanes] = x[r * inputs + i];
    }
  }
  return columns;
}

template <typename Weight>
void add_products(const double* x, size_t rows, const WeightView<Weight>& weight, double* y) {
  static const AddTile kAddTile = best_tile();
  if (rows == 0 || weight.inputs == 0) return;
  const std::vector<Block> columns = by_columns(x, rows, weight.inputs);
  std::vector<double> panel(weight.inputs * kOutputs);
  for (size_t first = 0; first < weight.outputs; first += kOutputs) {
    const size_t count = std::min(kOutputs, weight.outputs - first);
    const Weight* const from = weight.values + first * weight.output_stride;
    for (size_t i = 0; i < weight.inputs; ++i) {
      for (size_t o = 0; o < count; ++o) {
        panel[i * kOutputs + o] =
            static_cast<double>(from[o * weight.output_stride + i * weight.input_stride]);
      }
    }
    for (size_t row = 0; row < rows; row += kRows) {
      Block sums[kOutputs] = {};
      const size_t rows_here = std::min(kRows, rows - row);
      for (size_t o = 0; o < count; ++o) {
        for (size_t r = 0; r < rows_here; ++r) {
          sums[o].vectors[r / kLanes][r % kLanes] = y[(row + r) * weight.outputs + first + o];
        }
      }
      kAddTile(columns.data() + row / kRows * weight.inputs, panel.data(), weight.inputs, sums);
      for (size_t r = 0; r < rows_here; ++r) {
        for (size_t o = 0; o < count; ++o) {
          y[(row + r) * weight.outputs + first + o] = sums[o].vectors[r / kLanes][r % kLanes];
        }
      }
    }
  }
}

}  // namespace

void add_row_products(const double* x, size_t rows, const WeightView<float>& weight, double* y) {
  add_products(x, rows, weight, y);
}

void add_row_products(const double* x, size_t rows, const WeightView<double>& weight, double* y) {
  add_products(x, rows, weight, y);
}

}  // namespace arenite::convert
