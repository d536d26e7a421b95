// SPDX-License-Identifier: Apache-2.0
// Texts in NFC and NFD through the commands that read texts, and the report of convert about them.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/printed.h"
#include "cli/program.h"
#include "convert/program/writer.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/encoder_factory.h"
#include "support/kernel_sets.h"
#include "support/test_data.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kComposed = "caf\xC3\xA9 \xC3\x85";
const std::string kDecomposed = "cafe\xCC\x81 \xE2\x84\xAB";  // the angstrom sign is an old form

// home-intent, with a tokenizer that normalizes.
class NormalForm : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef ARENITE_HAVE_UTF8PROC
    GTEST_SKIP() << "this build lacks utf8proc";
#endif
    const fs::path source = project_folder() / "models" / "home-intent";
    for (const char* name : {"config.json", "model.safetensors"}) {
      fs::copy_file(source / name, folder_.path() / name);
    }
    std::ifstream in(source / "tokenizer.json");
    json tokenizer = json::parse(in);
    plain_ = convert(tokenizer, "plain.arn");
    tokenizer["normalizer"] = {{"type", "NFC"}};
    folder_.write("tokenizer_config.json", R"({"add_bos_token": true})");
    normal_ = convert(tokenizer, "normal.arn");
  }

  std::string convert(const json& tokenizer, const char* name) {
    folder_.write("tokenizer.json", tokenizer.dump());
    const std::string file = (folder_.path() / name).string();
    report_ = run_arenite(
        {"convert", folder_.path().string(), "-o", file, "--target", "portable", "--verbose"});
    EXPECT_TRUE(ends(report_, kDone, {"unicode    character classes of Unicode 1"}));
    return file;
  }

  // The ids of a prompt.
  static std::string ids(const std::string& model, std::vector<std::string> prompt) {
    prompt.insert(prompt.begin(), {"generate", model, "--ids", "--tokens", "0"});
    const ProgramResult result = run_arenite(prompt);
    EXPECT_TRUE(ends(result, kDone, {"decode     0 tokens"}));
    return result.output.substr(0, result.output.size() - result.errors.size());
  }

  TempFolder folder_;
  std::string plain_, normal_;
  ProgramResult report_;  // of the last conversion
};

TEST_F(NormalForm, PromptsAreNormalizedAsTheTokenizerExpects) {
  EXPECT_NE(ids(plain_, {"--prompt", kDecomposed}), ids(plain_, {"--prompt", kComposed}));
  const std::string expected = ids(plain_, {"--prompt", kComposed});
  EXPECT_EQ(ids(normal_, {"--prompt", kComposed}), expected);
  EXPECT_EQ(ids(normal_, {"--prompt", kDecomposed}), expected);
  const std::string file = folder_.write("prompt.txt", kDecomposed).string();
  EXPECT_EQ(ids(normal_, {"--prompt-file", file}), expected);
}

// U+0338 after ">" composes to one character in NFC.
TEST_F(NormalForm, DoesNotChangeNamesOfSpecialTokens) {
  const std::string text = "<|do|>\xCC\xB8";
  EXPECT_EQ(ids(normal_, {"--prompt", text, "--special"}),
            ids(plain_, {"--prompt", text, "--special"}));
  EXPECT_NE(ids(normal_, {"--prompt", text}), ids(plain_, {"--prompt", text}));
}

TEST_F(NormalForm, ContradictionsAreReported) {
  EXPECT_TRUE(ends(report_, kDone,
                   {"texts must be in Unicode normalization form C",
                    "add_bos_token is true; but texts begin with no token"}));
}

std::string write_encoder(const TempFolder& folder, test::EncoderShape shape, uint32_t flags) {
  convert::TokenizerSpec spec = test::word_spec({"a", "\xC3\xA9"});
  spec.flags |= flags;
  convert::complete_tokenizer(spec);
  shape.vocab_size = static_cast<uint32_t>(spec.tokens.size());
  convert::Program program = test::encoder_program(shape);
  program.tokenizer = std::move(spec);
  const std::string name = shape.name + std::to_string(flags) + ".arn";
  return write_file(folder, name, convert::write_model(program, test::all_targets()).span());
}

// Returns the output of a command on a text, with the text itself removed.
std::string printed(const std::string& command, const std::string& model, const std::string& text) {
  std::string output = run_arenite({command, model, "--text", text}).output;
  for (size_t at; (at = output.find(text)) != std::string::npos;) output.erase(at, text.size());
  return output;
}

TEST_F(NormalForm, TextsForEncodersAreNormalizedAsTheTokenizerExpects) {
  test::EncoderShape sentences = test::encoder_named("sentences");
  test::EncoderShape classifier = test::encoder_named("classifier");
  classifier.classes = 3;
  const std::pair<const char*, test::EncoderShape> commands[] = {{"embed-text", sentences},
                                                                 {"classify", classifier}};
  for (const auto& [command, shape] : commands) {
    const std::string plain = write_encoder(folder_, shape, 0);
    const std::string normal = write_encoder(folder_, shape, format::kExpectsNfc);
    const std::string expected = printed(command, plain, "\xC3\xA9");
    EXPECT_NE(printed(command, plain, "e\xCC\x81"), expected) << command;
    EXPECT_EQ(printed(command, normal, "\xC3\xA9"), expected) << command;
    EXPECT_EQ(printed(command, normal, "e\xCC\x81"), expected) << command;
  }
}

}  // namespace
}  // namespace arenite::testing
