// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite generate`: prompts, sampling, the end of generation, and refusals.
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "format/reader.h"
#include "support/byte_string.h"
#include "support/kernel_sets.h"
#include "support/model_surgery.h"

namespace arenite::testing {
namespace {

// Returns the standard output alone: `output` ends with the standard error.
std::string printed(const ProgramResult& result) {
  return result.output.substr(0, result.output.size() - result.errors.size());
}

TEST(Generate, ContinuesIdsAsTheRuntimeDoes) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const std::vector<TokenId> prompt = {5, 0, 36, 7, 7};
  const std::string continued = spaced(greedy_after(model, prompt, 9));
  const std::vector<std::string> words = {
      "generate", model, "--prompt-ids", listed(prompt), "--ids", "--tokens", "9"};
  const ProgramResult result = run_arenite(words);
  EXPECT_TRUE(ends(result, kDone,
                   {"prompt     5 tokens, ", "decode     9 tokens, ", "positions  13 of 70",
                    "arena ", "as many tokens as asked"}));
  EXPECT_EQ(printed(result), "5 0 36 7 7 " + continued + "\n");
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--no-prompt"},
                                             {"--no-prompt", "--chunk", "1"},
                                             {"--no-prompt", "--chunk", "3"},
                                             {"--no-prompt", "--threads", "2"},
                                             {"--no-prompt", "--skip-checksums"}}) {
    std::vector<std::string> complete = words;
    complete.insert(complete.end(), more.begin(), more.end());
    EXPECT_EQ(printed(run_arenite(complete)), continued + "\n") << more.back();
  }
}

TEST(Generate, StopsWhereTheContextIsFull) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const ProgramResult result = run_arenite(
      {"generate", model, "--prompt-ids", "1,2,3", "--ids", "--no-prompt", "--context", "8"});
  EXPECT_TRUE(ends(result, kDone, {"decode     6 tokens", "8 of 8", "the context is full"}));
  EXPECT_EQ(printed(result), spaced(greedy_after(model, {1, 2, 3}, 6)) + "\n");
  // The token predicted after a prompt that fills the context needs no position of its own.
  EXPECT_TRUE(
      ends(run_arenite({"generate", model, "--prompt-ids", "1,2,3", "--ids", "--context", "3"}),
           kDone, {"decode     1 token\n", "3 of 3"}));
}

// Writes the plain decoder with this value among the logits of every token.
std::string write_spoiled_decoder(const TempFolder& folder, float number) {
  const std::string sound = read_bytes(write_plain_decoder(folder));
  test::ModelSurgery surgery(std::as_bytes(std::span(sound)));
  const format::ModelReader reader(surgery.file());
  const uint32_t logits = reader.op(reader.ops() - 1).numbers[format::LinearOp::kTensor];
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    surgery.overwrite(reader.weights(i, logits).f32(), number);  // the bias of the first token
  }
  surgery.repair();
  return write_file(folder, "spoiled.arn", surgery.file());
}

TEST(Generate, RefusesNonFiniteLogits) {
  const TempFolder folder;
  for (const float number :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    const std::string model = write_spoiled_decoder(folder, number);
    for (const char* const temperature : {"0", "0.8"}) {
      for (const Target target : test::targets_here()) {
        const ProgramResult result =
            run_arenite({"generate", model, "--prompt-ids", "1,2", "--ids", "--no-prompt",
                         "--temperature", temperature, "--kernels", kernel_set_name(target)});
        EXPECT_TRUE(ends(result, kBadInput, {"spoiled.arn'", "NaN or infinity", "weights"}));
        EXPECT_TRUE(printed(result).empty()) << printed(result);
      }
    }
  }
}

TEST(Generate, FeedsAPromptWithoutContinuation) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const ProgramResult result =
      run_arenite({"generate", model, "--prompt-ids", "1,2", "--ids", "--tokens", "0"});
  EXPECT_TRUE(ends(result, kDone, {"decode     0 tokens\n", "positions  2 of 70"}));
  EXPECT_EQ(printed(result), "1 2\n");
}

