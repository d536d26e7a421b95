// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite convert --weights`: output, files, and refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "arenite/target.h"
#include "cli/printed.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

class ConvertFewBits : public ::testing::Test {
 protected:
  // models/home-intent, a decoder of 185,000 parameters.
  ProgramResult convert(const std::vector<std::string>& options) const {
    std::vector<std::string> words = {"convert", project_folder().string() + "/models/home-intent",
                                      "-o", path("m.arn")};
    words.insert(words.end(), options.begin(), options.end());
    return run_arenite(words);
  }
  bool wrote() const { return std::filesystem::exists(path("m.arn")); }
  size_t bytes() const { return std::filesystem::file_size(path("m.arn")); }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    return folder_.write(name, text).string();
  }

 private:
  TempFolder folder_;
};

TEST_F(ConvertFewBits, MakesFilesSmallerTheFewerTheBits) {
  EXPECT_TRUE(ends(convert({}), kDone, {"storing the weights"}));
  size_t before = bytes();
  for (const char* weights : {"q8", "q4"}) {
    EXPECT_TRUE(ends(convert({"--weights", weights, "-v"}), kDone,
                     {"calibrated text that the model wrote", "mean KL", "cosine of outputs"}));
    EXPECT_LT(bytes(), before * 3 / 4) << weights;
    before = bytes();
    EXPECT_TRUE(ends(run_arenite({"verify", path("m.arn")}), kDone, {"sound"}));
  }
}

TEST_F(ConvertFewBits, SaysWhatEachMatrixGot) {
  EXPECT_TRUE(ends(convert({"--weights", "q4", "--keep", "down=w8,output=f32,embedding=f32"}),
                   kDone, {"q4 by GPTQ: 12 matrices", "w8 by rounding, weighted by inputs: 4"}));
  const ProgramResult shown = run_arenite({"inspect", path("m.arn")});
  EXPECT_TRUE(ends(shown, kDone, {"0.gate_up", " q4 ", " w8 ", " f32 "}));
}

TEST_F(ConvertFewBits, PrintsWhatFewBitsCostEachMatrixAndLayer) {
  EXPECT_TRUE(ends(
      convert({"--weights", "q4", "--target", "portable,x86-64-v3,x86-64-v4-vnni", "--verbose"}),
      kDone,
      {"  0.gate_up  q4    11,520  ", " dB  GPTQ\n", "  logits     q8    27,200  ",
       " dB  rounding, weighted by inputs\n", "           embedding 0.99", "layer 0 0.99",
       "layer 3 0.9", "portable serves every CPU\n", "x86-64-v3 serves x86-64 with AVX2",
       "  portable        f32 4x4, q8 4x4, q4 4x4 ",
       "  x86-64-v3       f32 4x16, q8 4x8c8, q4 4x8c8 ",
       "  x86-64-v4-vnni  f32 8x32, q8 8x16c8, q4 8x16c8 "}));
}

TEST_F(ConvertFewBits, TheJsonOfAConversionHasTheFactsOfItsReport) {
  const ProgramResult result = convert({"--weights", "q4", "--max-kl", "1", "--target", "all",
                                        "--json", "--report", path("r.json")});
  ASSERT_TRUE(ends(result, kDone));
  const auto json = nlohmann::json::parse(result.output);
  std::ifstream file(path("r.json"));
  const auto report = nlohmann::json::parse(file)["report"];
  for (const char* const key :
       {"types", "layers", "parts", "tensors", "conversion", "parameters", "file_parts"}) {
    EXPECT_FALSE(json["report"][key].empty()) << key;
    EXPECT_EQ(json["report"][key], report[key]) << key;
  }
  EXPECT_EQ(json["targets"][0]["cpus"], "every CPU");
  const auto& found = json["report"]["conversion"];
  EXPECT_EQ(found["weights"], "q4, keeping output=q8, embedding=q8");
  EXPECT_EQ(found["hidden_states"].size(), 5u);
  EXPECT_EQ(found["tensors"].size(), 17u);
  EXPECT_GT(found["tensors"][3]["signal_to_noise_db"], 10.0);
  for (const char* const key :
       {"mean_kl", "top1_agreement", "float_perplexity", "quantized_perplexity"}) {
    EXPECT_GT(found["outputs"][key], 0.0) << key;
  }
  EXPECT_EQ(json["report"]["tensors"][2]["type"], "q4");
  EXPECT_EQ(json["tensors"][2]["packed_bytes"].size(), kTargets);
}

