// SPDX-License-Identifier: Apache-2.0
// Compares the linear op with its reference, and tests that threads do not change its bits.
#include "ops/linear.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "reference/reference.h"
#include "support/compare.h"
#include "support/guarded_buffer.h"
#include "support/kernel_sets.h"
#include "support/malloc_trap.h"
#include "support/packed_weights.h"
#include "support/pool.h"
#include "support/random.h"

namespace arenite::test {
namespace {

constexpr uint32_t kRowsMost = 40;
// Floats between the rows of input and output that are not theirs.
constexpr uint32_t kInputGap = 5;
constexpr uint32_t kOutputGap = 3;

class Linear : public KernelSetTest {};
ARENITE_FOR_EACH_KERNEL_SET(Linear);

struct Layer {
  uint32_t inputs;
  std::vector<float> weights, bias;
  PackedWeights packed;

  static std::vector<float> random_floats(size_t count, uint64_t seed) {
    std::vector<float> values(count);
    Random(seed).fill(values, 1.0f);
    return values;
  }

  Layer(Packing packing, uint32_t inputs_in, uint32_t outputs)
      : inputs(inputs_in),
        weights(random_floats(size_t{inputs} * outputs, 1)),
        bias(random_floats(outputs, 2)),
        packed(packing, weights, bias, inputs) {}
  uint32_t outputs() const { return static_cast<uint32_t>(bias.size()); }
};

// Output [rows, outputs] of `input` [rows, inputs], with strides that are not the widths and
// nothing after the last row.
std::vector<float> run(const KernelSet& kernels, const Layer& layer, std::span<const float> input,
                       const ParallelFor& parallel) {
  const uint32_t rows = static_cast<uint32_t>(input.size() / layer.inputs);
  const size_t input_stride = layer.inputs + kInputGap;
  const size_t output_stride = layer.outputs() + kOutputGap;
  const GuardedFloats in((rows - 1) * input_stride + layer.inputs, kReadAheadBytes);
  const GuardedFloats out((rows - 1) * output_stride + layer.outputs());
  for (uint32_t r = 0; r < rows; ++r) {
    std::ranges::copy(input.subspan(r * layer.inputs, layer.inputs), in.data() + r * input_stride);
  }
  {
    const NoHeapScope no_heap;
    linear(kernels, {in.data(), rows, layer.inputs, input_stride}, layer.packed.view(),
           {out.data(), rows, layer.outputs(), output_stride}, {}, parallel);
  }
  EXPECT_TRUE(out.surroundings_intact());
  std::vector<float> result;
  for (uint32_t r = 0; r < rows; ++r) {
    const float* const row = out.data() + r * output_stride;
    result.insert(result.end(), row, row + layer.outputs());
    for (uint32_t i = 0; i < kOutputGap && r + 1 < rows; ++i) {
      EXPECT_TRUE(std::isnan(row[layer.outputs() + i]));
    }
  }
  return result;
}

TEST_P(Linear, AgreesWithTheReference) {
  const uint32_t nr = packing().nr;
  for (const uint32_t outputs : {1u, nr - 1, nr, nr + 1, 3 * nr, 5 * nr + 3}) {
    for (const uint32_t inputs : {1u, 7u, 24u, 65u}) {
      const Layer layer(packing(), inputs, outputs);
      for (uint32_t rows = 1; rows <= kRowsMost; ++rows) {
        const std::vector<float> input = Layer::random_floats(size_t{rows} * inputs, rows);
        const std::vector<double> expected =
            reference_linear(input, layer.weights, layer.bias, inputs);
        // Each of the products and sums is rounded once, and no partial sum exceeds inputs + 1.
        const double tolerance = kRounding * 2 * inputs * (inputs + 1);
        ASSERT_TRUE(all_near(run(kernels(), layer, input, {}), expected, tolerance))
            << rows << " x " << outputs << " x " << inputs;
      }
    }
  }
}

TEST_P(Linear, GivesTheSameBitsOnAnyThreadsInAnyOrder) {
  const uint32_t nr = packing().nr;
  Pool one(1), two(2), three(3), reversed(2, Order::kReversed), shuffled(3, Order::kShuffled);
  for (const uint32_t outputs : {1u, nr + 1, 5 * nr + 3, 40 * nr}) {
    const Layer layer(packing(), 19, outputs);
    for (uint32_t rows = 1; rows <= kRowsMost; rows += rows < 10 ? 1 : 5) {
      const std::vector<float> input = Layer::random_floats(size_t{rows} * 19, rows);
      const std::vector<float> inline_result = run(kernels(), layer, input, {});
      for (Pool* pool : {&one, &two, &three, &reversed, &shuffled}) {
        ASSERT_TRUE(same_bits(run(kernels(), layer, input, pool->parallel_for()), inline_result))
            << rows << " x " << outputs;
      }
    }
  }
}

TEST_P(Linear, GivesARowTheSameBitsInAnyBatch) {
  const Layer layer(packing(), 33, 2 * packing().nr + 1);
  const std::vector<float> input = Layer::random_floats(size_t{kRowsMost} * 33, 4);
  const std::vector<float> all = run(kernels(), layer, input, {});
  for (uint32_t rows = 1; rows <= kRowsMost; ++rows) {
    const std::vector<float> part =
        run(kernels(), layer, std::span(input).first(size_t{rows} * 33), {});
    ASSERT_TRUE(same_bits(part, std::span(all).first(part.size()))) << rows;
  }
}

// Runs tasks in turn and notes which floats of an output each of them writes.
struct WriteWatch {
  std::span<float> output;  // full of NaN before each task
  std::vector<float> written;
  uint32_t written_twice = 0;

