// SPDX-License-Identifier: Apache-2.0
// Lines and arrays become sequences, every fifth held out; unusable input is refused by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "arenite/tokenizer.h"
#include "convert/calibrate/calibration_set.h"
#include "convert/calibrate/sequence_runner.h"
#include "convert/convert.h"
#include "convert/files/npy.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using test::make_decoder_model;
using test::make_encoder_model;
using testing::refuses;
using testing::TempFolder;

// A trained model of ours, with its tokenizer.
const AlignedBytes& intent_file() {
  static const Conversion conversion = convert_model(
      testing::project_folder() / "models" / "home-intent", "intent", {}, parse_targets("native"));
  return conversion.file;
}

std::vector<TokenId> encode(const Model& model, const std::string& text) {
  std::vector<TokenId> ids(encode_tokens_max(text.size()));
  EncodeOptions options;
  options.read_specials = true;
  ids.resize(*Tokenizer::of(model)->encode(text, options, ids));
  return ids;
}

std::filesystem::path ids_file(const TempFolder& folder, std::span<const uint64_t> shape,
                               const std::vector<int32_t>& ids) {
  const std::filesystem::path path = folder.path() / "ids.npy";
  write_npy(path, shape, ids);
  return path;
}

std::vector<int32_t> counting_ids(size_t count, int32_t vocab_size) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(i) % vocab_size);
  return ids;
}

TEST(ReadCalibration, ALineIsASequenceAndEveryFifthIsHeldOut) {
  const Model model = load_best(intent_file());
  const TempFolder folder;
  std::string text;
  std::vector<std::string> lines;
  for (int i = 0; i < 23; ++i) {
    lines.push_back("turn on lamp " + std::to_string(i) + "<|do|>light.here.power=on<|end|>");
    text += lines.back() + (i % 2 == 0 ? "\r\n" : "\n\n  \n");  // blank lines are none
  }
  const CalibrationSet set = read_calibration({folder.write("lines.txt", text)}, model);
  ASSERT_EQ(set.held_out.size(), 4u);
  ASSERT_EQ(set.fitted.size(), 19u);
  EXPECT_EQ(set.fitted[3].ids, encode(model, lines[3]));
  EXPECT_EQ(set.held_out[0].ids, encode(model, lines[4]));
  EXPECT_EQ(set.fitted[4].ids, encode(model, lines[5]));
  EXPECT_EQ(set.held_out[3].ids, encode(model, lines[19]));
  EXPECT_EQ(set.fitted[18].ids, encode(model, lines[22]));
  EXPECT_EQ(set.fitted[0].tokens, set.fitted[0].ids.size());
  EXPECT_NE(set.source.find("lines.txt"), std::string::npos);
  EXPECT_NE(set.source.find("23 sequences"), std::string::npos);
  // Names of special tokens are these tokens.
  const TokenId end = Tokenizer::of(model)->find_special("<|end|>");
  EXPECT_EQ(set.fitted[0].ids.back(), end);
}

TEST(ReadCalibration, LongLinesAreCutToTheContext) {
  const Model model = load_best(intent_file());
  const TempFolder folder;
  std::string line;
  while (line.size() < 40 * model.positions_max()) line += "dim the kitchen lamp ";
  const std::vector<TokenId> ids = encode(model, line);
  const CalibrationSet set = read_calibration({folder.write("long.txt", line)}, model);
  EXPECT_EQ(CalibrationSet::tokens_of(set.fitted) + CalibrationSet::tokens_of(set.held_out),
            ids.size());
  EXPECT_EQ(longest_of(set.fitted)[0], model.positions_max());
  EXPECT_EQ(set.fitted[1].ids[0], ids[model.positions_max()]);
}

TEST(ReadCalibration, FewSequencesAreSplitToo) {
  const Model model = load_best(intent_file());
  const TempFolder folder;
  std::string line = "in the kitchen ";
  while (line.size() < 300) line += line;
  const CalibrationSet two = read_calibration({folder.write("a.txt", line + "\n" + line)}, model);
  EXPECT_EQ(two.fitted.size(), 1u);
  EXPECT_EQ(two.held_out.size(), 1u);
  EXPECT_EQ(two.fitted[0].ids, two.held_out[0].ids);

  const AlignedBytes file = make_decoder_model(test::ring_decoder());
  const Model decoder = load_best(file);
  ASSERT_GE(decoder.positions_max(), 200u);
  const std::vector<uint64_t> shape = {200};
  const CalibrationSet one =
      read_calibration({ids_file(folder, shape, counting_ids(200, 11))}, decoder);
  ASSERT_EQ(one.fitted.size(), 1u);
  ASSERT_EQ(one.held_out.size(), 1u);
  EXPECT_EQ(one.fitted[0].tokens, 160u);
  EXPECT_EQ(one.held_out[0].tokens, 40u);
  EXPECT_EQ(one.held_out[0].ids[0], 160u % 11);
}