// Rows of 16 and 20 elements are not whole blocks of q4, so these matrices fall back to q8.
TEST_F(ConvertFewBits, GroupsWhatFellBackAndCountsTheEmbedding) {
  const std::string model = project_folder().string() + "/tests/convert/data/decoders/llama-yarn";
  const ProgramResult text = run_arenite({"convert", model, "-o", path("m.arn"), "--weights", "q4",
                                          "--keep", "none", "--calibrate", "none", "-v"});
  EXPECT_TRUE(ends(text, kDone,
                   {"note       16 matrices are q8: their rows of 16, 20 are not multiples of 32, "
                    "which q4 needs\n           embedding, 0.query, ",
                    "  embedding  q8 "}));
  EXPECT_EQ(text.output.find("are not multiples"), text.output.rfind("are not multiples"));
  const ProgramResult result =
      run_arenite({"convert", model, "-o", path("m.arn"), "--weights", "q4", "--keep", "none",
                   "--calibrate", "none", "--json"});
  const auto found = nlohmann::json::parse(result.output)["report"]["conversion"];
  ASSERT_EQ(found["notes"].size(), 1u);
  EXPECT_EQ(found["notes"][0]["tensors"].size(), 16u);
  EXPECT_EQ(found["tensors"][0]["name"], "embedding");
  EXPECT_GT(found["tensors"][0]["signal_to_noise_db"], 30.0);
}

TEST_F(ConvertFewBits, WritesTheModelAndItsReportOrNeither) {
  Command full_disk;
  full_disk.file_bytes_max = 20'000;  // the model fits, its page does not
  const std::string module = project_folder().string() + "/models/recall/recall.safetensors";
  const std::vector<std::string> words = {"convert", module, "-o",       path("m.arn"),
                                          "--heads", "2",    "--report", path("m.html")};
  EXPECT_TRUE(ends(run_arenite(words, full_disk), kBadInput, {"m.html'", "File too large"}));
  EXPECT_FALSE(wrote());
  EXPECT_TRUE(ends(run_arenite(words), kDone));
  EXPECT_TRUE(wrote());
}

TEST_F(ConvertFewBits, FallsBackWhereRowsAreNoWholeBlocks) {
  EXPECT_TRUE(ends(
      run_arenite({"convert", project_folder().string() + "/models/vibration", "-o", path("m.arn"),
                   "--weights", "q4"}),
      kDone,
      {"input is q8: its rows of 16 are not multiples of 32", "weights are rounded to nearest"}));
}

// Weights that a program dequantizes from integers are stored as these integers, and the results
// equal PyTorch's.
TEST_F(ConvertFewBits, IntegersOfAProgramStayIntegers) {
  const std::filesystem::path folder = convert_fixture("exported");
  for (const std::string name : {"int8", "int4", "fake_int8"}) {
    SCOPED_TRACE(name);
    const std::string model = (folder / (name + ".pt2")).string();
    const std::string expect = (folder / (name + "_input.npy")).string() + "," +
                               (folder / (name + "_expected.npy")).string();
    const std::string kept = path("kept.arn");
    const std::string floats = path("floats.arn");
    EXPECT_TRUE(ends(run_arenite({"convert", model, "-o", kept, "--expect", expect}), kDone,
                     {"taken over", "w8"}));
    EXPECT_TRUE(
        ends(run_arenite({"convert", model, "-o", floats, "--weights", "f32", "--expect", expect}),
             kDone));
    EXPECT_LT(3 * std::filesystem::file_size(kept), 2 * std::filesystem::file_size(floats));
  }
  EXPECT_TRUE(
      ends(run_arenite({"convert", (folder / "rounds_inputs.pt2").string(), "-o", path("a.arn")}),
           kBadInput, {"cannot quantize values that depend on the input"}));
}

// --keep finds the output matrix and the token embedding by their role in the graph, not by name.
TEST_F(ConvertFewBits, RolesComeFromTheGraph) {
  const std::string model = (convert_fixture("exported") / "fake_int8.pt2").string();
  const auto keeps = [&](const std::string& rule) {
    return run_arenite({"convert", model, "-o", path("a.arn"), "--weights", "q8", "--keep", rule});
  };
  for (const char* rule : {"output=f32", "embedding=f32", "attention=f32", "query=f32", "ffn=f32",
                           "up=f32", "down=f32"}) {
    EXPECT_TRUE(ends(keeps(rule), kDone)) << rule;
  }
  EXPECT_TRUE(ends(keeps("gate=f32"), kBadInput, {"roles are embedding, output, attention"}));
}

