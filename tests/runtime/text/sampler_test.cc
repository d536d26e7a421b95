// SPDX-License-Identifier: Apache-2.0
// Tests the steps of the sampler one by one, the order of equal logits, and refusals.
#include "arenite/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "support/guarded_buffer.h"
#include "support/random.h"
#include "support/test_session.h"
#include "text/random.h"

namespace arenite::test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Samples in a guarded work space of exactly the size that is asked for.
class Picker {
 public:
  explicit Picker(const SamplerOptions& options) {
    Diagnostic why;
    const Result<Sampler> sampler = Sampler::create(options, &why);
    EXPECT_TRUE(sampler.ok()) << describe(sampler.status(), why);
    sampler_ = *sampler;
  }

  TokenId pick(const std::vector<float>& logits, const std::vector<TokenId>& recent = {}) {
    const size_t needed = sampler_.candidates_needed(logits.size());
    const GuardedBuffer memory(needed * sizeof(Candidate), alignof(Candidate));
    Diagnostic why;
    const Result<TokenId> token = sampler_.sample(
        logits, recent, {reinterpret_cast<Candidate*>(memory.data()), needed}, &why);
    EXPECT_TRUE(token.ok()) << describe(token.status(), why);
    return token.ok() ? *token : kNoToken;
  }

  // The different tokens of many draws.
  std::set<TokenId> picks(const std::vector<float>& logits,
                          const std::vector<TokenId>& recent = {}) {
    std::set<TokenId> found;
    for (int i = 0; i < 500; ++i) found.insert(pick(logits, recent));
    return found;
  }

  Sampler& operator*() { return sampler_; }

 private:
  Sampler sampler_;
};

using Tokens = std::set<TokenId>;

TEST(Sampler, TakesTheLargestLogitIfGreedy) {
  EXPECT_EQ(Picker({}).pick({-3.0f, 1.0f, 7.5f, 7.0f}), 2u);
  EXPECT_EQ(Picker({}).pick({-kInfinity, -1e30f}), 1u);
  EXPECT_EQ(Picker({}).pick({5.0f}), 0u);
  EXPECT_EQ(Sampler().candidates_needed(1000), 0u);
}

TEST(Sampler, PrefersTheLowestIdOfEqualLogits) {
  EXPECT_EQ(Picker({}).pick({1.0f, 3.0f, 3.0f, 3.0f}), 1u);
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_k = 2}).picks({1.0f, 3.0f, 3.0f, 3.0f}),
            (Tokens{1, 2}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.4f}).picks({0.0f, 0.0f, 0.0f, 0.0f}),
            (Tokens{0, 1}));
}

TEST(Sampler, KeepsTheMostProbableTokensOfTopK) {
  const std::vector<float> logits = {0.5f, 2.0f, 1.0f, 1.5f, -1.0f, 0.0f};
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_k = 1}).picks(logits), (Tokens{1}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_k = 3}).picks(logits), (Tokens{1, 2, 3}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_k = 6}).picks(logits), (Tokens{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_k = 60}).picks(logits), (Tokens{0, 1, 2, 3, 4, 5}));
}

TEST(Sampler, KeepsTheTokensThatMakeUpTopP) {
  // Probabilities 0.5, 0.25, 0.125, 0.125.
  const float ln2 = 0.693147180f;
  const std::vector<float> logits = {-ln2, 0.0f, -2 * ln2, -2 * ln2};
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.01f}).picks(logits), (Tokens{1}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.49f}).picks(logits), (Tokens{1}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.51f}).picks(logits), (Tokens{0, 1}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.8f}).picks(logits), (Tokens{0, 1, 2}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.99f}).picks(logits), (Tokens{0, 1, 2, 3}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 1.0f}).picks(logits), (Tokens{0, 1, 2, 3}));
  // Two of four equal ones are exactly half.
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.5f}).picks({2.0f, 2.0f, 2.0f, 2.0f}),
            (Tokens{0, 1}));
  // The three tokens have 7/8 of the weight; two of them have 6/7 of that.
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_k = 3, .top_p = 0.85f}).picks(logits),
            (Tokens{0, 1}));
}

TEST(Sampler, KeepsTheTokensAboveMinP) {
  const float ln2 = 0.693147180f;
  const std::vector<float> logits = {-ln2, 0.0f, -2 * ln2, -3 * ln2};
  EXPECT_EQ(Picker({.temperature = 1.0f, .min_p = 1.0f}).picks(logits), (Tokens{1}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .min_p = 0.49f}).picks(logits), (Tokens{0, 1}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .min_p = 0.2f}).picks(logits), (Tokens{0, 1, 2}));
  EXPECT_EQ(Picker({.temperature = 2.0f, .min_p = 0.49f}).picks(logits), (Tokens{0, 1, 2}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.6f, .min_p = 0.2f}).picks(logits),
            (Tokens{0, 1}));
}

