// SPDX-License-Identifier: Apache-2.0
// Tests of the options of `arenite convert`, and of its messages about options that are missing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/process.h"
#include "cli/text_table.h"
#include "cli/token_models.h"
#include "convert/files/npy.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

using Words = std::vector<std::string>;

const Words kTutorial = {"--heads",           "2",        "--activation", "relu",
                         "--norm-last",       "--causal", "--target",     "portable",
                         "--embedding-scale", "sqrt"};
const Words kNanoGpt = {"--heads", "2", "--activation", "relu", "--norm-first"};

std::string fixture(const std::string& name, const std::string& file = "model.safetensors") {
  return (convert_fixture("state_dicts") / name / file).string();
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class ConvertOptions : public ::testing::Test {
 protected:
  // Converts to out.arn.
  ProgramResult convert(const std::string& checkpoint, const Words& options = {}) const {
    return run_arenite(Words{"convert", checkpoint, "-o", output()} + options);
  }
  bool has_written() const { return std::filesystem::exists(output()); }
  std::string output() const { return (folder_.path() / "out.arn").string(); }

  TempFolder folder_;
};

TEST_F(ConvertOptions, AllMissingOptionsAreNamedAtOnce) {
  EXPECT_TRUE(
      ends(convert(fixture("nanogpt_relu")), kBadInput,
           {"model.safetensors'", "--heads N", "--activation NAME", "--norm-first or --norm-last",
            "nanoGPT as published: --activation gelu --norm-first"}));
  EXPECT_TRUE(ends(convert(fixture("tutorial")), kBadInput,
                   {"--heads N", "--activation NAME", "--norm-first or --norm-last",
                    "--causal, --bidirectional or --window N", "--embedding-scale X"}));
  EXPECT_TRUE(ends(convert(fixture("unscaled_module")), kBadInput, {"--heads N"}));
  EXPECT_FALSE(has_written());
}

TEST_F(ConvertOptions, AssumptionsArePrinted) {
  const ProgramResult result = convert(fixture("nanogpt_relu"), kNanoGpt);
  EXPECT_TRUE(ends(result, kDone,
                   {"model      nanogpt, from a state dict", "MLP 12 with relu, norms first",
                    "assumed    causal mask, since the file has no mask buffer",
                    "scores times 1/sqrt(head_dim)", "norms' epsilon 1e-05"}));
  EXPECT_TRUE(ends(convert(fixture("tutorial"), kTutorial + Words{"--scale", "0.5"}), kDone,
                   {"context    10 positions, causal: whole sequences or token by token",
                    "assumed    'linear' reads each token", "norms' epsilon 1e-05"}));
  const ProgramResult said =
      convert(fixture("unscaled_module"), {"--heads", "2", "--scale", "1", "--causal"});
  EXPECT_TRUE(ends(said, kDone));
  EXPECT_EQ(said.output.find("assumed"), std::string::npos);
}

// sum(p.numel() for p in model.parameters()): no buffers, tied weights once.
TEST_F(ConvertOptions, ParametersAreCountedAsPyTorchCountsThem) {
  for (const auto& [model, parameters] : std::initializer_list<std::pair<const char*, uint64_t>>{
           {"examples/from_pytorch/rhymes.pt2", 25152},
           {"examples/translate/dates.pt2", 65280},
           {"examples/speech/words.pt2", 46827},
           {"tests/convert/data/several_inputs/bart.pt2", 2804},
           {"tests/convert/data/several_inputs/whisper.pt2", 2072}}) {
    SCOPED_TRACE(model);
    const std::string program = (project_folder() / model).string();
    EXPECT_TRUE(ends(convert(program, {}), kDone,
                     {fmt::format("; {} parameters", tool::grouped(parameters))}));
    const ProgramResult result = convert(program, {"--json"});
    ASSERT_TRUE(ends(result, kDone));
    const auto json = nlohmann::json::parse(result.output);
    EXPECT_EQ(json["parameters"], parameters);
    EXPECT_EQ(json["report"]["parameters"], parameters);
  }
}

TEST_F(ConvertOptions, JsonHasTheFactsOfTheText) {
  const Words expect = {"--expect",
                        fixture("tutorial", "x.npy") + "," + fixture("tutorial", "y.npy")};
  const ProgramResult result = convert(fixture("tutorial"), kTutorial + expect + Words{"--json"});
  ASSERT_TRUE(ends(result, kDone));
  EXPECT_TRUE(result.errors.empty());
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["kind"], "encoder");
  const auto& model = json["model"];
  EXPECT_EQ(model["architecture"], "torch.nn.TransformerEncoder");
  for (const char* words : {", 2 heads of ", " with relu, ", "norms last"}) {
    EXPECT_NE(json["shape"].get<std::string>().find(words), std::string::npos) << words;
  }
  EXPECT_EQ(model["output_features"], 11);
  EXPECT_EQ(model["positions_max"], 10);
  EXPECT_EQ(model["output_rows"], "tokens");
  EXPECT_EQ(json["masks"][0]["description"], "causal");
  EXPECT_EQ(json["tokenizer"], nullptr);
  ASSERT_EQ(json["targets"].size(), 1u);
  EXPECT_EQ(json["targets"][0]["name"], "portable");
  EXPECT_EQ(json["check"]["targets"][0]["name"], "portable");
  EXPECT_LT(json["check"]["targets"][0]["largest_error"], 1e-4);
  EXPECT_EQ(json["given"].size(), 5u);
  EXPECT_EQ(json["assumed"].size(), 3u);
  EXPECT_EQ(json["expect"][0]["tokens"], 7);
  EXPECT_LT(json["expect"][0]["largest_difference"].get<double>(),
            1e-5 * json["expect"][0]["largest_value"].get<double>());
  EXPECT_EQ(json["file"]["path"], output());
  EXPECT_EQ(json["file"]["bytes"], std::filesystem::file_size(output()));
  EXPECT_EQ(json["checkpoint_bytes"], std::filesystem::file_size(fixture("tutorial")));
  // The arena is that of the text.
  const auto arena = json["targets"][0]["arena"]["total_bytes"].get<uint64_t>();
  EXPECT_TRUE(ends(
      convert(fixture("tutorial"), kTutorial + expect), kDone,
      {fmt::format("arena      {} bytes for one sequence", tool::grouped(arena)),
       "expect     as the author's model gave it: 2 sequences of 7 tokens", "largest difference"}));
  // The facts of the file are those of `inspect`.
  const ProgramResult inspected = run_arenite({"inspect", output(), "--json"});
  ASSERT_TRUE(ends(inspected, kDone));
  const auto facts = nlohmann::json::parse(inspected.output);
  for (const auto& [key, value] : facts.items()) EXPECT_EQ(json[key], value) << key;
}

