// SPDX-License-Identifier: Apache-2.0
// Compares the choice of experts with a sort, and their products with exact sums, for each kernel
// set and type of weights, in scratch as large as the arena formula says and not a byte larger.
#include "ops/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "ops/linear.h"
#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/malloc_trap.h"
#include "support/packed_weights.h"
#include "support/pool.h"
#include "support/quantized_weights.h"

namespace arenite::test {
namespace {

// Weights of any type, [outputs, inputs].
class Weights {
 public:
  Weights(TensorType type, Packing packing, uint32_t outputs, uint32_t inputs) : inputs_(inputs) {
    if (type != TensorType::kF32) {
      quantized_.emplace_back(type, packing, outputs, inputs, 7);
      return;
    }
    floats_.resize(size_t{outputs} * inputs);
    bias_.resize(outputs);
    Random(8).fill(floats_, 1.0f);
    Random(9).fill(bias_, 1.0f);
    packed_.emplace_back(packing, floats_, bias_, inputs);
  }

  WeightView view() const { return packed_.empty() ? quantized_[0].view() : packed_[0].view(); }
  double bias(uint32_t output) const {
    return packed_.empty() ? double{quantized_[0].bias(output)} : double{bias_[output]};
  }

  // The exact product of a row, which is rounded before if products with the type do that.
  ExactSum product(const float* row, uint32_t output) const {
    if (packed_.empty() && weight_type(view().type).rounds_inputs) {
      const KernelSet& portable = *kernel_set(Target::kPortable);
      const GuardedBuffer scratch(
          static_cast<size_t>(quantized_scratch_bytes(inputs_)) + kReadAheadBytes, 16);
      QuantizedRows rows(scratch.data(), 1, inputs_);
      rows.quantize(portable, *portable.q8, {row, 1, inputs_, inputs_}, {});
      return quantized_[0].product(rows.row(0), 0, rows.scale(0), output);
    }
    if (packed_.empty()) return quantized_[0].product(row, output);
    ExactSum sum;
    for (uint32_t i = 0; i < inputs_; ++i) {
      sum.add(double{row[i]} * floats_[size_t{output} * inputs_ + i]);
    }
    sum.add(bias_[output]);
    return sum;
  }

 private:
  uint32_t inputs_;
  std::vector<float> floats_, bias_;
  std::vector<PackedWeights> packed_;        // one, or
  std::vector<QuantizedWeights> quantized_;  // one
};

struct Case {
  uint32_t rows, experts, chosen, outputs, inputs;
  bool has_own_inputs;
};

class Experts : public ::testing::TestWithParam<std::tuple<Target, TensorType>> {
 protected:
  const KernelSet& kernels() const { return *kernel_set(std::get<Target>(GetParam())); }
  TensorType type() const { return std::get<TensorType>(GetParam()); }
  Packing packing() const { return packing_of(kernels().target, type()); }

  // Different experts for each row, as top_k gives them.
  static FloatRows ids_of(const Case& of, uint64_t seed) {
    FloatRows ids(of.rows, of.chosen, 0, 1.0f);
    for (uint32_t row = 0; row < of.rows; ++row) {
      std::vector<float> scores(of.experts);
      Random(seed * 1000 + row).fill(scores, 1.0f);
      std::vector<float> best(2 * size_t{of.chosen});
      top_k({scores.data(), 1, of.experts, of.experts}, {best.data(), 1, 2 * of.chosen, 0}, {});
      std::copy_n(best.begin(), of.chosen, ids.matrix().row(row));
    }
    return ids;
  }

