// SPDX-License-Identifier: Apache-2.0
// Windows are lists of row addresses: in the call's input, among the rows kept of earlier calls, or
// of a row of zeros. Products with float32 weights read rows where they lie.
#include "ops/convolution.h"

#include <cassert>
#include <cstring>

#include "core/needs.h"
#include "ops/linear.h"

namespace arenite {
namespace {

// Writes the addresses of the rows that the window of an output row sees to every `step`-th entry
// of `list`; `outside` stands for rows outside the sequence.
void list_rows(const Windows& windows, const WindowInput& input, uint32_t output_row,
               const float* outside, const float** list, size_t step) {
  const size_t index = sequence_of_row(input.outputs, output_row);
  const SequenceRows& from = input.sequences[index];
  const SequenceRows& to = input.outputs[index];
  const uint32_t window = to.positions + output_row - to.row_begin;
  const uint32_t lines = (from.positions + from.rows) / windows.width;
  const uint32_t per_line = windows.per_line();
  // Lines and columns before the first one wrap to indices larger than any.
  uint32_t line = window / per_line * windows.lines.stride - windows.lines.before;
  const uint32_t left = window % per_line * windows.columns.stride - windows.columns.before;
  for (uint32_t y = 0; y < windows.lines.kernel; ++y, line += windows.lines.dilation) {
    uint32_t column = left;
    for (uint32_t x = 0; x < windows.columns.kernel; ++x, column += windows.columns.dilation) {
      const uint32_t position = line * windows.width + column;
      *list = outside;
      if (line < lines && column < windows.width) {
        assert(position >= from.positions || input.earlier.data != nullptr);
        *list = position < from.positions
                    ? input.earlier.row(index, position, from.positions)
                    : input.rows.row(from.row_begin + position - from.positions);
      }
      list += step;
    }
  }
}

// The windows of a block of rows, in pieces: list[p * rows + r] is the address of piece p of row r.
struct WindowBlock {
  const float** list;
  uint32_t rows;
  uint32_t pieces;
  uint32_t piece_columns;

