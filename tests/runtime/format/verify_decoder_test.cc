// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the ops of decoders, each broken alone in a file whose checksums are
// right.
#include <cmath>

#include "runtime/format/verify_decoder_fixture.h"

namespace arenite::test {
namespace {

using convert::Program;
using format::Layout;

const Expected kNoVector = {"norm.gain", "another length", kAttentionNorm};
const Expected kNoAngles = {"rope.angles", "more dimensions", kRope};

const ProgramRule kEmbeddingRules[] = {
    {"EmbeddingOfNoTensor",
     [](Program& p) { op(p, kEmbedding).numbers[format::EmbeddingOp::kTokens] = 99; },
     {"embedding.tokens", "not there", kEmbedding}},
    {"EmbeddingOfFewerTokens",
     [](Program& p) { ++p.vocab_size; },
     {"embedding.tokens", "fewer rows", kEmbedding}},
    {"EmbeddingOfFeatures",
     [](Program& p) { p.vocab_size = 0; },
     {"embedding.output", "column by column", kEmbedding}},
    {"EmbeddingOfAnotherWidth",
     [](Program& p) { set_tensor(p, "tokens", 37, 11); },
     {"embedding.output", "another width", kEmbedding}},
    {"EmbeddingOfRowsOfOutputs",
     [](Program& p) {
       p.hidden_states.clear();
       uint32_t column = 0;
       for (format::SlotView& slot : p.slots) {
         slot.per_output = 1;
         slot.offset = column;
         column += slot.width;
       }
     },
     {"embedding.output", "a row for each token", kEmbedding}},
    {"EmbeddingScaledByNoNumber",
     [](Program& p) { op(p, kEmbedding).reals[format::EmbeddingOp::kScale] = NAN; },
     {"embedding.scale", "makes no sense", kEmbedding}},
    {"EmbeddingInAnUnknownLayout",
     [](Program& p) { set_tensor(p, "tokens", 37, 12, static_cast<Layout>(2)); },
     {"tensors.layout", "unknown layout", 0}},
};

const ProgramRule kPositionRules[] = {
    {"PositionsOfNoTensor",
     [](Program& p) { op(p, kEmbedding).numbers[format::EmbeddingOp::kPositions] = 99; },
     {"embedding.positions", "not there", kEmbedding}},
    {"PositionsForGemm",
     [](Program& p) { set_tensor(p, "positions", 70, 12, Layout::kGemm); },
     {"embedding.positions", "another layout", kEmbedding}},
    {"PositionsTooFew",
     [](Program& p) { set_tensor(p, "positions", 69, 12); },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsFromTooFarOn",
     [](Program& p) { op(p, kEmbedding).numbers[format::EmbeddingOp::kPositionOffset] = 1; },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsFromTheEndOfNumbersOn",
     [](Program& p) {
       op(p, kEmbedding).numbers[format::EmbeddingOp::kPositionOffset] = UINT32_MAX;
     },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsOfAnyContext",
     [](Program& p) { p.positions_max = 0; },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsOfAnotherWidth",
     [](Program& p) { set_tensor(p, "positions", 70, 13); },
     {"embedding.positions", "another width", kEmbedding}},
    {"NormBiasOfNoTensor",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kBias] = 99; },
     {"norm.bias", "not there", kAttentionNorm}},
    {"NormBiasOfAnotherLength",
     [](Program& p) { set_tensor(p, "0.attention_norm.bias", 1, 11); },
     {"norm.bias", "another length", kAttentionNorm}},
};

const ProgramRule kNormRules[] = {
    {"NormOfAnUnknownKind",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kKind] = 3; },
     {"norm.norm", "unknown", kAttentionNorm}},
    {"NormOfNoGroups",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGroups] = 0; },
     {"norm.groups", "do not divide", kAttentionNorm}},
    {"NormOfUnevenGroups",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGroups] = 5; },
     {"norm.groups", "do not divide", kAttentionNorm}},
    {"NormWithoutInput",
     [](Program& p) { op(p, kAttentionNorm).views[format::kInput].width = 0; },
     {"norm.input", "another width", kAttentionNorm}},
    {"NormOfAnotherWidth",
     [](Program& p) { op(p, kAttentionNorm).views[format::kInput].width = 6; },
     {"norm.output", "another width", kAttentionNorm}},
    {"NormOverPartOfItsInput",
     [](Program& p) {
       op(p, kAttentionNorm).views[format::kOutput] = {0, 1, 11};
     },
     {"norm.output", "own input", kAttentionNorm}},
    {"NormWithoutEpsilon",
     [](Program& p) { op(p, kAttentionNorm).reals[format::NormOp::kEpsilon] = 0.0f; },
     {"norm.epsilon", "makes no sense", kAttentionNorm}},
    {"NormWithInfiniteEpsilon",
     [](Program& p) { op(p, kAttentionNorm).reals[format::NormOp::kEpsilon] = INFINITY; },
     {"norm.epsilon", "makes no sense", kAttentionNorm}},
    {"NormGainOfNoTensor",
     [](Program& p) { op(p, kAttentionNorm).numbers[format::NormOp::kGain] = 99; },
     {"norm.gain", "not there", kAttentionNorm}},
    {"NormGainForGemm",
     [](Program& p) {
       op(p, kAttentionNorm).numbers[format::NormOp::kGain] = tensor_of(p, "0.qkv");
     },
     {"norm.gain", "another layout", kAttentionNorm}},
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
     {"rope.output", "another width", kRope}},
    {"RopeOfNoHeads",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kHeads] = 0; },
     {"rope.heads", "do not divide", kRope}},
    {"RopeOfUnevenHeads",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kHeads] = 5; },
     {"rope.heads", "do not divide", kRope}},
    {"RopeOfNoTensor",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kAngles] = 99; },
     {"rope.angles", "not there", kRope}},
    {"RopeOfATensorForGemm",
     [](Program& p) { op(p, kRope).numbers[format::RopeOp::kAngles] = tensor_of(p, "0.qkv"); },
     {"rope.angles", "another layout", kRope}},
    {"RopeOfMoreThanAHead", [](Program& p) { set_tensor(p, "angles", 70, 8); }, kNoAngles},
    {"RopeOfHalfAPair", [](Program& p) { set_tensor(p, "angles", 70, 5); }, kNoAngles},
    {"RopeOfTooFewPositions",
     [](Program& p) { set_tensor(p, "angles", 69, 6); },
     {"rope.angles", "shorter than the context", kRope}},
    {"RopeOfAnyContext",
     [](Program& p) { p.positions_max = 0; },
     {"rope.angles", "shorter than the context", kRope}},
};

