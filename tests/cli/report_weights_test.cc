// SPDX-License-Identifier: Apache-2.0
// Tests of reading weights in place from a file, and of their statistics.
#include "cli/report_facts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "format/reader.h"
#include "support/model_factory.h"

namespace arenite::testing {
namespace {

using tool::Distribution;

WeightView rows_of(const std::vector<float>& values, uint32_t rows) {
  return plain_rows(values.data(), rows, static_cast<uint32_t>(values.size() / rows));
}

TEST(ReportWeights, AreTheSameForEveryTarget) {
  constexpr uint32_t kRows = 37, kColumns = 5;
  for (const Target target : test::all_targets()) {
    const Packing packing = packing_of(target, TensorType::kF32);
    std::vector<float> packed(packed_weight_bytes(packing, kRows, kColumns).value() / sizeof(float),
                              -1.0f);
    for (uint32_t row = 0; row < kRows; ++row) {
      for (uint32_t column = 0; column < kColumns; ++column) {
        packed[packed_weight_index(packing, kColumns, row, column)] =
            static_cast<float>(row * 10 + column);
      }
      packed[packed_weight_index(packing, kColumns, row, kBiasRow)] = 0.0f;
    }
    const WeightView view = {reinterpret_cast<const std::byte*>(packed.data()), TensorType::kF32,
                             packing, kRows, kColumns};
    for (uint32_t row = 0; row < kRows; ++row) {
      std::vector<float> weights(kColumns);
      read_row(view, row, weights.data());
      for (uint32_t column = 0; column < kColumns; ++column) {
        EXPECT_EQ(weights[column], static_cast<float>(row * 10 + column)) << name(target);
      }
    }
  }
}

TEST(ReportWeights, AreCountedInBins) {
  // 41 bins from -2 to 2: -2 falls into the first, 0 into the middle, 2 into the last.
  const std::vector<float> values = {-2.0f, 0.0f, 0.0f, 0.01f, 1.0f, 2.0f};
  const Distribution found = tool::distribution_of(rows_of(values, 2));
  EXPECT_EQ(found.numbers, 6u);
  EXPECT_EQ(found.sampled, 6u);
  EXPECT_EQ(found.not_finite, 0u);
  EXPECT_EQ(found.beyond, 0u);
  EXPECT_EQ(found.limit, 2.0);
  EXPECT_EQ(found.least, -2.0);
  EXPECT_EQ(found.most, 2.0);
  EXPECT_NEAR(found.mean, 1.01 / 6.0, 1e-8);
  EXPECT_NEAR(found.deviation, std::sqrt(9.0001 / 6.0 - found.mean * found.mean), 1e-7);
  ASSERT_EQ(found.counts.size(), tool::kDistributionBins);
  EXPECT_EQ(found.counts.front(), 1u);
  EXPECT_EQ(found.counts[20], 3u);
  EXPECT_EQ(found.counts.back(), 1u);
}

TEST(ReportWeights, OutliersDoNotSqueezeTheHistogram) {
  std::vector<float> values = test::random_floats(10000, 3);
  values[77] = 1000.0f;
  const Distribution found = tool::distribution_of(rows_of(values, 100));
  EXPECT_EQ(found.beyond, 1u);
  EXPECT_EQ(found.most, 1000.0);
  EXPECT_LT(found.limit, 100.0);
  EXPECT_EQ(std::accumulate(found.counts.begin(), found.counts.end(), uint64_t{0}), 9999u);
}

TEST(ReportWeights, MayBeConstantOrNotFinite) {
  const Distribution zeros = tool::distribution_of(rows_of(std::vector<float>(64, 0.0f), 8));
  EXPECT_EQ(zeros.counts[tool::kDistributionBins / 2], 64u);
  EXPECT_EQ(zeros.deviation, 0.0);
  const Distribution same = tool::distribution_of(rows_of(std::vector<float>(64, -3.5f), 8));
  EXPECT_EQ(same.counts.front(), 64u);
  EXPECT_EQ(same.beyond, 0u);

  std::vector<float> values(64, 1.0f);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  values[5] = -std::numeric_limits<float>::infinity();
  const Distribution some = tool::distribution_of(rows_of(values, 8));
  EXPECT_EQ(some.not_finite, 2u);
  EXPECT_EQ(some.mean, 1.0);
  EXPECT_EQ(some.counts.back(), 62u);
  const Distribution none = tool::distribution_of(
      rows_of(std::vector<float>(4, std::numeric_limits<float>::quiet_NaN()), 2));
  EXPECT_EQ(none.not_finite, 4u);
  EXPECT_TRUE(none.counts.empty());
}

TEST(ReportWeights, LargeTensorsAreSampledInWholeRowsFromStartToEnd) {
  constexpr uint32_t kRows = 4096, kColumns = 64;
  std::vector<float> values(size_t{kRows} * kColumns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i / kColumns);
  const Distribution found = tool::distribution_of(rows_of(values, kRows));
  EXPECT_EQ(found.numbers, values.size());
  EXPECT_EQ(found.sampled, tool::kSampledNumbers);
  EXPECT_EQ(found.least, 0.0);
  EXPECT_EQ(found.most, 4092.0);
  EXPECT_NEAR(found.mean, 2046.0, 1.0);
}

}  // namespace
}  // namespace arenite::testing