// A head for each variable, whose result is scaled back, and a head over the token axis.
TEST_F(ConvertFewBits, OutputIsTheMatrixOfEachPartOfTheResult) {
  for (const char* const name : {"latents/normalised_patches", "latents/inverted"}) {
    const std::string model = convert_fixture(name).string() + ".pt2";
    EXPECT_TRUE(ends(run_arenite({"convert", model, "-o", path("a.arn"), "--weights", "q8",
                                  "--keep", "output=f32"}),
                     kDone))
        << name;
  }
}

TEST_F(ConvertFewBits, RefusesUnknownRulesAndTypes) {
  EXPECT_TRUE(ends(convert({"--weights", "q5"}), kBadUsage, {"q5", "q4"}));
  EXPECT_TRUE(ends(convert({"--weights", "q4", "--keep", "nosuch=q8"}), kBadInput,
                   {"nosuch", "0.gate", "embedding"}));
  EXPECT_TRUE(
      ends(convert({"--weights", "q4", "--keep", "down"}), kBadInput, {"'down'", "NAME=TYPE"}));
  EXPECT_TRUE(ends(convert({"--weights", "q4", "--keep", "down=q3"}), kBadInput, {"q3"}));
  EXPECT_FALSE(wrote());
}

TEST_F(ConvertFewBits, RefusesTextsWithoutEnoughTokens) {
  const std::string text = write("short.txt", "turn on the light\n");
  EXPECT_TRUE(ends(convert({"--weights", "q4", "--calibrate", text}), kBadInput,
                   {"short.txt", "expected at least 128"}));
  EXPECT_TRUE(ends(convert({"--calibrate", text}), kBadInput, {"--calibrate", "--weights"}));
  EXPECT_TRUE(
      ends(convert({"--weights", "q4", "--calibrate", path("none.txt")}), kBadInput, {"none.txt"}));
  EXPECT_FALSE(wrote());
}

TEST_F(ConvertFewBits, WritesNothingBeyondALimitAndNamesWhatBrokeIt) {
  EXPECT_TRUE(ends(convert({"--weights", "q4", "--max-kl", "1e-9"}), kBadInput,
                   {"--max-kl", "nothing is written", "dB"}));
  EXPECT_TRUE(ends(convert({"--weights", "q4", "--min-cosine", "1"}), kBadInput,
                   {"--min-cosine", "layer 0"}));
  EXPECT_TRUE(ends(convert({"--weights", "q8", "--max-perplexity-increase", "0", "--max-bytes",
                            "1000", "--max-arena", "1000"}),
                   kBadInput, {"--max-bytes", "--max-arena"}));
  EXPECT_FALSE(wrote());
  EXPECT_TRUE(ends(convert({"--weights", "q8", "--max-kl", "0.5", "--min-cosine", "0.9",
                            "--max-bytes", "1000000", "--max-arena", "1000000"}),
                   kDone, {"q8"}));
  EXPECT_TRUE(wrote());
}

TEST_F(ConvertFewBits, AutoNeedsABudget) {
  EXPECT_TRUE(ends(convert({"--weights", "auto"}), kBadUsage,
                   {"--weights auto", "--max-bytes N", "--max-perplexity-increase P"}));
  EXPECT_TRUE(ends(convert({"--weights", "auto", "--max-kl", "1"}), kBadUsage, {"--max-bytes N"}));
  EXPECT_TRUE(ends(convert({"--weights", "auto", "--max-bytes", "1000"}), kBadInput,
                   {"--max-bytes", "found 1000", "expected at least"}));
  EXPECT_TRUE(
      ends(convert({"--weights", "auto", "--calibrate", "none", "--max-perplexity-increase", "5"}),
           kBadInput, {"--max-perplexity-increase", "no text"}));
  EXPECT_FALSE(wrote());
}

TEST_F(ConvertFewBits, AutoSaysWhatEachMatrixGotAndWhy) {
  const ProgramResult result =
      convert({"--weights", "auto", "--max-bytes", "250000", "--keep", "1.down=f32",
               "--max-perplexity-increase", "50", "--report", path("r.json"), "--json"});
  ASSERT_TRUE(ends(result, kDone, {}));
  EXPECT_LE(bytes(), 250000u);
  const auto printed = nlohmann::json::parse(result.output);
  ASSERT_FALSE(printed["chosen"].empty());
  for (const auto& choice : printed["chosen"]) {
    EXPECT_NE(choice["names"], "1.down");
    EXPECT_NE(choice["reason"], "");
  }
  std::ifstream file(path("r.json"));
  const auto report = nlohmann::json::parse(file);
  size_t chosen = 0;
  for (const auto& note : report["report"]["conversion"]["notes"]) {
    chosen += note["kind"] == "chosen" ? 1 : 0;
  }
  EXPECT_EQ(chosen, printed["chosen"].size());
  EXPECT_TRUE(ends(convert({"--weights", "auto", "--max-bytes", "250000", "-v"}), kDone,
                   {"chosen     0.query, 0.key, 0.value is q", "nats of KL for"}));
}

