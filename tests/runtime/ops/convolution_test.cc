// SPDX-License-Identifier: Apache-2.0
// Compares convolutions with their reference, with linear layers on gathered windows, and step by
// step with one pass.
#include "ops/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "ops/linear.h"
#include "runtime/ops/window_runner.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/packed_weights.h"
#include "support/pool.h"
#include "support/quantized_weights.h"

namespace arenite::test {
namespace {

// A set and a type of weights.
class Convolution : public ::testing::TestWithParam<std::tuple<Target, TensorType>> {
 protected:
  const KernelSet& kernels() const { return *kernel_set(std::get<Target>(GetParam())); }
  TensorType type() const { return std::get<TensorType>(GetParam()); }
  Packing packing() const { return packing_of(std::get<Target>(GetParam()), type()); }
  // Channels that go with the type, whatever the window.
  std::vector<uint32_t> channel_counts() const {
    if (type() == TensorType::kQ4) return {32, 64};
    return {1, 2, 3, 5, 8, 17};
  }
};
INSTANTIATE_TEST_SUITE_P(KernelSets, Convolution,
                         ::testing::Combine(::testing::ValuesIn(targets_in_tests()),
                                            ::testing::Values(TensorType::kF32, TensorType::kW8,
                                                              TensorType::kQ8, TensorType::kQ4)),
                         cache_test_name_of);

// Random weights of any type.
struct ConvolutionLayer {
  uint32_t inputs, outputs;
  std::vector<float> weights, bias;
  std::optional<PackedWeights> floats;
  std::optional<QuantizedWeights> few_bits;

