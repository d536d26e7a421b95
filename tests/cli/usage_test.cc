// SPDX-License-Identifier: Apache-2.0
// Bad usage ends with exit code 2 and a message; help always succeeds.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/printed.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

const char* const kListed[] = {"convert",  "inspect", "embed",  "bundle", "run",
                               "generate", "bench",   "verify", "strip",  "repack"};

TEST(Usage, ListsCommandsWithoutArguments) {
  const ProgramResult result = run_arenite({});
  EXPECT_TRUE(ends(result, kBadUsage, {"Usage: arenite", "convert", "run", "bench", "Example"}));
  EXPECT_EQ(result.output, result.errors);
}

TEST(Usage, HelpOfEveryCommandShowsAnExample) {
  const ProgramResult all = run_arenite({"--help"});
  EXPECT_TRUE(ends(all, kDone, {"Example", "Exits with 1 for bad input"}));
  EXPECT_TRUE(all.errors.empty());
  for (const std::string command : kListed) {
    EXPECT_NE(all.output.find("\n  " + command + " "), std::string::npos) << command;
    for (const char* option : {"--help", "-h"}) {
      const ProgramResult help = run_arenite({command, option});
      EXPECT_TRUE(
          ends(help, kDone, {"Usage: arenite " + command, "Example", "  arenite " + command}));
      EXPECT_TRUE(help.errors.empty());
    }
  }
}

TEST(Usage, HelpSaysWhichTargetIsForMicrocontrollers) {
  const ProgramResult help = run_arenite({"convert", "--help"});
  EXPECT_TRUE(ends(help, kDone));
  EXPECT_NE(in_one_line(help.output).find("portable is for microcontrollers (Cortex-M)"),
            std::string::npos);
}

// Where the standard output is no terminal, a line has 80 columns; examples and tables stay as they
// are.
TEST(Usage, HelpIsWrapped) {
  for (const std::string command : kListed) {
    std::istringstream help(run_arenite({command, "--help"}).output);
    for (std::string line; std::getline(help, line);) {
      const bool is_of_an_option = line.find_first_not_of(' ') == 24;
      if (line.starts_with(' ') && !is_of_an_option) continue;
      EXPECT_LE(line.size(), 80u) << command << ": " << line;
    }
  }
}

TEST(Usage, SaysItsVersion) {
  EXPECT_TRUE(ends(run_arenite({"--version"}), kDone, {"arenite 0."}));
}

TEST(Usage, RefusesUnknownCommandsAndOptions) {
  EXPECT_TRUE(ends(run_arenite({"frobnicate"}), kBadUsage,
                   {"arenite: there is no command 'frobnicate'", "arenite --help"}));
  EXPECT_TRUE(ends(run_arenite({"--frobnicate"}), kBadUsage, {"'--frobnicate'"}));
  EXPECT_TRUE(ends(run_arenite({"convert", "a", "-o", "b", "--frobnicate"}), kBadUsage,
                   {"arenite convert: ", "--frobnicate", "arenite convert --help"}));
}

TEST(Usage, SuggestsSimilarNames) {
  const struct {
    std::vector<std::string> words;
    std::string_view message;
  } cases[] = {
      {{"convrt", "a"}, "there is no command 'convrt': did you mean convert?"},
      {{"rn"}, "there is no command 'rn': did you mean run?"},
      {{"--versoin"}, "there is no option '--versoin': did you mean --version?"},
      {{"convert", "a", "--ouput", "b"}, "there is no option '--ouput': did you mean --output?"},
      {{"convert", "a", "-o", "b", "--wieghts=q8"}, "'--wieghts=q8': did you mean --weights?"},
      {{"generate", "a", "--top_k", "5"}, "there is no option '--top_k': did you mean --top-k?"},
      {{"classify", "a", "--txt", "b"}, "there is no option '--txt': did you mean --text?"},
      {{"generate", "a", "b"}, "arenite generate: there is nothing to do with 'b'\n"},
      {{"frobnicate"}, "there is no command 'frobnicate'\n"},
      {{"inspect", "a", "-x"}, "there is no option '-x'\n"},
  };
  for (const auto& [words, message] : cases) {
    EXPECT_TRUE(ends(run_arenite(words), kBadUsage, {message}));
  }
}

TEST(Usage, NamesTheArgumentThatIsMissing) {
  EXPECT_TRUE(ends(run_arenite({"convert"}), kBadUsage, {"checkpoint is required"}));
  EXPECT_TRUE(ends(run_arenite({"convert", "a"}), kBadUsage, {"--output is required"}));
  EXPECT_TRUE(ends(run_arenite({"run", "a"}), kBadUsage, {"--input is required"}));
  EXPECT_TRUE(ends(run_arenite({"run", "a", "--input", "b"}), kBadUsage, {"--output is required"}));
  EXPECT_TRUE(ends(run_arenite({"bench"}), kBadUsage, {"model is required"}));
  EXPECT_TRUE(ends(run_arenite({"inspect"}), kBadUsage, {"model is required"}));
  EXPECT_TRUE(ends(run_arenite({"embed", "a"}), kBadUsage, {"--output is required"}));
  EXPECT_TRUE(ends(run_arenite({"strip", "a"}), kBadUsage, {"--output is required"}));
  EXPECT_TRUE(ends(run_arenite({"repack", "a", "-o", "b"}), kBadUsage, {"--target is required"}));
  EXPECT_TRUE(ends(run_arenite({"verify"}), kBadUsage, {"model is required"}));
}