// The rest of the report, and what `inspect` prints of the file.
TEST_F(ConvertOptions, VerboseSaysEverything) {
  const ProgramResult result = convert(fixture("tutorial"), kTutorial + Words{"--verbose"});
  EXPECT_TRUE(ends(result, kDone, {"given      --heads 2", "largest error"}));
  const ProgramResult inspected = run_arenite({"inspect", output()});
  ASSERT_TRUE(ends(inspected, kDone));
  EXPECT_TRUE(result.output.ends_with(inspected.output));
  EXPECT_TRUE(ends(convert(fixture("tutorial"), kTutorial + Words{"--verbose", "--json"}),
                   kBadUsage, {"--verbose"}));
}

// Returns the lines that the text takes on a terminal of 80 columns.
size_t screen_lines(const std::string& text) {
  return static_cast<size_t>(std::ranges::count(tool::in_columns(text, 80), '\n'));
}

TEST_F(ConvertOptions, ReportsFitAScreen) {
  const std::filesystem::path project = project_folder();
  for (const char* model :
       {"models/home-intent", "models/vibration", "tests/convert/data/exported/vit.pt2",
        "tests/convert/data/several_inputs/bart.pt2", "examples/translate/dates.pt2"}) {
    SCOPED_TRACE(model);
    const ProgramResult result =
        convert((project / model).string(), {"--target", "all", "--weights", "q8"});
    EXPECT_TRUE(ends(result, kDone, {"model", "error", "file", "targets", "arena", "next"}));
    EXPECT_LE(screen_lines(result.output), 24u) << result.output;
  }
}