TEST(ReadCalibration, ArraysOfIdsAreSequences) {
  const AlignedBytes file = make_decoder_model(test::all_decoders().front());  // 70 positions
  const Model model = load_best(file);
  const TempFolder folder;
  const std::vector<int32_t> ids = counting_ids(6 * 30, 37);
  const std::vector<uint64_t> batch = {6, 30};
  const CalibrationSet rows = read_calibration({ids_file(folder, batch, ids)}, model);
  ASSERT_EQ(rows.fitted.size(), 5u);
  ASSERT_EQ(rows.held_out.size(), 1u);
  EXPECT_EQ(rows.held_out[0].ids[0], 4u * 30 % 37);
  EXPECT_EQ(rows.fitted[4].ids[0], 5u * 30 % 37);

  const std::vector<uint64_t> flat = {180};
  const CalibrationSet pieces = read_calibration({ids_file(folder, flat, ids)}, model);
  ASSERT_EQ(pieces.fitted.size() + pieces.held_out.size(), 3u);
  EXPECT_EQ(pieces.fitted[1].ids[0], 70u % 37);
  EXPECT_EQ(pieces.held_out[0].tokens, 40u);
}

TEST(ReadCalibration, ArraysOfFeaturesAreForModelsOfFeatures) {
  const AlignedBytes file = test::make_model({});
  const Model model = load_best(file);
  const uint32_t width = model.input_features();
  const TempFolder folder;
  const std::vector<float> features = test::random_floats(size_t{7} * 20 * width, 1);
  const std::vector<uint64_t> shape = {7, 20, width};
  write_npy(folder.path() / "x.npy", shape, features);
  const CalibrationSet set = read_calibration({folder.path() / "x.npy"}, model);
  ASSERT_EQ(set.fitted.size(), 6u);
  ASSERT_EQ(set.held_out.size(), 1u);
  EXPECT_EQ(set.fitted[1].tokens, 20u);
  EXPECT_TRUE(std::equal(set.fitted[1].features.begin(), set.fitted[1].features.end(),
                         features.begin() + 20 * width));
  EXPECT_EQ(set.fitted[1].features.size(), size_t{20} * width);
  EXPECT_EQ(set.held_out[0].features[0], features[size_t{4} * 20 * width]);
}

TEST(ReadCalibration, SamplesLongInputsFromEverywhere) {
  const AlignedBytes file = make_decoder_model(test::all_decoders().front());
  const Model model = load_best(file);
  const TempFolder folder;
  const std::vector<uint64_t> batch = {3000, 50};
  std::vector<int32_t> ids = counting_ids(3000 * 50, 37);
  const CalibrationSet set = read_calibration({ids_file(folder, batch, ids)}, model);
  const uint64_t tokens =
      CalibrationSet::tokens_of(set.fitted) + CalibrationSet::tokens_of(set.held_out);
  EXPECT_LE(tokens, kCalibrationTokensMax);
  EXPECT_GT(tokens, kCalibrationTokensMax / 2);
  EXPECT_NE(set.source.find("150000 tokens in all"), std::string::npos) << set.source;
  // Every fifth of 3000, and every fifth of these is held out.
  EXPECT_EQ(set.fitted[1].ids[0], 5u * 50 % 37);
  EXPECT_EQ(set.held_out.back().ids[0], (5u * 599) * 50 % 37);
}

