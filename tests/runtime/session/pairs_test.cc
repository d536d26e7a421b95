// SPDX-License-Identifier: Apache-2.0
// Models whose calls carry a mask for each pair of tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "convert/check/pack_model.h"
#include "convert/modules/attention_modules.h"
#include "convert/program/program.h"
#include "runtime/session/session_fixture.h"

namespace arenite::test {
namespace {

constexpr uint32_t kPairedTokens = 40;  // more than a tile
constexpr double kPairsError = 2e-5;    // softmax over other ranges of keys

bool sees_pair(uint32_t query, uint32_t key) {
  return key == query / 3 || (query * 7 + key * 5) % 4 == 1;
}

std::vector<uint8_t> pairs_for(uint32_t tokens) {
  std::vector<uint8_t> pairs;
  for (uint32_t i = 0; i < tokens * tokens; ++i) pairs.push_back(sees_pair(i / tokens, i % tokens));
  return pairs;
}

class SessionPairs : public SessionTest {
 protected:
  TestModel load_with(const convert::Mask& mask) {
    ModuleSpec spec = spec_named("bidirectional");
    spec.masks = {mask};
    spec.positions_max = convert::positions_of(mask);
    return load(spec);
  }
  TestModel load_pairs(bool is_causal = false) { return load_with(convert::pair_mask(is_causal)); }
};
ARENITE_FOR_EACH_FLOAT_SET(SessionPairs);

TEST_P(SessionPairs, HideTheSameKeysAsAMaskOfTheModel) {
  for (const bool is_causal : {false, true}) {
    const TestModel model = load_pairs(is_causal);
    const TestModel masked = load_with(mask_where(kPairedTokens, [&](uint32_t query, uint32_t key) {
      return sees_pair(query, key) && (!is_causal || key <= query);
    }));
    ASSERT_TRUE(model->input(0).takes_pairs);
    ASSERT_FALSE(masked->input(0).takes_pairs);
    EXPECT_FALSE(model->causal());
    const std::vector<float> tokens = features(*model, kPairedTokens);
    const std::vector<uint8_t> pairs = pairs_for(kPairedTokens);
    for (const KvType type : {KvType::kF32, KvType::kInt8}) {
      SessionOptions options = options_for(kPairedTokens);
      options.kv_cache = type;
      const TestSession session(*model, options), expected(*masked, options);
      Diagnostic why;
      const std::vector<float> found =
          values_of(session->run({tokens, 1, kPairedTokens, {}, {}, false, pairs}, &why), why);
      const std::vector<float> wanted = expected.run(tokens);
      EXPECT_TRUE(all_near(found, std::vector<double>(wanted.begin(), wanted.end()), kPairsError));
    }
  }
}

// Padded and back-to-back batches give the bits of each sequence alone; padding may hold anything.
TEST_P(SessionPairs, ApplyToTheirOwnSequence) {
  const TestModel model = load_pairs();
  const TestSession session(*model, options_for(kPairedTokens, 3));
  const std::vector<float> tokens = features(*model, 3 * kPairedTokens);
  const uint32_t lengths[] = {7, 0, kPairedTokens};
  const size_t width = model->input_features();
  std::vector<float> expected, dense_tokens;
  std::vector<uint8_t> padded(3 * kPairedTokens * kPairedTokens, 1), dense;
  for (uint32_t s = 0; s < 3; ++s) {
    const std::vector<uint8_t> own = pairs_for(lengths[s]);
    for (size_t i = 0; i < own.size(); ++i) {
      padded[(s * kPairedTokens + i / lengths[s]) * kPairedTokens + i % lengths[s]] = own[i];
    }
    dense.insert(dense.end(), own.begin(), own.end());
    const auto part = rows(tokens, width, s * kPairedTokens, lengths[s]);
    dense_tokens.insert(dense_tokens.end(), part.begin(), part.end());
    if (lengths[s] == 0) continue;
    const auto alone = values_of(session->run({part, 1, lengths[s], {}, {}, false, own}));
    expected.insert(expected.end(), alone.begin(), alone.end());
  }
  EXPECT_TRUE(same_bits(
      values_of(session->run({tokens, 3, kPairedTokens, lengths, {}, false, padded})), expected));
  EXPECT_TRUE(
      same_bits(values_of(session->run({dense_tokens, 3, 0, lengths, {}, true, dense})), expected));
}

TEST_P(SessionPairs, AreAllVisibleInASelfTest) {
  ModuleSpec spec = spec_named("bidirectional");
  spec.masks = {convert::pair_mask(false)};
  const convert::Program program =
      convert::compile(convert::build_graph(make_module(spec)), "pairs");
  const TestModel model(convert::pack_model(program, {GetParam()}, "pairs").span(), GetParam());
  const TestSession session(*model, options_for(kPairedTokens));
  const Result<SelfTest> test = session->self_test();
  ASSERT_TRUE(test.ok());
  EXPECT_TRUE(test->passed) << test->op_name;
}

// A NaN token affects only the rows that attend to it.
TEST_P(SessionPairs, KeepNaNFromRowsThatDoNotSeeIt) {
  const TestModel model = load_pairs();
  const TestSession session(*model, options_for(kPairedTokens));
  std::vector<float> tokens = features(*model, kPairedTokens);
  const std::vector<uint8_t> pairs = pairs_for(kPairedTokens);
  const Batch batch = {tokens, 1, kPairedTokens, {}, {}, false, pairs};
  const std::vector<float> before = values_of(session->run(batch));
  std::fill_n(tokens.begin(), model->input_features(), NAN);
  const std::vector<float> after = values_of(session->run(batch));
  const size_t width = model->output_features();
  for (uint32_t row = 1; row < kPairedTokens; ++row) {
    const auto one = rows(after, width, row, 1);
    if (sees_pair(row, 0)) {
      EXPECT_TRUE(std::isnan(one[0])) << row;
    } else {
      EXPECT_TRUE(same_bits(one, rows(before, width, row, 1))) << row;
    }
  }
}

TEST_P(SessionPairs, AreRefusedWhereTheyDoNotFit) {
  const TestModel model = load_pairs(), other = load("bidirectional");
  const TestSession session(*model, options_for(4)), plain(*other, options_for(4));
  const std::vector<float> tokens = features(*model, 4);
  const std::vector<uint8_t> all(16, 1), fewer(15, 1);
  std::vector<uint8_t> two = all, none = all;
  two[5] = 2;
  std::fill_n(none.begin() + 8, 4, uint8_t{0});
  const std::vector<float> expected = values_of(session->run({tokens, 1, 4, {}, {}, false, all}));
  const auto expect = [&](const TestSession& to, std::span<const uint8_t> pairs, Status status,
                          uint64_t found, uint64_t wanted) {
    Diagnostic why;
    EXPECT_EQ(to->run({tokens, 1, 4, {}, {}, false, pairs}, &why).status(), status);
    EXPECT_STREQ(why.field, "batch.pairs") << why.reason;
    EXPECT_EQ(why.found, found) << why.reason;
    EXPECT_EQ(why.expected, wanted) << why.reason;
  };
  expect(session, {}, Status::kInvalidArgument, 0, 16);
  expect(session, fewer, Status::kInvalidArgument, 15, 16);
  expect(session, two, Status::kInvalidArgument, 2, 1);
  expect(session, none, Status::kInvalidArgument, 0, 0);
  expect(plain, all, Status::kUnsupported, 0, 0);
  // A row of the second of two back-to-back sequences attends to no key.
  const TestSession several(*model, options_for(4, 2));
  const std::vector<float> more = features(*model, 7);
  const uint32_t lengths[] = {3, 4};
  std::vector<uint8_t> dense(9 + 16, 1);
  std::fill_n(dense.begin() + 9 + 8, 4, uint8_t{0});
  Diagnostic which;
  EXPECT_EQ(several->run({more, 2, 0, lengths, {}, true, dense}, &which).status(),
            Status::kInvalidArgument);
  EXPECT_STREQ(which.field, "batch.pairs");
  EXPECT_EQ(which.index, 1u);
  EXPECT_EQ(session->positions(), 4u);
  EXPECT_TRUE(same_bits(values_of(session->run({tokens, 1, 4, {}, {}, false, all})), expected));
  Diagnostic why;
  EXPECT_EQ(session->run({tokens, 1, 4, {}, all, false, all}, &why).status(),
            Status::kInvalidArgument);
}

}  // namespace
}  // namespace arenite::test