TEST_F(ConvertOptions, NextStepsSuitTheModel) {
  const std::string models = project_folder().string() + "/models/";
  EXPECT_TRUE(ends(convert(models + "home-intent"), kDone,
                   {"next       arenite generate " + output() + " --prompt TEXT"}));
  EXPECT_TRUE(ends(convert(models + "vibration"), kDone,
                   {"next       arenite classify " + output() + " --input X.npy"}));
  EXPECT_TRUE(ends(convert(fixture("tutorial"), kTutorial), kDone,
                   {"next       arenite run " + output() + " --input X.npy --output Y.npy"}));
}

// The pass compile-masks finds that a mask in a buffer is causal; without the pass the mask becomes
// tiles.
TEST_F(ConvertOptions, ExplainShowsTheGraphBeforeAndAfterThePasses) {
  const std::string file = folder_.write("m.safetensors", small_checkpoint().safetensors());
  EXPECT_TRUE(ends(convert(file, {"--heads", "1", "--explain"}), kDone,
                   {"as recognised", "a buffer's mask of 6 positions, cache 0", "after the passes",
                    "1 heads of 4, causal, cache 0", "mask       causal; 8 bytes"}));
  EXPECT_TRUE(ends(convert(file, {"--heads", "1", "--explain", "--without-pass", "compile-masks"}),
                   kDone,
                   {"a buffer's mask of 6 positions, cache 0", "mask       tiles, 1 of 1 stored"}));
}

TEST_F(ConvertOptions, ErrorsOfComputingAndOfStoringAreApart) {
  test::CheckpointBuilder weights = small_checkpoint();
  const std::string floats = folder_.write("f32.safetensors", weights.safetensors());
  std::vector<double> values = weights.values("W_value.weight");
  for (double& value : values) value /= 3.0;
  weights.add("W_value.weight", {4, 3}, values, convert::DType::kF64);
  const std::string doubles = folder_.write("f64.safetensors", weights.safetensors());
  EXPECT_TRUE(
      ends(convert(floats, {"--heads", "1"}), kDone, {"storing the weights 0; outputs reach"}));
  const ProgramResult result = convert(doubles, {"--heads", "1", "--json"});
  ASSERT_TRUE(ends(result, kDone));
  const auto check = nlohmann::json::parse(result.output)["check"];
  EXPECT_GT(check["computing_error"], 0.0);
  EXPECT_GT(check["storing_error"], 0.0);
  EXPECT_LT(check["storing_error"], 1e-6);
}

TEST_F(ConvertOptions, JsonKnowsModulesAndDecoders) {
  const auto module = nlohmann::json::parse(
      convert(fixture("unscaled_module"), {"--heads", "2", "--json", "--no-self-test"}).output);
  EXPECT_EQ(module["kind"], "module");
  EXPECT_NE(module["shape"].get<std::string>().find("2 heads of 4"), std::string::npos);
  EXPECT_EQ(module["mask_origins"][0], "as usual for this module; there is no buffer");
  EXPECT_TRUE(module["expect"].empty());
  EXPECT_EQ(module["self_test"]["tokens"], 0);
  EXPECT_EQ(module["assumed"],
            (Words{"scores times 1/sqrt(head_dim)", "causal mask, as usual for this module"}));
  const auto decoder =
      nlohmann::json::parse(convert(fixture("nanogpt_relu"), kNanoGpt + Words{"--json"}).output);
  EXPECT_EQ(decoder["kind"], "decoder");
  EXPECT_EQ(decoder["source"], "a state dict");
  EXPECT_EQ(decoder["shape"].get<std::string>().find("embedding is the output"), std::string::npos);
  EXPECT_GT(decoder["check"]["largest_output"], 0.1);
}

