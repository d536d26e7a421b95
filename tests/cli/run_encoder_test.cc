// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite run` on encoders: masks, lengths, types, pooling, hidden states, refusals.
#include <gtest/gtest.h>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"
#include "support/encoder_factory.h"

namespace arenite::testing {
namespace {

using convert::NpyArray;

class RunEncoder : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult run_on(const std::string& model, const std::string& input,
                       const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {"run", model, "--input", input, "--output", path("y.npy")};
    words.insert(words.end(), options.begin(), options.end());
    return run_arenite(words);
  }
  std::vector<float> output() const { return NpyArray::read(path("y.npy")).to_f32(); }
  std::string write_bytes(const std::string& name, const std::string& shape,
                          const std::vector<uint8_t>& values) const {
    return folder_.write(name, npy_bytes("|u1", "False", shape, bytes_of(values))).string();
  }

  TempFolder folder_;
};

TEST_F(RunEncoder, GivesARowForEachSequenceWhereTheModelPools) {
  const std::string model = write_sentence_encoder(folder_);
  const std::string input = write_ids(folder_, "2, 4", {2, 4, 5, 3, 2, 6, 3, 999});
  EXPECT_TRUE(ends(run_on(model, input, {"--lengths", "4,3"}), kDone, {"[2, 12] float32"}));
  std::vector<float> expected = logits_of(model, {2, 4, 5, 3});
  const std::vector<float> second = logits_of(model, {2, 6, 3});
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(output(), expected);
  const std::string mask = write_bytes("m.npy", "2, 4", {1, 1, 1, 1, 1, 1, 1, 0});
  EXPECT_TRUE(ends(run_on(model, input, {"--mask", mask}), kDone));
  EXPECT_EQ(output(), expected);
}

TEST_F(RunEncoder, PutsRowsAndHiddenStatesWhereTheirTokensStand) {
  const std::string model = write_tagger(folder_);
  const std::string input = write_ids(folder_, "2, 4", {2, 4, 5, 3, -1, 2, 7, 3});
  const std::string mask = write_bytes("m.npy", "2, 4", {1, 1, 1, 0, 0, 1, 1, 1});
  EXPECT_TRUE(ends(run_on(model, input, {"--mask", mask, "--hidden-states", path("h.npy")}), kDone,
                   {"[2, 4, 5] float32"}));
  const std::vector<float> found = output();
  const std::vector<float> first = logits_of(model, {2, 4, 5});
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 15), first);
  for (size_t hidden = 15; hidden < 25; ++hidden) EXPECT_EQ(found[hidden], 0.0f);
  EXPECT_NE(found[25], 0.0f);
  const NpyArray states = NpyArray::read(path("h.npy"));
  EXPECT_EQ(states.shape(), (std::vector<uint64_t>{3, 2, 4, 12}));
  EXPECT_EQ(states.to_f32()[4 * 12], 0.0f);  // of the second sequence's padding
  EXPECT_NE(states.to_f32()[5 * 12], 0.0f);
}

// The ids of hidden tokens matter only if the model counts positions by them.
TEST_F(RunEncoder, LooksForPaddingAmongHiddenIds) {
  const std::string model = write_counting_encoder(folder_);
  const std::string mask = write_bytes("m.npy", "2, 4", {0, 0, 1, 1, 0, 1, 1, 1});
  const std::string padded = write_ids(folder_, "2, 4", {1, 1, 2, 4, 1, 5, 6, 3});
  EXPECT_TRUE(ends(run_on(model, padded, {"--mask", mask}), kDone));
  std::vector<float> expected = logits_of(model, {2, 4});
  const std::vector<float> second = logits_of(model, {5, 6, 3});
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(output(), expected);
  const std::string others = write_ids(folder_, "2, 4", {1, -100, 2, 4, 1, 5, 6, 3});
  EXPECT_TRUE(ends(run_on(model, others, {"--mask", mask}), kDone));
  EXPECT_NE(output()[0], expected[0]);
  EXPECT_EQ(output().back(), expected.back());
}

TEST_F(RunEncoder, HiddenStatesOfOneSequenceHaveNoDimensionForIt) {
  const std::string model = write_tagger(folder_);
  const std::string input = write_ids(folder_, "3,", {2, 4, 3});
  EXPECT_TRUE(ends(run_on(model, input, {"--hidden-states", path("h.npy")}), kDone));
  EXPECT_EQ(NpyArray::read(path("h.npy")).shape(), (std::vector<uint64_t>{3, 3, 12}));
}

TEST_F(RunEncoder, TakesTypes) {
  const std::string model = write_sentence_encoder(folder_);
  const std::string input = write_ids(folder_, "4,", {2, 4, 5, 3});
  EXPECT_TRUE(ends(run_on(model, input, {"--types", write_bytes("t.npy", "4,", {0, 0, 0, 0})}),
                   kDone, {"[12] float32"}));
  EXPECT_EQ(output(), logits_of(model, {2, 4, 5, 3}));
  EXPECT_TRUE(
      ends(run_on(model, input, {"--types", write_bytes("t.npy", "4,", {0, 0, 1, 1})}), kDone));
  EXPECT_NE(output(), logits_of(model, {2, 4, 5, 3}));
}

