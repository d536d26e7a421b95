// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the ops of decoders, each violated alone in a file with valid
// checksums.
#include <cmath>

#include "runtime/format/verify_decoder_fixture.h"

namespace arenite::test {
namespace {

using convert::Program;
using format::Layout;

const Expected kNoVector = {"ops.gain", "wrong length", kAttentionNorm};
const Expected kNoAngles = {"ops.angles", "an odd number of dimensions, or too many", kRope};

const ProgramRule kEmbeddingRules[] = {
    {"EmbeddingOfNoTensor",
     [](Program& p) { op(p, kEmbedding).numbers[format::EmbeddingOp::kTokens] = 99; },
     {"ops.tokens", "does not exist", kEmbedding}},
    {"EmbeddingOfFewerTokens",
     [](Program& p) { ++p.inputs[0].vocab_size; },
     {"ops.tokens", "fewer rows", kEmbedding}},
    {"EmbeddingOfFeatures",
     [](Program& p) { p.inputs[0].vocab_size = 0; },
     {"ops.output", "column by column", kEmbedding}},
    {"EmbeddingOfAnotherWidth",
     [](Program& p) { set_tensor(p, "tokens", 37, 11); },
     {"ops.output", "wrong width", kEmbedding}},
    {"EmbeddingOfRowsOfOutputs",
     [](Program& p) {
       p.hidden_states.clear();
       uint32_t column = 0;
       for (format::SlotView& slot : p.slots) {
         slot.axis = 1;
         slot.offset = column;
         column += slot.width;
       }
     },
     {"ops.output", "have positions", kEmbedding}},
    {"EmbeddingScaledByNoNumber",
     [](Program& p) { op(p, kEmbedding).reals[format::EmbeddingOp::kScale] = NAN; },
     {"ops.scale", "out of range", kEmbedding}},
    {"EmbeddingInAnUnknownLayout",
     [](Program& p) { set_tensor(p, "tokens", 37, 12, static_cast<Layout>(2)); },
     {"tensors.layout", "unknown layout", 0}},
};

const ProgramRule kPositionRules[] = {
    {"PositionsOfNoTensor",
     [](Program& p) { op(p, kEmbedding).numbers[format::EmbeddingOp::kPositions] = 99; },
     {"ops.positions", "does not exist", kEmbedding}},
    {"PositionsForGemm",
     [](Program& p) { set_tensor(p, "positions", 70, 12, Layout::kGemm); },
     {"ops.positions", "wrong layout", kEmbedding}},
    {"PositionsTooFew",
     [](Program& p) { set_tensor(p, "positions", 69, 12); },
     {"ops.positions", "shorter than the context", kEmbedding}},
    {"PositionsFromTooFarOn",
     [](Program& p) { op(p, kEmbedding).numbers[format::EmbeddingOp::kPositionOffset] = 1; },
     {"ops.positions", "shorter than the context", kEmbedding}},
    {"PositionsFromTheEndOfNumbersOn",
     [](Program& p) {
       op(p, kEmbedding).numbers[format::EmbeddingOp::kPositionOffset] = UINT32_MAX;
     },
     {"ops.positions", "shorter than the context", kEmbedding}},
    {"PositionsOfAnyContext",
     [](Program& p) { p.inputs[0].positions_max = 0; },
     {"ops.positions", "shorter than the context", kEmbedding}},
    {"ShortestSequencesBeyondTheContext",
     [](Program& p) { p.inputs[0].tokens_min = 71; },
     {"inputs.tokens_min", "longer than the longest"}},
    {"PositionsOfAnotherWidth",
     [](Program& p) { set_tensor(p, "positions", 70, 13); },
     {"ops.positions", "wrong width", kEmbedding}},
    {"NormBiasOfNoTensor",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kBias] = 99; },
     {"ops.bias", "does not exist", kAttentionNorm}},
    {"NormBiasOfAnotherLength",
     [](Program& p) { set_tensor(p, "0.attention_norm.bias", 1, 11); },
     {"ops.bias", "wrong length", kAttentionNorm}},
};

