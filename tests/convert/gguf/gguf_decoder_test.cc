// SPDX-License-Identifier: Apache-2.0
// Tests decoders in GGUF files: metadata about the computation, and the tokenizer in the file.
#include "convert/gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "convert/gguf/gguf_builder.h"
#include "convert/gguf/gguf_file.h"
#include "support/recognised.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

using namespace testing;

class GgufDecoderTest : public ::testing::Test {
 protected:
  GgufBuilder llama(const std::string& architecture = "llama") {
    TensorMap tensors = llama_tensors();
    return gguf_of_llama(architecture, tensors);
  }
  TransformerSpec open(const GgufBuilder& builder) {
    return decoder_at(folder_.write("m.gguf", builder.bytes()));
  }
  ::testing::AssertionResult refuses(const GgufBuilder& builder,
                                     std::initializer_list<std::string_view> parts) {
    return testing::refuses([&] { open(builder); }, parts);
  }

  TempFolder folder_;
};

TEST_F(GgufDecoderTest, HandsOutTheTokenizer) {
  std::string tokens;
  std::vector<float> scores;
  std::vector<int32_t> types;
  for (uint32_t i = 0; i < kVocab; ++i) {
    tokens += gguf_text("t" + std::to_string(i));
    scores.push_back(-static_cast<float>(i));
    types.push_back(i == 0 ? 3 : 1);
  }
  GgufBuilder builder = llama();
  builder.text("tokenizer.ggml.model", "gpt2")
      .text("tokenizer.ggml.pre", "llama-bpe")
      .array("tokenizer.ggml.tokens", GgufType::kString, kVocab, tokens)
      .array("tokenizer.ggml.scores", GgufType::kF32, kVocab, bytes_of(scores))
      .array("tokenizer.ggml.token_type", GgufType::kI32, kVocab, bytes_of(types))
      .array("tokenizer.ggml.merges", GgufType::kString, 1, gguf_text("t 1"))
      .count("tokenizer.ggml.bos_token_id", 1)
      .count("tokenizer.ggml.eos_token_id", 2)
      .raw("tokenizer.ggml.add_bos_token", GgufType::kBool, "\1")
      .text("tokenizer.chat_template", "{{ messages }}");
  const TransformerSpec spec = open(builder);
  const GgufTokenizer tokenizer = read_gguf_tokenizer(*GgufFile::read(folder_.path() / "m.gguf"));
  EXPECT_EQ(tokenizer.model, "gpt2");
  EXPECT_EQ(tokenizer.pre_tokenizer, "llama-bpe");
  EXPECT_EQ(tokenizer.tokens.size(), kVocab);
  EXPECT_EQ(tokenizer.tokens[10], "t10");
  EXPECT_EQ(tokenizer.scores, scores);
  EXPECT_EQ(tokenizer.types, types);
  EXPECT_EQ(tokenizer.merges, std::vector<std::string>{"t 1"});
  EXPECT_EQ(tokenizer.add_bos, true);
  EXPECT_FALSE(tokenizer.add_eos.has_value());
  EXPECT_EQ(spec.bos_id, 1u);
  EXPECT_EQ(spec.eos_ids, std::vector<uint32_t>{2});
}

TEST_F(GgufDecoderTest, HasNoTokenizerWhereTheFileHasNone) {
  const TransformerSpec spec = open(llama());
  EXPECT_FALSE(model_at(folder_.path() / "m.gguf").tokenizer.own);
  EXPECT_FALSE(spec.bos_id.has_value());
}

TEST_F(GgufDecoderTest, RefusesTokenizersOfTheWrongTypeOrLength) {
  GgufBuilder builder = llama();
  EXPECT_TRUE(refuses(builder.text("tokenizer.ggml.tokens", "a"),
                      {"'tokenizer.ggml.tokens' is a value of type 8", "an array of type 8"}));
  builder = llama();
  EXPECT_TRUE(
      refuses(builder.text("tokenizer.ggml.bos_token_id", "1"), {"expected a value of type 4"}));
  builder = llama();
  builder.array("tokenizer.ggml.tokens", GgufType::kString, 1, gguf_text("a"));
  EXPECT_TRUE(
      refuses(builder.array("tokenizer.ggml.scores", GgufType::kF32, 2, bytes_of<float>({1, 2})),
              {"'tokenizer.ggml.scores' has 2 elements: expected 1"}));
}

TEST_F(GgufDecoderTest, PassesOverWhereTheFileComesFrom) {
  EXPECT_NO_THROW(open(llama()
                           .count("general.file_type", 7)
                           .count("general.quantization_version", 2)
                           .array("general.tags", GgufType::kString, 1, gguf_text("text"))
                           .text("quantize.imatrix.file", "x.dat")
                           .count("llama.vocab_size", kVocab)
                           .count("llama.rope.dimension_count", kHeadDim)
                           .text("llama.rope.scaling.type", "none")));
}

TEST_F(GgufDecoderTest, RefusesArchitecturesItDoesNotKnow) {
  TensorMap tensors = llama_tensors();
  EXPECT_TRUE(refuses(gguf_of_llama("rwkv7", tensors), {"\"rwkv7\"", "expected llama, bloom"}));
  EXPECT_TRUE(refuses(GgufBuilder(), {"'general.architecture' is missing"}));
}