  RowPieces window(uint32_t row) const { return {list + row, rows, pieces, piece_columns}; }
};

// Joins the rows of a window, or of each of its lines, into one piece if they are contiguous in
// memory in all windows of the block. Longer pieces are faster and give the same sums.
void join_pieces(uint32_t rows_of_line, WindowBlock& block) {
  bool lines_follow = true;
  for (uint32_t i = 1; i < block.pieces; ++i) {
    for (uint32_t r = 0; r < block.rows; ++r) {
      const float* const* const at = block.list + i * block.rows + r;
      if (*at == at[-static_cast<ptrdiff_t>(block.rows)] + block.piece_columns) continue;
      if (i % rows_of_line != 0 || rows_of_line == 1) return;
      lines_follow = false;
    }
  }
  const uint32_t joined = lines_follow ? block.pieces : rows_of_line;
  block.pieces /= joined;
  block.piece_columns *= joined;
  for (uint32_t i = 1; i < block.pieces; ++i) {
    const size_t from = size_t{i} * joined * block.rows;
    std::memcpy(block.list + i * block.rows, block.list + from, block.rows * sizeof(*block.list));
  }
}

// Returns the windows of output rows [first, first + count), the last one repeated to block_rows.
WindowBlock find_windows(const Windows& windows, const WindowInput& input, uint32_t first,
                         uint32_t count, uint32_t block_rows, const WindowScratch& layout,
                         std::byte* scratch) {
  float* const zeros = reinterpret_cast<float*>(scratch + layout.row.value());
  std::memset(zeros, 0, input.rows.columns * sizeof(float));
  WindowBlock block = {reinterpret_cast<const float**>(scratch), block_rows, windows.kernel(),
                       input.rows.columns};
  for (uint32_t r = 0; r < block_rows; ++r) {
    list_rows(windows, input, first + (r < count ? r : count - 1), zeros, block.list + r,
              block_rows);
  }
  join_pieces(windows.columns.kernel, block);
  return block;
}

// Kernels for w8 weights read a row in one piece, so windows are copied first.
void multiply_gathered(const FloatKernels& kernels, const WindowBlock& block, float* gathered,
                       const ProductPart& part) {
  for (uint32_t r = 0; r < part.rows; ++r) {
    const RowPieces window = block.window(r);
    float* const to = gathered + size_t{r} * part.inputs;
    for (uint32_t i = 0; i < window.count; ++i) {
      std::memcpy(to + size_t{i} * window.columns, window[i], window.columns * sizeof(float));
    }
  }
  const size_t row_bytes = part.inputs * sizeof(float);
  kernels.gemm[part.rows](part.rows, part.columns, row_bytes, gathered, row_bytes, part.weight,
                          part.result, part.result_stride * sizeof(float));
}

constexpr uint32_t kRowsPerTask = 16;  // of depthwise convolutions and pools

// output row = bias + the sum over i of seen[i] * kernel[i]; null rows are outside the sequence.
// Accumulates in scratch, since kernels read past their operands, which the end of the output does
// not allow.
void add_up(const KernelSet& kernels, const DepthwiseWeights& weights, uint32_t count,
            const float* const* seen, float* sums, float* products, const Matrix& output,
            uint32_t row) {
  const size_t bytes = output.columns * sizeof(float);
  const float* sum = weights.bias;
  for (uint32_t i = 0; i < count; ++i) {
    if (seen[i] == nullptr) continue;
    kernels.multiply(bytes, seen[i], weights.kernel + size_t{i} * output.columns, products);
    kernels.add(bytes, sum, products, sums);
    sum = sums;
  }
  std::memcpy(output.row(row), sum, bytes);
}

void find_largest(uint32_t count, const float* const* seen, uint32_t columns, float* largest) {
  std::memset(largest, 0, columns * sizeof(float));
  bool is_first = true;
  for (uint32_t i = 0; i < count; ++i) {
    if (seen[i] == nullptr) continue;
    for (uint32_t c = 0; c < columns; ++c) {
      const float x = seen[i][c];
      if (is_first || !(x <= largest[c])) largest[c] = largest[c] != largest[c] ? largest[c] : x;
    }
    is_first = false;
  }
}

// Computes windows channel by channel: a depthwise convolution or, without weights, a max pool.
// Each element of a window counts as the work of a product, a sum and finding its row.
void make_by_channel(const KernelSet* kernels, const Windows& windows, const WindowInput& input,
                     const DepthwiseWeights* weights, const Matrix& output,
                     const ScratchArea& scratch, const ParallelFor& parallel) {
  assert(output.rows >= 1 && output.columns == input.rows.columns);
  const WindowScratch layout = depthwise_scratch(windows, output.columns);
  const uint32_t row_work = windows.kernel() * (output.columns * (2 * kSumWork) + kNormWork);
  const uint32_t rows_max = pieces_at_once(parallel, kRowsPerTask, row_work);
  const RowBlocks blocks(output.rows, rows_max);
  auto work = [&](uint32_t task_index, uint32_t thread_index) {
    std::byte* const mine = scratch.of(thread_index);
    const float** const list = reinterpret_cast<const float**>(mine);
    const uint32_t end = blocks.begin(task_index) + blocks.size(task_index);
    for (uint32_t row = blocks.begin(task_index); row < end; ++row) {
      list_rows(windows, input, row, nullptr, list, 1);
      if (linked(Need::kDepthwise) && weights != nullptr) {
        add_up(*kernels, *weights, windows.kernel(), list,
               reinterpret_cast<float*>(mine + layout.row.value()),
               reinterpret_cast<float*>(mine + layout.rows.value()), output, row);
      } else if (linked(Need::kMaxPool)) {
        find_largest(windows.kernel(), list, output.columns, output.row(row));
      }
    }
  };
  for_each_task(parallel, blocks.count, rows_max * row_work, work);
}

}  // namespace

uint32_t* RowHistory::ends(size_t sequence) const {
  const auto bytes = static_cast<size_t>(history_bytes(rows, columns).value());
  return reinterpret_cast<uint32_t*>(data + sequence * bytes);
}

float* RowHistory::half(size_t sequence, uint32_t which) const {
  constexpr size_t kEnds = 4;
  return reinterpret_cast<float*>(ends(sequence) + kEnds) + size_t{which} * rows * columns;
}

uint32_t RowHistory::half_at(size_t sequence, uint32_t position) const {
  const uint32_t* const end = ends(sequence);
  if (end[0] == position) return 0;
  return end[1] == position ? 1 : kNone;
}

void keep_rows(const ConstMatrix& rows, std::span<const SequenceRows> sequences,
               const RowHistory& history, const ParallelFor& parallel) {
  auto work = [&](uint32_t i, uint32_t) {
    const SequenceRows& from = sequences[i];
    if (from.rows == 0) return;
    uint32_t* const ends = history.ends(i);
    // A sequence that begins has no valid half.
    if (from.positions == 0) ends[0] = ends[1] = 0;
    const uint32_t to = from.positions == 0 || history.half_at(i, from.positions) == 1 ? 0 : 1;
    ends[to] = from.positions + from.rows;
    float* row = history.half(i, to);
    for (uint32_t r = 0; r < history.rows; ++r, row += history.columns) {
      if (ends[to] + r < history.rows) continue;
      const uint32_t position = ends[to] + r - history.rows;
      const float* const source = position < from.positions
                                      ? history.row(i, position, from.positions)
                                      : rows.row(from.row_begin + position - from.positions);
      std::memcpy(row, source, history.columns * sizeof(float));
    }
  };
  for_each_task(parallel, static_cast<uint32_t>(sequences.size()),
                history.rows * (history.columns * kCopyWork + kNormWork), work);
}

void convolution(const KernelSet& kernels, const Windows& windows, const WindowInput& input,
                 const WeightView& weights, const Matrix& output, const ScratchArea& scratch,
                 const ParallelFor& parallel) {
  const uint32_t inputs = weights.columns;
  assert(output.rows >= 1 && output.columns == weights.rows);
  assert(inputs == windows.kernel() * input.rows.columns);
  const ProductDivision division(weights.packing, output, inputs, parallel);
  const WindowScratch layout = convolution_scratch(weights.packing, windows, input.rows.columns);
  auto work = [&](uint32_t task_index, uint32_t thread_index) {
    const ProductPart part(division, weights, output, task_index);
    std::byte* const mine = scratch.of(thread_index);
    std::byte* const gathered = mine + layout.rows.value();
    const bool is_f32 = linked_type(weights.type) == TensorType::kF32;
    const uint32_t block_rows = is_f32 ? kernels.indirect->list_rows[part.rows] : part.rows;
    const WindowBlock block =
        find_windows(windows, input, part.row, part.rows, block_rows, layout, mine);
    if (is_f32) {
      kernels.indirect->gemm[part.rows](part.rows, part.columns, block.pieces,
                                        block.piece_columns * sizeof(float), block.list,
                                        part.weight, part.result, output.stride * sizeof(float));
    } else if (linked(Need::kW8) && weights.type == TensorType::kW8) {
      multiply_gathered(*kernels.w8, block, reinterpret_cast<float*>(gathered), part);
    } else if constexpr (kInt8RowsLinked) {
      const QuantizedKernels& of_type = kernels.quantized(weights.type);
      QuantizedRows rows(gathered, part.rows, inputs);
      for (uint32_t r = 0; r < part.rows; ++r) {
        rows.quantize_row(kernels, of_type, r, block.window(r));
      }
      multiply(of_type, rows, 0, part, mine + layout.wide.value());
    }
  };
  // Each chunk of weights finds the windows again, and rounds or copies them.
  const uint32_t finding = windows.kernel() * kNormWork + inputs * kRoundWork;
  for_each_task(parallel, division.tasks(), division.task_work() + division.block_rows * finding,
                work);
}

// Multiplies and adds whole rows. XNNPACK's dwconv kernels would need three kernels per set, and
// weights that are packed for a set and padded to a number of taps.
void depthwise_convolution(const KernelSet& kernels, const Windows& windows,
                           const WindowInput& input, const DepthwiseWeights& weights,
                           const Matrix& output, const ScratchArea& scratch,
                           const ParallelFor& parallel) {
  make_by_channel(&kernels, windows, input, &weights, output, scratch, parallel);
}

void max_pool(const Windows& windows, const WindowInput& input, const Matrix& output,
              const ScratchArea& scratch, const ParallelFor& parallel) {
  make_by_channel(nullptr, windows, input, nullptr, output, scratch, parallel);
}

}  // namespace arenite
