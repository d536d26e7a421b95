// SPDX-License-Identifier: Apache-2.0
// Exported programs against what PyTorch computed in float64: our own small ones, and those of the
// collection. convert_model itself compares the recognised graph with the program in double
// precision, and decoders token by token with the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "convert/exported/compare_program.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::collection_folder;
using arenite::testing::convert_fixture;

constexpr double kRounding = 0.2;  // what eight bits may cost a model of few numbers

struct Case {
  const char* name;     // of the input and the outputs
  const char* archive;  // if it differs
  const char* mask;
  uint32_t positions_max;
  bool causal;
  double relative_error = kProgramError;
};

std::string test_name(const ::testing::TestParamInfo<Case>& info) { return info.param.archive; }

Conversion convert(const std::filesystem::path& folder, const Case& model,
                   const ModelOptions& options = {}, TensorType weights = TensorType::kF32) {
  ConvertOptions all;
  all.source = options;
  all.weights.type = weights;
  return convert_model(folder / (std::string(model.archive) + ".pt2"), model.name, all,
                       parse_targets("native"));
}

void expect_as_pytorch(const std::filesystem::path& folder, const Case& model) {
  const Conversion conversion = convert(folder, model);
  const ExportedModel& exported = *conversion.exported();
  const std::vector<CompiledMask>& masks = conversion.program.masks;
  EXPECT_EQ(masks.empty() ? "none" : masks[0].describe(), model.mask);
  EXPECT_EQ(conversion.program.inputs[0].positions_max, model.positions_max);
  EXPECT_EQ(exported.causal, model.causal);
  EXPECT_GT(exported.compared_inputs, 0u);
  EXPECT_LE(exported.largest_difference, kGraphError * exported.largest_value);
  const AuthorCheck check = check_program(conversion, folder, model.name);
  EXPECT_TRUE(is_as_pytorch(check, model.relative_error));

  const Conversion rounded = convert(folder, model, {}, TensorType::kW8);
  const AuthorCheck told = check_against_author(rounded, author_files(folder, model.name),
                                                model.name, &rounded.quantization->reference);
  EXPECT_TRUE(is_as_pytorch(told, model.relative_error));
  EXPECT_GT(*told.difference_in_few_bits, told.largest_difference);
  EXPECT_LE(*told.difference_in_few_bits, kRounding * check.largest_value);
}

class OwnModels : public ::testing::TestWithParam<Case> {};
TEST_P(OwnModels, AgreeWithPyTorch) { expect_as_pytorch(convert_fixture("exported"), GetParam()); }
INSTANTIATE_TEST_SUITE_P(
    Exported, OwnModels,
    ::testing::Values(Case{"alibi", "alibi_dyn", "causal", 64, true},
                      Case{"soft_cap", "soft_cap", "causal window of 3", 7, false},
                      Case{"soft_cap", "soft_cap_dyn", "causal window of 3", 16, true},
                      Case{"bias", "bias", "causal", 16, true},
                      Case{"learned_bias", "learned_bias", "causal", 15, true},
                      Case{"learned_bias", "learned_bias_dyn", "causal", 15, true},
                      Case{"fixed_bias", "fixed_bias", "causal", 7, false},
                      Case{"relative", "relative", "bidirectional", 15, false},
                      Case{"buckets", "buckets", "causal", 7, false},
                      Case{"buckets", "buckets_dyn", "causal", 64, true},
                      Case{"capped_slopes", "capped_slopes_dyn", "causal", 64, true},
                      Case{"head_masks", "head_masks", "tiles, 1 of 1 stored", 15, false},
                      Case{"window_kv1", "window_kv1_dyn", "causal window of 3", 16, true},
                      Case{"prefix", "prefix_dyn", "tiles, 1 of 1 stored", 16, false},
                      Case{"neighbours", "neighbours", "causal", 7, false},
                      Case{"neighbours", "neighbours_dyn", "causal", 16, true},
                      Case{"complex", "complex_dyn", "causal", 16, true},
                      Case{"unit_heads", "unit_heads_dyn", "causal", 16, true},
                      Case{"einsum_rms_fused", "einsum_rms_fused", "causal", 16, true},
                      Case{"squares_mean", "squares_mean", "bidirectional", 16, false},
                      Case{"class_token", "class_token", "bidirectional", 7, false},
                      Case{"class_token", "class_token_dyn", "bidirectional", 64, false},
                      Case{"prompt", "prompt", "causal", 7, false},
                      Case{"series", "series", "bidirectional", 20, false},
                      Case{"vit", "vit", "bidirectional", 72, false},
                      Case{"vit_two_tokens", "vit_two_tokens", "bidirectional", 72, false},
                      Case{"vit_flattened", "vit_flattened", "bidirectional", 72, false},
                      Case{"vit_channels_last", "vit_channels_last", "bidirectional", 72, false},
                      Case{"vit_registers", "vit_registers", "bidirectional", 72, false},
                      Case{"vit_turned", "vit_turned", "bidirectional", 72, false},
                      Case{"stem", "stem", "bidirectional", 72, false},
                      Case{"spectrogram", "spectrogram", "bidirectional", 99, false},
                      Case{"merging", "merging", "bidirectional", 24, false},
                      Case{"std_norm", "std_norm", "causal", 16, true},
                      Case{"mish", "mish", "causal", 16, true},
                      Case{"probabilities", "probabilities", "causal", 16, true}),
    test_name);

