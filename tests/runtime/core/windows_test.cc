// SPDX-License-Identifier: Apache-2.0
// Compares counts of windows and sizes of their scratch with counting one by one.
#include "core/windows.h"

#include <gtest/gtest.h>

namespace arenite {
namespace {

// Counts the windows one by one, from the first.
uint32_t counted(const WindowAxis& axis, uint32_t rows) {
  uint32_t windows = 0;
  for (uint32_t begin = 0; rows != 0; begin += axis.stride, ++windows) {
    if (begin + (axis.kernel - 1) * axis.dilation >= axis.before + rows + axis.after) break;
  }
  return windows;
}

TEST(WindowAxis, CountsItsWindows) {
  for (uint32_t code = 0; code < 5 * 3 * 3 * 4 * 4; ++code) {
    const WindowAxis axis = {1 + code % 5, 1 + code / 5 % 3, 1 + code / 15 % 3, code / 45 % 4,
                             code / 180 % 4};
    for (uint32_t rows = 0; rows < 20; ++rows) {
      ASSERT_EQ(axis.count(rows), counted(axis, rows)) << code << " of " << rows;
    }
  }
}

TEST(Windows, OverASequenceCountItsLines) {
  const Windows windows = {{3, 2, 2, 4, 0}, {}, 1};
  EXPECT_EQ(windows.kernel(), 3u);
  EXPECT_EQ(windows.count(7), windows.lines.count(7));
  EXPECT_EQ(windows.lookback(), 4u);
}

TEST(Windows, OverAnImageCountLinesTimesColumns) {
  const Windows windows = {{3, 2, 1, 1, 1}, {5, 1, 1, 2, 2}, 7};
  EXPECT_EQ(windows.kernel(), 15u);
  EXPECT_EQ(windows.per_line(), 7u);
  EXPECT_EQ(windows.count(6 * 7), 3u * 7);
  EXPECT_EQ(windows.lookback(), 2u * 7);
}

TEST(ConvolutionScratch, HoldsPointersAndZerosForRowsReadInPlace) {
  const Windows windows = {{3, 1, 1, 1, 1}, {3, 1, 1, 1, 1}, 8};
  const WindowScratch scratch =
      convolution_scratch(packing_of(Target::kPortable, TensorType::kF32), windows, 64);
  EXPECT_EQ(scratch.bytes.value(), 9u * 4 * 8 + 64 * 4 + 16);
}

TEST(ConvolutionScratch, ReportsOverflow) {
  const Windows windows = {{UINT32_MAX, 1, 1, 0, 0}, {UINT32_MAX, 1, 1, 0, 0}, 8};
  for (const TensorType type : {TensorType::kF32, TensorType::kW8, TensorType::kQ8}) {
    const Packing packing = packing_of(Target::kX86_64_v4, type);
    EXPECT_FALSE(convolution_scratch(packing, windows, UINT32_MAX).bytes.ok());
  }
}

}  // namespace
}  // namespace arenite
