// SPDX-License-Identifier: Apache-2.0
// Runs ops on windows of sequences that come in parts, in memory that ends at the last byte that
// the op may access.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>
#include <vector>

#include "ops/convolution.h"
#include "reference/reference.h"
#include "support/guarded_buffer.h"
#include "support/malloc_trap.h"
#include "support/random.h"

namespace arenite::test {

inline std::vector<float> random_rows(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  Random(seed).fill(values, 1.0f);
  return values;
}

// An op with its weights.
struct WindowOp {
  Windows windows;
  uint32_t channels;
  uint32_t outputs;
  Checked scratch_bytes;  // of a thread
  std::function<void(const WindowInput&, const Matrix&, const ScratchArea&, const ParallelFor&)>
      run;
};

// A sequence's rows, one after the other, or what an op makes of them.
using Sequence = std::vector<float>;
using Sequences = std::vector<Sequence>;

class WindowRunner {
 public:
  // `gap` floats lie between rows of the input. Without a history each sequence comes whole.
  WindowRunner(const WindowOp& op, size_t sequences, uint32_t gap = 0, uint32_t history_rows = 0,
               ParallelFor parallel = {})
      : op_(op),
        gap_(gap),
        parallel_(parallel),
        positions_(sequences),
        kept_(sequences * history_bytes(history_rows, op.channels).value() / sizeof(float),
              kReadAheadBytes) {
    if (history_rows == 0) return;
    history_ = {reinterpret_cast<std::byte*>(kept_.data()), history_rows, op.channels};
  }

  // The next rows of each sequence; what they add to its output.
  Sequences run(const Sequences& rows) {
    std::vector<SequenceRows> from, to;
    uint32_t row = 0;
    uint32_t window = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t count = static_cast<uint32_t>(rows[i].size() / op_.channels);
      const uint32_t before = op_.windows.count(positions_[i]);
      from.push_back({positions_[i], row, count});
      positions_[i] += count;
      to.push_back({before, window, op_.windows.count(positions_[i]) - before});
      row += count;
      window += to[i].rows;
    }
    const size_t stride = op_.channels + gap_;
    const GuardedFloats input(row == 0 ? 0 : (row - 1) * stride + op_.channels, kReadAheadBytes);
    for (size_t i = 0; i < rows.size(); ++i) {
      for (uint32_t r = 0; r < from[i].rows; ++r) {
        std::copy_n(rows[i].begin() + r * op_.channels, op_.channels,
                    input.data() + (from[i].row_begin + r) * stride);
      }
    }
    const ConstMatrix matrix = {input.data(), row, op_.channels, stride};
    const std::vector<float> output = run({matrix, from, to, history_}, window);
    if (history_.data != nullptr) keep_rows(matrix, from, history_, {});
    EXPECT_TRUE(input.surroundings_intact());
    EXPECT_TRUE(kept_.surroundings_intact());
    Sequences results;
    for (const SequenceRows& of : to) {
      const auto begin = output.begin() + of.row_begin * op_.outputs;
      results.emplace_back(begin, begin + of.rows * op_.outputs);
    }
    return results;
  }

 private:
  // In scratch as large as its formula says, with rows of the output apart from each other.
  std::vector<float> run(const WindowInput& input, uint32_t windows) {
    constexpr uint32_t kGap = 3;
    if (windows == 0) return {};
    const size_t stride = op_.outputs + kGap;
    const size_t bytes = round_up(op_.scratch_bytes, 64).value();
    const GuardedFloats output((windows - 1) * stride + op_.outputs);
    const GuardedBuffer scratch(bytes * (parallel_.threads - 1) + op_.scratch_bytes.value(), 64);
    {
      const NoHeapScope no_heap;
      op_.run(input, {output.data(), windows, op_.outputs, stride},
              {nullptr, scratch.data(), bytes}, parallel_);
    }
    EXPECT_TRUE(output.surroundings_intact());
    EXPECT_TRUE(scratch.surroundings_intact());
    std::vector<float> result;
    for (uint32_t w = 0; w < windows; ++w) {
      const float* const row = output.data() + w * stride;
      result.insert(result.end(), row, row + op_.outputs);
      for (uint32_t i = 0; i < kGap && w + 1 < windows; ++i) {
        EXPECT_TRUE(std::isnan(row[op_.outputs + i]));
      }
    }
    return result;
  }

  const WindowOp& op_;
  const uint32_t gap_;
  const ParallelFor parallel_;
  std::vector<uint32_t> positions_;
  GuardedFloats kept_;
  RowHistory history_;
};

// Whole sequences in one call.
inline Sequences run_whole(const WindowOp& op, const Sequences& rows, uint32_t gap = 0,
                           ParallelFor parallel = {}) {
  return WindowRunner(op, rows.size(), gap, 0, parallel).run(rows);
}

// Sequences in calls of random numbers of lines of each, none included.
inline Sequences run_in_parts(const WindowOp& op, const Sequences& rows, uint32_t lines_max,
                              uint64_t seed) {
  Random random(seed);
  WindowRunner runner(op, rows.size(), 0, op.windows.lookback());
  const size_t line = size_t{op.windows.width} * op.channels;
  std::vector<size_t> done(rows.size());
  Sequences results(rows.size());
  for (bool more = true; more;) {
    more = false;
    Sequences part;
    for (size_t i = 0; i < rows.size(); ++i) {
      const size_t left = rows[i].size() - done[i];
      const size_t count = std::min(left, random.below(lines_max + 1) * line);
      const auto begin = rows[i].begin() + static_cast<ptrdiff_t>(done[i]);
      part.emplace_back(begin, begin + static_cast<ptrdiff_t>(count));
      done[i] += count;
      more = more || done[i] < rows[i].size();
    }
    const Sequences made = runner.run(part);
    for (size_t i = 0; i < rows.size(); ++i) {
      results[i].insert(results[i].end(), made[i].begin(), made[i].end());
    }
  }
  return results;
}

// Windows of any sizes, over lines and, but for sequences without columns, over columns.
inline Windows random_windows(Random& random, bool is_image) {
  const auto axis = [&random] {
    WindowAxis made = {1 + random.below(4), 1 + random.below(3), 1 + random.below(2)};
    made.before = random.below(made.span() + 1);
    made.after = random.below(made.span() + 1);
    return made;
  };
  Windows windows;
  windows.lines = axis();
  if (is_image) {
    do {
      windows.columns = axis();
      windows.width = 1 + random.below(9);
    } while (windows.per_line() == 0);
  }
  return windows;
}

// Returns random windows for sequences that come in parts.
inline Windows random_causal_windows(Random& random, bool is_image) {
  Windows windows = random_windows(random, is_image);
  windows.lines.before = random.below(windows.lines.span());
  windows.lines.after = 0;
  return windows;
}

inline WindowsOfReference as_reference(const Windows& windows, uint32_t rows) {
  const auto axis = [](const WindowAxis& from, uint32_t length) {
    return AxisOfReference{length,        from.kernel, from.stride,
                           from.dilation, from.before, from.after};
  };
  return {axis(windows.lines, rows / windows.width), axis(windows.columns, windows.width)};
}

}  // namespace arenite::test