  explicit WriteWatch(std::span<float> output_in)
      : output(output_in), written(output_in.size(), NAN) {}

  ParallelFor parallel_for() { return {2, run_tasks, this}; }

  static void run_tasks(void* data, uint32_t tasks, ParallelFor::Task task, void* job) {
    WriteWatch& watch = *static_cast<WriteWatch*>(data);
    for (uint32_t i = 0; i < tasks; ++i) {
      task(job, i, i % 2);
      for (size_t f = 0; f < watch.output.size(); ++f) {
        if (std::isnan(watch.output[f])) continue;
        if (!std::isnan(watch.written[f])) ++watch.written_twice;
        watch.written[f] = std::exchange(watch.output[f], NAN);
      }
    }
  }
};

TEST_P(Linear, GivesEachTaskAPartOfTheOutputOfItsOwn) {
  for (const uint32_t rows : {1u, packing().mr + 1u, kRowsMost}) {
    const Layer layer(packing(), 7, 20 * packing().nr + 1);
    const std::vector<float> values = Layer::random_floats(size_t{rows} * 7, rows);
    const GuardedFloats input(values.size(), kReadAheadBytes);
    std::ranges::copy(values, input.data());
    const GuardedFloats output(size_t{rows} * layer.outputs());
    WriteWatch watch(output.span());
    linear(kernels(), {input.data(), rows, 7, 7}, layer.packed.view(),
           {output.data(), rows, layer.outputs(), layer.outputs()}, {}, watch.parallel_for());
    EXPECT_EQ(watch.written_twice, 0u) << rows;
    EXPECT_TRUE(same_bits(watch.written, run(kernels(), layer, values, {}))) << rows;
  }
}

// A pool with far more threads than there is work must not be handed empty tasks.
TEST_P(Linear, CopesWithMoreThreadsThanWork) {
  Pool pool(64, Order::kReversed);
  const Layer layer(packing(), 3, packing().nr + 1);
  const std::vector<float> input = Layer::random_floats(3, 1);
  EXPECT_TRUE(same_bits(run(kernels(), layer, input, pool.parallel_for()),
                        run(kernels(), layer, input, {})));
}

}  // namespace
}  // namespace arenite::test
