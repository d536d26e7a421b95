// SPDX-License-Identifier: Apache-2.0
// Tests of help, which must fit a screen, and of the topics, man pages and completions that are
// generated from the same options.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "cli/printed.h"

namespace arenite::testing {
namespace {

constexpr int kScreenLines = 50;

const char* const kCommands[] = {"convert",  "inspect", "verify", "strip",    "repack",
                                 "embed",    "bundle",  "run",    "generate", "embed-text",
                                 "classify", "bench",   "help"};
const char* const kTopics[] = {"formats", "state-dicts", "sound", "weights",
                               "limits",  "targets",     "json"};

TEST(Help, EachCommandFitsAScreen) {
  for (const std::string command : kCommands) {
    const std::string help = run_arenite({command, "--help"}).output;
    EXPECT_LE(std::ranges::count(help, '\n'), kScreenLines) << help;
  }
  EXPECT_LE(std::ranges::count(run_arenite({"--help"}).output, '\n'), kScreenLines);
}

TEST(Help, IsACommandToo) {
  EXPECT_EQ(run_arenite({"help"}).output, run_arenite({"--help"}).output);
  for (const std::string command : kCommands) {
    EXPECT_EQ(run_arenite({"help", command}).output, run_arenite({command, "--help"}).output);
  }
}

TEST(Help, HasTopicsForLongSubjects) {
  for (const char* topic : kTopics) {
    EXPECT_TRUE(ends(run_arenite({"help", topic}), kDone, {"Example"})) << topic;
  }
  EXPECT_TRUE(ends(run_arenite({"help", "formats"}), kDone, {"GGUF", "W_query", "llama"}));
  EXPECT_TRUE(ends(run_arenite({"help", "state-dicts"}), kDone, {"--norm-first", "num_heads"}));
  EXPECT_TRUE(ends(run_arenite({"help", "json", "inspect"}), kDone,
                   {"json-schema.org", "self_test", "needs"}));
}

TEST(Help, NamesEveryTargetAndThatOfMicrocontrollers) {
  const std::string help = in_one_line(run_arenite({"help", "targets"}).output);
  for (const char* target : {"portable scalar", "x86-64-v4-vnni", "arm64-i8mm", "arm32",
                             "cortex-m-dsp dsp", "cortex-m-mve mve", "rv64-v128 rvv128"}) {
    EXPECT_NE(help.find(target), std::string::npos) << help;
  }
  EXPECT_NE(help.find("For a microcontroller (Cortex-M, RISC-V) it is 'portable'"),
            std::string::npos);
}

TEST(Help, ShowsRareOptionsByNameAndAllOfThemIfAsked) {
  const std::string brief = run_arenite({"convert", "--help"}).output;
  const std::string all = run_arenite({"convert", "--help-all"}).output;
  EXPECT_NE(brief.find("--rope-theta"), std::string::npos);
  EXPECT_EQ(brief.find("RoPE base"), std::string::npos);
  EXPECT_NE(all.find("RoPE base"), std::string::npos);
}

TEST(Help, RefusesUnknownTopics) {
  EXPECT_TRUE(ends(run_arenite({"help", "targts"}), kBadUsage, {"'targts'", "targets", "convert"}));
  EXPECT_TRUE(ends(run_arenite({"help", "convert", "run"}), kBadUsage, {"'run'"}));
  EXPECT_TRUE(ends(run_arenite({"help", "json", "help"}), kBadUsage, {"'help' has no --json"}));
}

TEST(ManPage, HasTheOptionsOfItsCommand) {
  const std::string page = run_arenite({"help", "--man", "convert"}).output;
  EXPECT_TRUE(page.starts_with(".TH arenite\\-convert 1 ")) << page;
  for (const char* part : {".SH SYNOPSIS", ".SH OPTIONS", ".SH EXAMPLES", ".SS State dicts",
                           ".B \\-\\-rope\\-theta X"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
  const std::string program = run_arenite({"help", "--man"}).output;
  for (const std::string command : kCommands) {
    EXPECT_NE(program.find(".TP\n.B " + std::regex_replace(command, std::regex("-"), "\\-")),
              std::string::npos)
        << command;
  }
}

// groff warns about what it does not understand.
TEST(ManPage, IsOneThatGroffUnderstands) {
  if (run({"sh", "-c", "command -v groff"}).exit_code != 0) GTEST_SKIP() << "there is no groff";
  for (const std::string page : {"convert", "bench", "help", "formats", "targets", "state-dicts"}) {
    const ProgramResult result =
        run({"sh", "-c", "\"$0\" help --man \"$1\" | groff -man -ww -Tutf8 -P-cbou",
             ARENITE_PROGRAM, page});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.errors, "") << page;
    EXPECT_NE(result.output.find("EXAMPLES"), std::string::npos) << result.output;
  }
}

// Returns the completions that bash proposes for the last of these words.
std::string proposed(const std::string& words) {
  const ProgramResult result = run(
      {"bash", "-c",
       "arenite() { \"$program\" \"$@\"; }; program=$0; source <(arenite help --completion bash); "
       "COMP_WORDS=($1); [[ $1 == *' ' ]] && COMP_WORDS+=(''); "
       "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _arenite; echo \"${COMPREPLY[@]}\"",
       ARENITE_PROGRAM, words});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

TEST(Completion, ProposesCommandsOptionsAndValuesInBash) {
  if (run({"sh", "-c", "command -v bash"}).exit_code != 0) GTEST_SKIP() << "there is no bash";
  EXPECT_EQ(proposed("arenite conv"), "convert\n");
  EXPECT_EQ(proposed("arenite convert x --weights q"), "q8 q4\n");
  EXPECT_EQ(proposed("arenite convert x --max-p"), "--max-perplexity-increase\n");
  EXPECT_EQ(proposed("arenite repack --target port"), "portable\n");
  EXPECT_EQ(proposed("arenite help targ"), "targets\n");
  EXPECT_EQ(proposed("arenite bench --threads "), "\n");
  EXPECT_EQ(proposed("arenite inspect /et"), "/etc\n");
  EXPECT_EQ(proposed("arenite convert x -o /et"), "/etc\n");
}

TEST(Completion, HasAMeaningForEachWord) {
  const auto completions = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"help", "--complete", "--"});
    return run_arenite(words).output;
  };
  EXPECT_NE(completions({""}).find("convert\tConvert a decoder"), std::string::npos);
  EXPECT_NE(completions({"convert", "--out"}).find("--output\tThe model file to write\n"),
            std::string::npos);
  EXPECT_EQ(completions({"convert", "--kv", ""}), "f32\nint8\n");
}

TEST(Completion, IsOneThatOtherShellsUnderstand) {
  for (const std::string shell : {"zsh", "fish"}) {
    if (run({"sh", "-c", "command -v " + shell}).exit_code != 0) continue;
    const ProgramResult result = run(
        {"sh", "-c", "\"$0\" help --completion $1 >\"$2\" && $1 -n \"$2\"", ARENITE_PROGRAM, shell,
         (TempFolder().path().parent_path() / ("arenite_completion." + shell)).string()});
    EXPECT_EQ(result.exit_code, 0) << shell << ": " << result.output;
  }
}

}  // namespace
}  // namespace arenite::testing
