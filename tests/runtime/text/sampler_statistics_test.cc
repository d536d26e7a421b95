// SPDX-License-Identifier: Apache-2.0
// Compares frequencies of many draws with the softmax of the logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arenite/sampler.h"
#include "support/random.h"
#include "text/random.h"

namespace arenite::test {
namespace {

constexpr size_t kDraws = 40000;

// The sum of (found - expected)^2 / expected. For n outcomes its mean is n - 1 and its standard
// deviation sqrt(2 (n - 1)); outcomes of probability 0 must not occur.
double chi_square(const std::vector<size_t>& found, const std::vector<double>& probabilities) {
  double sum = 0.0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double expected = probabilities[i] * kDraws;
    if (expected == 0.0) {
      EXPECT_EQ(found[i], 0u) << i;
      continue;
    }
    sum += (static_cast<double>(found[i]) - expected) * (static_cast<double>(found[i]) - expected) /
           expected;
  }
  return sum;
}

// Five standard deviations: a seed that is right fails once in a million.
double chi_square_limit(size_t outcomes) {
  const double mean = static_cast<double>(outcomes) - 1.0;
  return mean + 5.0 * std::sqrt(2.0 * mean);
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> probabilities;
  for (const float logit : logits) probabilities.push_back(std::exp(logit / temperature));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= sum;
  return probabilities;
}

std::vector<size_t> frequencies(const std::vector<float>& logits, const SamplerOptions& options) {
  Sampler sampler = *Sampler::create(options);
  std::vector<Candidate> scratch(sampler.candidates_needed(logits.size()));
  std::vector<size_t> found(logits.size());
  for (size_t i = 0; i < kDraws; ++i) ++found[*sampler.sample(logits, {}, scratch)];
  return found;
}

TEST(SamplerStatistics, FollowTheSoftmax) {
  std::vector<float> logits(20);
  for (const uint64_t seed : {1u, 2u, 3u}) {
    Random(seed).fill(logits, 1.5f);
    for (const float temperature : {0.5f, 1.0f, 2.0f}) {
      const auto found = frequencies(logits, {.temperature = temperature, .seed = seed});
      EXPECT_LT(chi_square(found, softmax(logits, static_cast<double>(temperature))),
                chi_square_limit(logits.size()))
          << seed << ", temperature " << temperature;
    }
  }
}

TEST(SamplerStatistics, FollowTheTokensThatTopKTopPAndMinPKeep) {
  std::vector<float> logits(20);
  Random(9).fill(logits, 2.0f);
  const std::vector<double> all = softmax(logits, 1.0);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  const auto check = [&](size_t kept, const SamplerOptions& options) {
    std::vector<double> probabilities(logits.size(), 0.0);
    double sum = 0.0;
    for (size_t i = 0; i < kept; ++i) sum += all[order[i]];
    for (size_t i = 0; i < kept; ++i) probabilities[order[i]] = all[order[i]] / sum;
    EXPECT_LT(chi_square(frequencies(logits, options), probabilities), chi_square_limit(kept));
  };
  check(7, {.temperature = 1.0f, .top_k = 7, .seed = 5});
  double sum = 0.0;
  size_t kept = 0;
  while (sum < 0.6) sum += all[order[kept++]];
  check(kept, {.temperature = 1.0f, .top_p = 0.6f, .seed = 6});
  kept = 0;
  while (all[order[kept]] >= 0.3 * all[order[0]]) ++kept;
  check(kept, {.temperature = 1.0f, .min_p = 0.3f, .seed = 7});
}

TEST(SamplerStatistics, RandomNumbersAreEvenAndIndependentOfTheirNeighbours) {
  std::vector<size_t> cells(64), pairs(64);
  double last = text::uniform(1, 0);
  for (size_t i = 1; i <= kDraws; ++i) {
    const double u = text::uniform(1, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++cells[static_cast<size_t>(u * 64.0)];
    ++pairs[static_cast<size_t>(last * 8.0) * 8 + static_cast<size_t>(u * 8.0)];
    last = u;
  }
  const std::vector<double> even(64, 1.0 / 64.0);
  EXPECT_LT(chi_square(cells, even), chi_square_limit(64));
  EXPECT_LT(chi_square(pairs, even), chi_square_limit(64));
}

TEST(SamplerStatistics, NeighbouringSeedsShareNothing) {
  std::vector<size_t> cells(64);
  for (size_t seed = 0; seed < kDraws; ++seed) {
    const double difference = text::uniform(seed, 0) - text::uniform(seed + 1, 0);
    ++cells[static_cast<size_t>((difference < 0.0 ? difference + 1.0 : difference) * 64.0)];
  }
  EXPECT_LT(chi_square(cells, std::vector<double>(64, 1.0 / 64.0)), chi_square_limit(64));
}

}  // namespace
}  // namespace arenite::test
