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
     [](Program& p) { op(p, kEmbedding).embedding.tokens = 99; },
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
         slot.per_output = true;
         slot.column = column;
         column += slot.width;
       }
     },
     {"embedding.output", "a row for each token", kEmbedding}},
    {"EmbeddingScaledByNoNumber",
     [](Program& p) { op(p, kEmbedding).embedding.scale = NAN; },
     {"embedding.scale", "makes no sense", kEmbedding}},
    {"EmbeddingInAnUnknownLayout",
     [](Program& p) { set_tensor(p, "tokens", 37, 12, static_cast<Layout>(2)); },
     {"tensors.layout", "unknown layout", 0}},
};

const ProgramRule kPositionRules[] = {
    {"PositionsOfNoTensor",
     [](Program& p) { op(p, kEmbedding).embedding.positions = 99; },
     {"embedding.positions", "not there", kEmbedding}},
    {"PositionsForGemm",
     [](Program& p) { set_tensor(p, "positions", 70, 12, Layout::kGemm); },
     {"embedding.positions", "another layout", kEmbedding}},
    {"PositionsTooFew",
     [](Program& p) { set_tensor(p, "positions", 69, 12); },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsFromTooFarOn",
     [](Program& p) { op(p, kEmbedding).embedding.position_offset = 1; },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsFromTheEndOfNumbersOn",
     [](Program& p) { op(p, kEmbedding).embedding.position_offset = UINT32_MAX; },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsOfAnyContext",
     [](Program& p) { p.positions_max = 0; },
     {"embedding.positions", "shorter than the context", kEmbedding}},
    {"PositionsOfAnotherWidth",
     [](Program& p) { set_tensor(p, "positions", 70, 13); },
     {"embedding.positions", "another width", kEmbedding}},
    {"NormBiasOfNoTensor",
     [](Program& p) { op(p, kAttentionNorm).norm.bias = 99; },
     {"norm.bias", "not there", kAttentionNorm}},
    {"NormBiasOfAnotherLength",
     [](Program& p) { set_tensor(p, "0.attention_norm.bias", 1, 11); },
     {"norm.bias", "another length", kAttentionNorm}},
};

const ProgramRule kNormRules[] = {
    {"NormOfAnUnknownKind",
     [](Program& p) { op(p, kAttentionNorm).norm.kind = static_cast<NormKind>(3); },
     {"norm.kind", "unknown", kAttentionNorm}},
    {"NormOfNoGroups",
     [](Program& p) { op(p, kAttentionNorm).norm.groups = 0; },
     {"norm.groups", "do not divide", kAttentionNorm}},
    {"NormOfUnevenGroups",
     [](Program& p) { op(p, kAttentionNorm).norm.groups = 5; },
     {"norm.groups", "do not divide", kAttentionNorm}},
    {"NormWithoutInput",
     [](Program& p) { op(p, kAttentionNorm).norm.input.width = 0; },
     {"norm.output", "another width", kAttentionNorm}},
    {"NormOfAnotherWidth",
     [](Program& p) { op(p, kAttentionNorm).norm.input.width = 6; },
     {"norm.output", "another width", kAttentionNorm}},
    {"NormOverPartOfItsInput",
     [](Program& p) {
       op(p, kAttentionNorm).norm.output = {0, 1, 11};
     },
     {"norm.output", "own input", kAttentionNorm}},
    {"NormWithoutEpsilon",
     [](Program& p) { op(p, kAttentionNorm).norm.epsilon = 0.0f; },
     {"norm.epsilon", "makes no sense", kAttentionNorm}},
    {"NormWithInfiniteEpsilon",
     [](Program& p) { op(p, kAttentionNorm).norm.epsilon = INFINITY; },
     {"norm.epsilon", "makes no sense", kAttentionNorm}},
    {"NormGainOfNoTensor",
     [](Program& p) { op(p, kAttentionNorm).norm.gain = 99; },
     {"norm.gain", "not there", kAttentionNorm}},
    {"NormGainForGemm",
     [](Program& p) { op(p, kAttentionNorm).norm.gain = tensor_of(p, "0.qkv"); },
     {"norm.gain", "another layout", kAttentionNorm}},
    {"NormGainTooShort", [](Program& p) { set_tensor(p, "0.attention_norm.gain", 1, 11); },
     kNoVector},
    {"NormGainOfManyRows", [](Program& p) { set_tensor(p, "0.attention_norm.gain", 2, 12); },
     kNoVector},
    {"NormGainOfTheWholeRowForGroups", [](Program& p) { op(p, kAttentionNorm).norm.groups = 2; },
     kNoVector},
};

