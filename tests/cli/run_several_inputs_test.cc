// SPDX-License-Identifier: Apache-2.0
// Models with several inputs from PyTorch's programs to results, by the commands alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/printed.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"
#include "support/refusal.h"

namespace arenite::testing {
namespace {

using convert::NpyArray;

// What float32 loses, of the largest number.
constexpr double kError = 3e-6;

struct SeveralInputsModel {
  const char* name;
  std::vector<std::string> programs;  // .pt2
  int examples;
  std::vector<std::string> options = {};
};

void PrintTo(const SeveralInputsModel& model, std::ostream* out) { *out << model.name; }

std::string data(const std::string& name) {
  return (convert_fixture("several_inputs") / name).string();
}

class RunSeveralInputs : public ::testing::TestWithParam<SeveralInputsModel> {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult convert() const {
    std::vector<std::string> words = {"convert", "-o", path("model.arn")};
    for (const std::string& program : GetParam().programs) words.push_back(data(program));
    words.insert(words.end(), GetParam().options.begin(), GetParam().options.end());
    return run_arenite(words);
  }

  TempFolder folder_;
};

TEST_P(RunSeveralInputs, GivesWhatPyTorchGivesInOnePassAndTokenByToken) {
  ASSERT_TRUE(ends(convert(), kDone));
  EXPECT_TRUE(ends(run_arenite({"verify", path("model.arn")}), kDone));
  for (int i = 0; i < GetParam().examples; ++i) {
    const std::string begin = GetParam().name + std::string("_i") + std::to_string(i);
    std::vector<std::string> words = {
        "run",     path("model.arn"),      "--input",  data(begin + "_0.npy"),
        "--input", data(begin + "_1.npy"), "--output", path("y.npy")};
    ASSERT_TRUE(ends(run_arenite(words), kDone));
    const std::string whole = read_bytes(path("y.npy"));
    const std::vector<double> found = NpyArray::read(path("y.npy")).to_f64();
    const std::vector<double> expected =
        NpyArray::read(data(GetParam().name + std::string("_e") + std::to_string(i) + ".npy"))
            .to_f64();
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0.0, error = 0.0;
    for (size_t e = 0; e < expected.size(); ++e) {
      largest = std::max(largest, std::fabs(expected[e]));
      error = std::max(error, std::fabs(expected[e] - found[e]));
    }
    EXPECT_LE(error, kError * largest) << "example " << i;
    words.insert(words.end(), {"--chunk", "1"});
    ASSERT_TRUE(ends(run_arenite(words), kDone));
    EXPECT_EQ(read_bytes(path("y.npy")), whole) << "example " << i;
  }
}

TEST(InspectSeveralInputs, NamesThemAndTheFunctions) {
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  EXPECT_TRUE(ends(run_arenite({"convert", data("t5.pt2"), "--context", "24", "-o", model}), kDone,
                   {"function   encode takes x, gives 8 numbers a row; 26 ops",
                    "step takes y, sees x, gives 19 numbers a row; 34 ops"}));
  EXPECT_TRUE(ends(run_arenite({"inspect", model}), kDone,
                   {"inputs        x: tokens of a vocabulary of 19, 24 positions",
                    "encode takes x, gives [tokens, 8]; whole sequences, 26 ops",
                    "step takes y, sees x, gives [tokens, 19]; causal, 34 ops",
                    "1,152 T + 152 O + 32 T K + 32 T X"}));
  const auto json = nlohmann::json::parse(run_arenite({"inspect", "--json", model}).output);
  const auto& functions = json["model"]["functions"];
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[1]["inputs"], std::vector<std::string>{"y"});
  EXPECT_EQ(functions[1]["inputs_read"], std::vector<std::string>{"x"});
  EXPECT_EQ(json["model"]["inputs"][1]["vocab_size"], 19);
  EXPECT_EQ(json["targets"][0]["formula"]["axes"].size(), json["model"]["axes"].size());
  // By hand: 1,152 for a row and 152 for its numbers, 32 for each of 24 keys of both inputs.
  EXPECT_EQ(json["bounds"]["others"][0]["step"]["multiply_adds"], 1152 + 152 + 2 * 32 * 24);
}

INSTANTIATE_TEST_SUITE_P(
    , RunSeveralInputs,
    ::testing::Values(SeveralInputsModel{"t5", {"t5.pt2"}, 3, {"--context", "24"}},
                      SeveralInputsModel{"t5_fixed", {"t5_fixed.pt2"}, 1},
                      SeveralInputsModel{"bart", {"bart.pt2"}, 2},
                      SeveralInputsModel{"marian", {"marian.pt2"}, 2},
                      SeveralInputsModel{"whisper", {"whisper.pt2"}, 2, {"--context", "14"}},
                      SeveralInputsModel{"moonshine", {"moonshine.pt2"}, 2, {"--context", "2440"}},
                      SeveralInputsModel{"translation", {"translation.pt2"}, 2},
                      SeveralInputsModel{"translation",
                                         {"translation_encoder.pt2", "translation_decoder.pt2"},
                                         2,
                                         {"--functions", "encode,step"}},
                      SeveralInputsModel{"speech", {"speech.pt2"}, 2},
                      SeveralInputsModel{"image_text", {"image_text.pt2"}, 2},
                      SeveralInputsModel{"joined", {"joined.pt2"}, 2},
                      SeveralInputsModel{"pooled", {"pooled.pt2"}, 2},
                      SeveralInputsModel{"similarity", {"similarity.pt2"}, 2}),
    [](const ::testing::TestParamInfo<SeveralInputsModel>& info) {
      const bool is_pair = info.param.programs.size() > 1;
      return std::string(info.param.name) + (is_pair ? "_pair" : "");
    });

TEST(RunInputs, HaveTheNamesOfTheModels) {
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  const std::string output = (folder.path() / "y.npy").string();
  ASSERT_TRUE(ends(run_arenite({"convert", data("translation.pt2"), "-o", model}), kDone));
  const std::string source = data("translation_i1_0.npy"), target = data("translation_i1_1.npy");
  const auto run = [&](std::vector<std::string> inputs) {
    std::vector<std::string> words = {"run", model, "--output", output};
    for (const std::string& input : inputs) words.insert(words.end(), {"--input", input});
    return run_arenite(words);
  };
  ASSERT_TRUE(ends(run({source, target}), kDone));
  const std::string expected = read_bytes(output);
  ASSERT_TRUE(ends(run({"target=" + target, "source=" + source}), kDone));
  EXPECT_EQ(read_bytes(output), expected);
  EXPECT_TRUE(ends(run({source}), kBadInput, {"--input", "1 of the model's 2", "source, target"}));
  EXPECT_TRUE(ends(run({source, target, target}), kBadInput, {"3 of the model's 2"}));
  EXPECT_TRUE(ends(run_arenite({"classify", model, "--input", source}), kBadInput,
                   {"arenite classify", "arenite run takes a file for each"}));
}

}  // namespace
}  // namespace arenite::testing