// Copies the model and changes the second row of its matrix.
class DamagedWeights : public ConvertFewBits {
 protected:
  ProgramResult convert_with(const std::vector<float>& numbers, const std::string& weights) {
    namespace fs = std::filesystem;
    const fs::path model = path("model");
    fs::copy(project_folder().string() + "/models/home-intent", model,
             fs::copy_options::overwrite_existing | fs::copy_options::recursive);
    std::fstream file(model / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
    std::string header(header_bytes, ' ');
    file.read(header.data(), static_cast<std::streamsize>(header_bytes));
    const auto tensor = nlohmann::json::parse(header).at("model.layers.1.mlp.up_proj.weight");
    const uint64_t begin = tensor.at("data_offsets")[0];
    constexpr uint64_t kColumns = 64;
    file.seekp(static_cast<std::streamoff>(sizeof(header_bytes) + header_bytes + begin +
                                           kColumns * sizeof(float)));
    for (uint64_t i = 0; i < kColumns; ++i) {
      const float number = numbers[i % numbers.size()];
      file.write(reinterpret_cast<const char*>(&number), sizeof(number));
    }
    file.close();
    return run_arenite({"convert", model.string(), "-o", path("m.arn"), "--weights", weights,
                        "--calibrate", "none"});
  }
};

TEST_F(DamagedWeights, NonFiniteOnesAreNamed) {
  for (const char* weights : {"w8", "q8", "q4"}) {
    EXPECT_TRUE(ends(convert_with({0.5f, std::nanf("")}, weights), kBadInput,
                     {"model.layers.1.mlp.up_proj.weight", "nan", "index 65"}));
    EXPECT_TRUE(ends(convert_with({-HUGE_VALF}, weights), kBadInput,
                     {"model.layers.1.mlp.up_proj.weight", "inf", "index 64"}));
  }
  EXPECT_FALSE(wrote());
}

TEST_F(DamagedWeights, ZeroAndTinyOnesStayFinite) {
  for (const char* weights : {"w8", "q8", "q4"}) {
    EXPECT_TRUE(ends(convert_with({0.0f}, weights), kDone, {weights})) << weights;
    EXPECT_TRUE(ends(convert_with({3e-37f, -1e-37f}, weights), kDone,
                     {"1.gate_up: ", "zeros: their scales would be below"}))
        << weights;
    EXPECT_TRUE(ends(run_arenite({"verify", path("m.arn")}), kDone, {"sound"}));
  }
}

TEST_F(DamagedWeights, OnesTooLargeForAScaleAreRefused) {
  for (const char* weights : {"w8", "q8", "q4"}) {
    EXPECT_TRUE(ends(convert_with({3e34f, -1e34f}, weights), kBadInput,
                     {"'1.gate_up'", "too large", "--keep 1.gate=f32,1.up=f32"}))
        << weights;
  }
  EXPECT_FALSE(wrote());
}

TEST_F(ConvertFewBits, WritesNoModelWithoutItsReport) {
  EXPECT_TRUE(ends(convert({"--weights", "q8", "--report", path("no/such/folder.html")}), kBadInput,
                   {"folder.html", "No such file or directory"}));
  EXPECT_TRUE(
      ends(convert({"--weights", "q8", "--report", path("r.txt")}), kBadUsage, {".html", ".json"}));
  EXPECT_FALSE(wrote());
}

TEST_F(ConvertFewBits, ReportsWhatItFound) {
  EXPECT_TRUE(ends(convert({"--weights", "q4", "--max-kl", "1", "--report", path("r.json")}), kDone,
                   {"q4"}));
  std::ifstream file(path("r.json"));
  const auto report = nlohmann::json::parse(file);
  const auto& found = report["report"]["conversion"];
  EXPECT_FALSE(found["tensors"].empty());
  EXPECT_FALSE(found["hidden_states"].empty());
  EXPECT_EQ(found["limits"][0]["option"], "--max-kl");
  EXPECT_TRUE(found["limits"][0]["is_met"]);
}

}  // namespace
}  // namespace arenite::testing
