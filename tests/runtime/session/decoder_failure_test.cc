// SPDX-License-Identifier: Apache-2.0
// Refused calls of decoders report the reason and change nothing.
#include <gtest/gtest.h>

#include "arenite/checked_math.h"
#include "runtime/session/decoder_fixture.h"
#include "runtime/session/failure_fixture.h"

namespace arenite::test {
namespace {

constexpr uint32_t kVocab = 37;  // of "llama"

using Ids = std::span<const TokenId>;

class DecoderFailure : public DecoderTest {
 protected:
  void check(const Refusal& refusal, const FailingCall<TokenId>& call) {
    const TestModel model = load("llama");
    expect_failure_that_changes_nothing(*model, all_outputs(options_for(kPositions, kSequences)),
                                        ids(*model, kSequences * kPositions), ids(*model, 100),
                                        refusal, call);
  }
};
ARENITE_FOR_EACH_FLOAT_SET(DecoderFailure);

TEST_P(DecoderFailure, RefusesIdsThatTheVocabularyLacks) {
  for (const TokenId id : {kVocab, kVocab + 1, kNoToken}) {
    check({Status::kInvalidArgument, "batch.ids", 2, id, kVocab - 1},
          [id](Session& session, Ids, Diagnostic* why) {
            const TokenId bad[] = {0, kVocab - 1, id, 3};
            return session.step(bad, why);
          });
    // In the second sequence, whose tokens count from 0 again.
    check({Status::kInvalidArgument, "batch.ids", 1, id, kVocab - 1},
          [id](Session& session, Ids, Diagnostic* why) {
            const TokenId bad[] = {0, 1, 2, id};
            return session.run(TokenBatch{bad, 2, 2, {}}, why);
          });
  }
}

TEST_P(DecoderFailure, IgnoresIdsBeyondTheLengths) {
  const TestModel model = load("llama");
  const TestSession session(*model, options_for(kPositions, 2));
  const TokenId padded[] = {1, 2, kNoToken, 3, kNoToken, kNoToken};
  const uint32_t lengths[] = {2, 1};
  EXPECT_EQ(session.run(padded, 2, lengths).size(), 2 * kVocab);
  const uint32_t too_long[] = {2, 2};
  Diagnostic why;
  EXPECT_EQ(session->run(TokenBatch{padded, 2, 3, too_long}, &why).status(),
            Status::kInvalidArgument);
  EXPECT_EQ(why.found, kNoToken);
}

TEST_P(DecoderFailure, RefusesFeatures) {
  const float features[12] = {};
  check({Status::kInvalidArgument, "batch"}, [&](Session& session, Ids, Diagnostic* why) {
    return session.run(Batch{features, 1, 1, {}}, why);
  });
  check({Status::kInvalidArgument, "batch"},
        [&](Session& session, Ids, Diagnostic* why) { return session.step(features, why); });
}

TEST_P(DecoderFailure, AModuleRefusesTokens) {
  const TestModel model(make_model(spec_named("causal")).span(), GetParam());
  const TestSession session(*model, options_for(4));
  const TokenId tokens[] = {0, 1, 2};
  Diagnostic why;
  EXPECT_EQ(session->run(TokenBatch{tokens, 1, 3, {}}, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the model reads features, not tokens");
  why = {};
  EXPECT_EQ(session->step(tokens, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the model reads features, not tokens");
  EXPECT_EQ(session->positions(), 0u);
}

TEST_P(DecoderFailure, RefusesIdsOfAnotherShape) {
  check({Status::kInvalidArgument, "batch.ids", 0, 5, 6},
        [](Session& session, Ids ids, Diagnostic* why) {
          return session.step(TokenBatch{ids.first(5), 2, 3, {}}, why);
        });
  check({Status::kInvalidArgument, "batch.ids", 0, 2, (Checked(2) * UINT32_MAX).value()},
        [](Session& session, Ids ids, Diagnostic* why) {
          return session.step(TokenBatch{ids.first(2), 2, UINT32_MAX, {}}, why);
        });
}

TEST_P(DecoderFailure, RefusesLengthsAndSequencesThatDoNotFit) {
  const uint32_t lengths[] = {2, 4};
  check({Status::kInvalidArgument, "batch.lengths", 1, 4, 3},
        [&](Session& session, Ids ids, Diagnostic* why) {
          return session.step(TokenBatch{ids.first(6), 2, 3, lengths}, why);
        });
  check({Status::kInvalidArgument, "batch.lengths", 0, 2, 1},
        [&](Session& session, Ids ids, Diagnostic* why) {
          return session.step(TokenBatch{ids.first(4), 1, 4, lengths}, why);
        });
  check({Status::kInvalidArgument, "batch.sequences", 0, 3, 2},
        [](Session& session, Ids ids, Diagnostic* why) {
          return session.step(TokenBatch{ids.first(3), 3, 1, {}}, why);
        });
}

TEST_P(DecoderFailure, RefusesNoTokensAndTooMany) {
  check({Status::kInvalidArgument, "batch.tokens", 0, 0, 30},
        [](Session& session, Ids, Diagnostic* why) { return session.run(TokenBatch{}, why); });
  check({Status::kInvalidArgument, "batch.tokens", 0, 32, 30},
        [](Session& session, Ids ids, Diagnostic* why) {
          return session.run(TokenBatch{ids.first(32), 2, 16, {}}, why);
        });
}

TEST_P(DecoderFailure, IsContextFullBeyondThePositions) {
  check({Status::kContextFull, "batch.lengths", 0, kPositions + 1, kPositions},
        [](Session& session, Ids ids, Diagnostic* why) {
          return session.step(ids.first(kPositions - kHeld + 1), why);
        });
  check({Status::kContextFull, "batch.lengths", 1, kPositions + 2, kPositions},
        [](Session& session, Ids ids, Diagnostic* why) {
          const uint32_t lengths[] = {1, 10};
          return session.step(TokenBatch{ids.first(20), 2, 10, lengths}, why);
        });
}

// A session may have fewer positions than the model; it ends there, token by token.
TEST_P(DecoderFailure, IsContextFullAtTheEndOfTheContext) {
  const TestModel model = load("gpt2");
  const TestSession session(*model, options_for(0));
  const std::vector<TokenId> tokens = ids(*model, model->positions_max() + 1);
  session.steps_of(9, part(tokens, 0, model->positions_max()));
  Diagnostic why;
  EXPECT_EQ(session->step(part(tokens, 0, 1), &why).status(), Status::kContextFull);
  EXPECT_EQ(why.expected, model->positions_max());
  ASSERT_EQ(session->rewind(0, model->positions_max() - 1), Status::kOk);
  EXPECT_TRUE(session->step(part(tokens, 0, 1)).ok());
}

TEST_P(DecoderFailure, RefusesMorePositionsThanItsTables) {
  for (const char* const name : {"llama", "gpt2"}) {
    const TestModel model = load(name);
    Diagnostic why;
    EXPECT_EQ(plan_arena(*model, options_for(kDecoderPositions + 1), &why).status(),
              Status::kInvalidArgument);
    EXPECT_STREQ(why.field, "options.positions_max");
    EXPECT_EQ(why.expected, kDecoderPositions);
  }
}

TEST_P(DecoderFailure, NeedsNoDiagnostic) {
  const TestModel model = load("llama");
  const TestSession session(*model, options_for(4));
  const TokenId bad[] = {kVocab};
  EXPECT_FALSE(session->step(bad).ok());
  EXPECT_FALSE(session->run(TokenBatch{bad, 1, 1, {}}).ok());
  EXPECT_FALSE(session->step(std::span<const float>()).ok());
}

}  // namespace
}  // namespace arenite::test
