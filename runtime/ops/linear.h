// SPDX-License-Identifier: Apache-2.0
// output = input * weights^T + bias, and parts shared with convolutions: the division of a product
// into tasks, and the quantization of rows to int8. For example, 9 rows with mr = 8 and weights of
// three chunks:
//   blocks of 5 and 4 rows; tasks 0 and 1 multiply them by chunk 0, 2 and 3 by chunk 1, ...
#pragma once

#include <cstddef>
#include <cstdint>

#include "arenite/parallel.h"
#include "core/needs.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// Divides a product into tasks: blocks of rows times chunks of panels of weights.
struct ProductDivision {
  // Tasks per thread, to balance threads of different speed.
  static constexpr uint32_t kTasksPerThread = 4;
  // Bytes of weights that stay cached while blocks of rows pass: less than half of a common 1 MB.
  static constexpr size_t kChunkBytes = 400 * 1024;

  ProductDivision(Packing packing_in, const Matrix& output, uint32_t inputs,
                  const ParallelFor& parallel)
      : packing(packing_in),
        block_rows(pieces_at_once(parallel, packing.mr, packing.nr * inputs)),
        blocks(output.rows, block_rows),
        bytes_of_panel(0),
        panel_work(block_rows * packing.nr * inputs) {
    if (output.rows < block_rows) panel_work = output.rows * packing.nr * inputs;
    const uint32_t panels = panels_of(packing, output.columns);
    chunk_panels = panels;
    // A single task begins at the first panel and needs no size.
    if (blocks.count > 1 || parallel.run != nullptr) {
      bytes_of_panel = panel_bytes(packing, inputs).value();
    }
    if (blocks.count > 1) chunk_panels = at_least_one(kChunkBytes / bytes_of_panel);
    // With few rows, as in decoding, the columns are divided among the threads, too.
    uint32_t panels_wanted = pieces_at_once(parallel, panels, panel_work);
    if (parallel.run != nullptr && parallel.threads != 0) {
      // A call may request no rows.
      const uint32_t shares = at_least_one(blocks.count);
      const uint32_t chunks_wanted = div_up(parallel.threads * kTasksPerThread, shares);
      panels_wanted = at_least_one(panels / chunks_wanted);
    }
    if (chunk_panels > panels_wanted) chunk_panels = panels_wanted;
    chunks = div_up(panels, chunk_panels);
  }

  static uint32_t at_least_one(size_t number) {
    return number > 1 ? static_cast<uint32_t>(number) : 1;
  }
  uint32_t tasks() const { return blocks.count * chunks; }
  uint32_t task_work() const { return chunk_panels * panel_work; }

  Packing packing;
  uint32_t block_rows;  // rows of a block, at most
  RowBlocks blocks;
  size_t bytes_of_panel;
  uint32_t panel_work;  // units of work of a block and a panel, at most
  uint32_t chunk_panels;
  uint32_t chunks;
};

// One task: a block of rows times a chunk of panels.
struct ProductPart {
  ProductPart() = default;
  ProductPart(const ProductDivision& division, const WeightView& weights, const Matrix& output,
              uint32_t task_index) {
    const uint32_t first_panel = task_index / division.blocks.count * division.chunk_panels;
    const uint32_t block = task_index % division.blocks.count;
    row = division.blocks.begin(block);
    rows = division.blocks.size(block);
    const uint32_t column = first_panel * division.packing.nr;
    const uint32_t columns_left = output.columns - column;
    const uint32_t chunk_columns = division.chunk_panels * division.packing.nr;
    columns = columns_left < chunk_columns ? columns_left : chunk_columns;
    weight = weights.data + first_panel * division.bytes_of_panel;
    result = output.row(row) + column;
    result_stride = output.stride;
    inputs = weights.columns;
  }

  uint32_t row;
  uint32_t rows;
  uint32_t columns;
  uint32_t inputs;
  const std::byte* weight;
  float* result;
  size_t result_stride;
};

// A row in `count` pieces of `columns` floats; piece i is at list[i * step].
struct RowPieces {
  const float* const* list;
  size_t step;
  uint32_t count;
  uint32_t columns;

  // A constant 1 in builds without convolutions.
  uint32_t size() const { return linked(Need::kConvolution) ? count : 1; }
  const float* operator[](uint32_t index) const { return list[index * step]; }
};

// Rows of activations in int8, the input of products with q8 and q4 weights. Each row has its own
// scale and zero point, from its smallest and largest element. All threads of a call share them.
class QuantizedRows {
 public:
  // `scratch` is not owned: quantized_scratch_bytes(columns) for each row, then kReadAheadBytes
  // (arena_formula.h).
  QuantizedRows(std::byte* scratch, uint32_t rows, uint32_t columns);

  // Quantizes all rows of `input`. An element differs by half a step at most, (most - least) / 510,
  // from (number - zero_point) * scale; 0 is exact. If the least and the largest element and 0 are
  // within 1e-35, the row becomes zeros. A row with NaN or infinity gets the scale NaN, and its
  // numbers are undefined. The padding of other rows is zero.
  void quantize(const KernelSet& kernels, const QuantizedKernels& type, const ConstMatrix& input,
                const ParallelFor& parallel);
  void quantize_row(const KernelSet& kernels, const QuantizedKernels& type, uint32_t index,
                    const RowPieces& from);

  const int8_t* row(uint32_t index) const { return numbers_ + index * stride_; }
  size_t stride() const { return stride_; }  // bytes
  const QuantizedRow& scale(uint32_t index) const { return rows_[index]; }

 private:
  int8_t* numbers_;
  size_t stride_;
  QuantizedRow* rows_;
};

// part.result = rows [first, first + part.rows) * part.weight^T + bias. `scratch` is that of the
// thread: product_scratch_bytes.
void multiply(const QuantizedKernels& kernels, const QuantizedRows& rows, uint32_t first,
              const ProductPart& part, std::byte* scratch);

// input [tokens, k], output [tokens, n]; `weights` are [n, k] with a bias [n], packed for the
// kernels of their type. For q8 and q4 weights the input is quantized first (QuantizedRows), in
// scratch.rows.
// REQUIRES: tokens, n, k >= 1; input and output do not overlap.
void linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
            const Matrix& output, const ScratchArea& scratch, const ParallelFor& parallel);

}  // namespace arenite