TEST(Usage, RefusesNumbersOutOfRangeAndSaysWhatWasExpected) {
  const std::vector<std::vector<std::string>> commands = {
      {"convert", "a", "-o", "b", "--heads"},
      {"convert", "a", "-o", "b", "--context"},
      {"convert", "a", "-o", "b", "--window"},
      {"convert", "a", "-o", "b", "--features"},
      {"run", "a", "--input", "b", "--output", "c", "--threads"},
      {"run", "a", "--input", "b", "--output", "c", "--chunk"},
      {"generate", "a", "--context"},
      {"generate", "a", "--chunk"},
      {"generate", "a", "--temperature", "1", "--top-k"},
      {"generate", "a", "--repeat-last"},
      {"bench", "a", "--tokens"},
      {"bench", "a", "--prompt"},
      {"bench", "a", "--context"},
      {"bench", "a", "--threads"},
      {"inspect", "a", "--positions"},
      {"embed", "a", "-o", "b", "--tokens"}};
  for (std::vector<std::string> words : commands) {
    for (const char* number : {"0", "-1", "99999999999", "1.5", "many", "0x10", " 1"}) {
      // All are read by one function; with a sanitizer, calls of the program take most time.
      if (kSanitized && number != std::string_view("many")) continue;
      std::vector<std::string> complete = words;
      complete.push_back(number);
      EXPECT_TRUE(
          ends(run_arenite(complete), kBadUsage,
               {words.back(), "found '" + std::string(number) + "'", "expected a whole number"}));
    }
  }
  EXPECT_TRUE(ends(run_arenite({"run", "a", "--input", "b", "--output", "c", "--lengths", "3,-1"}),
                   kBadUsage, {"--lengths: found '-1'"}));
}

TEST(Usage, ListsTargetsAndKernelSetsForAnUnknownOne) {
  for (const char* target : {"z80", "", "portable,", "portable,,arm64", "PORTABLE"}) {
    EXPECT_TRUE(
        ends(run_arenite({"convert", "a", "-o", "b", "--target", target}), kBadUsage,
             {"--target", "unknown target '", "all, or some of native", "portable", "arm64"}));
  }
  EXPECT_TRUE(ends(run_arenite({"run", "a", "--input", "b", "--output", "c", "--kernels", "mmx"}),
                   kBadUsage, {"--kernels", "'mmx'", "scalar, sse41, avx2, avx512, neon"}));
  EXPECT_TRUE(ends(run_arenite({"bench", "a", "--kernels", "mmx"}), kBadUsage, {"'mmx'"}));
}

TEST(Usage, SaysWhichTargetIsForACpu) {
  for (const auto& [cpu, target] : std::initializer_list<std::pair<const char*, const char*>>{
           {"cortex-m7", "take cortex-m-dsp"},
           {"Cortex-M4F", "take cortex-m-dsp"},
           {"cortex_m55", "take cortex-m-mve"},
           {"cortex-m0plus", "take portable"},
           {"rp2040", "take portable"},
           {"esp32", "take portable"},
           {"armv7-m", "take portable"},
           {"armv8", "take arm64"},
           {"aarch64", "take arm64"},
           {"cortex-a53", "take arm64"},
           {"cortex-a9", "take arm32"},
           {"riscv64", "take rv64"},
           {"avx2", "take x86-64-v3"}}) {
    EXPECT_TRUE(ends(run_arenite({"convert", "a", "-o", "b", "--target", cpu}), kBadUsage,
                     {"unknown target '", "for that CPU ", target, "all, or some of native"}));
  }
}

TEST(Usage, RefusesOptionsThatContradictEachOther) {
  EXPECT_TRUE(ends(run_arenite({"convert", "a", "-o", "b", "--causal", "--bidirectional"}),
                   kBadUsage, {"--causal", "--bidirectional"}));
  EXPECT_TRUE(
      ends(run_arenite({"convert", "a", "-o", "b", "--window", "3", "--causal"}), kBadUsage));
  EXPECT_TRUE(ends(run_arenite({"convert", "a", "-o", "b", "-o", "c"}), kBadUsage, {"--output"}));
  EXPECT_TRUE(ends(run_arenite({"convert", "a", "-o", "b", "--mask-ones", "maybe"}), kBadUsage,
                   {"--mask-ones", "maybe", "hidden", "visible"}));
}

TEST(Usage, SaysThatItsOutputCannotBeWritten) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  Command to_full;
  to_full.output_file = "/dev/full";
  EXPECT_TRUE(
      ends(run_arenite({"--help"}, to_full), kBadInput, {"cannot write to the standard output"}));
}

}  // namespace
}  // namespace arenite::testing
