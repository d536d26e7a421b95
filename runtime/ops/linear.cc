// SPDX-License-Identifier: Apache-2.0
// Loop order: chunks of weights that fit the second-level cache; for each, all blocks of rows;
// inputs innermost, inside the kernel. A block's rows stay in the first-level cache, and the
// weights come from further away once per call instead of once per block.
#include "ops/linear.h"

#include <cassert>

#include "arenite/checked_math.h"
#include "ops/rows.h"

namespace arenite {
namespace {

// Tasks per thread that even out threads of different speed.
constexpr uint32_t kTasksPerThread = 4;
// Weights that stay cached while the blocks of rows pass: less than half of a common 1 MB.
constexpr size_t kChunkBytes = 400 * 1024;

uint32_t at_least_one(size_t number) { return number > 1 ? static_cast<uint32_t>(number) : 1; }

}  // namespace

void linear(const KernelSet& kernels, const ConstMatrix& input, const WeightView& weights,
            const Matrix& output, const ParallelFor& parallel) {
  assert(input.rows >= 1 && input.rows == output.rows);
  assert(input.columns >= 1 && output.columns >= 1);
  assert(weights.rows == output.columns && weights.columns == input.columns);
  const WeightKernels& of_type = kernels.of(weights.type);
  const Packing packing = of_type.packing;
  const RowBlocks blocks(input.rows, packing.mr);
  const uint32_t panels = panels_of(packing, output.columns);
  const size_t bytes_of_panel = static_cast<size_t>(panel_bytes(packing, input.columns));
  uint32_t chunk_panels = panels;
  if (blocks.count > 1) chunk_panels = at_least_one(kChunkBytes / bytes_of_panel);
  // With few rows, as in decoding, the columns are split over the threads too.
  const uint32_t chunks_wanted =
      parallel.run == nullptr ? 1 : div_up(parallel.threads * kTasksPerThread, blocks.count);
  const uint32_t panels_wanted = at_least_one(panels / chunks_wanted);
  if (chunk_panels > panels_wanted) chunk_panels = panels_wanted;
  const uint32_t chunks = div_up(panels, chunk_panels);

  auto work = [&](uint32_t task_index, uint32_t) {
    const uint32_t first_panel = task_index / blocks.count * chunk_panels;
    const uint32_t block = task_index % blocks.count;
    const uint32_t column = first_panel * packing.nr;
    const uint32_t columns_left = output.columns - column;
    const uint32_t chunk_columns = chunk_panels * packing.nr;
    const uint32_t row = blocks.begin(block);
    const uint32_t rows = blocks.size(block);
    const std::byte* const first_weight = weights.data + first_panel * bytes_of_panel;
    of_type.gemm[rows](rows, columns_left < chunk_columns ? columns_left : chunk_columns,
                       input.columns * sizeof(float), input.row(row), input.stride * sizeof(float),
                       reinterpret_cast<const float*>(first_weight), output.row(row) + column,
                       output.stride * sizeof(float));
  };
  for_each_task(parallel, blocks.count * chunks, work);
}

}  // namespace arenite
