// SPDX-License-Identifier: Apache-2.0
// Compares linear layers with quantized weights with exact sums of the quantized operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <tuple>
#include <vector>

#include "core/targets.h"
#include "ops/linear.h"
#include "support/compare.h"
#include "support/float_rows.h"
#include "support/kernel_sets.h"
#include "support/quantized_weights.h"

namespace arenite::test {
namespace {

// Returns every kernel set for this CPU, also those that a faster set replaces.
std::vector<const KernelSet*> all_sets() {
  std::vector<const KernelSet*> sets;
  for (const Target target : targets_here()) sets.push_back(kernel_set(target));
  const KernelSet* const plain = plain_avx2_set();
  if (plain != nullptr && plain != kernel_set(Target::kX86_64_v3)) sets.push_back(plain);
  return sets;
}

std::string set_name(const KernelSet* set) { return set->name; }

struct TypeOfSet {
  const KernelSet* set;
  TensorType type;

  Packing packing() const { return packing_of(set->target, type); }
  bool rounds_rows() const { return type != TensorType::kW8; }
};

std::vector<TypeOfSet> all_types() {
  std::vector<TypeOfSet> all;
  for (const KernelSet* set : all_sets()) {
    for (const TensorType type : {TensorType::kW8, TensorType::kQ8, TensorType::kQ4}) {
      all.push_back({set, type});
    }
  }
  return all;
}

void PrintTo(const TypeOfSet& of, std::ostream* out) {
  *out << of.set->name << " " << name(of.type);
}

class QuantizedLinear : public ::testing::TestWithParam<TypeOfSet> {
 protected:
  const KernelSet& kernels() const { return *GetParam().set; }
  TensorType type() const { return GetParam().type; }
  Packing packing() const { return GetParam().packing(); }

  std::vector<uint32_t> depths() const {
    if (type() == TensorType::kQ4) return {32, 64, 96, 160};
    return {1, 2, 7, 8, 9, 15, 16, 17, 33, 64, 100};
  }
  std::vector<uint32_t> widths() const {
    const uint32_t nr = packing().nr;
    return {1, nr - 1, nr, nr + 1, 2 * nr + 3};
  }