TEST(ReadCalibration, RefusesInputsThatAreTooShort) {
  const Model model = load_best(intent_file());
  const TempFolder folder;
  EXPECT_TRUE(refuses([&] { read_calibration({folder.write("e.txt", "")}, model); },
                      {"--calibrate", "e.txt", "is empty", "lines of text"}));
  EXPECT_TRUE(refuses([&] { read_calibration({folder.write("s.txt", "turn on\n\n")}, model); },
                      {"s.txt", "too short", "found ", "expected at least 128"}));
  EXPECT_TRUE(refuses([&] { read_calibration({folder.write("b.txt", "\n\n \n")}, model); },
                      {"too short", "found 0 usable tokens"}));
  EXPECT_TRUE(
      refuses([&] { read_calibration({folder.path() / "none.txt"}, model); }, {"none.txt"}));
  EXPECT_TRUE(refuses([&] { read_calibration({folder.path()}, model); }, {"regular file"}));
  // Sequences of one token leave nothing to predict.
  const std::vector<uint64_t> ones = {400, 1};
  EXPECT_TRUE(
      refuses([&] { read_calibration({ids_file(folder, ones, counting_ids(400, 300))}, model); },
              {"too short", "found 0 usable tokens"}));
}

TEST(ReadCalibration, RefusesTheWrongKind) {
  const Model intent = load_best(intent_file());
  const AlignedBytes bare_file = make_decoder_model(test::all_decoders().front());
  const Model bare = load_best(bare_file);
  const AlignedBytes module_file = test::make_model({});
  const Model module = load_best(module_file);
  const TempFolder folder;
  const std::string text(2000, 'a');
  EXPECT_TRUE(refuses([&] { read_calibration({folder.write("t.txt", text)}, bare); },
                      {"t.txt", "is text", "without a tokenizer", "--tokenizer", ".npy"}));
  EXPECT_TRUE(refuses([&] { read_calibration({folder.write("t.txt", text)}, module); },
                      {"t.txt", "reads features", "[batch, tokens, 6]"}));
  EXPECT_TRUE(
      refuses([&] { read_calibration({folder.write("t.bin", std::string(200, '\0'))}, intent); },
              {"t.bin", "neither text nor an .npy file"}));

  const std::vector<uint64_t> shape = {200};
  const auto ids = [&] { return ids_file(folder, shape, counting_ids(200, 38)); };
  EXPECT_TRUE(refuses([&] { read_calibration({ids()}, module); },
                      {"--calibrate", "ids.npy", "I32", "expected the model's features"}));
  EXPECT_TRUE(
      refuses([&] { read_calibration({ids()}, bare); }, {"has the id 37", "ids from 0 to 36"}));

  std::vector<float> features(size_t{30} * 6, 0.5f);
  const std::vector<uint64_t> rows = {30, 6};
  write_npy(folder.path() / "x.npy", rows, features);
  EXPECT_TRUE(refuses([&] { read_calibration({folder.path() / "x.npy"}, bare); },
                      {"x.npy", "F32", "expected token ids"}));
  EXPECT_TRUE(refuses([&] { read_calibration({folder.path() / "x.npy"}, module); },
                      {"too short", "found 30 usable tokens"}));
  features[17] = std::numeric_limits<float>::quiet_NaN();
  write_npy(folder.path() / "x.npy", rows, features);
  EXPECT_TRUE(
      refuses([&] { read_calibration({folder.path() / "x.npy"}, module); }, {"nan at index 17"}));
  const std::vector<uint64_t> narrow = {36, 5};
  write_npy(folder.path() / "x.npy", narrow, features);
  EXPECT_TRUE(refuses([&] { read_calibration({folder.path() / "x.npy"}, module); },
                      {"[36, 5]", "[tokens, 6]"}));
}

TEST(MadeUpInput, SuitsEveryModel) {
  for (const test::EncoderShape& shape : test::all_encoders()) {
    const AlignedBytes file = make_encoder_model(shape);
    const CalibrationSet set = random_inputs(load_best(file));
    EXPECT_TRUE(set.fitted.empty());
    SequenceRunner runner(file, longest_of(set.held_out));
    for (const ModelInput& sequence : set.held_out) {
      runner.begin(sequence);
      EXPECT_TRUE(runner.advance()) << shape.name;
      for (size_t row = 0; row < runner.rows(); ++row) {
        for (const float number : runner.row(row)) EXPECT_TRUE(std::isfinite(number));
      }
    }
  }
  for (const test::ModuleSpec& spec : test::all_specs()) {
    const AlignedBytes file = test::make_model(spec);
    const CalibrationSet set = random_inputs(load_best(file));
    SequenceRunner runner(file, longest_of(set.held_out));
    runner.begin(set.held_out.back());
    EXPECT_TRUE(runner.advance()) << spec.name;
  }
}

}  // namespace
}  // namespace arenite::convert
