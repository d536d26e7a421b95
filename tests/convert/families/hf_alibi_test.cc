// SPDX-License-Identifier: Apache-2.0
// Tests how the readers of BLOOM and MPT interpret configs and tensors (data/make_decoders.py).
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/families/tiny_models.h"
#include "convert/files/checkpoint.h"
#include "convert/files/json_file.h"
#include "support/recognised.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;
using nlohmann::json;

class HfAlibi : public ::testing::Test {
 protected:
  // The fixture with other fields in its config; null removes one.
  TransformerSpec read(const char* fixture, const json& fields = json::object()) {
    const std::filesystem::path from = convert_fixture("decoders") / fixture;
    json config = read_json_object(from / "config.json");
    config.merge_patch(fields);
    const std::filesystem::path copy = folder_.path() / "copy";
    std::filesystem::create_directories(copy);
    std::filesystem::copy_file(from / "model.safetensors", copy / "model.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    folder_.write("copy/config.json", config.dump());
    return decoder_at(copy);
  }
  ::testing::AssertionResult refuses(const char* fixture, const json& fields,
                                     std::initializer_list<std::string_view> parts) {
    return testing::refuses([&] { read(fixture, fields); }, parts);
  }

  TempFolder folder_;
};

void expect_slopes(const TransformerSpec& spec, const std::vector<double>& exponents) {
  ASSERT_EQ(spec.alibi_slopes.size(), exponents.size());
  for (size_t h = 0; h < exponents.size(); ++h) {
    EXPECT_DOUBLE_EQ(spec.alibi_slopes[h], std::exp2(-exponents[h])) << h;
  }
}

TEST_F(HfAlibi, SlopesEqualThoseOfThePaper) {
  expect_slopes(read("bloom"), {2, 4, 6, 8, 1});   // 5 heads: of 4, then of 8
  expect_slopes(read("mpt"), {2, 4, 6, 8, 1, 3});  // 6 heads
  expect_slopes(read("mpt", {{"n_heads", 4}}), {2, 4, 6, 8});
  expect_slopes(read("mpt", {{"n_heads", 1}}), {8});
}

TEST_F(HfAlibi, MptMayFallOffAtAnotherRate) {
  const TransformerSpec spec =
      read("mpt", {{"n_heads", 2}, {"attn_config", {{"alibi_bias_max", 4}}}});
  expect_slopes(spec, {2, 4});
  ASSERT_EQ(spec.notes.size(), 1u);
  EXPECT_NE(spec.notes[0].find("alibi_bias_max 4"), std::string::npos);
}

TEST_F(HfAlibi, BloomNormalizesItsEmbeddings) {
  const TransformerSpec spec = read("bloom");
  ASSERT_TRUE(spec.embedding_norm.has_value());
  EXPECT_EQ(spec.embedding_norm->gain.size(), spec.model_dim);
  EXPECT_EQ(spec.activation, Activation::kGeluTanh);
  EXPECT_FALSE(spec.position_embedding.has_value());
  EXPECT_FALSE(spec.rope.has_value());
  EXPECT_FALSE(spec.output.has_value());
  EXPECT_TRUE(read("bloom-bare").is_headless);
  EXPECT_FALSE(read("mpt").embedding_norm.has_value());
}

// Rows of the fused projection are [heads][query, key, value][head_dim] in BLOOM, and
// [query, key, value][heads][head_dim] in MPT.
TEST_F(HfAlibi, FusedProjectionsComeApart) {
  const auto rows_of = [](const char* fixture, const char* name) {
    return Checkpoint::read(convert_fixture("decoders") / fixture / "model.safetensors")
        .find(name)
        ->to_f32();
  };
  const TransformerSpec bloom = read("bloom");  // 5 heads of 4
  const auto fused = rows_of("bloom", "transformer.h.0.self_attention.query_key_value.weight");
  const Floats key = bloom.layers[0].key.weight.load();
  for (uint32_t i = 0; i < 20; ++i) {
    const uint32_t row = (i / 4 * 3 + 1) * 4 + i % 4;
    for (uint32_t c = 0; c < 20; ++c) EXPECT_EQ(key[i * 20 + c], fused[row * 20 + c]);
  }
  const TransformerSpec mpt = read("mpt");
  const auto wqkv = rows_of("mpt", "transformer.blocks.0.attn.Wqkv.weight");
  EXPECT_EQ(mpt.layers[0].value.weight.load(),
            std::vector<float>(wqkv.begin() + 2 * 24 * 24, wqkv.end()));
  EXPECT_TRUE(mpt.layers[0].query.bias.empty());
}

TEST_F(HfAlibi, MptTakesTheScaleOfScoresFromItsConfig) {
  EXPECT_FALSE(read("mpt").score_scale.has_value());
  EXPECT_EQ(read("mpt-scale").score_scale, 0.3);
}

TEST_F(HfAlibi, GroupedHeadsNeedTheirNumber) {
  const json grouped = {{"attn_type", "grouped_query_attention"}};
  EXPECT_TRUE(refuses("mpt", {{"attn_config", grouped}}, {"attn_type", "kv_n_heads"}));
  json with_number = grouped;
  with_number["kv_n_heads"] = 2;
  // The fixture has a head of keys for each of queries.
  EXPECT_TRUE(refuses("mpt", {{"attn_config", with_number}}, {"attn.Wqkv.weight", "[40, 24]"}));
  EXPECT_TRUE(refuses("mpt", {{"attn_config", {{"kv_n_heads", 2}}}}, {"kv_n_heads"}));
}

TEST_F(HfAlibi, OtherVariantsAreRefusedByName) {
  const std::pair<const char*, json> fields[] = {
      {"alibi", false},    {"clip_qkv", 8.0},          {"qk_ln", true}, {"qk_gn", true},
      {"prefix_lm", true}, {"sliding_window_size", 8}, {"rope", true},  {"attn_type", "linear"}};
  for (const auto& [name, value] : fields) {
    EXPECT_TRUE(refuses("mpt", {{"attn_config", {{name, value}}}}, {name})) << name;
  }
  EXPECT_TRUE(refuses("mpt", {{"logit_scale", 0.5}}, {"logit_scale"}));
  EXPECT_TRUE(refuses("mpt", {{"norm_type", "rmsnorm"}}, {"norm_type", "layernorm"}));
  EXPECT_TRUE(refuses("mpt", {{"ffn_config", {{"ffn_type", "mptglu"}}}}, {"ffn_type"}));
  EXPECT_TRUE(refuses("bloom", {{"apply_residual_connection_post_layernorm", true}},
                      {"apply_residual_connection_post_layernorm"}));
  EXPECT_TRUE(refuses("bloom", {{"n_inner", 60}}, {"n_inner"}));
}

}  // namespace
}  // namespace arenite::convert