TEST_F(ConvertOptions, OutputsThatDifferLeaveNoFile) {
  const Words expect = {"--expect",
                        fixture("nanogpt_relu", "x.npy") + "," + fixture("nanogpt_relu", "y.npy")};
  EXPECT_TRUE(ends(convert(fixture("nanogpt_relu"), kNanoGpt + expect), kDone));
  const std::string before = read_bytes(output());
  const Words gelu = {"--heads", "2", "--activation", "gelu", "--norm-first"};
  EXPECT_TRUE(ends(convert(fixture("nanogpt_relu"), gelu + expect), kBadInput,
                   {"outputs differ by up to", "--activation gelu", "assumed: causal mask",
                    "No file was written"}));
  EXPECT_EQ(read_bytes(output()), before);
  EXPECT_EQ(names_in(folder_.path()), std::set<std::string>{"out.arn"});
  std::filesystem::remove(output());
  EXPECT_TRUE(ends(convert(fixture("nanogpt_relu"), gelu + expect + Words{"--json"}), kBadInput));
  EXPECT_FALSE(has_written());
}

TEST_F(ConvertOptions, ModulesAreComparedToo) {
  const Words expect = {
      "--heads", "2", "--expect",
      fixture("unscaled_module", "x.npy") + "," + fixture("unscaled_module", "y.npy")};
  EXPECT_TRUE(ends(convert(fixture("unscaled_module"), expect), kBadInput,
                   {"scores times 1/sqrt(head_dim)"}));
  EXPECT_TRUE(ends(convert(fixture("unscaled_module"), expect + Words{"--scale", "1"}), kDone,
                   {"expect     as the author's model gave it: 2 sequences of 7 tokens"}));
}

TEST_F(ConvertOptions, SeveralComparisonsProveLengths) {
  const std::filesystem::path folder = convert_fixture("lengths");
  const auto pair = [&](const std::string& name) {
    return (folder / (name + "_input.npy")).string() + "," +
           (folder / (name + "_expected.npy")).string();
  };
  const std::string window = (folder / "third_window.pt2").string();
  EXPECT_TRUE(
      ends(convert(window), kDone,
           {"length     exactly 11 tokens a call: it was exported with a fixed number of them",
            "tokens = torch.export.Dim.AUTO"}));
  const std::string shorter = (folder / "third_window_5_input.npy").string();
  EXPECT_TRUE(ends(run_arenite({"run", output(), "--input", shorter, "--output",
                                (folder_.path() / "y.npy").string()}),
                   kBadInput, {"at least 11 tokens a sequence", "found 5 tokens"}));
  EXPECT_TRUE(
      ends(convert(window, {"--expect", pair("third_window"), "--expect", pair("third_window_5")}),
           kDone,
           {"length     any length from 5 up to 11", "as --expect proves",
            "1 sequence of 11 tokens", "1 sequence of 5 tokens"}));
  EXPECT_TRUE(ends(run_arenite({"run", output(), "--input", shorter, "--output",
                                (folder_.path() / "y.npy").string()}),
                   kDone));
}

TEST_F(ConvertOptions, LengthsByAnyLengthAreReportedAsClaimed) {
  const std::filesystem::path folder = convert_fixture("lengths");
  const auto run_shorter = [&](const std::string& name) {
    return run_arenite({"run", output(), "--input", (folder / (name + "_5_input.npy")).string(),
                        "--output", (folder_.path() / "y.npy").string()});
  };
  EXPECT_TRUE(ends(convert((folder / "third_window.pt2").string(), {"--any-length"}), kDone,
                   {"length     any length, whole sequences: as claimed by --any-length"}));
  EXPECT_TRUE(ends(run_arenite({"inspect", output()}), kDone, {"any length, as its user claims"}));
  EXPECT_TRUE(ends(run_shorter("third_window"), kDone));
  EXPECT_TRUE(ends(convert((folder / "above_eight_dyn.pt2").string()), kDone,
                   {"length     any length from 9, whole sequences"}));
  EXPECT_TRUE(ends(run_shorter("above_eight"), kBadInput,
                   {"at least 9 tokens a sequence", "found 5 tokens"}));
}

