// SPDX-License-Identifier: Apache-2.0
// Convolutions of rows of channels: those of a sequence, or the pixels of an image, line by line.
// Each window of rows gives one row.
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

// The last rows of earlier calls, `rows` dense ones of `columns` for each sequence: two halves, and
// before them the positions where these end. A call writes over the half that it does not read, so
// that one that is cancelled takes nothing away, and the last one can be taken back.
// history_bytes() (core/windows.h) for each sequence, then kReadAheadBytes.
struct RowHistory {
  std::byte* data = nullptr;  // null: every sequence begins with the call
  uint32_t rows = 0;
  uint32_t columns = 0;

  static constexpr uint32_t kNone = 2;
  uint32_t* ends(size_t sequence) const;
  float* half(size_t sequence, uint32_t which) const;
  // The half that ends at a position; kNone: neither does.
  uint32_t half_at(size_t sequence, uint32_t position) const;
  // REQUIRES: a half ends at `end`, and position < end <= position + rows.
  const float* row(size_t sequence, uint32_t position, uint32_t end) const {
    return half(sequence, half_at(sequence, end)) + size_t{position + rows - end} * columns;
  }
};

// Keeps the last rows of a call and of those before it, so that a later call finds them. Called
// after what reads older rows. `rows` [rows of the call, history.columns].
void keep_rows(const ConstMatrix& rows, std::span<const SequenceRows> sequences,
               const RowHistory& history, const ParallelFor& parallel);

// What windows are laid over. Sequence i gives the windows output[i] of the output: `positions` are
// the windows that earlier calls gave, and `rows` those of this one, so that with n = positions +
// rows of the input sequence, both together are windows.count(n).
// REQUIRES: whole lines. Sequences that go on have a history of windows.lookback() rows, and
// windows.lines.after is 0.
struct WindowInput {
  ConstMatrix rows;  // [rows of the call, channels]
  std::span<const SequenceRows> sequences;
  std::span<const SequenceRows> outputs;
  RowHistory earlier = {};
};

// output[w] = bias + the sum over the rows x[k] that window w sees of x[k] * weights[k]^T; a row
// outside of the sequence is zeros. `weights` are [outputs, kernel * channels] with a bias
// [outputs], packed as those of linear(): the channels of the window's first row, then those of its
// second one, line by line. q8 and q4 weights round each window as linear() rounds a row.
// Scratch of threads: convolution_scratch() (core/windows.h).
// REQUIRES: input and output do not overlap.
void convolution(const KernelSet& kernels, const Windows& windows, const WindowInput& input,
                 const WeightView& weights, const Matrix& output, const ScratchArea& scratch,
                 const ParallelFor& parallel);

struct DepthwiseWeights {
  const float* kernel = nullptr;  // [windows.kernel(), channels]
  const float* bias = nullptr;    // [channels]
};

// output[w][c] = bias[c] + the sum over the rows x[k] that window w sees of x[k][c] * kernel[k][c],
// added one after the other; rows outside of the sequence add nothing.
// Scratch of threads: depthwise_scratch(). REQUIRES: input and output do not overlap.
void depthwise_convolution(const KernelSet& kernels, const Windows& windows,
                           const WindowInput& input, const DepthwiseWeights& weights,
                           const Matrix& output, const ScratchArea& scratch,
                           const ParallelFor& parallel);

// output[w][c] = the largest x[k][c] of the rows x[k] that window w sees of the sequence; 0 if it
// sees none, and NaN if one of them is. Scratch of threads: depthwise_scratch().
// REQUIRES: input and output do not overlap.
void max_pool(const Windows& windows, const WindowInput& input, const Matrix& output,
              const ScratchArea& scratch, const ParallelFor& parallel);

}  // namespace arenite
