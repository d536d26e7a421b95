// SPDX-License-Identifier: Apache-2.0
// Model::load takes no more steps than format/bounds.h states, whatever the bytes. Steps are
// counted, not timed: the loading code is compiled a second time, with a call in each basic block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "format/bounds.h"
#include "format/file_layout.h"
#include "runtime/format/step_counter.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/repair.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

struct Loaded {
  uint64_t steps = 0;
  bool ok = false;
};

Loaded load(std::span<const std::byte> file) {
  (void)counted_steps();
  const bool ok = Model::load(file).ok();
  return {counted_steps(), ok};
}

// REQUIRES: the file is sound.
format::LoadSize size_of(std::span<const std::byte> file) {
  format::Footer footer;
  std::memcpy(&footer, file.last(sizeof(footer)).data(), sizeof(footer));
  return format::load_size(format::ModelReader(file), footer);
}

class LoadCost : public ::testing::Test {
 protected:
  void TearDown() override {
    RecordProperty("files", static_cast<int>(files_));
    RecordProperty("percent_of_bound", static_cast<int>(percent_));
  }

  // Holds the load of `file` to the bound of `size`; returns whether it was accepted.
  bool check(std::span<const std::byte> file, const format::LoadSize& size,
             const std::string& name) {
    const Loaded loaded = load(file);
    const uint64_t bound = format::load_steps_max(size);
    EXPECT_LE(loaded.steps, bound) << name;
    percent_ = std::max(percent_, 100 * loaded.steps / bound);
    ++files_;
    return loaded.ok;
  }
  void check(const convert::AlignedBytes& sound, const std::string& name) {
    EXPECT_TRUE(check(sound.span(), size_of(sound.span()), name)) << name;
    EXPECT_GT(percent_, 5u) << name << ": hardly anything was counted";
  }

 private:
  uint64_t files_ = 0;
  uint64_t percent_ = 0;
};

TEST_F(LoadCost, IsBoundedForModules) {
  for (const ModuleSpec& spec : all_specs()) check(make_model(spec), spec.name);
}

TEST_F(LoadCost, IsBoundedForDecoders) {
  for (const DecoderShape& shape : all_decoders()) check(make_decoder_model(shape), shape.name);
}

TEST_F(LoadCost, IsBoundedForEncoders) {
  for (const EncoderShape& shape : all_encoders()) check(make_encoder_model(shape), shape.name);
}

// Tiles of which most say that all is seen, or nothing, take the fewest bytes for what they say.
TEST_F(LoadCost, IsBoundedForMasks) {
  for (const uint32_t positions : {256u, 1024u}) {
    ModuleSpec spec;
    spec.positions_max = positions;
    spec.masks = {buffer_where(positions, [](uint32_t query, uint32_t key) {
      return key <= query && (key < 40 || query / 100 == key / 100);
    })};
    check(make_model(spec, {Target::kPortable}), "documents");
    spec.masks = {buffer_where(positions, [](uint32_t query, uint32_t key) {
      return key == query || (key * 7 + query * 13) % 11 == 0;
    })};
    check(make_model(spec, {Target::kPortable}), "noise");
  }
}

// The files have up to the largest number of slots; the verifier checks each op against each slot.
TEST_F(LoadCost, IsBoundedForManyLayers) {
  for (const uint32_t layers : {16u, 64u, 140u}) {
    DecoderShape shape = smallest_decoder();
    shape.windows.assign(layers, 3);
    check(make_decoder_model(shape, {Target::kPortable}), std::to_string(layers) + " layers");
  }
}

TEST_F(LoadCost, IsBoundedForTokenizers) {
  for (const size_t count : {300u, 3000u}) {
    std::vector<std::string> words;
    for (size_t i = 0; i < count; ++i) words.push_back("word" + std::to_string(i));
    check(model_with(word_spec(words)), "word pieces");
    check(model_with(piece_spec(words, true)), "sentence pieces");
    check(model_with(byte_spec(words, {{convert::kLlama3Split}})), "byte pairs");
    // Tokens that agree in as many bytes as they may.
    for (std::string& word : words) word.insert(0, format::kTokenBytesMax - 20, 'a');
    words.resize(count / 10);
    check(model_with(word_spec(words)), "long words");
    check(model_with(piece_spec(words, true)), "long pieces");
  }
}

// Bytes at random places of the metadata, with checksums that are right again.
TEST_F(LoadCost, IsBoundedForDamagedFiles) {
  std::mt19937 random(1);
  for (const convert::AlignedBytes& sound :
       {make_decoder_model(decoder_named("llama")), make_encoder_model(encoder_named("bert")),
        model_with(word_spec({"a", "##b", "the"}))}) {
    const format::LoadSize size = size_of(sound.span());
    const size_t metadata = sound.size() - sizeof(format::Footer) - size.metadata_bytes;
    convert::AlignedBytes file(sound.size());
    for (int i = 0; i < 200; ++i) {
      std::ranges::copy(sound.span(), file.data());
      file.data()[metadata + random() % size.metadata_bytes] = static_cast<std::byte>(random());
      repair_checksums(file.span());
      (void)check(file.span(), size, "damage " + std::to_string(i));
    }
    for (size_t bytes = 0; bytes < sound.size(); bytes += 301) {
      (void)check(sound.span().first(bytes), size, "cut " + std::to_string(bytes));
    }
  }
}

}  // namespace
}  // namespace arenite::test