TEST_F(ConvertOptions, FoldersOfHuggingFaceAreComparedToo) {
  const std::string folder = project_folder().string() + "/models/home-intent";
  const std::string x = write_ids(folder_, "5,", {3, 1, 4, 1, 5});
  ASSERT_TRUE(ends(convert(folder), kDone));
  const std::string y = (folder_.path() / "y.npy").string();
  ASSERT_TRUE(ends(run_arenite({"run", output(), "--input", x, "--output", y}), kDone));
  EXPECT_TRUE(ends(convert(folder, {"--expect", x + "," + y}), kDone,
                   {"expect     as the author's model gave it: 1 sequence of 5 tokens",
                    "largest difference 0.0e+00"}));
  std::filesystem::remove(output());
  write_ids(folder_, "5,", {3, 1, 4, 1, 6});
  EXPECT_TRUE(ends(convert(folder, {"--expect", x + "," + y}), kBadInput,
                   {"outputs differ", "relies on the author's own file alone"}));
  EXPECT_FALSE(has_written());
}

// A Namespace, an object of a class whose code is not there, scalars of NumPy, a path, sets, dates,
// and the state of an optimizer lie beside the weights, whose dict is of a class of its own.
TEST_F(ConvertOptions, TrainingStateBesideWeightsIsIgnored) {
  const std::string expect =
      fixture("nanogpt_relu", "x.npy") + "," + fixture("nanogpt_relu", "y.npy");
  EXPECT_TRUE(ends(convert(fixture("nanogpt_relu", "training.pt"), {"--expect", expect, "-v"}),
                   kDone,
                   {"number of heads 2, from", "'args'", "place of norms first, from", "'config'",
                    "as the author's model gave it"}));
  EXPECT_TRUE(ends(convert(fixture("nanogpt_relu", "lightning.ckpt"),
                           {"--activation", "relu", "--norm-first", "--expect", expect}),
                   kDone,
                   {"'criterion.weight' belongs to training, not to the model",
                    "'train_acc.total' belongs to training"}));
}

TEST_F(ConvertOptions, AnAverageBesideTheWeightsNeedsAChoice) {
  const std::string file = fixture("nanogpt_relu", "average.pt");
  const Words expect = {"--expect",
                        fixture("nanogpt_relu", "x.npy") + "," + fixture("nanogpt_relu", "y.npy")};
  EXPECT_TRUE(ends(convert(file, kNanoGpt), kBadInput,
                   {"two sets of weights", "--state-dict model or --state-dict model_ema"}));
  EXPECT_TRUE(ends(convert(file, kNanoGpt + expect + Words{"--state-dict", "model", "-v"}), kDone,
                   {"--state-dict model"}));
  EXPECT_TRUE(ends(convert(file, kNanoGpt + expect + Words{"--state-dict", "model_ema"}), kBadInput,
                   {"outputs differ"}));
  EXPECT_TRUE(ends(convert(file, kNanoGpt + Words{"--state-dict", "best"}), kBadInput,
                   {"no tensor has this key", "model, model_ema"}));
}

TEST_F(ConvertOptions, ParametersBesideMetasCheckpointAreRead) {
  const std::filesystem::path from = convert_fixture("named") / "meta_llama";
  const std::string model = (folder_.path() / "consolidated.safetensors").string();
  std::filesystem::copy_file(from / "model.safetensors", model);
  const Words options = {"--verbose", "--context", "16", "--expect",
                         (from / "x.npy").string() + "," + (from / "y.npy").string()};
  folder_.write("params.json",
                R"({"dim": 8, "n_heads": 2, "n_layers": 2, "norm_eps": 1e-5, "vocab_size": -1,)"
                R"( "multiple_of": 4, "rope_theta": 10000.0})");
  EXPECT_TRUE(ends(convert(model, options), kDone,
                   {"number of heads 2, from", "params.json'", "norms' epsilon 1e-05, from"}));
  folder_.write("params.json", R"({"dim": 8, "n_heads": 2, "n_layers": 2, "norm_eps": 1e-5,)"
                               R"( "use_scaled_rope": true, "rope_scaling_factor": 32})");
  EXPECT_TRUE(ends(convert(model, {"-v", "--context", "16"}), kDone, {"RoPE scaling, from"}));
  folder_.write("params.json", R"({"dim": 8, "n_heads": 2, "quantization_args": {"a": 1}})");
  EXPECT_TRUE(ends(convert(model, options), kBadInput, {"params.json", "quantization_args"}));
}

