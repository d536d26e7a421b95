// SPDX-License-Identifier: Apache-2.0
// Compares depthwise convolutions with their reference, and step by step with one pass.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "ops/convolution.h"
#include "runtime/ops/window_runner.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class Depthwise : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Depthwise);

struct DepthwiseLayer {
  Windows windows;
  uint32_t channels;
  GuardedFloats kernel, bias;

  DepthwiseLayer(const Windows& windows_in, uint32_t channels_in, uint64_t seed)
      : windows(windows_in),
        channels(channels_in),
        kernel(size_t{windows.kernel()} * channels, kReadAheadBytes),
        bias(channels, kReadAheadBytes) {
    Random(seed).fill(kernel.span(), 1.0f);
    Random(seed + 1).fill(bias.span(), 1.0f);
  }

  WindowOp op(const KernelSet& kernels) const {
    return {windows, channels, channels, depthwise_scratch(windows, channels).bytes,
            [&](const WindowInput& input, const Matrix& output, const ScratchArea& scratch,
                const ParallelFor& parallel) {
              depthwise_convolution(kernels, windows, input, {kernel.data(), bias.data()}, output,
                                    scratch, parallel);
            }};
  }
};

constexpr uint32_t kChannelCounts[] = {1, 3, 8, 17, 33, 100};

// One sequence in some cases, three in others.
Sequences random_sequences(Random& random, const DepthwiseLayer& layer, uint32_t lines) {
  Sequences rows;
  for (uint32_t s = 0; s < 1 + random.below(2) * 2; ++s) {
    const size_t count = size_t{random.below(lines)} * layer.windows.width;
    rows.push_back(random_rows(count * layer.channels, random.next()));
  }
  return rows;
}

std::vector<DepthwiseLayer> random_layers(Random& random, bool in_parts) {
  std::vector<DepthwiseLayer> layers;
  for (uint32_t i = 0; i < 60; ++i) {
    Windows windows =
        in_parts ? random_causal_windows(random, i % 2 == 1) : random_windows(random, i % 2 == 1);
    // A Conformer's.
    if (i % 10 == 0) windows = {{31, 1, 1, in_parts ? 30u : 15u, in_parts ? 0u : 15u}, {}, 1};
    layers.emplace_back(windows, kChannelCounts[random.below(6)], random.next());
  }
  return layers;
}

TEST_P(Depthwise, AgreesWithTheReference) {
  Random random(1);
  for (const DepthwiseLayer& layer : random_layers(random, false)) {
    const Sequences rows = random_sequences(random, layer, 20);
    const Sequences found = run_whole(layer.op(kernels()), rows, 2);
    for (size_t s = 0; s < rows.size(); ++s) {
      const uint32_t count = static_cast<uint32_t>(rows[s].size() / layer.channels);
      if (count == 0) continue;
      const std::vector<double> expected = reference_depthwise(
          as_reference(layer.windows, count), rows[s], layer.kernel.span(), layer.bias.span());
      // Each product and each sum is rounded once, and no partial sum exceeds the kernel + 1.
      const double kernel = layer.windows.kernel();
      ASSERT_TRUE(all_near(found[s], expected, kRounding * 2 * kernel * (kernel + 1)));
    }
  }
}

TEST_P(Depthwise, GivesTheSameBitsInPartsAndOnThreads) {
  Random random(2);
  Pool three(3), shuffled(3, Order::kShuffled);
  for (const DepthwiseLayer& layer : random_layers(random, true)) {
    const WindowOp op = layer.op(kernels());
    const Sequences rows = random_sequences(random, layer, 40);
    const Sequences whole = run_whole(op, rows);
    for (Pool* pool : {&three, &shuffled}) {
      const Sequences found = run_whole(op, rows, 0, pool->parallel_for());
      for (size_t s = 0; s < rows.size(); ++s) ASSERT_TRUE(same_bits(found[s], whole[s]));
    }
    for (const uint32_t lines : {1 + random.below(6), 40u}) {
      const Sequences found = run_in_parts(op, rows, lines, random.next());
      for (size_t s = 0; s < rows.size(); ++s) {
        ASSERT_TRUE(same_bits(found[s], whole[s])) << lines << " lines";
      }
    }
  }
}

TEST_P(Depthwise, KeepsNaNInItsChannelAndWindows) {
  const DepthwiseLayer layer({{3, 1, 1, 2, 0}, {}, 1}, 19, 5);
  const WindowOp op = layer.op(kernels());
  Sequences rows = {random_rows(size_t{9} * 19, 1), random_rows(size_t{9} * 19, 2)};
  const Sequences clean = run_whole(op, rows);
  rows[0][4 * 19 + 7] = NAN;
  const Sequences found = run_whole(op, rows);
  EXPECT_TRUE(same_bits(found[1], clean[1]));
  for (size_t i = 0; i < found[0].size(); ++i) {
    const size_t window = i / 19;
    if (i % 19 == 7 && window >= 4 && window < 7) {
      EXPECT_TRUE(std::isnan(found[0][i]));
    } else {
      EXPECT_TRUE(same_bits({&found[0][i], 1}, {&clean[0][i], 1}));
    }
  }
}

}  // namespace
}  // namespace arenite::test
