// SPDX-License-Identifier: Apache-2.0
// Windows of convolutions and poolings over rows: how many there are, and the scratch that a thread
// needs to compute them:
//
//     kernel 3, stride 2, before 1, after 0; rows 0..5 -> windows {-,0,1} {1,2,3} {3,4,5}
//
#pragma once

#include <cstdint>

#include "arenite/arena_formula.h"
#include "arenite/checked_math.h"
#include "core/packing.h"

namespace arenite {

// Windows along one direction. All sizes count rows; before + after + the rows of a sequence fit 32
// bits.
struct WindowAxis {
  uint32_t kernel = 1;  // rows of a window, `dilation` apart
  uint32_t stride = 1;  // rows from one window to the next
  uint32_t dilation = 1;
  uint32_t before = 0;  // zero rows before the first row ...
  uint32_t after = 0;   // ... and after the last

  // Rows from the first row of a window to its last, both included.
  constexpr uint32_t span() const { return (kernel - 1) * dilation + 1; }
  // Returns the number of windows over `rows` rows. With after = 0, counts the windows that are
  // complete after that many rows of a stream.
  constexpr uint32_t count(uint32_t rows) const {
    const uint32_t padded = before + rows + after;
    return rows == 0 || padded < span() ? 0 : (padded - span()) / stride + 1;
  }
  // Returns how many rows the last of `windows` windows reaches beyond the last row, not counting
  // `after`. A negative result counts rows at the end that no window covers. REQUIRES: windows !=
  // 0.
  constexpr int64_t reaches_beyond(uint32_t rows, uint32_t windows) const {
    return int64_t{windows - 1} * stride + span() - before - rows;
  }

  friend constexpr bool operator==(const WindowAxis&, const WindowAxis&) = default;
};

// Two-dimensional windows over the rows of a sequence, which form lines of `width` rows each, as
// the pixels of an image. A one-dimensional sequence has width 1.
struct Windows {
  WindowAxis lines;
  WindowAxis columns;
  uint32_t width = 1;

  // Rows of a window, including zero rows.
  constexpr uint32_t kernel() const { return lines.kernel * columns.kernel; }
  constexpr uint32_t per_line() const { return columns.count(width); }
  // REQUIRES: whole lines.
  constexpr uint32_t count(uint32_t rows) const { return lines.count(rows / width) * per_line(); }
  // Whether each row is the last row of some window.
  constexpr bool is_causal() const {
    return lines.stride == 1 && lines.before == lines.span() - 1 && lines.after == 0;
  }
  // Rows of earlier calls that a window of a later call can see.
  constexpr uint32_t lookback() const { return (lines.span() - 1) * width; }

  friend constexpr bool operator==(const Windows&, const Windows&) = default;
};

// Bytes of past rows [rows, columns] that a convolution keeps for each sequence
// (ops/convolution.h).
constexpr Checked history_bytes(uint32_t rows, uint32_t columns) {
  constexpr uint32_t kEndsBytes = 16;
  return rows == 0 ? Checked(0) : Checked(rows) * columns * (2 * sizeof(float)) + kEndsBytes;
}

// Scratch of a thread that computes windows, with offsets in bytes, equal for any pointer size:
// first the pointers to each row of each window, then these parts.
struct WindowScratch {
  Checked row = 0;   // a row of zeros; depthwise: a row of sums
  Checked rows = 0;  // windows gathered or quantized for the product; a row of products
  Checked wide = 0;  // product_scratch_bytes
  Checked bytes = 0;
};

constexpr WindowScratch window_scratch(const Windows& windows, uint32_t channels,
                                       uint32_t windows_at_once) {
  constexpr uint32_t kPointerBytes = 8;
  const Checked pointers = Checked(windows.lines.kernel) * windows.columns.kernel * windows_at_once;
  const Checked row = round_up(pointers * kPointerBytes, 16);
  const Checked rows = round_up(row + Checked(channels) * sizeof(float) + kReadAheadBytes, 16);
  return {row, rows, rows, rows};
}

// `packing` is the packing of the weights, whose inputs are all elements of a window. f32 kernels
// read the rows in place; w8 kernels read windows gathered as float rows, q8 and q4 kernels as int8
// rows.
constexpr WindowScratch convolution_scratch(Packing packing, const Windows& windows,
                                            uint32_t channels) {
  const Checked inputs = Checked(windows.lines.kernel) * windows.columns.kernel * channels;
  WindowScratch scratch = window_scratch(windows, channels, packing.mr);
  Checked row_bytes = 0;
  if (packing.type == TensorType::kF32) return scratch;
  if (weight_type(packing.type).rounds_inputs) {
    row_bytes = quantized_scratch_bytes(static_cast<uint32_t>(inputs.value()));
  } else {
    row_bytes = inputs * sizeof(float);
  }
  scratch.wide = scratch.rows + row_bytes * packing.mr + kReadAheadBytes;
  scratch.bytes = scratch.wide;
  if (packing.widens) {
    scratch.wide = round_up(scratch.wide, 16);
    scratch.bytes =
        scratch.wide + product_scratch_bytes(packing, static_cast<uint32_t>(inputs.value()));
  }
  return scratch;
}

constexpr WindowScratch depthwise_scratch(const Windows& windows, uint32_t channels) {
  WindowScratch scratch = window_scratch(windows, channels, 1);
  scratch.bytes = scratch.rows + Checked(channels) * sizeof(float) + kReadAheadBytes;
  return scratch;
}

}  // namespace arenite