// Models as people write them (make_zoo.py), whose parts are spelled in ways of their own.
class Zoo : public ::testing::TestWithParam<Case> {};
TEST_P(Zoo, AgreesWithPyTorch) { expect_as_pytorch(convert_fixture("exported_zoo"), GetParam()); }
INSTANTIATE_TEST_SUITE_P(
    Exported, Zoo,
    ::testing::Values(Case{"functions", "functions", "causal", 7, false},
                      Case{"norms", "norms", "causal", 16, true},
                      Case{"gates", "gates", "causal", 16, true},
                      Case{"multiplied_mask", "multiplied_mask", "causal", 16, true},
                      Case{"keys_first", "keys_first", "causal", 16, true},
                      Case{"temperature", "temperature", "causal", 16, true},
                      Case{"exponential", "exponential", "causal", 16, true},
                      Case{"grouped_einsum", "grouped_einsum", "causal", 16, true},
                      Case{"added_into", "added_into", "causal", 16, true},
                      Case{"stepwise_rotation", "stepwise_rotation", "causal", 7, false},
                      Case{"heads_first", "heads_first", "causal", 16, true},
                      Case{"matrix_heads", "matrix_heads", "causal", 16, true},
                      Case{"many_heads", "many_heads", "causal", 16, true},
                      Case{"padding", "padding", "bidirectional", 14, false},
                      Case{"scaled_padding", "scaled_padding", "causal", 7, false},
                      Case{"experts", "experts", "causal", 16, true},
                      Case{"all_alike", "all_alike", "causal", 4, false},
                      Case{"one_vocabulary", "one_vocabulary", "causal", 16, true},
                      Case{"columns_first", "columns_first", "causal", 16, true},
                      Case{"scaled_first", "scaled_first", "causal", 16, false},
                      Case{"assigned_masks", "assigned_masks", "causal", 16, true},
                      Case{"factors_of_positions", "factors_of_positions", "causal", 7, true},
                      Case{"growing_rotation", "growing_rotation", "causal", 7, false},
                      Case{"rotation_of_two_axes", "rotation_of_two_axes", "causal", 7, false},
                      Case{"difference", "difference", "causal", 7, false},
                      Case{"shared_heads", "shared_heads", "causal", 7, false},
                      Case{"value_residual", "value_residual", "causal", 16, false},
                      Case{"sinks", "sinks", "causal", 16, true},
                      Case{"plus_one", "plus_one", "causal", 16, true},
                      Case{"zero_keys", "zero_keys", "causal", 7, false},
                      Case{"fourier", "fourier", "causal", 7, false},
                      Case{"token_mixer", "token_mixer", "none", 7, false},
                      Case{"light_convolution", "light_convolution", "none", 7, false},
                      Case{"two_products", "two_products", "bidirectional", 7, false},
                      Case{"key_terms", "key_terms", "causal", 16, true},
                      Case{"local_blocks", "local_blocks", "band, lookback 3, lookahead 3", 8,
                           false},
                      Case{"apart_from_padding", "apart_from_padding", "causal", 14, false},
                      Case{"codebooks", "codebooks", "causal", 7, false},
                      Case{"log_sum", "log_sum", "causal", 16, true},
                      Case{"turned_by_matrices", "turned_by_matrices", "causal", 7, false},
                      Case{"decomposed", "decomposed", "causal", 7, false},
                      Case{"padded_rows", "padded_rows", "bidirectional", 7, false},
                      Case{"series_trend", "series_trend", "bidirectional", 7, false},
                      Case{"one_hot", "one_hot", "bidirectional", 128, false},
                      Case{"pairs_by_einsum", "pairs_by_einsum", "causal", 7, false},
                      Case{"queries_first", "queries_first", "causal", 16, true},
                      Case{"counted_mean", "counted_mean", "bidirectional", 0, false},
                      Case{"repeated_ends", "repeated_ends", "bidirectional", 7, false}),
    test_name);