const ProgramRule kNormRules[] = {
    {"NormOfAnUnknownKind",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kKind] = 7; },
     {"ops.norm", "unknown", kAttentionNorm}},
    {"NormOfNoGroups",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGroups] = 0; },
     {"ops.groups", "do not divide", kAttentionNorm}},
    {"NormOfUnevenGroups",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGroups] = 5; },
     {"ops.groups", "do not divide", kAttentionNorm}},
    {"NormWithoutInput",
     [](Program& p) { op(p, kAttentionNorm).views[format::kInput].width = 0; },
     {"ops.input", "wrong width", kAttentionNorm}},
    {"NormOfAnotherWidth",
     [](Program& p) { op(p, kAttentionNorm).views[format::kInput].width = 6; },
     {"ops.output", "wrong width", kAttentionNorm}},
    {"NormOverPartOfItsInput",
     [](Program& p) {
       op(p, kAttentionNorm).views[format::kOutput] = {0, 1, 11};
     },
     {"ops.output", "own input", kAttentionNorm}},
    {"NormWithoutEpsilon",
     [](Program& p) { op(p, kAttentionNorm).reals[format::NormOp::kEpsilon] = 0.0f; },
     {"ops.epsilon", "out of range", kAttentionNorm}},
    {"NormWithInfiniteEpsilon",
     [](Program& p) { op(p, kAttentionNorm).reals[format::NormOp::kEpsilon] = INFINITY; },
     {"ops.epsilon", "out of range", kAttentionNorm}},
    {"NormGainOfNoTensor",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGain] = 99; },
     {"ops.gain", "does not exist", kAttentionNorm}},
    {"NormGainForGemm",
     [](Program& p) {
       op(p, kAttentionNorm).numbers[format::NormOp::kGain] = tensor_of(p, "0.qkv");
     },
     {"ops.gain", "wrong layout", kAttentionNorm}},
    {"NormWithoutGain",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGain] = format::kAbsent; },
     kNoVector},
    {"NormGainTooShort", [](Program& p) { set_tensor(p, "0.attention_norm.gain", 1, 11); },
     kNoVector},
    {"NormGainOfManyRows", [](Program& p) { set_tensor(p, "0.attention_norm.gain", 2, 12); },
     kNoVector},
    {"NormGainOfTheWholeRowForGroups",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGroups] = 2; }, kNoVector},
};

const ProgramRule kRopeRules[] = {
    {"RopeWithoutOutput",
     [](Program& p) {
       op(p, kRope).views[format::kOutput] = {1u << 30, 0, 0};
     },
     {"ops.output", "wrong width", kRope}},
    {"RopeIntoAnotherWidth",
     [](Program& p) {
       const uint32_t slot = static_cast<uint32_t>(p.slots.size());
       p.slots.push_back({3, 500, kRope, kRope});
       op(p, kRope).views[format::kOutput] = {slot, 0, 3};
     },
     {"ops.output", "wrong width", kRope}},
    {"RopeOfNoHeads",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kHeads] = 0; },
     {"ops.heads", "do not divide", kRope}},
    {"RopeOfUnevenHeads",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kHeads] = 5; },
     {"ops.heads", "do not divide", kRope}},
    {"RopeOfNoTensor",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kAngles] = 99; },
     {"ops.angles", "does not exist", kRope}},
    {"RopeOfATensorForGemm",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kAngles] = tensor_of(p, "0.qkv"); },
     {"ops.angles", "wrong layout", kRope}},
    {"RopeOfMoreThanAHead", [](Program& p) { set_tensor(p, "angles", 70, 8); }, kNoAngles},
    {"RopeOfHalfAPair", [](Program& p) { set_tensor(p, "angles", 70, 5); }, kNoAngles},
    {"RopeOfTooFewPositions",
     [](Program& p) { set_tensor(p, "angles", 69, 6); },
     {"ops.angles", "shorter than the context", kRope}},
    {"RopeOfAnyContext",
     [](Program& p) { p.inputs[0].positions_max = 0; },
     {"ops.angles", "shorter than the context", kRope}},
};

