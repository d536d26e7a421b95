// SPDX-License-Identifier: Apache-2.0
// What counts as an encoder, and what is left to the readers of decoders and modules.
#include "convert/recognise.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "convert/families/encoder_fixture.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

TEST(EncoderSource, KnowsEncodersByTheirFolders) {
  EXPECT_TRUE(holds_encoder(encoder_fixture("bert_sequence")));
  EXPECT_TRUE(holds_encoder(encoder_fixture("sentence")));
  EXPECT_TRUE(holds_encoder(encoder_fixture("torch_features")));
  EXPECT_EQ(open_encoder(encoder_fixture("bert_sequence")).kind, EncoderKind::kHuggingFace);
  EXPECT_EQ(open_encoder(encoder_fixture("sentence")).kind, EncoderKind::kSentenceTransformers);
  EXPECT_EQ(open_encoder(encoder_fixture("torch_features")).kind, EncoderKind::kStateDict);
}

TEST(EncoderSource, KnowsEncodersByFilesInThem) {
  for (const char* fixture : {"bert_sequence", "torch_tokens"}) {
    const auto file = encoder_fixture(fixture) / "model.safetensors";
    EXPECT_TRUE(holds_encoder(file));
    EXPECT_EQ(run_row(open_encoder(file).spec, fixture, 0).values,
              run_row(open_encoder(encoder_fixture(fixture)).spec, fixture, 0).values);
  }
  EXPECT_TRUE(holds_encoder(encoder_fixture("bert_sequence") / "config.json"));
}

TEST(EncoderSource, MpnetIsAnEncoderToBeRefused) {
  EditedEncoder encoder("bert_sequence");
  encoder.config["model_type"] = "mpnet";
  EXPECT_TRUE(holds_encoder(encoder.write()));
}

TEST(EncoderSource, LeavesDecodersAlone) {
  const TempFolder folder;
  const auto llama = write_hf(folder, "llama", llama_config(), llama_tensors());
  EXPECT_FALSE(holds_encoder(llama));
  EXPECT_FALSE(holds_encoder(llama / "model.safetensors"));
  EXPECT_FALSE(holds_encoder(llama / "config.json"));
  EXPECT_FALSE(holds_encoder(folder.path()));
  EXPECT_FALSE(holds_encoder(folder.write("some.gguf", "GGUF and more")));
  EXPECT_FALSE(holds_encoder(folder.write("gpt.safetensors", safetensors_of(gpt2_tensors()))));
}

TEST(EncoderSource, LeavesModulesAlone) {
  EXPECT_FALSE(holds_encoder(convert_fixture("torch") / "mha.safetensors"));
  EXPECT_FALSE(holds_encoder(convert_fixture("torch") / "encoder_layer.safetensors"));
  const TempFolder folder;
  TensorMap layer;
  EditedEncoder encoder("torch_tokens");
  for (const auto& [name, tensor] : encoder.tensors) {
    if (name.starts_with("encoder.layers.0.")) layer[name] = tensor;
  }
  EXPECT_FALSE(holds_encoder(folder.write("layer.safetensors", safetensors_of(layer))));
  layer["position.weight"] = random_tensor("position", {9, 12});
  EXPECT_TRUE(holds_encoder(folder.write("model.safetensors", safetensors_of(layer))));
}

}  // namespace
}  // namespace arenite::convert
