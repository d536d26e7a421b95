// SPDX-License-Identifier: Apache-2.0
// Loop order: for each block of rows, all columns of the packed weights, inputs innermost (inside
// the kernel). The block's rows stay in the first-level cache while the weights stream.
#include "ops/linear.h"

#include <cassert>

#include "core/checked_math.h"
#include "ops/parallel.h"

namespace arenite {
namespace {

// Tasks per thread that even out threads of different speed.
constexpr uint32_t kTasksPerThread = 4;

}  // namespace

void linear(const KernelSet& kernels, ConstMatrix input, const float* weights, Matrix output,
            const ParallelFor& parallel) {
  assert(input.rows >= 1 && input.rows == output.rows);
  assert(input.columns >= 1 && output.columns >= 1);
  const uint32_t nr = kernels.packing.nr;
  const RowBlocks blocks(input.rows, kernels.packing.mr);
  const uint32_t panels = div_up(output.columns, nr);
  // With few rows, as in decoding, the columns are split too.
  const uint32_t splits_wanted =
      parallel.run == nullptr ? 1 : div_up(parallel.threads * kTasksPerThread, blocks.count);
  const uint32_t panels_per_split = div_up(panels, splits_wanted < panels ? splits_wanted : panels);
  const uint32_t splits = div_up(panels, panels_per_split);
  const size_t panel_floats = (size_t{input.columns} + 1) * nr;

  auto work = [&](uint32_t task_index, uint32_t) {
    const uint32_t block = task_index / splits;
    const uint32_t first_panel = task_index % splits * panels_per_split;
    const uint32_t first_column = first_panel * nr;
    const uint32_t columns_left = output.columns - first_column;
    const uint32_t columns_wanted = panels_per_split * nr;
    const uint32_t row = blocks.begin(block);
    const uint32_t rows = blocks.size(block);
    kernels.gemm[rows](rows, columns_left < columns_wanted ? columns_left : columns_wanted,
                       input.columns * sizeof(float), input.row(row), input.stride * sizeof(float),
                       weights + first_panel * panel_floats, output.row(row) + first_column,
                       output.stride * sizeof(float));
  };
  for_each_task(parallel, blocks.count * splits, work);
}

}  // namespace arenite