TEST(Generate, PrintsTextAndTheSameAsIds) {
  const TempFolder folder;
  const std::string model = write_text_decoder(folder);
  const std::vector<std::string> words = {"generate",    model,      "--prompt",
                                          "ab \xC3\xA9", "--tokens", "6"};
  const ProgramResult text = run_arenite(words);
  EXPECT_TRUE(ends(text, kDone));
  EXPECT_TRUE(printed(text).starts_with("ab \xC3\xA9")) << printed(text);
  std::vector<std::string> as_ids = words;
  as_ids.push_back("--ids");
  const ProgramResult ids = run_arenite(as_ids);
  EXPECT_TRUE(printed(ids).starts_with(std::to_string(kTextBos) + " ")) << printed(ids);
  const std::string file = folder.write("prompt.txt", "ab \xC3\xA9").string();
  EXPECT_EQ(printed(run_arenite({"generate", model, "--prompt-file", file, "--tokens", "6"})),
            printed(text));
}

TEST(Generate, ReadsThePromptFromTheStandardInput) {
  const TempFolder folder;
  const std::string model = write_text_decoder(folder);
  const ProgramResult piped =
      run({"sh", "-c", "printf 'ab b' | \"$0\" generate \"$1\" --prompt-file - --tokens 5",
           ARENITE_PROGRAM, model});
  const ProgramResult given = run_arenite({"generate", model, "--prompt", "ab b", "--tokens", "5"});
  EXPECT_TRUE(ends(piped, kDone));
  EXPECT_EQ(printed(piped), printed(given));
}

TEST(Generate, StartsAnEmptyPromptFromTheTokenThatBeginsAText) {
  const TempFolder folder;
  const std::string model = write_text_decoder(folder);
  for (const std::vector<std::string>& prompt :
       std::vector<std::vector<std::string>>{{}, {"--prompt", ""}}) {
    std::vector<std::string> words = {"generate", model, "--ids", "--tokens", "3"};
    words.insert(words.end(), prompt.begin(), prompt.end());
    const std::string ids = printed(run_arenite(words));
    EXPECT_TRUE(ids.starts_with(std::to_string(kTextBos))) << ids;
  }
}

TEST(Generate, ReadsNamesOfSpecialTokensOnlyIfAsked) {
  const TempFolder folder;
  const std::string model = write_text_decoder(folder);
  const std::vector<std::string> words = {"generate", model, "--prompt", "a</s>b",
                                          "--tokens", "0",   "--ids"};
  const std::string end = " " + std::to_string(kTextEnd) + " ";
  EXPECT_EQ(printed(run_arenite(words)).find(end), std::string::npos);
  std::vector<std::string> special = words;
  special.push_back("--special");
  EXPECT_NE(printed(run_arenite(special)).find(end), std::string::npos);
  special.erase(special.end() - 2);
  EXPECT_NE(printed(run_arenite(special)).find("</s>"), std::string::npos);
}

TEST(Generate, WarnsOfNamesOfSpecialTokensThatItReadsAsText) {
  const TempFolder folder;
  const std::string model = write_text_decoder(folder);
  const std::vector<std::string> words = {"generate", model, "--prompt", "a</s>b", "--tokens", "0"};
  EXPECT_TRUE(ends(run_arenite(words), kDone,
                   {"warning: the prompt contains '</s>'", "plain text", "--special"}));
  std::vector<std::string> special = words;
  special.push_back("--special");
  EXPECT_EQ(run_arenite(special).errors.find("warning"), std::string::npos);
  EXPECT_EQ(
      run_arenite({"generate", model, "--prompt", "a/s", "--tokens", "0"}).errors.find("warning"),
      std::string::npos);
}

TEST(Generate, LeavesOutTheLineFeedAtTheEndOfAPromptFile) {
  const TempFolder folder;
  const std::string model = write_text_decoder(folder);
  const auto ids = [&](const std::string& text) {
    const std::string file = folder.write("prompt.txt", text).string();
    return printed(
        run_arenite({"generate", model, "--prompt-file", file, "--tokens", "0", "--ids"}));
  };
  EXPECT_EQ(ids("ab b\n"), ids("ab b"));
  EXPECT_EQ(ids("ab b\r\n"), ids("ab b"));
  EXPECT_NE(ids("ab b\n\n"), ids("ab b"));  // one alone: an empty line was meant
}