TEST_F(ConvertOptions, ModelsOfOtherFrameworksAreSentToTorchExport) {
  const auto refused = [&](const std::string& file, const char* what) {
    return ends(convert(file), kBadInput,
                {what, "dynamic_shapes=({1: auto},)", "torch.export.Dim.AUTO"});
  };
  EXPECT_TRUE(refused(folder_.write("a.bin", std::string("\x08\x08\x12\x07pytorch", 11)).string(),
                      "is an ONNX model"));
  EXPECT_TRUE(refused(folder_.write("a.tflite", std::string("\x1c\0\0\0TFL3", 8)).string(),
                      "is a TensorFlow Lite model"));
  EXPECT_TRUE(refused(convert_fixture("torchscript.pt").string(), "is a TorchScript archive"));
  EXPECT_TRUE(refused(convert_fixture("whole_module.pt").string(),
                      "a pickled module, of class 'torch.nn.modules.linear.Linear'"));
}

TEST_F(ConvertOptions, NamesOfClassesComeFromAConfigOrAFile) {
  const std::string model = (folder_.path() / "model.pt2").string();
  std::filesystem::copy_file(convert_fixture("exported") / "int8.pt2", model);
  std::string names, ids;
  for (int i = 0; i < 11; ++i) {
    names += fmt::format("class {}\n", i);
    ids += fmt::format(R"({}"{}": "kind {}")", i == 0 ? "" : ", ", i, i);
  }
  EXPECT_TRUE(ends(convert(model, {"-v", "--labels", folder_.write("names.txt", names).string()}),
                   kDone, {"--labels"}));
  EXPECT_NE(read_bytes(output()).find("class 10"), std::string::npos);
  folder_.write("config.json", R"({"id2label": {)" + ids + "}}");
  EXPECT_TRUE(ends(convert(model, {"-v"}), kDone, {"class names from", "config.json'"}));
  EXPECT_NE(read_bytes(output()).find("kind 10"), std::string::npos);
  folder_.write("config.json", R"({"id2label": {"0": "a", "1": "b"}})");
  EXPECT_TRUE(ends(convert(model, {"-v"}), kDone, {"has 2, and the program outputs 11 values"}));
  EXPECT_TRUE(ends(convert(model, {"--labels", folder_.write("one.txt", "a\n").string()}),
                   kBadInput, {"1 labels", "11 values"}));
}

TEST_F(ConvertOptions, NamesOfClassesAndFilesKeepToTheirLine) {
  const std::filesystem::path folder = folder_.path() / "a\nfolder";
  std::filesystem::copy(project_folder() / "tests/cli/matrix/data/classifier", folder);
  std::string config = read_bytes((folder / "config.json").string());
  config.replace(config.find("\"low\""), 5, R"("low\nfile")");
  folder_.write("a\nfolder/config.json", config);
  const std::string model = (folder / "m.arn").string();
  const Words words = {"convert", folder.string(), "-o", model};
  EXPECT_TRUE(ends(run_arenite(words), kDone, {"low?file, middle", "a?folder/m.arn, "}));
  EXPECT_TRUE(ends(run_arenite({"inspect", model}), kDone, {"a?folder/m.arn\n", "low?file"}));
}

TEST_F(ConvertOptions, ExpectAllowsForTheTypeThatTheAuthorComputesIn) {
  const auto file = [](const std::string& name) {
    return (convert_fixture("exported") / name).string();
  };
  const std::string expect = file("bfloat16_input.npy") + "," + file("bfloat16_expected.npy");
  EXPECT_TRUE(ends(convert(file("bfloat16.pt2"), {"--expect", expect}), kDone));
  EXPECT_TRUE(ends(convert(file("bfloat16.pt2"),
                           {"--expect", file("int8_input.npy") + "," + file("int8_expected.npy")}),
                   kBadInput, {"expected at most 0.03125 of that", "the author's own file alone"}));
}