const ProgramRule kElementRules[] = {
    {"ActivationOfAnUnknownKind",
     [](Program& p) {
       op(p, kActivation).numbers[format::ActivationOp::kKind] = std::size(kActivationNames);
     },
     {"ops.function", "unknown", kActivation}},
    {"ActivationWithoutInput",
     [](Program& p) { op(p, kActivation).views[format::kInput].width = 0; },
     {"ops.input", "wrong width", kActivation}},
    {"ActivationTimesAnotherWidth",
     [](Program& p) { --op(p, kActivation).views[format::kFactor].width; },
     {"ops.factor", "wrong width", kActivation}},
    {"ActivationTimesMoreThanItsColumns",
     [](Program& p) {
       op(p, kActivation).views[format::kInput].width /= 2;
       op(p, kActivation).views[format::kOutput].width /= 2;
     },
     {"ops.factor", "wrong width", kActivation}},
    {"ActivationTimesItself",
     [](Program& p) { op(p, kActivation).views[format::kFactor].column = 19; },
     {"ops.output", "own input", kActivation}},
    {"ActivationIntoAnotherWidth",
     [](Program& p) {
       const uint32_t slot = static_cast<uint32_t>(p.slots.size());
       p.slots.push_back({3, 500, kSoftCap, kSoftCap, 1});
       op(p, kSoftCap).views[format::kOutput] = {slot, 0, 3};
     },
     {"ops.output", "wrong width", kSoftCap}},
    {"SoftCapOfNothing",
     [](Program& p) { op(p, kSoftCap).reals[format::ActivationOp::kParameter] = 0.0f; },
     {"ops.parameter", "out of range", kSoftCap}},
    {"SoftCapWithTooSmallAnInverse",
     [](Program& p) { op(p, kSoftCap).reals[format::ActivationOp::kParameter] = 1e38f; },
     {"ops.parameter", "out of range", kSoftCap}},
    {"SoftCapOfNoNumber",
     [](Program& p) { op(p, kSoftCap).reals[format::ActivationOp::kParameter] = NAN; },
     {"ops.parameter", "out of range", kSoftCap}},
    {"ClampToNothing",
     [](Program& p) {
       op(p, kSoftCap).numbers[format::ActivationOp::kKind] =
           static_cast<uint32_t>(Activation::kClamp);
       op(p, kSoftCap).reals[format::ActivationOp::kParameter] = 0.0f;
     },
     {"ops.parameter", "out of range", kSoftCap}},
    {"AddOfAnotherWidth",
     [](Program& p) { --op(p, kAttentionAdd).views[format::kOther].width; },
     {"ops.other", "wrong width", kAttentionAdd}},
    {"AddOfNothing",
     [](Program& p) { op(p, kAttentionAdd).views[format::kOther].width = 0; },
     {"ops.other", "wrong width", kAttentionAdd}},
    {"AddToNothing",
     [](Program& p) { op(p, kAttentionAdd).views[format::kOutput].width = 0; },
     {"ops.output", "wrong width", kAttentionAdd}},
    {"AddIntoAnotherWidth",
     [](Program& p) {
       const uint32_t slot = static_cast<uint32_t>(p.slots.size());
       p.slots.push_back({3, 500, kAttentionAdd, kAttentionAdd});
       op(p, kAttentionAdd).views[format::kOutput] = {slot, 0, 3};
     },
     {"ops.output", "wrong width", kAttentionAdd}},
    {"AddToItself",
     [](Program& p) {
       op(p, kAttentionAdd).views[format::kOther] = op(p, kAttentionAdd).views[format::kOutput];
     },
     {"ops.output", "own input", kAttentionAdd}},
    {"AddBeforeTheSlotIsFull",
     [](Program& p) {
       op(p, kAttentionAdd).views[format::kInput] = {5, 0, 12};
       op(p, kAttentionAdd).views[format::kOutput] = {5, 0, 12}, p.slots[5].first_op = 6;
     },
     {"ops.output", "before it is full", kAttentionAdd}},
    {"SelectOfAnotherWidth",
     [](Program& p) { op(p, kSelect).views[format::kInput].width = 11; },
     {"ops.output", "wrong width", kSelect}},
    {"SelectOfNothing",
     [](Program& p) {
       op(p, kSelect).views[format::kInput] = {1u << 30, 0, 0};
     },
     {"ops.input", "wrong width", kSelect}},
    {"LinearOverPlainRows",
     [](Program& p) { op(p, kLogits).numbers[format::LinearOp::kTensor] = tensor_of(p, "tokens"); },
     {"ops.tensor", "wrong layout", kLogits}},
};

constexpr uint32_t kHeads = 4;  // of gated_shape

// The op's slopes become a new tensor of this shape.
auto set_slopes(uint32_t outputs, uint32_t inputs, format::Layout layout = format::Layout::kPlain) {
  return [outputs, inputs, layout](Program& p) {
    op(p, kAttention).numbers[format::AttentionOp::kTerms] =
        static_cast<uint32_t>(p.tensors.size());
    p.tensors.push_back({"slopes",
                         outputs,
                         inputs,
                         std::vector<float>(size_t{outputs} * inputs, 0.5f),
                         {},
                         layout});
  };
}