TEST(Generate, WarnsOfCharactersThatTheVocabularyLacks) {
  const TempFolder folder;
  const std::string text =
      "ab \xC3\xA9 \xE2\x82\xAC"
      "a\xC3\xA9";
  const std::vector<std::string> words = {
      "generate", write_decoder_without_byte_tokens(folder), "--prompt", text, "--tokens", "0"};
  const std::string warning =
      "the prompt: the vocabulary has no token for '\xC3\xA9' (U+00E9), '\xE2\x82\xAC' (U+20AC): "
      "they are read as '<unk>'";
  EXPECT_TRUE(ends(run_arenite(words), kDone, {"warning: " + warning + "\n"}));
  std::vector<std::string> as_json = words;
  as_json.emplace_back("--json");
  EXPECT_EQ(nlohmann::json::parse(run_arenite(as_json).output)["warnings"],
            nlohmann::json::array({warning}));
  const std::string many = folder.write("many.txt", "cdefghijklmnop").string();
  EXPECT_TRUE(ends(run_arenite({"generate", words[1], "--prompt-file", many, "--tokens", "0"}),
                   kDone, {"'c' (U+0063), ", "'j' (U+006A), and more: they are"}));
  // One that has bytes for all characters says nothing.
  const ProgramResult sayable =
      run_arenite({"generate", write_text_decoder(folder), "--prompt", text, "--tokens", "0"});
  EXPECT_EQ(sayable.errors.find("warning"), std::string::npos);
}

TEST(Generate, PrintsTheSameAsJson) {
  const TempFolder folder;
  const std::string model = write_text_decoder(folder);
  const std::vector<std::string> words = {"generate", model, "--prompt", "ab b", "--tokens", "5"};
  std::vector<std::string> as_json = words;
  as_json.push_back("--json");
  Command quiet;
  quiet.errors_file = "/dev/null";
  const nlohmann::json json =
      nlohmann::json::parse(run_arenite(as_json, quiet).output, nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["prompt"], "ab b");
  EXPECT_EQ(json["stop"], "tokens");
  std::vector<std::string> as_ids = words;
  as_ids.push_back("--ids");
  as_ids.push_back("--no-prompt");
  EXPECT_EQ(run_arenite(as_ids, quiet).output,
            spaced(json["ids"].get<std::vector<TokenId>>()) + "\n");
}

TEST(Generate, EndsBeforeAStopText) {
  const TempFolder folder;
  const std::string model = (folder.path() / "intent.arn").string();
  const std::filesystem::path top =
      std::filesystem::path(ARENITE_INCLUDE).parent_path().parent_path();
  ASSERT_TRUE(ends(run_arenite({"convert", (top / "models" / "home-intent").string(), "-o", model}),
                   kDone));
  const std::vector<std::string> words = {
      "generate",   model, "--special", "--prompt", "dim the bedroom lamp to thirty percent<|do|>",
      "--no-prompt"};
  const auto json_with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.insert(all.end(), more.begin(), more.end());
    all.emplace_back("--json");
    return nlohmann::json::parse(run_arenite(all).output);
  };
  const nlohmann::json whole = json_with({});
  EXPECT_EQ(whole["text"], "light.bedroom.brightness=30");
  EXPECT_EQ(whole["stop"], "end_token");
  const auto whole_ids = whole["ids"].get<std::vector<TokenId>>();
  for (const char* const stop : {".", "bedroom", "ess=3", "l", "0"}) {
    const nlohmann::json json = json_with({"--stop", stop});
    const std::string text = json["text"];
    EXPECT_EQ(text, whole["text"].get<std::string>().substr(
                        0, whole["text"].get<std::string>().find(stop)));
    EXPECT_EQ(json["stop"], "stop_text");
    // The ids are the shortest prefix of the whole output that decodes to the text.
    const auto ids = json["ids"].get<std::vector<TokenId>>();
    ASSERT_LT(ids.size(), whole_ids.size());
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), whole_ids.begin()));
    const auto text_of = [&](size_t tokens) -> std::string {
      return json_with({"--tokens", std::to_string(tokens)})["text"];
    };
    EXPECT_TRUE(text_of(ids.size()).starts_with(text)) << stop;
    if (!ids.empty()) {
      EXPECT_LT(text_of(ids.size() - 1).size(), text.size()) << stop;
    }
  }
  std::vector<std::string> stopped = words;
  stopped.insert(stopped.end(), {"--stop", "bedroom"});
  const ProgramResult result = run_arenite(stopped);
  EXPECT_TRUE(ends(result, kDone, {"stopped    a text of --stop came"}));
  EXPECT_EQ(printed(result), "light.\n");
}