  ConvolutionLayer(TensorType type, Packing packing, uint32_t inputs_in, uint32_t outputs_in)
      : inputs(inputs_in), outputs(outputs_in) {
    if (type == TensorType::kF32) {
      weights = random_rows(size_t{inputs} * outputs, 1);
      bias = random_rows(outputs, 2);
      floats.emplace(packing, weights, bias, inputs);
    } else {
      few_bits.emplace(type, packing, outputs, inputs, 3);
    }
  }
  WeightView view() const { return floats ? floats->view() : few_bits->view(); }
};

WindowOp convolution_op(const KernelSet& kernels, const Windows& windows, uint32_t channels,
                        const ConvolutionLayer& layer) {
  return {windows, channels, layer.outputs,
          convolution_scratch(layer.view().packing, windows, channels).bytes,
          [&kernels, windows, &layer](const WindowInput& input, const Matrix& output,
                                      const ScratchArea& scratch, const ParallelFor& parallel) {
            convolution(kernels, windows, input, layer.view(), output, scratch, parallel);
          }};
}

struct ConvolutionCase {
  Windows windows;
  uint32_t channels, outputs;
  Sequences rows;
};

// Shapes of all kinds; some sequences are too short for a window.
std::vector<ConvolutionCase> convolution_cases(uint32_t count,
                                               std::span<const uint32_t> channel_counts,
                                               Packing packing, bool in_parts, uint64_t seed) {
  Random random(seed);
  std::vector<ConvolutionCase> cases;
  for (uint32_t i = 0; i < count; ++i) {
    ConvolutionCase made;
    made.windows =
        in_parts ? random_causal_windows(random, i % 2 == 1) : random_windows(random, i % 2 == 1);
    const uint32_t kinds = static_cast<uint32_t>(channel_counts.size());
    made.channels = channel_counts[random.below(kinds)];
    const uint32_t nr = packing.nr;
    const uint32_t outputs[] = {1, nr - 1, nr, nr + 1, 3 * nr + 2};
    made.outputs = outputs[random.below(5)];
    for (uint32_t s = 0; s < 1 + i % 3; ++s) {
      const size_t rows = size_t{random.below(i % 2 == 1 ? 9 : 40)} * made.windows.width;
      made.rows.push_back(random_rows(rows * made.channels, seed + i * 10 + s));
    }
    cases.push_back(made);
  }
  return cases;
}

// The tests of linear layers cover the rounding of inputs with other types.
class ConvolutionOfFloats : public Convolution {};
INSTANTIATE_TEST_SUITE_P(KernelSets, ConvolutionOfFloats,
                         ::testing::Combine(::testing::ValuesIn(targets_in_tests()),
                                            ::testing::Values(TensorType::kF32, TensorType::kW8)),
                         cache_test_name_of);

TEST_P(ConvolutionOfFloats, AgreesWithTheReference) {
  for (const ConvolutionCase& of : convolution_cases(120, channel_counts(), packing(), false, 1)) {
    const uint32_t inputs = of.windows.kernel() * of.channels;
    const ConvolutionLayer layer(type(), packing(), inputs, of.outputs);
    std::vector<float> weights = layer.weights, bias = layer.bias;
    for (uint32_t n = 0; layer.few_bits && n < of.outputs; ++n) {
      bias.push_back(layer.few_bits->bias(n));
      for (uint32_t k = 0; k < inputs; ++k) {
        weights.push_back(static_cast<float>(layer.few_bits->weight(n, k)));
      }
    }
    const WindowOp op = convolution_op(kernels(), of.windows, of.channels, layer);
    const Sequences found = run_whole(op, of.rows, 2);
    for (size_t s = 0; s < found.size(); ++s) {
      const uint32_t rows = static_cast<uint32_t>(of.rows[s].size() / of.channels);
      const std::vector<double> expected = reference_convolution(
          as_reference(of.windows, rows), of.rows[s], of.channels, weights, bias);
      // No rows have no windows, though zeros alone could make one.
      if (rows == 0) continue;
      // The bound of linear layers: one rounding for each product and sum, and two more for w8
      // weights.
      ASSERT_TRUE(all_near(found[s], expected, kRounding * 2 * (inputs + 2) * (inputs + 1)));
    }
  }
}

// The packing, the rounding of inputs and the bits are those of linear layers.
TEST_P(Convolution, GivesTheBitsOfALinearLayerOfItsWindows) {
  for (const ConvolutionCase& of : convolution_cases(120, channel_counts(), packing(), false, 2)) {
    const uint32_t inputs = of.windows.kernel() * of.channels;
    const ConvolutionLayer layer(type(), packing(), inputs, of.outputs);
    const WindowOp op = convolution_op(kernels(), of.windows, of.channels, layer);
    // Side by side in memory or not.
    for (const uint32_t gap : {0u, 3u}) {
      const Sequences found = run_whole(op, of.rows, gap);
      for (size_t s = 0; s < found.size(); ++s) {
        if (found[s].empty()) continue;
        const std::vector<double> windows = reference_windows(
            as_reference(of.windows, static_cast<uint32_t>(of.rows[s].size() / of.channels)),
            of.rows[s], of.channels);
        const uint32_t count = static_cast<uint32_t>(windows.size() / inputs);
        const GuardedFloats input(windows.size(), kReadAheadBytes);
        std::ranges::transform(windows, input.data(),
                               [](double x) { return static_cast<float>(x); });
        std::vector<float> expected(size_t{count} * of.outputs);
        const GuardedBuffer scratch(
            count * static_cast<size_t>(quantized_scratch_bytes(inputs)) + kReadAheadBytes, 16);
        linear(kernels(), {input.data(), count, inputs, inputs}, layer.view(),
               {expected.data(), count, of.outputs, of.outputs}, {scratch.data(), nullptr, 0}, {});
        ASSERT_TRUE(same_bits(found[s], expected)) << "gap " << gap;
      }
    }
  }
}

TEST_P(Convolution, GivesASequenceTheSameBitsInAnyBatchOnAnyThreads) {
  Pool three(3), reversed(2, Order::kReversed), shuffled(3, Order::kShuffled);
  for (const ConvolutionCase& of : convolution_cases(40, channel_counts(), packing(), false, 3)) {
    const ConvolutionLayer layer(type(), packing(), of.windows.kernel() * of.channels, of.outputs);
    const WindowOp op = convolution_op(kernels(), of.windows, of.channels, layer);
    const Sequences together = run_whole(op, of.rows);
    for (size_t s = 0; s < of.rows.size(); ++s) {
      ASSERT_TRUE(same_bits(run_whole(op, {of.rows[s]}, 1)[0], together[s]));
    }
    for (Pool* pool : {&three, &reversed, &shuffled}) {
      const Sequences found = run_whole(op, of.rows, 0, pool->parallel_for());
      for (size_t s = 0; s < found.size(); ++s) ASSERT_TRUE(same_bits(found[s], together[s]));
    }
  }
}

TEST_P(Convolution, GivesTheSameBitsInPartsAsInOnePass) {
  uint64_t seed = 0;
  for (const ConvolutionCase& of : convolution_cases(60, channel_counts(), packing(), true, 4)) {
    const ConvolutionLayer layer(type(), packing(), of.windows.kernel() * of.channels, of.outputs);
    const WindowOp op = convolution_op(kernels(), of.windows, of.channels, layer);
    const Sequences whole = run_whole(op, of.rows);
    for (const uint32_t lines : {1u, 5u, 40u}) {
      const Sequences found = run_in_parts(op, of.rows, lines, ++seed);
      for (size_t s = 0; s < found.size(); ++s) {
        ASSERT_TRUE(same_bits(found[s], whole[s])) << lines << " lines";
      }
    }
  }
}

TEST_P(Convolution, KeepsNaNInWindowsThatSeeIt) {
  Random random(6);
  for (const ConvolutionCase& of : convolution_cases(60, channel_counts(), packing(), false, 5)) {
    const ConvolutionLayer layer(type(), packing(), of.windows.kernel() * of.channels, of.outputs);
    const WindowOp op = convolution_op(kernels(), of.windows, of.channels, layer);
    const uint32_t rows = static_cast<uint32_t>(of.rows[0].size() / of.channels);
    if (rows == 0) continue;
    for (const float bad : {NAN, INFINITY}) {
      Sequences damaged = of.rows;
      const size_t place = random.below(rows * of.channels);
      damaged[0][place] = bad;
      const Sequences clean = run_whole(op, of.rows);
      const Sequences found = run_whole(op, damaged);
      const std::vector<double> seen =
          reference_windows(as_reference(of.windows, rows), damaged[0], of.channels);
      for (size_t s = 1; s < found.size(); ++s) ASSERT_TRUE(same_bits(found[s], clean[s]));
      const size_t inputs = layer.inputs;
      for (size_t i = 0; i < found[0].size(); ++i) {
        const auto begin = seen.begin() + static_cast<ptrdiff_t>(i / of.outputs * inputs);
        if (std::all_of(begin, begin + static_cast<ptrdiff_t>(inputs),
                        [](double x) { return std::isfinite(x); })) {
          ASSERT_TRUE(same_bits({&found[0][i], 1}, {&clean[0][i], 1}));
        } else {
          ASSERT_FALSE(std::isfinite(found[0][i]));
        }
      }
    }
  }
}

// Zeros are no rows of the input: what lies before and after a sequence does not reach it.
TEST_P(Convolution, SeesZerosOutsideOfASequence) {
  const uint32_t channels = channel_counts().back();
  const Windows windows = {{3, 1, 1, 2, 2}, {}, 1};
  const ConvolutionLayer layer(type(), packing(), 3 * channels, 2);
  const WindowOp op = convolution_op(kernels(), windows, channels, layer);
  const Sequence row = random_rows(channels, 9);
  const Sequences alone = run_whole(op, {row});
  ASSERT_EQ(alone[0].size(), 3u * 2u);
  const Sequence bad(size_t{4} * channels, NAN);
  EXPECT_TRUE(same_bits(run_whole(op, {bad, row, bad})[1], alone[0]));
}

}  // namespace
}  // namespace arenite::test
