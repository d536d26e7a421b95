// SPDX-License-Identifier: Apache-2.0
// Convolutions and pools over rows of channels: the positions of a sequence, or the pixels of an
// image, line by line. Each window of rows gives one row. For example, with a kernel of 3, a stride
// of 2 and one row of zeros before the sequence:
//   output row w = f(input rows 2 w - 1, 2 w, 2 w + 1)
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/parallel.h"
#include "core/views.h"
#include "core/windows.h"
#include "kernels/kernel_set.h"
#include "ops/rows.h"

namespace arenite {

// The last `rows` input rows of earlier calls, dense rows of `columns` floats, for each sequence:
// two halves, followed by the positions at which they end. A call reads one half and overwrites the
// other, so a cancelled call loses nothing, and the last call can be undone. `data` is not owned:
// history_bytes() (core/windows.h) for each sequence, then kReadAheadBytes.
struct RowHistory {
  std::byte* data = nullptr;  // null: every sequence begins with the call
  uint32_t rows = 0;
  uint32_t columns = 0;

  static constexpr uint32_t kNone = 2;
  uint32_t* ends(size_t sequence) const;
  float* half(size_t sequence, uint32_t which) const;
  // Returns which half of a sequence's history ends at `position`, or kNone.
  uint32_t half_at(size_t sequence, uint32_t position) const;
  // REQUIRES: a half ends at `end`, and position < end <= position + rows.
  const float* row(size_t sequence, uint32_t position, uint32_t end) const {
    return half(sequence, half_at(sequence, end)) + size_t{position + rows - end} * columns;
  }
};

// Keeps the last rows of this and earlier calls for later ones. Must be called after the ops that
// read older rows. `rows` [rows of the call, history.columns].
void keep_rows(const ConstMatrix& rows, std::span<const SequenceRows> sequences,
               const RowHistory& history, const ParallelFor& parallel);

// The rows that windows see. Sequence i gives the rows outputs[i] of the output: earlier calls gave
// `positions` windows, and this one gives `rows`; together windows.count(n), where n = positions +
// rows of the input sequence.
// REQUIRES: whole lines. Sequences that go on have a history of windows.lookback() rows, and
// windows.lines.after is 0.
struct WindowInput {
  ConstMatrix rows;  // [rows of the call, channels]
  std::span<const SequenceRows> sequences;
  std::span<const SequenceRows> outputs;
  RowHistory earlier = {};
};

// output[w] = bias + the sum over k of x[k] * weights[k]^T, where x[k] are the rows that window w
// sees; rows outside of the sequence are zeros. `weights` are [outputs, kernel * channels] with a
// bias [outputs], packed as those of linear(): the channels of the window's first row, then those
// of its second one, line by line. With q8 and q4 weights each window is rounded as linear() rounds
// a row. Scratch of threads: convolution_scratch() (core/windows.h).
// REQUIRES: input and output do not overlap.
void convolution(const KernelSet& kernels, const Windows& windows, const WindowInput& input,
                 const WeightView& weights, const Matrix& output, const ScratchArea& scratch,
                 const ParallelFor& parallel);

struct DepthwiseWeights {
  const float* kernel = nullptr;  // [windows.kernel(), channels]
  const float* bias = nullptr;    // [channels]
};

// output[w][c] = bias[c] + the sum over k of x[k][c] * kernel[k][c], where x[k] are the rows that
// window w sees, in this order; rows outside of the sequence add nothing. Scratch of threads:
// depthwise_scratch().
// REQUIRES: input and output do not overlap.
void depthwise_convolution(const KernelSet& kernels, const Windows& windows,
                           const WindowInput& input, const DepthwiseWeights& weights,
                           const Matrix& output, const ScratchArea& scratch,
                           const ParallelFor& parallel);

// output[w][c] = the largest x[k][c] of the rows x[k] of the sequence that window w sees; NaN if
// any is NaN, and 0 without rows. Scratch of threads: depthwise_scratch().
// REQUIRES: input and output do not overlap.
void max_pool(const Windows& windows, const WindowInput& input, const Matrix& output,
              const ScratchArea& scratch, const ParallelFor& parallel);

}  // namespace arenite