TEST_F(GgufDecoderTest, RefusesUnknownMetadata) {
  EXPECT_TRUE(refuses(llama().real("llama.logit_scale", 0.5f), {"'llama.logit_scale': 0.5"}));
  EXPECT_TRUE(refuses(llama().count("qwen2.block_count", 2), {"'qwen2.block_count': 2"}));
}

TEST_F(GgufDecoderTest, RefusesSettingsThatChangeTheComputation) {
  EXPECT_TRUE(refuses(llama().count("llama.expert_count", 8), {"is 8", "mixtures of experts"}));
  EXPECT_TRUE(refuses(llama().count("split.count", 2), {"is 2", "as one file"}));
  EXPECT_TRUE(refuses(llama().raw("llama.attention.causal", GgufType::kBool, std::string(1, '\0')),
                      {"is false", "causal"}));
  EXPECT_TRUE(refuses(llama().text("llama.rope.scaling.type", "longrope"),
                      {"\"longrope\"", "expected none, linear or yarn, or factors"}));
  EXPECT_TRUE(refuses(llama().count("llama.rope.dimension_count", 4), {"is 4", "namely 8"}));
  EXPECT_TRUE(refuses(llama().count("llama.vocab_size", 12), {"is 12", "expected 11"}));
}

// Heads of such a size would allocate RoPE frequencies before any weight contradicts them.
TEST_F(GgufDecoderTest, RefusesHeadsThatNoModelHas) {
  std::string bytes = llama().bytes();
  for (const std::string key : {"llama.attention.key_length", "llama.attention.value_length"}) {
    bytes.replace(bytes.find(key) + key.size() + sizeof(GgufType), sizeof(uint32_t),
                  bytes_of(uint32_t{1} << 22));
  }
  EXPECT_TRUE(testing::refuses(
      [&] { decoder_at(folder_.write("m.gguf", bytes)); },
      {"m.gguf', metadata: 4194304 elements of a head are rotated: expected at most 65536"}));
}

TEST_F(GgufDecoderTest, RefusesSizesThatDoNotFit) {
  GgufBuilder builder;
  builder.text("general.architecture", "llama").count("llama.embedding_length", kDim);
  EXPECT_TRUE(refuses(builder, {"'llama.feed_forward_length' is missing"}));
  builder = GgufBuilder();
  builder.text("general.architecture", "llama")
      .array("llama.embedding_length", GgufType::kU32, 2, bytes_of<uint32_t>({32, 32}));
  EXPECT_TRUE(refuses(builder, {"'llama.embedding_length' is [32,32]"}));
  EXPECT_TRUE(refuses(llama().array("llama.x", GgufType::kU8, 5000, std::string(5000, '\1')),
                      {"'llama.x' has 5000 elements"}));
}

TEST_F(GgufDecoderTest, ListsMissingAndForeignTensors) {
  TensorMap tensors = llama_tensors();
  tensors.erase("model.layers.1.mlp.up_proj.weight");
  EXPECT_TRUE(refuses(gguf_of_llama("llama", tensors), {"'blk.1.ffn_up.weight' [64, 32]"}));
  EXPECT_TRUE(refuses(llama().tensor("blk.0.ffn_gate_inp.weight", {1}, 0, "1234"),
                      {"no place", "'blk.0.ffn_gate_inp.weight' [1] F32"}));
}

// Denormals are refused: some CPUs flush them to 0, as in 1 / sqrt(x).
TEST_F(GgufDecoderTest, RefusesNumbersBelowTheLeastNormalOne) {
  for (const std::string key : {"llama.rope.freq_base", "llama.attention.layer_norm_rms_epsilon"}) {
    std::string bytes = llama().bytes();
    bytes.replace(bytes.find(key) + key.size() + sizeof(GgufType), sizeof(float),
                  bytes_of(2.8e-42f));
    EXPECT_TRUE(testing::refuses([&] { decoder_at(folder_.write("m.gguf", bytes)); },
                                 {"'" + key + "'", "expected a number above 0, of 1.2e-38"}));
  }
}

TEST_F(GgufDecoderTest, RefusesFrequencyFactorsBelowZero) {
  EXPECT_TRUE(
      refuses(llama().tensor("rope_freqs.weight", {kHeadDim / 2}, 0, bytes_of<float>({1, 1, 0, 1})),
              {"'rope_freqs.weight' has the value 0 at index 2"}));
}

TEST_F(GgufDecoderTest, RefusesScalesThatAreNotFiniteWhenTheyAreLoaded) {
  TensorMap tensors = llama_tensors();
  std::string bytes = gguf_of_llama("llama", tensors, kGgufFormats[3]).bytes();
  const std::string up =
      kGgufFormats[3].encode(tensors["model.layers.1.mlp.up_proj.weight"].values);
  bytes.replace(bytes.find(up), 2, bytes_of(uint16_t{0x7c00}));  // its first scale: infinity
  const TransformerSpec spec = decoder_at(folder_.write("m.gguf", bytes));
  const auto load_all = [&] {
    for (const LayerSpec& layer : spec.layers) layer.up.weight.load();
  };
  EXPECT_TRUE(testing::refuses(load_all, {"'blk.1.ffn_up.weight'", "expected finite weights"}));
}

}  // namespace
}  // namespace arenite::convert