const ProgramRule kSlopeRules[] = {
    {"SlopesOfNoTensor",
     [](Program& p) { op(p, kAttention).numbers[format::AttentionOp::kTerms] = 99; },
     {"ops.terms", "does not exist", kAttention}},
    {"SlopesOfFewerHeads", set_slopes(1, kHeads - 1), {"ops.terms", "wrong length", kAttention}},
    {"SlopesOfMoreHeads", set_slopes(1, kHeads + 1), {"ops.terms", "wrong length", kAttention}},
    {"SlopesOfSeveralRows", set_slopes(2, kHeads), {"ops.terms", "wrong length", kAttention}},
    {"SlopesPackedForGemm",
     set_slopes(1, kHeads, format::Layout::kGemm),
     {"ops.terms", "wrong layout", kAttention}},
};

auto set_sinks(uint32_t outputs, uint32_t inputs, format::Layout layout = format::Layout::kPlain) {
  return [outputs, inputs, layout](Program& p) {
    op(p, kAttention).numbers[format::AttentionOp::kSinks] =
        static_cast<uint32_t>(p.tensors.size());
    p.tensors.push_back(
        {"sinks", outputs, inputs, std::vector<float>(size_t{outputs} * inputs, 0.5f), {}, layout});
  };
}

auto set_table(ScoreTerms by, uint32_t outputs, uint32_t inputs,
               format::Layout layout = format::Layout::kPlain) {
  return [by, outputs, inputs, layout](Program& p) {
    set_slopes(outputs, inputs, layout)(p);
    op(p, kAttention).numbers[format::AttentionOp::kTermsBy] = static_cast<uint32_t>(by);
  };
}

// Widens the query by `columns` columns, into those of the keys.
auto set_query_terms(uint32_t columns, bool has_terms) {
  return [columns, has_terms](Program& p) {
    if (has_terms) set_slopes(1, kHeads)(p);
    format::OpView& attention = op(p, kAttention);
    attention.numbers[format::AttentionOp::kTermsBy] = static_cast<uint32_t>(ScoreTerms::kQueries);
    attention.views[format::kQuery].width += columns;
  };
}

// Lets queries and keys bring terms: as many columns more, before those of the values.
auto set_key_terms(uint32_t columns, uint32_t lookahead) {
  return [columns, lookahead](Program& p) {
    set_query_terms(kHeads, false)(p);
    format::OpView& attention = op(p, kAttention);
    attention.numbers[format::AttentionOp::kTermsBy] =
        static_cast<uint32_t>(ScoreTerms::kQueriesAndKeys);
    attention.views[format::kKey].width += columns;
    p.masks[0] = convert::band_mask(kUnlimited, lookahead, 0);
    p.caches[0].lookback = kUnlimited;
  };
}

auto set_cap(float cap) {
  return [cap](Program& p) { op(p, kAttention).reals[format::AttentionOp::kScoreCap] = cap; };
}

constexpr auto kDistances = ScoreTerms::kDistances;
constexpr auto kPairs = ScoreTerms::kPairs;
constexpr uint32_t kLength = 70;  // positions of gated_shape