  // In scratch as large as the arena formula says, and not a byte larger.
  std::vector<float> run(const ConstMatrix& input, const QuantizedWeights& weights, uint32_t width,
                         const ParallelFor& parallel = {}) const {
    const GuardedBuffer scratch(
        input.rows * static_cast<size_t>(quantized_scratch_bytes(input.columns)) + kReadAheadBytes,
        16);
    const GuardedFloats output(size_t{input.rows} * width);
    const ScratchArea area = {scratch.data(), nullptr, 0};
    linear(kernels(), input, weights.view(), {output.data(), input.rows, width, width}, area,
           parallel);
    EXPECT_TRUE(output.surroundings_intact());
    EXPECT_TRUE(scratch.surroundings_intact());
    return {output.data(), output.data() + output.size()};
  }
};
INSTANTIATE_TEST_SUITE_P(KernelSets, QuantizedLinear, ::testing::ValuesIn(all_types()),
                         [](const auto& info) {
                           return set_name(info.param.set) + "_" + name(info.param.type);
                         });

// Quantizes a row by an independent loop in double precision, and checks that the op gives the
// same.
struct Rounded {
  std::vector<int8_t> numbers;
  QuantizedRow row;
};
Rounded rounded(const KernelSet& kernels, const ConstMatrix& input, uint32_t row) {
  const GuardedBuffer scratch(
      static_cast<size_t>(quantized_scratch_bytes(input.columns)) + kReadAheadBytes, 16);
  QuantizedRows rows(scratch.data(), 1, input.columns);
  // The scalar set's numbers are int8's own.
  rows.quantize(kernels, *kernel_set(Target::kPortable)->q8,
                {input.row(row), 1, input.columns, input.stride}, {});
  return {{rows.row(0), rows.row(0) + input.columns}, rows.scale(0)};
}

TEST(QuantizedKernels, Avx2UsesAvxVnniWhereTheCpuHasIt) {
  const KernelSet* const set = kernel_set(Target::kX86_64_v3);
  EXPECT_EQ(set != plain_avx2_set(), set != nullptr && cpu_has_avx_vnni());
}

TEST_P(QuantizedLinear, AgreesWithExactSums) {
  for (uint32_t rows = 1; rows <= packing().mr + 2u; ++rows) {
    for (const uint32_t width : widths()) {
      for (const uint32_t depth : depths()) {
        const QuantizedWeights weights(type(), packing(), width, depth, rows + depth);
        const FloatRows input(rows, depth, rows, 3.0f);
        const std::vector<float> output = run(input.view(), weights, width);
        for (uint32_t r = 0; r < rows; ++r) {
          const Rounded row = rounded(kernels(), input.view(), r);
          for (uint32_t n = 0; n < width; ++n) {
            const ExactSum exact = GetParam().rounds_rows()
                                       ? weights.product(row.numbers.data(), 0, row.row, n)
                                       : weights.product(input.view().row(r), n);
            // Sums of q8 are whole numbers, turned into a float and multiplied twice; those of
            // others are sums of as many rounded floats as there are terms.
            const double eps = FLT_EPSILON / 2;
            const double tolerance =
                type() == TensorType::kQ8
                    ? 4 * eps * (std::fabs(exact.sum) + 2 * std::fabs(weights.bias(n)))
                    : (depth + 2) * 2 * eps * exact.magnitude;
            ASSERT_NEAR(output[size_t{r} * width + n], exact.sum, tolerance)
                << rows << " x " << width << " x " << depth << ", row " << r << " column " << n;
          }
        }
      }
    }
  }
}

TEST_P(QuantizedLinear, GivesARowTheSameBitsInAnyBatch) {
  constexpr uint32_t kDepth = 96;
  const uint32_t width = 2 * packing().nr + 3;
  const QuantizedWeights weights(type(), packing(), width, kDepth, 5);
  const FloatRows input(13, kDepth, 6, 1.0f);
  const std::vector<float> all = run(input.view(), weights, width);
  for (uint32_t rows = 1; rows < 13; ++rows) {
    for (uint32_t first = 0; first + rows <= 13; ++first) {
      ConstMatrix part = input.view();
      part.data = part.row(first);
      part.rows = rows;
      const std::vector<float> found = run(part, weights, width);
      ASSERT_TRUE(same_bits(found, std::span(all).subspan(size_t{first} * width, found.size())))
          << rows << " rows from " << first;
    }
  }
}

// A row with NaN anywhere is NaN everywhere; where rows are rounded, one with infinity, too. No
// other row is.
TEST_P(QuantizedLinear, KeepsNaNInItsRow) {
  constexpr uint32_t kDepth = 64;
  const uint32_t width = packing().nr + 1;
  const QuantizedWeights weights(type(), packing(), width, kDepth, 5);
  for (const float bad : {NAN, INFINITY, -INFINITY}) {
    for (const uint32_t place : {0u, 1u, 15u, 16u, 31u, 63u}) {
      const FloatRows input(7, kDepth, 6, 1.0f);
      const std::vector<float> clean = run(input.view(), weights, width);
      input.matrix().row(3)[place] = bad;
      const std::vector<float> output = run(input.view(), weights, width);
      for (uint32_t r = 0; r < 7; ++r) {
        const std::span<const float> row(output.data() + size_t{r} * width, width);
        if (r != 3) {
          ASSERT_TRUE(same_bits(row, std::span(clean).subspan(size_t{r} * width, width)));
        } else {
          for (const float x : row) ASSERT_FALSE(std::isfinite(x)) << place;
          if (GetParam().rounds_rows() || std::isnan(bad)) {
            for (const float x : row) ASSERT_TRUE(std::isnan(x)) << place;
          }
        }
      }
    }
  }
}

TEST_P(QuantizedLinear, ComputesRowsOfZerosAndOfAnyRange) {
  constexpr uint32_t kDepth = 32;
  const uint32_t width = packing().nr;
  const QuantizedWeights weights(type(), packing(), width, kDepth, 9);
  for (const float limit : {0.0f, 1e-42f, 1e-37f, 1e-36f, 1e-34f, 1e-20f, 1.0f, 1e20f, 1e30f}) {
    const FloatRows input(3, kDepth, 4, limit);
    const std::vector<float> output = run(input.view(), weights, width);
    for (uint32_t r = 0; r < 3; ++r) {
      for (uint32_t n = 0; n < width; ++n) {
        const ExactSum exact = weights.product(input.view().row(r), n);
        // Half a step of 256 in each input; nothing is left below 1e-35.
        const double tolerance = 1e-5 + 0.01 * exact.magnitude;
        ASSERT_NEAR(output[size_t{r} * width + n], exact.sum, tolerance) << limit;
      }
    }
  }
}

TEST_P(QuantizedLinear, GivesTheSameBitsWithThreads) {
  constexpr uint32_t kDepth = 64;
  const uint32_t width = 9 * packing().nr + 1;
  const QuantizedWeights weights(type(), packing(), width, kDepth, 9);
  const auto backwards = [](void*, uint32_t tasks, ParallelFor::Task task, void* job) {
    for (uint32_t i = tasks; i-- > 0;) task(job, i, i % 2);
  };
  for (const uint32_t rows : {1u, 3u, 40u}) {
    const FloatRows input(rows, kDepth, 4, 1.0f);
    EXPECT_TRUE(same_bits(run(input.view(), weights, width),
                          run(input.view(), weights, width, {2, backwards, nullptr})));
  }
}

class QuantizedRowsOf : public ::testing::TestWithParam<const KernelSet*> {};
INSTANTIATE_TEST_SUITE_P(KernelSets, QuantizedRowsOf, ::testing::ValuesIn(all_sets()),
                         [](const auto& info) { return set_name(info.param); });

// All kernel sets quantize a row to the same integers, so the integer sums of q8 are equal on all
// of them.
TEST_P(QuantizedRowsOf, AreTheSameOnEverySet) {
  const KernelSet& kernels = *GetParam();
  for (const uint32_t columns : {1u, 3u, 16u, 31u, 64u, 127u, 200u}) {
    for (const float limit : {1e-30f, 0.7f, 1e30f}) {
      const FloatRows input(5, columns, columns, limit);
      for (uint32_t r = 0; r < 5; ++r) {
        if (r == 1) input.matrix().row(1)[0] = -0.0f;
        const GuardedBuffer scratch(
            static_cast<size_t>(quantized_scratch_bytes(columns) + kReadAheadBytes), 16);
        for (const QuantizedKernels* type : {kernels.q8, kernels.q4}) {
          QuantizedRows rows(scratch.data(), 1, columns);
          rows.quantize(kernels, *type, {input.view().row(r), 1, columns, columns}, {});
          const Rounded expected = rounded(*kernel_set(Target::kPortable), input.view(), r);
          ASSERT_EQ(rows.scale(0).zero_point, expected.row.zero_point);
          ASSERT_EQ(rows.scale(0).scale, expected.row.scale);
          const int32_t offset = rows.row(0)[0] - expected.numbers[0];
          ASSERT_TRUE(offset % 128 == 0);
          for (uint32_t i = 0; i < columns; ++i) {
            ASSERT_EQ(static_cast<uint8_t>(rows.row(0)[i] - expected.numbers[i]),
                      static_cast<uint8_t>(offset));
          }
        }
      }
    }
  }
}

// Kernels read whole groups of elements. If a damaged file has nonzero weights beyond a row,
// results must still not depend on what was in memory before.
TEST_P(QuantizedRowsOf, ArePaddedWithZeros) {
  for (const uint32_t columns : {1u, 6u, 15u, 16u, 17u, 31u, 100u}) {
    const FloatRows input(3, columns, 7, 1.0f);
    const GuardedBuffer scratch(
        3 * static_cast<size_t>(quantized_scratch_bytes(columns)) + kReadAheadBytes, 16);
    QuantizedRows rows(scratch.data(), 3, columns);
    rows.quantize(*GetParam(), *GetParam()->q8, input.view(), {});
    for (uint32_t r = 0; r < 3; ++r) {
      for (size_t i = columns; i < rows.stride(); ++i) {
        ASSERT_EQ(rows.row(r)[i], 0) << columns << " columns, row " << r << ", byte " << i;
      }
    }
  }
}

// The error is at most half of a step, a 255th of the row's range; zero is exact.
TEST_P(QuantizedRowsOf, AreAsCloseAsTheirStepsAllow) {
  const KernelSet& kernels = *GetParam();
  for (const float shift : {-2.0f, -0.5f, 0.0f, 0.3f, 4.0f}) {
    const FloatRows input(1, 50, 3, 1.0f);
    float* const x = input.matrix().row(0);
    float least = 0.0f;
    float most = 0.0f;
    for (uint32_t i = 0; i < 50; ++i) {
      x[i] = i == 7 ? 0.0f : x[i] + shift;
      least = std::min(least, x[i]);
      most = std::max(most, x[i]);
    }
    const Rounded row = rounded(kernels, input.view(), 0);
    const double step = (double{most} - least) / 255;
    EXPECT_NEAR(row.row.scale, step, step * 1e-6);
    EXPECT_EQ(row.numbers[7], row.row.zero_point);
    for (uint32_t i = 0; i < 50; ++i) {
      // The ends may lie half a step outside, as 0 must lie on a step.
      EXPECT_NEAR(double{row.row.scale} * (row.numbers[i] - row.row.zero_point), x[i],
                  step * 1.0001);
    }
  }
}

// A row whose sum overflows is still finite.
TEST_P(QuantizedRowsOf, HoldValuesWhoseSumOverflows) {
  const FloatRows input(1, 50, 3, 1.0f);
  float* const x = input.matrix().row(0);
  std::fill_n(x, 50, 3e38f);
  const Rounded row = rounded(*GetParam(), input.view(), 0);
  EXPECT_NEAR(row.row.scale, 3e38 / 255, 3e38 / 255 * 1e-6);
  EXPECT_EQ(row.numbers[49] - row.row.zero_point, 255);
  x[31] = INFINITY;
  EXPECT_TRUE(std::isnan(rounded(*GetParam(), input.view(), 0).row.scale));
  x[32] = -INFINITY;
  EXPECT_TRUE(std::isnan(rounded(*GetParam(), input.view(), 0).row.scale));
}

}  // namespace
}  // namespace arenite::test
