// SPDX-License-Identifier: Apache-2.0
// Windows over rows, as convolutions see them: how many there are, and the scratch of a thread that
// computes them.
#pragma once

#include <cstdint>

#include "arenite/arena_formula.h"
#include "arenite/checked_math.h"
#include "core/packing.h"

namespace arenite {

// Windows along one direction. All sizes count rows; before + after and the rows of a sequence fit
// 32 bits together.
struct WindowAxis {
  uint32_t kernel = 1;  // that a window sees, `dilation` apart
  uint32_t stride = 1;  // from window to window
  uint32_t dilation = 1;
  uint32_t before = 0;  // zeros before the first row ...
  uint32_t after = 0;   // ... and after the last

  // From a window's first row to its last one.
  constexpr uint32_t span() const { return (kernel - 1) * dilation + 1; }
  // The windows of so many rows; with after = 0 those that are complete after as many.
  constexpr uint32_t count(uint32_t rows) const {
    const uint32_t padded = before + rows + after;
    return rows == 0 || padded < span() ? 0 : (padded - span()) / stride + 1;
  }
  // How far the last of so many windows reaches beyond the last row, without what `after` says;
  // below 0: so many rows no window reaches. REQUIRES: windows != 0.
  constexpr int64_t reaches_beyond(uint32_t rows, uint32_t windows) const {
    return int64_t{windows - 1} * stride + span() - before - rows;
  }

  friend constexpr bool operator==(const WindowAxis&, const WindowAxis&) = default;
};

// Windows over the rows of a sequence, which are lines of `width` rows each: the pixels of an
// image, line by line. A sequence without columns has lines of one row.
struct Windows {
  WindowAxis lines;
  WindowAxis columns;
  uint32_t width = 1;

  // Rows that a window sees, those of zeros included.
  constexpr uint32_t kernel() const { return lines.kernel * columns.kernel; }
  constexpr uint32_t per_line() const { return columns.count(width); }
  // REQUIRES: whole lines.
  constexpr uint32_t count(uint32_t rows) const { return lines.count(rows / width) * per_line(); }
  // Whether each row has a window that ends with it.
  constexpr bool is_causal() const {
    return lines.stride == 1 && lines.before == lines.span() - 1 && lines.after == 0;
  }
  // Rows of earlier calls that windows of a later one may see.
  constexpr uint32_t lookback() const { return (lines.span() - 1) * width; }

  friend constexpr bool operator==(const Windows&, const Windows&) = default;
};

// What a convolution keeps of a sequence that goes on, `rows` rows of `columns`
// (ops/convolution.h).
constexpr Checked history_bytes(uint32_t rows, uint32_t columns) {
  constexpr uint32_t kEndsBytes = 16;
  return rows == 0 ? Checked(0) : Checked(rows) * columns * (2 * sizeof(float)) + kEndsBytes;
}

// A thread's scratch while it computes windows, the same for pointers of any size: first where each
// row of each window lies, then what follows. Offsets in bytes.
struct WindowScratch {
  Checked row = 0;   // of zeros; of depthwise convolutions a row of sums
  Checked rows = 0;  // what products read that cannot read rows where they lie; a row of products
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

// `packing` is that of the weights, whose inputs are those of a window. f32 reads rows where they
// lie; w8 reads the windows of a block as rows of floats, q8 and q4 as rows in int8.
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