  std::vector<float> run(const Case& of, const ConstMatrix& input, const ConstMatrix& ids,
                         const Weights& weights, const ParallelFor& parallel = {}) const {
    const uint32_t rows = input.rows, width = of.chosen * of.outputs;
    const ExpertsScratch bytes =
        experts_scratch(packing(), of.experts, of.chosen, of.inputs, of.outputs);
    const GuardedBuffer shared(rows * static_cast<size_t>(bytes.row.value()) + kReadAheadBytes, 16);
    const size_t of_thread = round_up(bytes.thread, 64).value();
    const GuardedBuffer threads(std::max(parallel.threads, 1u) * of_thread, 64);
    const GuardedFloats output(size_t{rows} * width);
    {
      const NoHeapScope no_heap;
      experts(kernels(), input, ids, weights.view(), of.experts,
              {output.data(), rows, width, width}, {shared.data(), threads.data(), of_thread},
              parallel);
    }
    EXPECT_TRUE(output.surroundings_intact());
    EXPECT_TRUE(shared.surroundings_intact());
    EXPECT_TRUE(threads.surroundings_intact());
    return {output.data(), output.data() + output.size()};
  }

  void expect_exact(const Case& of) const {
    const Weights weights(type(), packing(), of.experts * of.outputs, of.inputs);
    const FloatRows input(of.rows, of.inputs * (of.has_own_inputs ? of.chosen : 1), 3, 3.0f);
    const FloatRows ids = ids_of(of, of.rows);
    const std::vector<float> output = run(of, input.view(), ids.view(), weights);
    for (uint32_t place = 0; place < output.size(); ++place) {
      const uint32_t row = place / (of.chosen * of.outputs);
      const uint32_t choice = place / of.outputs % of.chosen;
      const uint32_t n =
          static_cast<uint32_t>(ids.at(row, choice)) * of.outputs + place % of.outputs;
      const float* const x = input.view().row(row) + (of.has_own_inputs ? choice * of.inputs : 0);
      const ExactSum exact = weights.product(x, n);
      const double eps = FLT_EPSILON / 2;
      const double tolerance =
          type() == TensorType::kQ8
              ? 4 * eps * (std::fabs(exact.sum) + 2 * std::fabs(weights.bias(n)))
              : (of.inputs + 2) * 2 * eps * exact.magnitude;
      ASSERT_NEAR(output[place], exact.sum, tolerance)
          << of.rows << " rows, " << of.chosen << " of " << of.experts << " experts, " << of.outputs
          << " x " << of.inputs << ": row " << row << " choice " << choice;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(KernelSets, Experts,
                         ::testing::Combine(::testing::ValuesIn(targets_in_tests()),
                                            ::testing::Values(TensorType::kF32, TensorType::kW8,
                                                              TensorType::kQ8, TensorType::kQ4)),
                         cache_test_name_of);

TEST_P(Experts, AgreeWithExactSums) {
  const uint32_t nr = packing().nr, mr = packing().mr;
  const uint32_t inputs = type() == TensorType::kQ4 ? 64 : 37;
  for (const uint32_t outputs : {1u, nr - 1, nr, nr + 1, 2 * nr + 3}) {
    for (const uint32_t rows : {1u, 2u, mr, mr + 1u, 3 * mr + 2u}) {
      for (const auto& [experts, chosen] : {std::pair(1u, 1u), {3u, 2u}, {9u, 4u}, {40u, 1u}}) {
        expect_exact({rows, experts, chosen, outputs, inputs, rows % 2 == 0});
        expect_exact({rows, experts, chosen, outputs, inputs, rows % 2 != 0});
      }
    }
  }
}

TEST_P(Experts, GiveARowTheSameBitsInAnyBatchOnAnyThreads) {
  const Case of = {19, 5, 3, packing().nr + 5u, 96, true};
  const Weights weights(type(), packing(), of.experts * of.outputs, of.inputs);
  const FloatRows input(of.rows, of.inputs * of.chosen, 3, 1.0f);
  const FloatRows ids = ids_of(of, 4);
  const std::vector<float> all = run(of, input.view(), ids.view(), weights);
  Pool two(2), reversed(2, Order::kReversed), shuffled(3, Order::kShuffled);
  for (uint32_t rows = 1; rows <= of.rows; ++rows) {
    const uint32_t first = of.rows - rows;
    const auto part = [&](const ConstMatrix& whole) {
      return ConstMatrix{whole.row(first), rows, whole.columns, whole.stride};
    };
    const auto expected = std::span(all).subspan(size_t{first} * of.chosen * of.outputs);
    ASSERT_TRUE(same_bits(run(of, part(input.view()), part(ids.view()), weights), expected));
    for (Pool* pool : {&two, &reversed, &shuffled}) {
      ASSERT_TRUE(same_bits(
          run(of, part(input.view()), part(ids.view()), weights, pool->parallel_for()), expected));
    }
  }
}

TEST_P(Experts, TakeExpert0ForAnIdThatIsNone) {
  const Case of = {6, 3, 1, 5, 32, false};
  const Weights weights(type(), packing(), of.experts * of.outputs, of.inputs);
  const FloatRows input(of.rows, of.inputs, 3, 1.0f);
  const FloatRows zeros(of.rows, 1, 0, 0.0f), others(of.rows, 1, 0, 0.0f);
  const float bad[] = {-1.0f, 3.0f, NAN, INFINITY, -INFINITY, 1e30f};
  for (uint32_t row = 0; row < of.rows; ++row) others.matrix().row(row)[0] = bad[row];
  EXPECT_TRUE(same_bits(run(of, input.view(), others.view(), weights),
                        run(of, input.view(), zeros.view(), weights)));
}

TEST_P(Experts, KeepNaNInItsRow) {
  const Case of = {9, 2, 1, 7, 64, false};
  const Weights weights(type(), packing(), of.experts * of.outputs, of.inputs);
  const FloatRows input(of.rows, of.inputs, 3, 1.0f);
  const FloatRows ids = ids_of(of, 5);
  const std::vector<float> clean = run(of, input.view(), ids.view(), weights);
  input.matrix().row(4)[63] = NAN;
  const std::vector<float> output = run(of, input.view(), ids.view(), weights);
  for (uint32_t i = 0; i < output.size(); ++i) {
    if (i / of.outputs == 4) {
      EXPECT_TRUE(std::isnan(output[i]));
    } else {
      EXPECT_EQ(output[i], clean[i]);
    }
  }
}

TEST(TopK, GivesTheLargestFirstAndOfEqualOnesTheFirst) {
  for (uint32_t columns = 1; columns < 40; columns += columns < 8 ? 1 : 7) {
    const FloatRows scores(5, columns, columns, 4.0f);
    for (uint32_t row = 0; row < 5; ++row) {  // many are equal
      for (uint32_t i = 0; i < columns; ++i) {
        scores.matrix().row(row)[i] = std::round(scores.at(row, i));
      }
    }
    for (uint32_t chosen = 1; chosen <= columns; ++chosen) {
      const FloatRows output(5, 2 * chosen, 1, 1.0f);
      top_k(scores.view(), output.matrix(), {});
      for (uint32_t row = 0; row < 5; ++row) {
        std::vector<uint32_t> order(columns);
        std::iota(order.begin(), order.end(), 0u);
        std::ranges::stable_sort(order, std::greater<>(),
                                 [&](uint32_t i) { return scores.at(row, i); });
        for (uint32_t k = 0; k < chosen; ++k) {
          ASSERT_EQ(output.at(row, k), order[k]) << chosen << " of " << columns;
          ASSERT_EQ(output.at(row, chosen + k), scores.at(row, order[k]));
        }
      }
    }
  }
}

TEST(TopK, TakesNaNForTheLargest) {
  const std::vector<float> scores = {1.0f, NAN, INFINITY, -INFINITY, NAN};
  std::vector<float> output(6);
  top_k({scores.data(), 1, 5, 5}, {output.data(), 1, 6, 6}, {});
  EXPECT_TRUE(std::isnan(output[3]) && std::isnan(output[4]));
  EXPECT_EQ(std::vector(output.begin(), output.begin() + 3), (std::vector{1.0f, 4.0f, 2.0f}));
}

}  // namespace
}  // namespace arenite::test
