// SPDX-License-Identifier: Apache-2.0
// Tests masks from buffers and from options, from the checkpoint to the outputs.
#include <gtest/gtest.h>

#include <cmath>

#include "convert/modules/conversion_case.h"
#include "convert/modules/mask_patterns.h"

namespace arenite::test {
namespace {

using convert::Conversion;
using convert::DenseMask;
using convert::MaskChoice;
using convert::MaskOnes;
using convert::ModelOptions;

constexpr uint32_t kContext = 33;  // one more than a tile

// Two heads of three, over an input of five.
CheckpointBuilder two_heads() {
  CheckpointBuilder weights;
  for (const char* name : {"W_query", "W_key", "W_value"}) weights.add_linear(name, 6, 5);
  return weights.add_linear("out_proj", 4, 6);
}

AttentionOracle two_heads_oracle(const CheckpointBuilder& weights) {
  AttentionOracle oracle;
  oracle.heads = 2;
  oracle.query = oracle_linear(weights, "W_query", 6, 5);
  oracle.key = oracle_linear(weights, "W_key", 6, 5);
  oracle.value = oracle_linear(weights, "W_value", 6, 5);
  oracle.output = oracle_linear(weights, "out_proj", 4, 6);
  return oracle;
}

AttentionOracle two_heads_oracle(const CheckpointBuilder& weights, const DenseMask& dense) {
  AttentionOracle oracle = two_heads_oracle(weights);
  oracle.sees = [dense](uint32_t, uint32_t q, uint32_t k) { return dense.at(q, k); };
  return oracle;
}

ModelOptions with(MaskChoice mask, uint32_t window = 0, uint32_t context = 0) {
  ModelOptions options;
  options.heads = 2;
  options.mask = mask;
  options.window = window;
  options.context = context;
  return options;
}
const ModelOptions kPlain = with(MaskChoice::kUnsaid);

CheckpointBuilder with_mask(const DenseMask& dense, const char* name = "mask") {
  return two_heads().add(name, {1, dense.positions, dense.positions},
                         added_to_scores(dense, -HUGE_VAL));
}

TEST(MaskedModules, ComputeWithTheMaskOfTheirBuffer) {
  for (const MaskPattern& pattern : mask_patterns(kContext)) {
    const CheckpointBuilder weights = with_mask(pattern.dense);
    const Conversion conversion = convert_bytes(weights.safetensors(), kPlain);
    ASSERT_EQ(conversion.program.masks.size(), 1u);
    EXPECT_EQ(conversion.program.masks[0].kind, pattern.kind) << pattern.name;
    EXPECT_EQ(conversion.program.inputs[0].positions_max, kContext);
    EXPECT_TRUE(runs_as(conversion, two_heads_oracle(weights, pattern.dense))) << pattern.name;
  }
}

TEST(MaskedModules, KeepTheFirstPositionsOfTheirBuffer) {
  for (const MaskPattern& pattern : mask_patterns(40)) {
    if (pattern.name == "the last key" || pattern.name == "mirrored") continue;  // nothing is left
    const CheckpointBuilder weights = with_mask(pattern.dense);
    const Conversion conversion =
        convert_bytes(weights.safetensors(), with(MaskChoice::kUnsaid, 0, 11));
    EXPECT_EQ(conversion.program.inputs[0].positions_max, 11u);
    EXPECT_TRUE(runs_as(conversion, two_heads_oracle(weights, pattern.dense))) << pattern.name;
  }
}

TEST(MaskedModules, AreCheckedAtALengthThatTheirMaskAllows) {
  // Each query of 70 sees only the key that mirrors it: with fewer tokens some see nothing.
  const DenseMask mirrored = dense_where(70, [](uint32_t q, uint32_t k) { return q + k == 69; });
  EXPECT_EQ(convert_bytes(with_mask(mirrored).safetensors(), kPlain).checked_tokens, 70u);
  const DenseMask one_later =
      dense_where(70, [](uint32_t q, uint32_t k) { return q == 3 ? k == 60 : k <= q; });
  EXPECT_EQ(convert_bytes(with_mask(one_later).safetensors(), kPlain).checked_tokens, 61u);
  const DenseMask causal = dense_where(70, [](uint32_t q, uint32_t k) { return k <= q; });
  EXPECT_EQ(convert_bytes(with_mask(causal).safetensors(), kPlain).checked_tokens, 48u);
}

TEST(MaskedModules, ComputeWithADifferentMaskForEachHead) {
  const std::vector<MaskPattern> patterns = mask_patterns(kContext);
  CheckpointBuilder weights;
  AttentionOracle oracle;
  std::vector<DenseMask> of_heads;
  for (uint32_t head = 0; head < 6; ++head) {
    const std::string prefix = "heads." + std::to_string(head) + ".";
    OracleLinear* const parts[] = {&oracle.query, &oracle.key, &oracle.value};
    const char* const names[] = {"W_query", "W_key", "W_value"};
    for (size_t i = 0; i < 3; ++i) {
      weights.add_linear(prefix + names[i], 2, 5, false);
      const OracleLinear part = oracle_linear(weights, prefix + names[i], 2, 5, false);
      parts[i]->inputs = 5;
      parts[i]->outputs += 2;
      parts[i]->weights.insert(parts[i]->weights.end(), part.weights.begin(), part.weights.end());
    }
    of_heads.push_back(patterns[head < 2 ? 3 : head * 2 + 1].dense);  // the first two share one
    weights.add(prefix + "mask", {kContext, kContext}, added_to_scores(of_heads.back(), -1e9));
  }
  oracle.heads = 6;
  oracle.sees = [&](uint32_t head, uint32_t q, uint32_t k) { return of_heads[head].at(q, k); };
  const Conversion conversion = convert_bytes(weights.safetensors());
  EXPECT_EQ(conversion.module()->masks.size(), 5u);
  EXPECT_EQ(conversion.module()->mask_origins.size(), 5u);
  EXPECT_TRUE(runs_as(conversion, oracle));
}

TEST(MaskedModules, TakeTheRequestedMaskWithoutABuffer) {
  const CheckpointBuilder weights = two_heads();
  AttentionOracle oracle = two_heads_oracle(weights);
  oracle.sees = sees_all;
  EXPECT_TRUE(
      runs_as(convert_bytes(weights.safetensors(), with(MaskChoice::kBidirectional)), oracle));
  oracle.sees = sees_causal;
  EXPECT_TRUE(runs_as(convert_bytes(weights.safetensors(), with(MaskChoice::kCausal)), oracle));
  EXPECT_TRUE(runs_as(convert_bytes(weights.safetensors(), kPlain), oracle));
  for (const uint32_t window : {1u, 2u, 7u, 33u, 1000u}) {
    oracle.sees = [=](uint32_t, uint32_t q, uint32_t k) { return k <= q && q - k < window; };
    const Conversion conversion =
        convert_bytes(weights.safetensors(), with(MaskChoice::kWindow, window));
    EXPECT_EQ(conversion.program.inputs[0].positions_max, 0u);
    EXPECT_TRUE(runs_as(conversion, oracle)) << window;
  }
}

TEST(MaskedModules, HaveTheRequestedContextWithoutABuffer) {
  const Conversion conversion =
      convert_bytes(two_heads().safetensors(), with(MaskChoice::kWindow, 12, 10));
  EXPECT_EQ(conversion.program.inputs[0].positions_max, 10u);
  EXPECT_EQ(conversion.program.masks[0], convert::band_mask(kUnlimited, 0, 10));
}

TEST(MaskedModules, AcceptAnOptionThatAgreesWithTheBuffer) {
  const std::vector<MaskPattern> patterns = mask_patterns(kContext);
  const auto accepts = [&](size_t pattern, const ModelOptions& options) {
    const std::string bytes = with_mask(patterns[pattern].dense).safetensors();
    return std::ranges::equal(convert_bytes(bytes, options).file.span(),
                              convert_bytes(bytes, kPlain).file.span());
  };
  EXPECT_TRUE(accepts(0, with(MaskChoice::kCausal)));
  EXPECT_TRUE(accepts(0, with(MaskChoice::kWindow, kContext)));
  EXPECT_TRUE(accepts(1, with(MaskChoice::kBidirectional)));
  EXPECT_TRUE(accepts(2, with(MaskChoice::kWindow, 1)));
  EXPECT_TRUE(accepts(3, with(MaskChoice::kWindow, 4)));
}

TEST(MaskedModules, RefuseAnOptionThatContradictsTheBuffer) {
  const std::vector<MaskPattern> patterns = mask_patterns(kContext);
  const std::string causal = with_mask(patterns[0].dense).safetensors();
  EXPECT_TRUE(is_refused(causal, with(MaskChoice::kBidirectional),
                         {"'mask'", "--bidirectional", "found causal", "drop the option"}));
  EXPECT_TRUE(is_refused(causal, with(MaskChoice::kWindow, 5), {"--window 5", "found causal"}));
  for (size_t i = 1; i < patterns.size(); ++i) {
    EXPECT_TRUE(is_refused(with_mask(patterns[i].dense).safetensors(), with(MaskChoice::kCausal),
                           {"'mask'", "--causal"}))
        << patterns[i].name;
  }
}

TEST(MaskedModules, FindBuffersOfEveryKnownName) {
  for (const char* name : {"mask", "bias", "tril", "causal_mask", "attn_mask"}) {
    const CheckpointBuilder weights = with_mask(mask_patterns(kContext)[3].dense, name);
    const Conversion conversion = convert_bytes(weights.safetensors(), kPlain);
    EXPECT_EQ(conversion.program.masks[0], convert::band_mask(3, 0, kContext)) << name;
    EXPECT_NE(conversion.module()->mask_origins[0].find(name), std::string::npos);
  }
}

TEST(MaskedModules, RefuseTwoBuffersAndMasksOfDifferentSizes) {
  const DenseMask causal = mask_patterns(kContext)[0].dense;
  const CheckpointBuilder two = with_mask(causal).add("tril", {4, 4}, std::vector<double>(16, 1.0));
  EXPECT_TRUE(is_refused(two.safetensors(), kPlain, {"'tril'", "not part of it"}));
  CheckpointBuilder heads;
  for (uint32_t head = 0; head < 2; ++head) {
    const std::string prefix = "heads." + std::to_string(head) + ".";
    for (const char* name : {"W_query", "W_key", "W_value"}) heads.add_linear(prefix + name, 2, 2);
    const uint64_t side = 9 + head;
    heads.add(prefix + "mask", {side, side},
              ones_where_hidden(mask_patterns(static_cast<uint32_t>(side))[0].dense));
  }
  EXPECT_TRUE(is_refused(heads.safetensors(), {}, {"9 and 10 positions", "--context N"}));
  ModelOptions shorter;
  shorter.context = 9;
  EXPECT_EQ(convert_bytes(heads.safetensors(), shorter).program.inputs[0].positions_max, 9u);
}

TEST(MaskedModules, RefuseAMaskThatHidesARowAndNameTheRow) {
  const DenseMask hole = dense_where(12, [](uint32_t q, uint32_t k) { return q != 5 && k <= q; });
  EXPECT_TRUE(is_refused(with_mask(hole).safetensors(), kPlain, {"'mask'", "row 5 of 12"}));
  for (const bool ones_show : {true, false}) {
    ModelOptions options = kPlain;
    options.mask_ones = ones_show ? MaskOnes::kVisible : MaskOnes::kHidden;
    CheckpointBuilder weights = two_heads();
    weights.add("mask", {12, 12}, ones_show ? ones_where_visible(hole) : ones_where_hidden(hole));
    EXPECT_TRUE(is_refused(weights.safetensors(), options, {"'mask'", "row 5 of 12"}));
  }
}

TEST(MaskedModules, RefuseAContextLargerThanTheBuffer) {
  EXPECT_TRUE(is_refused(with_mask(mask_patterns(kContext)[0].dense).safetensors(),
                         with(MaskChoice::kUnsaid, 0, kContext + 1),
                         {"'mask'", "covers 33", "--context asks for 34"}));
}

}  // namespace
}  // namespace arenite::test