const ProgramRule kScoreRules[] = {
    {"DistancesOfNoTensor",
     [](Program& p) { op(p, kAttention).numbers[format::AttentionOp::kTermsBy] = 1; },
     {"ops.terms", "does not exist", kAttention}},
    {"TermsByWhatIsNotKnown",
     [](Program& p) {
       set_query_terms(kHeads, false)(p);
       op(p, kAttention).numbers[format::AttentionOp::kTermsBy] = 6;
     },
     {"ops.terms_by", "unknown enumerator", kAttention}},
    {"QueriesWithoutTheirTerms",
     [](Program& p) { op(p, kAttention).numbers[format::AttentionOp::kTermsBy] = 3; },
     {"ops.query", "wrong width", kAttention}},
    {"TermsBesideThoseOfQueries",
     set_query_terms(kHeads, true),
     {"ops.terms", "a relative one", kAttention}},
    {"TermsOfSomeHeads",
     set_query_terms(kHeads - 1, false),
     {"ops.query", "wrong width", kAttention}},
    {"KeysWithTermsOfSomeHeads",
     set_key_terms(kHeads - 1, kUnlimited),
     {"ops.key", "wrong width", kAttention}},
    {"KeysWithTermsOfSomePositions",
     set_key_terms(kHeads, 0),
     {"ops.terms_by", "whole sequences", kAttention}},
    {"DistancesThatEndEarly",
     set_table(kDistances, kHeads, 2 * kLength - 3),
     {"ops.terms", "shorter than the context", kAttention}},
    {"DistancesWithoutAMiddle",
     set_table(kDistances, kHeads, 2 * kLength),
     {"ops.terms", "wrong width", kAttention}},
    {"DistancesOfOneHead",
     set_table(kDistances, 1, 2 * kLength - 1),
     {"ops.terms", "wrong width", kAttention, {{1, kHeads}}}},
    {"DistancesOfMoreHeads",
     set_table(kDistances, kHeads + 1, 2 * kLength - 1),
     {"ops.terms", "wrong width", kAttention}},
    {"PairsThatEndEarly",
     set_table(kPairs, kHeads*(kLength - 1), kLength - 1),
     {"ops.terms", "shorter than the context", kAttention}},
    {"PairsOfFewerQueries",
     set_table(kPairs, kLength - 1, kLength),
     {"ops.terms", "wrong width", kAttention}},
    {"PairsOfSomeHeads",
     set_table(kPairs, 2 * kLength, kLength),
     {"ops.terms", "wrong width", kAttention}},
    {"PairsPackedForGemm",
     set_table(kPairs, kLength, kLength, format::Layout::kGemm),
     {"ops.terms", "wrong layout", kAttention}},
    {"SinksOfNoTensor",
     [](Program& p) { op(p, kAttention).numbers[format::AttentionOp::kSinks] = 99; },
     {"ops.sinks", "does not exist", kAttention}},
    {"SinksOfFewerHeads", set_sinks(1, kHeads - 1), {"ops.sinks", "wrong length", kAttention}},
    {"SinksOfMoreHeads", set_sinks(1, kHeads + 1), {"ops.sinks", "wrong length", kAttention}},
    {"SinksOfSeveralRows", set_sinks(2, kHeads), {"ops.sinks", "wrong length", kAttention}},
    {"SinksPackedForGemm",
     set_sinks(1, kHeads, format::Layout::kGemm),
     {"ops.sinks", "wrong layout", kAttention}},
    {"CapBelowZero", set_cap(-1.0f), {"ops.score_cap", "out of range", kAttention}},
    {"CapBelowNormalNumbers", set_cap(1e-38f), {"ops.score_cap", "out of range", kAttention}},
    {"CapWithTooSmallAnInverse", set_cap(1e38f), {"ops.score_cap", "out of range", kAttention}},
    {"CapOfNoNumber", set_cap(NAN), {"ops.score_cap", "out of range", kAttention}},
    {"InfiniteCap", set_cap(INFINITY), {"ops.score_cap", "out of range", kAttention}},
};

TEST(VerifyDecoder, AcceptsTablesOfTermsAndACap) {
  for (const auto& [by, outputs, inputs] :
       {std::tuple(kDistances, kHeads, 2 * kLength - 1), std::tuple(kDistances, kHeads, 201u),
        std::tuple(kPairs, kHeads * kLength, kLength), std::tuple(kPairs, kLength, kLength),
        std::tuple(kPairs, kHeads * (kLength + 3), kLength + 3)}) {
    convert::Program program = decoder_program(gated_shape());
    set_table(by, outputs, inputs)(program);
    set_cap(30.0f)(program);
    const auto model = write_model(program, {Target::kPortable, Target::kArm64});
    Diagnostic why;
    EXPECT_TRUE(Model::load(model.span(), &why).ok()) << why.reason << outputs;
  }
}

TEST(VerifyDecoder, AcceptsASlopeAndASinkForEachHead) {
  convert::Program program = decoder_program(gated_shape());
  set_slopes(1, kHeads)(program);
  set_sinks(1, kHeads)(program);
  const auto model = write_model(program, {Target::kPortable, Target::kArm64});
  Diagnostic why;
  EXPECT_TRUE(Model::load(model.span(), &why).ok()) << why.reason;
}

class VerifyDecoderOps : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Embedding, VerifyDecoderOps, testing::ValuesIn(kEmbeddingRules),
                         rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Norm, VerifyDecoderOps, testing::ValuesIn(kNormRules), rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Rope, VerifyDecoderOps, testing::ValuesIn(kRopeRules), rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Slopes, VerifyDecoderOps, testing::ValuesIn(kSlopeRules),
                         rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Scores, VerifyDecoderOps, testing::ValuesIn(kScoreRules),
                         rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Elements, VerifyDecoderOps, testing::ValuesIn(kElementRules),
                         rule_name<Program>);
TEST_P(VerifyDecoderOps, RefusesEachBrokenRule) {
  expect_decoder_refusal(GetParam(), gated_shape());
}

class VerifyLearnedPositions : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyLearnedPositions, testing::ValuesIn(kPositionRules),
                         rule_name<Program>);
TEST_P(VerifyLearnedPositions, RefusesEachBrokenRule) {
  expect_decoder_refusal(GetParam(), learned_shape());
}

}  // namespace
}  // namespace arenite::test