const ProgramRule kRopeRules[] = {
    {"RopeWithoutTarget",
     [](Program& p) {
       op(p, kRope).rope.target = {1u << 30, 0, 0};
     },
     {"rope.target", "a row for each token", kRope}},
    {"RopeOfNoHeads",
     [](Program& p) { op(p, kRope).rope.heads = 0; },
     {"rope.heads", "do not divide", kRope}},
    {"RopeOfUnevenHeads",
     [](Program& p) { op(p, kRope).rope.heads = 5; },
     {"rope.heads", "do not divide", kRope}},
    {"RopeOfNoTensor",
     [](Program& p) { op(p, kRope).rope.angles = 99; },
     {"rope.angles", "not there", kRope}},
    {"RopeOfATensorForGemm",
     [](Program& p) { op(p, kRope).rope.angles = tensor_of(p, "0.qkv"); },
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
     [](Program& p) { op(p, kActivation).activation.kind = static_cast<Activation>(8); },
     {"activation.kind", "unknown", kActivation}},
    {"ActivationWithoutTarget",
     [](Program& p) { op(p, kActivation).activation.target.width = 0; },
     {"activation.target", "another width", kActivation}},
    {"ActivationTimesAnotherWidth",
     [](Program& p) { --op(p, kActivation).activation.factor.width; },
     {"activation.factor", "another width", kActivation}},
    {"ActivationTimesItself",
     [](Program& p) { op(p, kActivation).activation.factor.column = 19; },
     {"activation.target", "own input", kActivation}},
    {"SoftCapOfNothing",
     [](Program& p) { op(p, kSoftCap).activation.cap = 0.0f; },
     {"activation.cap", "makes no sense", kSoftCap}},
    {"SoftCapOfNoNumber",
     [](Program& p) { op(p, kSoftCap).activation.cap = NAN; },
     {"activation.cap", "makes no sense", kSoftCap}},
    {"AddOfAnotherWidth",
     [](Program& p) { --op(p, kAttentionAdd).add.other.width; },
     {"add.target", "another width", kAttentionAdd}},
    {"AddOfNothing",
     [](Program& p) { op(p, kAttentionAdd).add.other.width = 0; },
     {"add.target", "another width", kAttentionAdd}},
    {"AddToNothing",
     [](Program& p) { op(p, kAttentionAdd).add.target.width = 0; },
     {"add.target", "another width", kAttentionAdd}},
    {"AddToItself",
     [](Program& p) { op(p, kAttentionAdd).add.other = op(p, kAttentionAdd).add.target; },
     {"add.target", "own input", kAttentionAdd}},
    {"AddBeforeTheSlotIsFull",
     [](Program& p) {
       op(p, kAttentionAdd).add.target = {5, 0, 12}, p.slots[5].first_op = 6;
     },
     {"add.target", "before it is full", kAttentionAdd}},
    {"SelectOfAnotherWidth",
     [](Program& p) { op(p, kSelect).select.input.width = 11; },
     {"select.output", "another width", kSelect}},
    {"SelectOfNothing",
     [](Program& p) {
       op(p, kSelect).select.input = {1u << 30, 0, 0};
     },
     {"select.output", "another width", kSelect}},
    {"LinearOverPlainRows",
     [](Program& p) { op(p, kLogits).linear.tensor = tensor_of(p, "tokens"); },
     {"linear.tensor", "another layout", kLogits}},
};

class VerifyDecoderOps : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Embedding, VerifyDecoderOps, testing::ValuesIn(kEmbeddingRules),
                         rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Norm, VerifyDecoderOps, testing::ValuesIn(kNormRules), rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Rope, VerifyDecoderOps, testing::ValuesIn(kRopeRules), rule_name<Program>);
INSTANTIATE_TEST_SUITE_P(Elements, VerifyDecoderOps, testing::ValuesIn(kElementRules),
                         rule_name<Program>);
TEST_P(VerifyDecoderOps, Refuses) { expect_decoder_refusal(GetParam(), gated_shape()); }

class VerifyLearnedPositions : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyLearnedPositions, testing::ValuesIn(kPositionRules),
                         rule_name<Program>);
TEST_P(VerifyLearnedPositions, Refuses) { expect_decoder_refusal(GetParam(), learned_shape()); }

}  // namespace
}  // namespace arenite::test