TEST_F(RunEncoder, RunsFeatures) {
  const std::string model = write_sensor_classifier(folder_);
  const std::string input = write_features(folder_, "x.npy", {3, 8, 5});
  EXPECT_TRUE(ends(run_on(model, input), kDone, {"[3, 3] float32"}));
  const std::vector<float> all = output();
  EXPECT_TRUE(ends(run_on(model, input, {"--lengths", "8,2,8"}), kDone));
  const std::vector<float> shorter = output();
  EXPECT_EQ(std::vector(all.begin(), all.begin() + 3),
            std::vector(shorter.begin(), shorter.begin() + 3));
  EXPECT_NE(all[3], shorter[3]);
  EXPECT_EQ(all[6], shorter[6]);
}

// A model with a mask of its own takes lengths, not masks.
TEST_F(RunEncoder, RunsModelsWithMasksOfTheirOwn) {
  test::EncoderShape shape = test::encoder_named("sensor");
  shape.window = 3;
  shape.pooling = SelectKind::kAsAsked;
  const std::string model =
      write_file(folder_, "window.arn", test::make_encoder_model(shape).span());
  const std::string input = write_features(folder_, "x.npy", {2, 9, 5});
  EXPECT_TRUE(ends(run_on(model, input), kDone, {"[2, 9, 3] float32"}));
  const std::vector<float> whole = output();
  const std::string shorter = write_features(folder_, "s.npy", {1, 4, 5});
  EXPECT_TRUE(ends(run_on(model, shorter), kDone, {"[1, 4, 3] float32"}));
  std::vector<float> expected = output();  // features are the same up to there
  expected.resize(9 * 3, 0.0f);
  expected.insert(expected.end(), whole.begin() + 9 * 3, whole.end());
  EXPECT_TRUE(ends(run_on(model, input, {"--lengths", "4,9"}), kDone));
  EXPECT_EQ(output(), expected);
  std::vector<uint8_t> mask(18, 1);
  std::fill(mask.begin() + 4, mask.begin() + 9, uint8_t{0});
  EXPECT_TRUE(ends(run_on(model, input, {"--mask", write_bytes("m.npy", "2, 9", mask)}), kDone));
  EXPECT_EQ(output(), expected);
  std::swap(mask[2], mask[7]);
  EXPECT_TRUE(ends(run_on(model, input, {"--mask", write_bytes("m.npy", "2, 9", mask)}), kBadInput,
                   {"m.npy'", "a mask of its own", "--lengths"}));
}

TEST_F(RunEncoder, RefusesWhatDoesNotFit) {
  const std::string model = write_sentence_encoder(folder_);
  const std::string input = write_ids(folder_, "2, 4", {2, 4, 5, 3, 2, 6, 3, 1});
  const auto refuses = [&](const std::vector<std::string>& options,
                           std::initializer_list<std::string_view> parts) {
    return ends(run_on(model, input, options), kBadInput, parts);
  };
  EXPECT_TRUE(refuses({"--mask", write_bytes("m.npy", "2, 4", {1, 1, 1, 1, 0, 0, 0, 0})},
                      {"hides all of the sequence"}));
  EXPECT_TRUE(refuses({"--mask", write_bytes("m.npy", "2, 4", {1, 1, 2, 1, 0, 0, 0, 1})},
                      {"m.npy'", "found 2", "from 0 to 1"}));
  EXPECT_TRUE(refuses({"--mask", write_bytes("m.npy", "4, 2", {1, 1, 1, 1, 0, 0, 0, 1})},
                      {"shape is [4, 2]", "expected [2, 4]"}));
  EXPECT_TRUE(refuses({"--types", write_bytes("t.npy", "2, 4", {0, 0, 0, 2, 0, 0, 0, 1})},
                      {"t.npy'", "found 2", "from 0 to 1"}));
  EXPECT_TRUE(refuses({"--chunk", "2"}, {"--chunk", "whole sequences", "all tokens"}));
  EXPECT_TRUE(refuses({"--last"}, {"--last", "decoders"}));
  EXPECT_TRUE(ends(run_on(write_tagger(folder_), input, {"--chunk", "2"}), kBadInput,
                   {"--chunk", "not causal"}));
  EXPECT_TRUE(ends(run_on(write_plain_decoder(folder_), input,
                          {"--mask", write_bytes("m.npy", "2, 4", {1, 0, 1, 1, 1, 1, 1, 1})}),
                   kBadInput, {"m.npy'", "before others that count", "a mask of its own"}));
  EXPECT_TRUE(ends(run_on(write_tagger(folder_), write_ids(folder_, "2,", {1, 40}),
                          {"--types", write_bytes("t.npy", "2,", {0, 0})}),
                   kBadInput, {"found token 40"}));
}

}  // namespace
}  // namespace arenite::testing
