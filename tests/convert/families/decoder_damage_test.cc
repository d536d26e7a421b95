// SPDX-License-Identifier: Apache-2.0
// Model files that are cut short or have a flipped bit are read or refused without harm. The
// sanitizers detect harm: run this test under them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "convert/families/other_formats.h"
#include "convert/families/tiny_models.h"
#include "convert/files/error.h"
#include "convert/gguf/gguf_builder.h"
#include "convert/gguf/gguf_file.h"
#include "support/random.h"
#include "support/recognised.h"

namespace arenite::convert {
namespace {

using namespace testing;

void load(const LinearSpec& linear) {
  EXPECT_EQ(linear.weight.load().size(), size_t{linear.weight.rows} * linear.weight.columns);
}

// Opens `file` and, if that succeeds, loads every weight.
bool is_accepted(const std::filesystem::path& file) {
  try {
    const bool is_state_dict = file.extension() == ".pt";
    const TransformerSpec spec =
        decoder_at(file, is_state_dict ? kGptOptions : ModelOptions{.heads = kHeads});
    spec.token_embedding->load();
    for (const LayerSpec& layer : spec.layers) {
      for (const LinearSpec* linear :
           {&layer.query, &layer.key, &layer.value, &layer.output, &layer.up, &layer.down}) {
        load(*linear);
      }
    }
    return true;
  } catch (const InputError& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
    return false;
  }
}

// Flips each of the first `header_bytes` bytes, since the header controls all reads, and truncates
// the file at many places.
void damage(const TempFolder& folder, const std::string& name, const std::string& bytes,
            size_t header_bytes) {
  ASSERT_TRUE(is_accepted(folder.write(name, bytes)));
  test::Random random(bytes.size());
  for (size_t i = 0; i < std::min(header_bytes, bytes.size()); ++i) {
    for (const int mask : {1 << random.below(8), 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      is_accepted(folder.write(name, damaged));
    }
  }
  for (int i = 0; i < 200; ++i) {
    const size_t kept = random.below(static_cast<uint32_t>(bytes.size()));
    EXPECT_FALSE(is_accepted(folder.write(name, bytes.substr(0, kept)))) << "cut to " << kept;
  }
}

TEST(DecoderDamage, GgufCutOrFlippedDoesNoHarm) {
  const TempFolder folder;
  TensorMap tensors = llama_tensors();
  GgufBuilder builder = gguf_of_llama("llama", tensors, kGgufFormats[4]);
  builder.array("tokenizer.ggml.tokens", GgufType::kString, 2, gguf_text("a") + gguf_text("b"));
  const std::string bytes = builder.bytes();
  damage(folder, "m.gguf", bytes, 1700);
}

TEST(DecoderDamage, Llama2cCutOrFlippedDoesNoHarm) {
  for (const int version : {0, 1, 2}) {
    const TempFolder folder;
    TensorMap tensors = llama_tensors();
    damage(folder, "m.bin", llama2c_of_llama(tensors, version), 64);
  }
}

#ifdef ARENITE_HAVE_LIBZIP
TEST(DecoderDamage, TrainingCheckpointsCutOrFlippedDoNoHarm) {
  const TempFolder folder;
  const std::string bytes =
      torch_archive(nano_gpt_of_gpt2(gpt2_tensors()), {{"n_head", int32_t{kHeads}}});
  damage(folder, "ckpt.pt", bytes, 64);
}
#endif

// Flips each bit of a tiny model's config.
TEST(DecoderDamage, ConfigsCutOrFlippedDoNoHarm) {
  const TempFolder folder;
  const auto hf = write_hf(folder, "hf", llama_config(), llama_tensors());
  const std::string config = llama_config().dump();
  for (size_t i = 0; i < config.size(); ++i) {
    folder.write("hf/config.json", config.substr(0, i));
    EXPECT_FALSE(is_accepted(hf)) << "cut to " << i;
    for (const int mask : {0x01, 0x02, 0x10, 0x80}) {
      std::string damaged = config;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      folder.write("hf/config.json", damaged);
      is_accepted(hf);
    }
  }
}

TEST(DecoderDamage, IndexesCutOrFlippedDoNoHarm) {
  const TempFolder folder;
  const auto hf = write_hf(folder, "hf", llama_config(), {});
  std::filesystem::remove(hf / "model.safetensors");
  folder.write("hf/s1", safetensors_of(llama_tensors()));
  nlohmann::json index;
  for (const auto& [name, tensor] : llama_tensors()) index["weight_map"][name] = "s1";
  const std::string bytes = index.dump();
  for (size_t i = 0; i < bytes.size(); i += 3) {
    for (const int mask : {0x01, 0x40}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      folder.write("hf/model.safetensors.index.json", damaged);
      is_accepted(hf);
    }
  }
}

}  // namespace
}  // namespace arenite::convert