// Where the probability of a token is known, min_p finds it to a millionth.
TEST(Sampler, MeasuresProbabilitiesToSevenDigits) {
  for (const float x : {-0.34f, -1.2f, -2.0f}) {
    const double part = std::exp(static_cast<double>(x));
    const auto picks = [&](double min_p) {
      return Picker({.temperature = 1.0f, .min_p = static_cast<float>(min_p)}).picks({0.0f, x});
    };
    EXPECT_EQ(picks(part * (1.0 - 1e-6)), (Tokens{0, 1})) << x;
    EXPECT_EQ(picks(part * (1.0 + 1e-6)), (Tokens{0})) << x;
  }
}

TEST(Sampler, NeverPicksALogitOfMinusInfinity) {
  const std::vector<float> logits = {-kInfinity, 1.0f, -kInfinity, 1.0f, -kInfinity};
  EXPECT_EQ(Picker({.temperature = 100.0f}).picks(logits), (Tokens{1, 3}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_k = 4}).picks(logits), (Tokens{1, 3}));
  EXPECT_EQ(Picker({.temperature = 1.0f, .top_p = 0.999f}).picks(logits), (Tokens{1, 3}));
}

TEST(Sampler, AColdSamplerIsGreedyAndAHotOneIsFair) {
  const std::vector<float> logits = {0.0f, 0.1f, 0.05f};
  EXPECT_EQ(Picker({.temperature = 1e-6f}).picks(logits), (Tokens{1}));
  EXPECT_EQ(Picker({.temperature = 1e-40f}).picks(logits), (Tokens{1}));
  EXPECT_EQ(Picker({.temperature = 1e30f}).picks({0.0f, 1e6f, -1e6f}), (Tokens{0, 1, 2}));
}

TEST(Sampler, PenalizesEachRecentTokenOnce) {
  Picker greedy({.repetition_penalty = 2.0f});
  const std::vector<float> logits = {1.0f, 4.0f, 2.5f, -1.0f};
  EXPECT_EQ(greedy.pick(logits), 1u);
  EXPECT_EQ(greedy.pick(logits, {1}), 2u);
  EXPECT_EQ(greedy.pick(logits, {1, 1, 1, 2}), 1u);                             // 2.0 and 1.25
  EXPECT_EQ(greedy.pick({-1.0f, -1.5f}, {0}), 1u);                              // -2.0
  EXPECT_EQ(greedy.pick({-1.0f, -1.5f}, {0, 1}), 0u);                           // -2.0 and -3.0
  EXPECT_EQ(Picker({.repetition_penalty = 0.5f}).pick({3.0f, 2.0f}, {1}), 1u);  // 4.0
  // Repeats the test with a heap of the best tokens.
  Picker best({.repetition_penalty = 2.0f, .temperature = 1.0f, .top_k = 1});
  EXPECT_EQ(best.picks(logits, {1}), (Tokens{2}));
  EXPECT_EQ(best.picks({3.0f, 4.0f, 3.5f}, {1, 2}), (Tokens{0}));
}

TEST(Sampler, StaysFiniteUnderExtremePenalties) {
  for (const float penalty : {1e-38f, 1e38f}) {
    Picker picker({.repetition_penalty = penalty, .temperature = 1.0f});
    // Small penalties make both positive logits the largest there is; large ones leave 0 and 3.
    EXPECT_EQ(picker.picks({1e30f, -1e30f, 3e38f, -kInfinity}, {0, 1, 2, 3}), (Tokens{0, 2}));
  }
}

TEST(Sampler, PicksTheSameTokensFromTheSameSeed) {
  std::vector<float> logits(1000);
  Random(1).fill(logits, 3.0f);
  const SamplerOptions options{.temperature = 0.9f, .top_p = 0.95f, .seed = 42};
  Picker a(options), b(options);
  Picker other({.temperature = 0.9f, .top_p = 0.95f, .seed = 43});
  std::vector<TokenId> from_a, from_other;
  for (int i = 0; i < 100; ++i) {
    from_a.push_back(a.pick(logits));
    from_other.push_back(other.pick(logits));
    EXPECT_EQ(b.pick(logits), from_a.back());
  }
  EXPECT_NE(from_a, from_other);
  EXPECT_EQ((*a).draws(), 100u);
  (*a).set_draws(7);
  EXPECT_EQ(a.pick(logits), from_a[7]);
}