TEST_F(ConvertOptions, NumbersThatTheFormatCannotHoldAreNamed) {
  EXPECT_TRUE(ends(convert(fixture("nanogpt_relu"), kNanoGpt + Words{"--epsilon", "1e-42"}),
                   kBadInput, {"norm", "ops.epsilon", "1.18e-38"}));
}

TEST_F(ConvertOptions, NormsLastNegatesNormsFirst) {
  EXPECT_TRUE(ends(convert(fixture("tutorial"), kTutorial), kDone));
  const std::string expected = read_bytes(output());
  Words denied = kTutorial;
  std::replace(denied.begin(), denied.end(), std::string("--norm-last"),
               std::string("--norm-first=false"));
  EXPECT_TRUE(ends(convert(fixture("tutorial"), denied), kDone));
  EXPECT_EQ(read_bytes(output()), expected);
}

TEST_F(ConvertOptions, AreRefusedWhereTheConfigAnswersThem) {
  const std::string folder = project_folder().string() + "/models/home-intent";
  for (const Words& option : {Words{"--causal"},
                              {"--window", "3"},
                              {"--scale", "1"},
                              {"--epsilon", "1e-6"},
                              {"--embedding-scale", "sqrt"},
                              {"--norm-first"},
                              {"--norm-last"}}) {
    EXPECT_TRUE(ends(convert(folder, option), kBadInput,
                     {"home-intent'", option[0], "the model's own config", "drop the option"}));
  }
  EXPECT_TRUE(ends(convert(folder, {"--pooling", "mean"}), kBadInput,
                   {"--pooling is for encoders, and this is a decoder"}));
}

TEST_F(ConvertOptions, AreRefusedForModulesWithoutThatPart) {
  for (const Words& option : {Words{"--epsilon", "1e-6"},
                              {"--embedding-scale", "2"},
                              {"--norm-first"},
                              {"--activation", "gelu"},
                              {"--pooling", "mean"},
                              {"--tokenizer", "none"}}) {
    EXPECT_TRUE(ends(convert(fixture("unscaled_module"), Words{"--heads", "2"} + option), kBadInput,
                     {option[0], "a single attention module, which has no tokens"}));
  }
  EXPECT_FALSE(has_written());
}

TEST_F(ConvertOptions, InvalidValuesAreBadUsage) {
  for (const Words& option : {Words{"--norm-first", "--norm-last"},
                              {"--embedding-scale", "square"},
                              {"--embedding-scale", "0"},
                              {"--scale", "0"},
                              {"--scale", "-1"},
                              {"--epsilon", "0"},
                              {"--epsilon", "nan"},
                              {"--expect", "x.npy"}}) {
    EXPECT_TRUE(ends(convert(fixture("tutorial"), option), kBadUsage, {option[0]}));
  }
  const std::string y = folder_.write("out.arn", "y").string();
  EXPECT_TRUE(ends(convert(fixture("tutorial"), kTutorial + Words{"--expect", "x.npy," + y}),
                   kBadUsage, {"input of this command"}));
}

// The program's output is [sequences, features, tokens].
TEST_F(ConvertOptions, ColumnsPrecedeTokensWhereTheProgramHasThemSo) {
  const auto file = [](const char* end) {
    return (convert_fixture("exported_zoo") / (std::string("columns_first") + end)).string();
  };
  const Words expect = {"--expect", file("_input.npy") + "," + file("_expected.npy")};
  EXPECT_TRUE(ends(convert(file(".pt2"), expect), kDone));
  const std::string rows = (folder_.path() / "rows.npy").string();
  EXPECT_TRUE(ends(run_arenite({"run", output(), "--input", file("_input.npy"), "--output", rows}),
                   kDone, {"[1, 13, 7]"}));
  const convert::NpyArray found = convert::NpyArray::read(rows);
  const convert::NpyArray expected = convert::NpyArray::read(file("_expected.npy"));
  EXPECT_EQ(found.shape(), expected.shape());
  const std::vector<float> values = found.to_f32(), wanted = expected.to_f32();
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 1e-5) << i;
}

}  // namespace
}  // namespace arenite::testing