// Convolutions along the tokens (make_convolutions.py), at the example's length and at another.
class Convolutions : public ::testing::TestWithParam<Case> {};
TEST_P(Convolutions, AgreeWithPyTorch) {
  expect_as_pytorch(convert_fixture("convolutions"), GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Exported, Convolutions,
    ::testing::Values(Case{"whisper", "whisper", "bidirectional", 64, false},
                      Case{"whisper_other", "whisper", "bidirectional", 64, false},
                      Case{"whisper_fixed", "whisper_fixed", "bidirectional", 20, false},
                      Case{"causal_stem", "causal_stem", "causal", 0, true},
                      Case{"causal_stem_other", "causal_stem", "causal", 0, true},
                      Case{"short_convolution", "short_convolution", "causal", 0, true},
                      Case{"short_convolution_other", "short_convolution", "causal", 0, true},
                      Case{"conformer", "conformer", "bidirectional", 0, false},
                      Case{"conformer_other", "conformer", "bidirectional", 0, false},
                      Case{"stem", "stem", "bidirectional", 0, false},
                      Case{"stem_other", "stem", "bidirectional", 0, false},
                      Case{"raised", "raised", "bidirectional", 0, false},
                      Case{"raised_other", "raised", "bidirectional", 0, false},
                      Case{"skipped", "skipped", "bidirectional", 12, false},
                      Case{"nearest", "nearest", "bidirectional", 9, false},
                      Case{"video", "video", "bidirectional", 32, false},
                      Case{"spotter", "spotter", "bidirectional", 0, false},
                      Case{"spotter_other", "spotter", "bidirectional", 0, false},
                      Case{"one_channel", "one_channel", "bidirectional", 0, false},
                      Case{"one_channel_other", "one_channel", "bidirectional", 0, false}),
    [](const auto& info) { return std::string(info.param.archive) + "_of_" + info.param.name; });

TEST(Convolutions, MayBeTheFirstOps) {
  const ExportedModel model = read_exported_model(convert_fixture("exported/convolution.pt2"), {});
  EXPECT_GT(model.compared_inputs, 0u);
  EXPECT_LE(model.largest_difference, kGraphError * model.largest_value);
}

TEST(Convolutions, LimitTheShortestSequence) {
  const Conversion stem = convert(convert_fixture("convolutions"), {"stem", "stem", "", 0, false});
  EXPECT_EQ(stem.program.inputs[0].tokens_min, 14u);
  EXPECT_NE(stem.exported()->length.find("any length from 14, whole sequences"), std::string::npos);
}

// Models that pool a whole sequence and add the result to its tokens (make_pools.py). convert_model
// compares one graph at all lengths.
class Pools : public ::testing::TestWithParam<const char*> {};
TEST_P(Pools, GoBackToTheTokens) {
  const std::string name = GetParam();
  const char* const mask = name == "causal" ? "causal" : "bidirectional";
  const Case model = {GetParam(), GetParam(), mask, 64, false};
  expect_as_pytorch(convert_fixture("exported_pools"), model);
  const Conversion conversion = convert(convert_fixture("exported_pools"), model);
  EXPECT_NE(conversion.exported()->length.find("any length"), std::string::npos)
      << conversion.exported()->length;
}
INSTANTIATE_TEST_SUITE_P(Exported, Pools,
                         ::testing::Values("revin", "revin_of_columns", "last_value",
                                           "largest_value", "least_to_largest", "var_mean",
                                           "instance_norm", "film", "squeeze", "beside", "before",
                                           "after_tokens", "token_gates", "ends", "unbiased",
                                           "weighted", "weighted_back", "query", "causal"),
                         [](const auto& info) { return std::string(info.param); });

// Rows of constants that attend to tokens, and keys that are fewer or more than these
// (make_latents.py).
class Latents : public ::testing::TestWithParam<Case> {};
TEST_P(Latents, AgreeWithPyTorch) { expect_as_pytorch(convert_fixture("latents"), GetParam()); }
INSTANTIATE_TEST_SUITE_P(
    Exported, Latents,
    ::testing::Values(
        Case{"decoder", "decoder", "bidirectional", 64, false},
        Case{"detr", "detr", "bidirectional", 96, false},
        Case{"perceiver", "perceiver", "bidirectional", 64, false},
        Case{"perceiver_io", "perceiver_io", "bidirectional", 0, false},
        Case{"resampler", "resampler", "bidirectional", 0, false},
        Case{"set_transformer", "set_transformer", "bidirectional", 64, false},
        Case{"q_former", "q_former", "bidirectional", 7, false},
        Case{"pooled_by_queries", "pooled_by_queries", "bidirectional", 64, false},
        Case{"one_seed", "one_seed", "bidirectional", 64, false},
        Case{"back_to_tokens", "back_to_tokens", "bidirectional", 64, false},
        Case{"bias_keys", "bias_keys", "bidirectional", 64, false},
        Case{"bias_and_zero", "bias_and_zero", "bidirectional", 7, false},
        Case{"memory_keys", "memory_keys", "bidirectional", 64, false},
        Case{"segformer", "segformer", "bidirectional", 384, false},
        Case{"pvt", "pvt", "bidirectional", 192, false},
        Case{"reduced_tokens", "reduced_tokens", "bidirectional", 64, false},
        Case{"in_turn", "in_turn", "causal", 7, false},
        Case{"inverted", "inverted", "bidirectional", 5, false},
        Case{"zero_value", "zero_value", "bidirectional", 64, false},
        Case{"stacked_token", "stacked_token", "bidirectional", 7, false},
        Case{"sliced_token", "sliced_token", "bidirectional", 20, false},
        Case{"causal_registers", "causal_registers", "causal", 20, true},
        Case{"biased_token", "biased_token", "bidirectional", 20, false},
        Case{"counted_token", "counted_token", "bidirectional", 20, false},
        Case{"turns_after_token", "turns_after_token", "causal", 11, true},
        Case{"series_patches", "series_patches", "strip by distance, 29 values", 36, false},
        Case{"normalised_patches", "normalised_patches", "bidirectional", 12, false},
        Case{"padded_patches", "padded_patches", "bidirectional", 12, false},
        Case{"repeated_ends", "repeated_ends", "tiles, 1 of 1 stored", 36, false},
        Case{"mirrored_ends", "mirrored_ends", "tiles, 1 of 1 stored", 36, false},
        Case{"circular_ends", "circular_ends", "tiles, 1 of 1 stored", 36, false},
        Case{"mirrored_patches", "mirrored_patches", "bidirectional", 12, false},
        Case{"zeros_around", "zeros_around", "strip by distance, 35 values", 36, false},
        Case{"numbers", "numbers", "bidirectional", 5, false},
        Case{"layers_of_numbers", "layers_of_numbers", "bidirectional", 5, false},
        Case{"stacked_numbers", "stacked_numbers", "bidirectional", 5, false},
        Case{"categories", "categories", "bidirectional", 3, false},
        Case{"one_table", "one_table", "bidirectional", 3, false},
        Case{"whole_numbers", "whole_numbers", "bidirectional", 64, false}),
    test_name);

// Zero padding of a series takes no op, and padding by copies of any rows takes one, which takes
// rows by a list; with several variables side by side, one per variable.
TEST(PaddedSeries, TakesFewOps) {
  const auto ops = [](const char* name) {
    return convert(convert_fixture("latents"), {name, name, "", 0, false}).program.ops.size();
  };
  EXPECT_EQ(ops("zeros_around"), ops("series_patches"));
  for (const char* const name : {"repeated_ends", "mirrored_ends", "circular_ends"}) {
    EXPECT_EQ(ops(name), ops("series_patches") + 1) << name;
  }
  for (const char* const name : {"padded_patches", "mirrored_patches"}) {
    EXPECT_EQ(ops(name), ops("normalised_patches") + 3) << name;
  }
}

// Models with an attention bias by pair, and with groups of rows (make_fixed_rows.py).
class FixedRows : public ::testing::TestWithParam<Case> {};
TEST_P(FixedRows, AgreeWithPyTorch) {
  expect_as_pytorch(convert_fixture("fixed_rows"), GetParam());
}
INSTANTIATE_TEST_SUITE_P(
    Exported, FixedRows,
    ::testing::Values(Case{"mixer", "mixer", "none", 64, false},
                      Case{"few_rows", "few_rows", "none", 64, false},
                      Case{"decomposed", "decomposed", "tiles, 1 of 1 stored", 64, false},
                      Case{"subsampled", "subsampled", "bidirectional", 64, false},
                      Case{"pooled_queries", "pooled_queries", "bidirectional", 64, false},
                      Case{"channels", "channels", "none", 64, false},
                      Case{"padded", "padded", "bidirectional", 64, false},
                      Case{"focal", "focal", "none", 64, false},
                      Case{"separable", "separable", "tiles, 1 of 1 stored", 16, false},
                      Case{"gated", "gated", "none", 7, false},
                      Case{"linear", "linear", "none", 64, false},
                      Case{"reordered", "reordered", "causal", 12, false}),
    test_name);

TEST(FixedRows, StoreNoMoreElementsThanParameters) {
  for (const char* const name : {"mixer", "few_rows"}) {
    const Conversion conversion =
        convert(convert_fixture("fixed_rows"), {name, name, "", 0, false});
    uint64_t numbers = 0;
    for (const ProgramTensor& tensor : conversion.program.tensors) {
      numbers += uint64_t{tensor.outputs} * tensor.inputs + tensor.bias.size();
    }
    EXPECT_LE(numbers, conversion.exported()->parameters) << name;
  }
}

TEST(FixedRows, HaveOneLengthUnlessTheyAreSums) {
  const auto length_of = [](const char* name) {
    return convert(convert_fixture("fixed_rows"), {name, name, "", 0, false}).exported()->length;
  };
  EXPECT_EQ(length_of("gated").find("exactly 7 tokens"), 0u) << length_of("gated");
  EXPECT_EQ(length_of("linear").find("any length"), 0u) << length_of("linear");
}

// Models of any length (make_other_lengths.py).
class OtherLengths : public ::testing::TestWithParam<const char*> {};
TEST_P(OtherLengths, EqualTheSourceModel) {
  const std::filesystem::path folder = convert_fixture("other_lengths");
  const std::string name = GetParam();
  const Conversion conversion = convert(folder, {GetParam(), GetParam(), "", 0, false});
  EXPECT_EQ(conversion.exported()->length.find("any length"), 0u) << conversion.exported()->length;
  for (const std::string& stem : {name, name + "_other"}) {
    EXPECT_TRUE(is_as_pytorch(check_program(conversion, folder, stem))) << stem;
  }
}
INSTANTIATE_TEST_SUITE_P(Exported, OtherLengths,
                         ::testing::Values("by_distance", "shifted", "gated", "skewed",
                                           "disentangled", "of_keys", "in_turn", "less_the_largest",
                                           "shifts", "padded_ids", "zeroed_ids", "key_terms",
                                           "waves", "pools", "last_rows", "some_rows",
                                           "as_wide_as_long", "none_chosen"),
                         [](const auto& info) { return std::string(info.param); });

class CollectionModels : public ::testing::TestWithParam<Case> {};
TEST_P(CollectionModels, AgreeWithPyTorch) {
  const std::filesystem::path folder = collection_folder() / "goldens" / "exported";
  ARENITE_NEEDS_DATA(folder);
  expect_as_pytorch(folder, GetParam());
}
// Scores of the language model are large, which float32 rounds.
INSTANTIATE_TEST_SUITE_P(
    Exported, CollectionModels,
    ::testing::Values(Case{"bare_raschka_mha", "bare_raschka_mha", "causal", 9, false},
                      Case{"hf_bert_eager", "hf_bert_eager", "bidirectional", 20, false},
                      Case{"hf_bert_eager", "hf_bert_eager_dyn", "bidirectional", 32, false},
                      Case{"hf_gpt2", "hf_gpt2", "causal", 20, false},
                      Case{"hf_gpt2", "hf_gpt2_dyn", "causal", 32, true},
                      Case{"karpathy_gpt", "karpathy_gpt", "causal", 20, false},
                      Case{"llama_half", "llama_half", "causal", 20, false},
                      Case{"llama_half", "llama_half_dyn", "causal", 32, true},
                      Case{"llama_rotate_half", "llama_rotate_half", "causal", 20, false},
                      Case{"llama_rotate_half", "llama_rotate_half_dyn", "causal", 32, true},
                      Case{"nanogpt_sdpa", "nanogpt_sdpa", "causal", 20, false},
                      Case{"nanogpt_sdpa", "nanogpt_sdpa_dyn", "causal", 32, true},
                      Case{"raschka_gpt", "raschka_gpt", "causal", 20, false},
                      Case{"torch_encoder_cls", "torch_encoder_cls", "bidirectional", 20, false},
                      Case{"torch_encoder_cls", "torch_encoder_cls_dyn", "bidirectional", 32,
                           false},
                      Case{"torch_encoder_lm", "torch_encoder_lm", "causal", 20, false, 5e-6},
                      Case{"torch_encoder_lm", "torch_encoder_lm_dyn", "causal", 32, true, 5e-6}),
    test_name);

// A program with fixed sizes and one with a symbolic length convert to equal files.
TEST(ExportedModels, FixedAndSymbolicLengthsGiveEqualFiles) {
  const std::filesystem::path folder = convert_fixture("exported");
  ModelOptions options;
  options.context = 15;
  const Case any = {"learned_bias", "learned_bias", "", 0, true};
  const Case symbolic = {"learned_bias", "learned_bias_dyn", "", 0, true};
  const Conversion a = convert(folder, any, options);
  const Conversion b = convert(folder, symbolic, options);
  ASSERT_EQ(a.file.size(), b.file.size());
  EXPECT_TRUE(std::ranges::equal(a.file.span(), b.file.span()));
}

// Expected bias, cap and accepted lengths of a model's first attention op.
struct Scores {
  const char* name;
  ScoreTerms by;
  uint32_t rows, columns;  // of the terms; 0: none
  float cap;
  const char* length;  // expected in the report
};

class OwnScores : public ::testing::TestWithParam<Scores> {};
TEST_P(OwnScores, BecomeTheScoresOfAttention) {
  const Scores& scores = GetParam();
  const Case model = {scores.name, scores.name, "", 0, true};
  const Conversion conversion = convert(convert_fixture("exported"), model);
  const auto op = std::ranges::find(conversion.program.ops, format::OpKind::kAttention,
                                    [](const ProgramOp& each) { return each.body.kind; });
  ASSERT_NE(op, conversion.program.ops.end());
  const uint32_t tensor = op->body.numbers[format::AttentionOp::kTerms];
  EXPECT_EQ(tensor == format::kAbsent, scores.rows == 0);
  if (tensor != format::kAbsent) {
    EXPECT_EQ(op->body.choice<ScoreTerms>(format::AttentionOp::kTermsBy), scores.by);
    EXPECT_EQ(conversion.program.tensors[tensor].outputs, scores.rows);
    EXPECT_EQ(conversion.program.tensors[tensor].inputs, scores.columns);
  }
  EXPECT_FLOAT_EQ(op->body.reals[format::AttentionOp::kScoreCap], scores.cap);
  EXPECT_NE(conversion.exported()->length.find(scores.length), std::string::npos)
      << conversion.exported()->length;
}
INSTANTIATE_TEST_SUITE_P(
    Exported, OwnScores,
    ::testing::Values(
        Scores{"soft_cap_dyn", ScoreTerms::kSlopes, 0, 0, 5.0f, "any length up to 16"},
        Scores{"bias", ScoreTerms::kPairs, 16, 16, 0.0f, "any length up to 16"},
        Scores{"learned_bias", ScoreTerms::kPairs, 2 * 15, 15, 0.0f, "any length up to 15"},
        Scores{"fixed_bias", ScoreTerms::kPairs, 2 * 7, 7, 0.0f, "exactly 7 tokens a call"},
        Scores{"relative", ScoreTerms::kDistances, 2, 29, 0.0f, "any length up to 15"},
        Scores{"buckets_dyn", ScoreTerms::kDistances, 2, 127, 0.0f, "any length up to 64"},
        Scores{"capped_slopes_dyn", ScoreTerms::kSlopes, 1, 2, 3.0f, "any length up to 64"},
        Scores{"head_masks", ScoreTerms::kSlopes, 0, 0, 0.0f, "any length up to 15"}),
    [](const ::testing::TestParamInfo<Scores>& info) { return std::string(info.param.name); });

// A table that the program computes is as long as requested.
TEST(ExportedModels, ComputeTermsForTheRequestedPositions) {
  ModelOptions options;
  options.context = 40;
  const Case model = {"buckets", "buckets_dyn", "", 0, true};
  const Conversion conversion = convert(convert_fixture("exported"), model, options);
  EXPECT_EQ(conversion.program.inputs[0].positions_max, 40u);
  const auto terms = std::ranges::find(conversion.program.tensors, "terms", &ProgramTensor::name);
  ASSERT_NE(terms, conversion.program.tensors.end());
  ASSERT_EQ(terms->inputs, 79u);
  EXPECT_EQ(terms->weights[39 - 5], terms->weights[39 - 6]);  // one bucket
  EXPECT_NE(terms->weights[39 - 7], terms->weights[39 - 39]);
}

TEST(ExportedModels, ReturnTheRequestedOutput) {
  const std::filesystem::path folder = convert_fixture("exported");
  const Case model = {"einsum_rms_fused", "einsum_rms_fused", "", 0, true};
  ModelOptions options;
  options.output_indices = {1};
  const Conversion second = convert(folder, model, options);
  EXPECT_EQ(second.program.slots[second.program.functions[0].output_slot].width, 8u);
  EXPECT_EQ(second.account.given.at(0), "output 1 of 2, --output-index");
  const Conversion first = convert(folder, model);
  EXPECT_EQ(first.program.slots[first.program.functions[0].output_slot].width, 13u);
}

// A classifier with several heads has several outputs.
TEST(ExportedModels, ConcatenateSeveralOutputs) {
  const Case model = {"einsum_rms_fused", "einsum_rms_fused", "", 0, true};
  ModelOptions options;
  options.output_indices = {1, 0};
  const Conversion both = convert(convert_fixture("exported"), model, options);
  EXPECT_EQ(both.program.slots[both.program.functions[0].output_slot].width, 21u);
  EXPECT_EQ(both.account.given.at(0),
            "outputs 1, 0 of 2, concatenated along the columns: columns 0 to 7, columns 8 to 20, "
            "--output-index");
  EXPECT_LE(both.exported()->largest_difference, kGraphError * both.exported()->largest_value);
}

}  // namespace
}  // namespace arenite::convert