// Pins the picks, so that no platform or later version picks otherwise.
TEST(Sampler, PicksTheseTokensForever) {
  std::vector<float> logits(64);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i * 37 % 64) / 16.0f;
  Picker picker({.temperature = 0.7f, .top_k = 20, .top_p = 0.9f, .seed = 2024});
  std::vector<TokenId> found;
  for (int i = 0; i < 12; ++i) found.push_back(picker.pick(logits));
  EXPECT_EQ(found, (std::vector<TokenId>{31, 43, 36, 12, 55, 19, 62, 48, 38, 57, 19, 38}));
}

TEST(Sampler, RefusesOptionsOutOfRangeByName) {
  const struct {
    const char* field;
    SamplerOptions options;
  } cases[] = {
      {"repetition_penalty", {.repetition_penalty = 0.0f}},
      {"repetition_penalty", {.repetition_penalty = -1.0f}},
      {"repetition_penalty", {.repetition_penalty = kNan}},
      {"repetition_penalty", {.repetition_penalty = kInfinity}},
      {"temperature", {.temperature = -0.1f}},
      {"temperature", {.temperature = kNan}},
      {"temperature", {.temperature = kInfinity}},
      {"top_p", {.top_p = 0.0f}},
      {"top_p", {.top_p = 1.01f}},
      {"top_p", {.top_p = kNan}},
      {"min_p", {.min_p = -0.1f}},
      {"min_p", {.min_p = 1.1f}},
      {"min_p", {.min_p = kNan}},
  };
  for (const auto& item : cases) {
    Diagnostic why;
    EXPECT_EQ(Sampler::create(item.options, &why).status(), Status::kInvalidArgument);
    EXPECT_STREQ(why.field, item.field);
  }
}

TEST(Sampler, StaysUnchangedByRefusedLogits) {
  for (const SamplerOptions& options :
       {SamplerOptions{}, SamplerOptions{.temperature = 1.0f},
        SamplerOptions{.temperature = 1.0f, .top_k = 2},
        SamplerOptions{.repetition_penalty = 2.0f, .temperature = 1.0f, .top_p = 0.5f}}) {
    Sampler sampler = *Sampler::create(options);
    std::vector<Candidate> scratch(8);
    const auto refused = [&](const std::vector<float>& logits, uint32_t index) {
      Diagnostic why;
      EXPECT_EQ(sampler.sample(logits, {}, scratch, &why).status(), Status::kInvalidArgument);
      EXPECT_STREQ(why.field, "logits");
      EXPECT_EQ(why.index, index);
    };
    refused({}, 0);
    refused({0.0f, 1.0f, kNan}, 2);
    refused({kNan, 1.0f, 0.0f}, 0);
    refused({kNan}, 0);
    refused({0.0f, kInfinity, 0.0f}, 1);
    refused({-kInfinity, -kInfinity}, 0);
    Diagnostic why;
    const std::vector<TokenId> recent = {0, 5};
    EXPECT_EQ(sampler.sample(std::vector<float>{1.0f, 2.0f}, recent, scratch, &why).status(),
              Status::kInvalidArgument);
    EXPECT_STREQ(why.field, "recent");
    EXPECT_EQ(why.found, 5u);
    EXPECT_EQ(sampler.draws(), 0u);
  }
}

TEST(Sampler, RefusesAWorkSpaceThatIsTooSmall) {
  Sampler sampler = *Sampler::create({.temperature = 1.0f});
  std::vector<Candidate> scratch(3);
  Diagnostic why;
  EXPECT_EQ(sampler.sample(std::vector<float>(4), {}, scratch, &why).status(),
            Status::kInvalidArgument);
  EXPECT_EQ(why.found, 3u);
  EXPECT_EQ(why.expected, 4u);
  EXPECT_TRUE(sampler.sample(std::vector<float>(3), {}, scratch, &why).ok());
  EXPECT_EQ(why.reason, nullptr) << "what was refused before is no longer so";
  EXPECT_EQ(Sampler::create({.temperature = 1.0f, .top_k = 40})->candidates_needed(32000), 40u);
}

TEST(Exponential, IsRightToSevenDigits) {
  for (float x = 0.0f; x > -87.0f; x -= 0.00037f) {
    const double expected = std::exp(static_cast<double>(x));
    ASSERT_NEAR(static_cast<double>(text::exp_nonpositive(x)) / expected, 1.0, 2.5e-7) << x;
  }
  EXPECT_EQ(text::exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(text::exp_nonpositive(-88.0f), 0.0f);
  EXPECT_EQ(text::exp_nonpositive(-kInfinity), 0.0f);
}

}  // namespace
}  // namespace arenite::test