const ProgramRule kElementRules[] = {
    {"ActivationOfAnUnknownKind",
     [](Program& p) { op(p, kActivation).numbers[format::ActivationOp::kKind] = 8; },
     {"activation.function", "unknown", kActivation}},
    {"ActivationWithoutInput",
     [](Program& p) { op(p, kActivation).views[format::kInput].width = 0; },
     {"activation.input", "another width", kActivation}},
    {"ActivationTimesAnotherWidth",
     [](Program& p) { --op(p, kActivation).views[format::kFactor].width; },
     {"activation.factor", "another width", kActivation}},
    {"ActivationTimesItself",
     [](Program& p) { op(p, kActivation).views[format::kFactor].column = 19; },
     {"activation.output", "own input", kActivation}},
    {"SoftCapOfNothing",
     [](Program& p) { op(p, kSoftCap).reals[format::ActivationOp::kParameter] = 0.0f; },
     {"activation.parameter", "makes no sense", kSoftCap}},
    {"SoftCapOfNoNumber",
     [](Program& p) { op(p, kSoftCap).reals[format::ActivationOp::kParameter] = NAN; },
     {"activation.parameter", "makes no sense", kSoftCap}},
    {"AddOfAnotherWidth",
     [](Program& p) { --op(p, kAttentionAdd).views[format::kOther].width; },
     {"add.other", "another width", kAttentionAdd}},
    {"AddOfNothing",
     [](Program& p) { op(p, kAttentionAdd).views[format::kOther].width = 0; },
     {"add.other", "another width", kAttentionAdd}},
    {"AddToNothing",
     [](Program& p) { op(p, kAttentionAdd).views[format::kOutput].width = 0; },
     {"add.output", "another width", kAttentionAdd}},
    {"AddToItself",
     [](Program& p) {
       op(p, kAttentionAdd).views[format::kOther] = op(p, kAttentionAdd).views[format::kOutput];
     },
     {"add.output", "own input", kAttentionAdd}},
    {"AddBeforeTheSlotIsFull",
     [](Program& p) {
       op(p, kAttentionAdd).views[format::kInput] = {5, 0, 12};
       op(p, kAttentionAdd).views[format::kOutput] = {5, 0, 12}, p.slots[5].first_op = 6;
     },
     {"add.output", "before it is full", kAttentionAdd}},
    {"SelectOfAnotherWidth",
     [](Program& p) { op(p, kSelect).views[format::kInput].width = 11; },
     {"select.output", "another width", kSelect}},
    {"SelectOfNothing",
     [](Program& p) {
       op(p, kSelect).views[format::kInput] = {1u << 30, 0, 0};
     },
     {"select.input", "another width", kSelect}},
    {"LinearOverPlainRows",
     [](Program& p) { op(p, kLogits).numbers[format::LinearOp::kTensor] = tensor_of(p, "tokens"); },
     {"linear.tensor", "another layout", kLogits}},
};

constexpr uint32_t kHeads = 4;  // of gated_shape

// The op's slopes become a new tensor of this shape.
auto set_slopes(uint32_t outputs, uint32_t inputs, format::Layout layout = format::Layout::kRows) {
  return [outputs, inputs, layout](Program& p) {
    op(p, kAttention).numbers[format::AttentionOp::kSlopes] =
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
     [](Program& p) { op(p, kAttention).numbers[format::AttentionOp::kSlopes] = 99; },
     {"attention.slopes", "not there", kAttention}},
    {"SlopesOfFewerHeads",
     set_slopes(1, kHeads - 1),
     {"attention.slopes", "another length", kAttention}},
    {"SlopesOfMoreHeads",
     set_slopes(1, kHeads + 1),
     {"attention.slopes", "another length", kAttention}},
    {"SlopesOfSeveralRows",
     set_slopes(2, kHeads),
     {"attention.slopes", "another length", kAttention}},
    {"SlopesPackedForGemm",
     set_slopes(1, kHeads, format::Layout::kGemm),
     {"attention.slopes", "another layout", kAttention}},
};

TEST(VerifyDecoder, AcceptsASlopeForEachHead) {
  convert::Program program = decoder_program(gated_shape());
  set_slopes(1, kHeads)(program);
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
INSTANTIATE_TEST_SUITE_P(Elements, VerifyDecoderOps, testing::ValuesIn(kElementRules),
                         rule_name<Program>);
TEST_P(VerifyDecoderOps, Refuses) { expect_decoder_refusal(GetParam(), gated_shape()); }

class VerifyLearnedPositions : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyLearnedPositions, testing::ValuesIn(kPositionRules),
                         rule_name<Program>);
TEST_P(VerifyLearnedPositions, Refuses) { expect_decoder_refusal(GetParam(), learned_shape()); }

}  // namespace
}  // namespace arenite::test
