// SPDX-License-Identifier: Apache-2.0
// Models with several inputs, from PyTorch's programs to results, with commands alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"
#include "support/refusal.h"

namespace arenite::testing {
namespace {

using convert::NpyArray;

// Error of float32, relative to the largest value.
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

TEST_P(RunSeveralInputs, AgreesWithPyTorchInOnePassAndTokenByToken) {
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
    const ProgramResult stepped = run_arenite(words);
    if (stepped.errors.find("--chunk: the model takes whole sequences") != std::string::npos) {
      continue;
    }
    ASSERT_TRUE(ends(stepped, kDone));
    EXPECT_EQ(read_bytes(path("y.npy")), whole) << "example " << i;
  }
}

struct BatchModel {
  const char* name;
  int inputs;
  const char* report;
};

void PrintTo(const BatchModel& model, std::ostream* out) { *out << model.name; }

class RunBatches : public ::testing::TestWithParam<BatchModel> {};

// Exported for any number of sequences, of which the examples have 4, 1 and 3.
TEST_P(RunBatches, AgreesWithPyTorchForAnyNumberOfSequences) {
  const auto data = [](const std::string& end) {
    return (convert_fixture("batches") / (GetParam().name + end)).string();
  };
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  const std::string output = (folder.path() / "y.npy").string();
  ASSERT_TRUE(
      ends(run_arenite({"convert", data(".pt2"), "-o", model, "-v"}), kDone, {GetParam().report}));
  EXPECT_LT(std::filesystem::file_size(model), 64000u) << "does it take ops for each column?";
  for (const std::string example : {"0", "1", "2"}) {
    std::vector<std::string> words = {"run", model, "--output", output};
    for (int i = 0; i < GetParam().inputs; ++i) {
      const std::string file = data("_i" + example + "_" + std::to_string(i) + ".npy");
      words.insert(words.end(), {"--input", file});
    }
    ASSERT_TRUE(ends(run_arenite(words), kDone)) << "example " << example;
    const NpyArray found = NpyArray::read(output);
    const NpyArray expected = NpyArray::read(data("_e" + example + ".npy"));
    ASSERT_EQ(found.shape(), expected.shape()) << "example " << example;
    const std::vector<double> values = found.to_f64(), wanted = expected.to_f64();
    for (size_t i = 0; i < wanted.size(); ++i) {
      EXPECT_NEAR(values[i], wanted[i], 1e-5) << "example " << example;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    , RunBatches,
    ::testing::Values(
        BatchModel{"ids", 1, "exactly 6 tokens"}, BatchModel{"features_both", 1, "any length"},
        BatchModel{"tokens_first", 1, "exactly 6 tokens"},
        BatchModel{"tokens_first_both", 1, "any length"},
        BatchModel{"eight_fold", 1, "exactly 6 tokens"}, BatchModel{"crossed", 2, "exactly 6"},
        BatchModel{"row", 1, "exactly 1 token"}, BatchModel{"row_fixed", 1, "exactly 1 token"},
        BatchModel{"row_of_three", 1, "exactly 1 token"}, BatchModel{"columns", 2, ""},
        BatchModel{"flat_columns", 1, ""}, BatchModel{"filled", 1, "any length"},
        BatchModel{"any_and_all", 1, "any length"},
        BatchModel{"unread", 3, "input 'user' is unused, and is not an input of the model"},
        BatchModel{"ends_count", 1, "ends sequences of 'x' after as many tokens as are not 0"},
        BatchModel{"ends_before", 1, "ends sequences of 'x' before the first id 0"},
        BatchModel{"ends_last", 2, "ends sequences of 'x' at its last token that is not 0"},
        BatchModel{"ends_first", 1, "ends sequences of 'x' at the first id 5"},
        BatchModel{"ends_largest", 1, "ends sequences of 'x' at its largest id"},
        BatchModel{"ends_last_id", 1, "ends sequences of 'x' at the first id 16"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(RunBatchesRefused, ResultsMayNotDependOnTheBatchSize) {
  const TempFolder folder;
  EXPECT_TRUE(ends(run_arenite({"convert", (convert_fixture("batches") / "by_batch.pt2").string(),
                                "-o", (folder.path() / "model.arn").string()}),
                   kBadInput, {"depend on the number of sequences"}));
}

TEST(RunBatchesRefused, ResultsMayNotDependOnTokensAfterTheLast) {
  const TempFolder folder;
  EXPECT_TRUE(
      ends(run_arenite({"convert", (convert_fixture("batches") / "ends_in_middle.pt2").string(),
                        "-o", (folder.path() / "model.arn").string()}),
           kBadInput, {"ends sequences of 'x' after as many tokens as are not 0", "mask them"}));
}

// Expects the elements of an array that PyTorch gave.
void expect_array(const std::string& output, const std::string& of_pytorch) {
  const std::vector<double> found = NpyArray::read(output).to_f64();
  const std::vector<double> expected = NpyArray::read(of_pytorch).to_f64();
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST(RunPairs, AreOneMoreInput) {
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  const std::string output = (folder.path() / "y.npy").string();
  const auto file = [](const std::string& name) {
    return (convert_fixture("pairs") / name).string();
  };
  ASSERT_TRUE(ends(run_arenite({"convert", file("bits.pt2"), "-o", model, "-v"}), kDone,
                   {"pair mask of each call", "--input pairs=FILE"}));
  EXPECT_TRUE(ends(run_arenite({"inspect", model}), kDone, {"which tokens see which"}));
  const auto run = [&](const std::vector<std::string>& pairs) {
    std::vector<std::string> words = {"run",      model, "--input", file("bits_input.npy"),
                                      "--output", output};
    for (const std::string& each : pairs) words.insert(words.end(), {"--input", each});
    return run_arenite(words);
  };
  ASSERT_TRUE(ends(run({file("bits_pairs.npy")}), kDone));
  expect_array(output, file("bits_expected.npy"));
  EXPECT_TRUE(ends(run({"pairs=" + file("bits_pairs.npy")}), kDone));
  EXPECT_TRUE(ends(run({}), kBadInput, {"expected pairs=FILE"}));
  EXPECT_TRUE(ends(run({file("masked_pairs.npy")}), kDone));  // [9, 9], the same for both
  EXPECT_TRUE(ends(run({file("bits_expected.npy")}), kBadInput, {"expected [2, 9, 9]"}));
}

TEST(RunPairs, AreTheArrayOfAProgramThatHidesThem) {
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  const std::string output = (folder.path() / "y.npy").string();
  for (const auto& [name, hides] : {std::pair("hidden", "1 = hidden in files"),
                                    std::pair("infinite", "-infinity = hidden in files")}) {
    const std::string file = (convert_fixture("pairs") / name).string();
    ASSERT_TRUE(ends(run_arenite({"convert", file + ".pt2", "-o", model}), kDone,
                     {"where a query does not see a key"}));
    EXPECT_TRUE(ends(run_arenite({"inspect", model}), kDone, {hides}));
    ASSERT_TRUE(ends(run_arenite({"run", model, "--input", file + "_input.npy", "--input",
                                  file + "_pairs.npy", "--output", output}),
                     kDone));
    expect_array(output, file + "_expected.npy");
  }
}

TEST(RunPaddingMask, ThatSomeOpsFollowIsTheArrayOfTheProgram) {
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  const std::string output = (folder.path() / "y.npy").string();
  const std::string file = (convert_fixture("padded") / "partly").string();
  ASSERT_TRUE(ends(run_arenite({"convert", file + ".pt2", "-o", model}), kDone,
                   {"as other ops than attention read rows of padding"}));
  ASSERT_TRUE(ends(run_arenite({"run", model, "--input", file + "_input.npy", "--input",
                                file + "_mask.npy", "--output", output}),
                   kDone));
  expect_array(output, file + "_expected.npy");
}

TEST(InspectSeveralInputs, NamesThemAndTheFunctions) {
  const TempFolder folder;
  const std::string model = (folder.path() / "model.arn").string();
  EXPECT_TRUE(ends(run_arenite({"convert", data("t5.pt2"), "--context", "24", "-o", model}), kDone,
                   {"functions  encode takes x, gives [tokens, 8]; whole sequences, 26 ops",
                    "step takes y, sees x, gives [tokens, 19]; causal, 34 ops"}));
  EXPECT_TRUE(ends(run_arenite({"inspect", model}), kDone,
                   {"inputs        x: tokens of a vocabulary of 19, 24 positions",
                    "encode takes x, gives [tokens, 8]; whole sequences, 26 ops",
                    "step takes y, sees x, gives [tokens, 19]; causal, 34 ops"}));
  const auto json = nlohmann::json::parse(run_arenite({"inspect", "--json", model}).output);
  const auto& functions = json["model"]["functions"];
  ASSERT_EQ(functions.size(), 2u);
  EXPECT_EQ(functions[1]["inputs"], std::vector<std::string>{"y"});
  EXPECT_EQ(functions[1]["inputs_read"], std::vector<std::string>{"x"});
  EXPECT_EQ(json["model"]["inputs"][1]["vocab_size"], 19);
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

class RunInputs : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(ends(run_arenite({"convert", data("translation.pt2"), "-o", model_}), kDone));
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult run(const std::vector<std::string>& inputs,
                    const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {"run", model_, "--output", output_};
    for (const std::string& input : inputs) words.insert(words.end(), {"--input", input});
    words.insert(words.end(), options.begin(), options.end());
    return run_arenite(words);
  }
  ProgramResult generate(std::vector<std::string> options) const {
    options.insert(options.begin(), {"generate", model_, "--ids", "--tokens", "5"});
    return run_arenite(options);
  }

  TempFolder folder_;
  const std::string model_ = path("model.arn"), output_ = path("y.npy");
  const std::string source_ = data("translation_i1_0.npy");
  const std::string target_ = data("translation_i1_1.npy");
  const std::string logits_ = data("translation_e1.npy");
};

TEST_F(RunInputs, HaveTheNamesOfTheModels) {
  ASSERT_TRUE(ends(run({source_, target_}), kDone));
  const std::string expected = read_bytes(output_);
  ASSERT_TRUE(ends(run({"target=" + target_, "source=" + source_}), kDone));
  EXPECT_EQ(read_bytes(output_), expected);
  ASSERT_TRUE(ends(run({"target=" + target_, source_}), kDone));
  EXPECT_EQ(read_bytes(output_), expected);
  EXPECT_TRUE(ends(run({source_}), kBadInput, {"--input", "found 1 for 2", "source, target"}));
  EXPECT_TRUE(ends(run({source_, target_, target_}), kBadInput, {"found 3 for 2"}));
  EXPECT_TRUE(ends(run({"source=" + source_, "source=" + source_}), kBadInput, {"found 2 for 2"}));
  EXPECT_TRUE(ends(run_arenite({"classify", model_, "--input", source_}), kBadInput,
                   {"arenite classify", "arenite run takes a file for each"}));
}

TEST_F(RunInputs, HaveLengthsAndMasksOfTheirOwn) {
  const std::vector<std::string> inputs = {source_, target_};  // of 3 and 12 tokens
  ASSERT_TRUE(ends(run(inputs, {"--lengths", "target=12", "--lengths", "source=3"}), kDone));
  ASSERT_TRUE(ends(run(inputs, {"--lengths", "source=3"}), kDone));
  const std::string mask =
      folder_.write("mask.npy", npy_bytes("|u1", "False", "1, 3", std::string("\1\0\1", 3)))
          .string();
  ASSERT_TRUE(ends(run(inputs, {"--mask", "source=" + mask}), kDone));
  EXPECT_TRUE(ends(run(inputs, {"--mask", "target=" + mask}), kBadInput, {"[1, 12]"}));
  const struct {
    std::vector<std::string> options;
    std::initializer_list<std::string_view> words;
  } refused[] = {
      {{"--lengths", "source=4"}, {"--lengths: found length 4", "at most 3, the tokens in"}},
      {{"--lengths", "source=1,2"}, {"found 2 values", "1 sequence in"}},
      {{"--lengths", "text=1"}, {"text=1", "(source, target)"}},
      {{"--lengths", "1", "--lengths", "2", "--lengths", "3"}, {"found 3 for 2"}},
      {{"--types", "source=" + mask}, {"has no token types"}},
      {{"--hidden-states", path("h.npy")}, {"the file has none"}},
  };
  for (const auto& each : refused) {
    EXPECT_TRUE(ends(run(inputs, each.options), kBadInput, each.words)) << each.options[1];
  }
  EXPECT_TRUE(ends(run(inputs, {"--lengths", "source=x"}), kBadUsage, {"found 'x'"}));
}

TEST_F(RunInputs, AreComparedAtConversion) {
  const auto expect = [&](const std::string& files) {
    return run_arenite({"convert", data("translation.pt2"), "-o", model_, "--expect", files});
  };
  EXPECT_TRUE(ends(expect(source_ + "," + target_ + "," + logits_), kDone,
                   {"as the author's model gave it"}));
  EXPECT_TRUE(ends(expect("target=" + target_ + ",source=" + source_ + "," + logits_), kDone));
  const std::string other = data("translation_e0.npy");
  EXPECT_TRUE(ends(expect(source_ + "," + target_ + "," + other), kBadInput, {"expected [1, 12"}));
  EXPECT_TRUE(
      ends(expect(source_ + "," + logits_), kBadInput, {"found 1 for 2", "(source, target)"}));
  EXPECT_TRUE(ends(expect(source_), kBadUsage, {"X.npy,Y.npy"}));
}

TEST_F(RunInputs, AreReadByGenerate) {
  const ProgramResult written = generate({"--input", source_, "--start", "1"});
  ASSERT_TRUE(ends(written, kDone, {}));
  const auto ids = [](const ProgramResult& result) { return result.output.substr(0, 14); };
  EXPECT_EQ(ids(written), "13 13 13 13 13");
  EXPECT_EQ(ids(generate({"--input", "source=" + source_, "--start", "1", "--chunk", "1"})),
            ids(written));
  EXPECT_TRUE(ends(generate({"--input", source_}), kBadInput, {"--start"}));
  EXPECT_TRUE(ends(generate({"--start", "1"}), kBadInput, {"--prompt-ids or --input FILE.npy"}));
  EXPECT_TRUE(ends(generate({"--input", source_, "--start", "17"}), kBadInput,
                   {"token 17 in --start", "below 17"}));
  EXPECT_TRUE(ends(generate({"--prompt-ids", "19", "--start", "1"}), kBadInput,
                   {"token 19 in the prompt", "below 19"}));
  EXPECT_TRUE(
      ends(generate({"--input", "target=" + target_, "--start", "1"}), kBadInput, {"target="}));
}

// A letter is a token from 2 on, and the configs say what is written first and last.
TEST(GenerateAfterAnEncoder, WritesTheTextThatPyTorchWrites) {
  const TempFolder folder;
  nlohmann::json vocabulary = {{"<pad>", 0}, {"<s>", 1}};
  for (char letter = 'a'; letter <= 'v'; ++letter) {
    vocabulary[std::string(1, letter)] = letter - 'a' + 2;
  }
  nlohmann::json added;
  for (const int id : {0, 1}) {
    added.push_back({{"id", id}, {"content", id == 0 ? "<pad>" : "<s>"}, {"special", true}});
  }
  const nlohmann::json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  const nlohmann::json tokenizer = {
      {"added_tokens", added},
      {"pre_tokenizer", bytes},
      {"decoder", bytes},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", nlohmann::json::array()}}}};
  folder.write("tokenizer.json", tokenizer.dump());
  const std::string config = R"({"decoder_start_token_id": 1, "eos_token_id": 8})";
  folder.write("generation_config.json", config);
  const std::string model = (folder.path() / "model.arn").string();
  const auto program = convert_fixture("several_inputs") / "../../../cli/matrix/data";
  ASSERT_TRUE(ends(run_arenite({"convert", (program / "translation.pt2").string(), "-o", model,
                                "--tokenizer", folder.path().string()}),
                   kDone));
  const auto generate = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"generate", model});
    return run_arenite(options);
  };
  // 7, 3, 12, 12, 18, 15, 11 is rewritten as 19, 19, 19, 19, 2, and then 8.
  EXPECT_TRUE(ends(generate({"--prompt", "fbkkqnj"}), kDone, {"rrrra\n"}));
  const auto json = nlohmann::json::parse(generate({"--prompt", "fbkkqnj", "--json"}).output);
  EXPECT_EQ(json["prompt"], "fbkkqnj");
  EXPECT_EQ(json["text"], "rrrra");
  EXPECT_EQ(json["ids"], std::vector<int>({19, 19, 19, 19, 2}));
  EXPECT_EQ(json["stop"], "end_token");
  EXPECT_EQ(json["positions"], 6);
  EXPECT_TRUE(ends(generate({"--prompt-ids", "7,3,12,12,18,15,11", "--stop", "ra"}), kDone,
                   {"rrr\n", "a text of --stop came"}));
  EXPECT_TRUE(ends(generate({"--prompt", "fbkkqnj", "--start", "1,19"}), kDone, {"rrra\n"}));
  EXPECT_TRUE(ends(generate({}), kBadInput, {"what the encoder reads: --prompt, --prompt-ids"}));
  EXPECT_TRUE(ends(generate({"--prompt", std::string(21, 'a')}), kBadInput,
                   {"21 tokens: at most 20", "source"}));
  EXPECT_TRUE(ends(generate({"--prompt", "a", "--input", "x.npy"}), kBadUsage, {"--input"}));
}

}  // namespace
}  // namespace arenite::testing