TEST(Generate, GivesTheSameTextForTheSameSeed) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const auto text = [&](const std::string& seed, const std::string& threads) {
    return printed(run_arenite({"generate",
                                model,
                                "--prompt-ids",
                                "4",
                                "--ids",
                                "--tokens",
                                "30",
                                "--temperature",
                                "1.5",
                                "--top-k",
                                "20",
                                "--top-p",
                                "0.95",
                                "--min-p",
                                "0.01",
                                "--repeat-penalty",
                                "1.1",
                                "--repeat-last",
                                "5",
                                "--seed",
                                seed,
                                "--threads",
                                threads}));
  };
  const std::string first = text("7", "1");
  EXPECT_EQ(text("7", "1"), first);
  EXPECT_EQ(text("7", "2"), first);
  EXPECT_NE(text("8", "1"), first);
  EXPECT_NE(text("18446744073709551615", "1"), first);
}

TEST(Generate, RefusesPromptsThatDoNotFitAndPrintsNothing) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const std::string text = write_text_decoder(folder);
  const auto refuses = [](const std::vector<std::string>& words,
                          std::initializer_list<std::string_view> parts) {
    const ProgramResult result = run_arenite(words);
    if (const auto ended = ends(result, kBadInput, parts); !ended) return ended;
    if (!printed(result).empty()) return ::testing::AssertionFailure() << printed(result);
    return ::testing::AssertionSuccess();
  };
  EXPECT_TRUE(refuses({"generate", model, "--prompt-ids", "1,2,3,4,5", "--ids", "--context", "4"},
                      {"plain.arn'", "the prompt has 5 tokens", "at most 4"}));
  EXPECT_TRUE(refuses({"generate", text, "--prompt", std::string(100, 'z')},
                      {"text.arn'", "the prompt has 10", "at most 70"}));
  EXPECT_TRUE(refuses({"generate", model, "--prompt-ids", "1,37", "--ids"},
                      {"found token 37", "below 37"}));
  EXPECT_TRUE(refuses({"generate", model, "--prompt-ids", "1", "--ids", "--context", "71"},
                      {"--context: found 71", "at most 70"}));
  EXPECT_TRUE(refuses({"generate", model, "--prompt", "a"}, {"no tokenizer", "--prompt-ids"}));
  EXPECT_TRUE(refuses({"generate", model, "--ids"}, {"no tokenizer", "--prompt-ids"}));
  EXPECT_TRUE(refuses({"generate", text, "--prompt-file", folder.path().string()},
                      {"cannot read '", "it is a directory, not a regular file"}));
  EXPECT_TRUE(refuses({"generate", text, "--prompt-file", "/none/p.txt"},
                      {"cannot open '/none/p.txt'", "No such file"}));
  EXPECT_TRUE(refuses({"generate", convert_small(folder), "--prompt", "a"},
                      {"small.arn'", "features, not tokens"}));
}

TEST(Generate, NoticesDamagedWeightsUnlessChecksumsAreSkipped) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  std::string bytes = read_bytes(model);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  folder.write("plain.arn", bytes);
  const std::vector<std::string> words = {"generate", model, "--prompt-ids", "1",
                                          "--tokens", "1",   "--ids"};
  EXPECT_TRUE(ends(run_arenite(words), kBadInput, {"packed weights are damaged"}));
  std::vector<std::string> skipped = words;
  skipped.push_back("--skip-checksums");
  EXPECT_TRUE(ends(run_arenite(skipped), kDone));
}

TEST(Generate, SaysThatItsOutputCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const TempFolder folder;
  Command to_full;
  to_full.output_file = "/dev/full";
  EXPECT_TRUE(ends(run_arenite({"generate", write_text_decoder(folder)}, to_full), kBadInput,
                   {"cannot write to the standard output"}));
}

TEST(Generate, RefusesOptionsOutOfRangeOrWithoutTemperature) {
  const std::vector<std::vector<std::string>> cases = {
      {"--temperature", "-1"},   {"--temperature", "nan"}, {"--temperature", "inf"},
      {"--top-p", "0"},          {"--top-p", "1.5"},       {"--min-p", "-0.1"},
      {"--repeat-penalty", "0"}, {"--repeat-penalty", "x"}};
  for (const std::vector<std::string>& option : cases) {
    EXPECT_TRUE(ends(run_arenite({"generate", "a", option[0], option[1]}), kBadUsage,
                     {option[0], "found '" + option[1] + "'", "expected a number"}));
  }
  for (const char* option : {"--top-k", "--top-p", "--min-p"}) {
    EXPECT_TRUE(ends(run_arenite({"generate", "a", option, "1"}), kBadUsage, {"--temperature"}));
  }
  EXPECT_TRUE(ends(run_arenite({"generate", "a", "--prompt", "a", "--prompt-ids", "1"}), kBadUsage,
                   {"--prompt-ids"}));
}

}  // namespace
}  // namespace arenite::testing
