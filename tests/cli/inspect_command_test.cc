// SPDX-License-Identifier: Apache-2.0
// Tests of the text that `arenite inspect` prints, and of its refusals.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>

#include "arenite/session.h"
#include "cli/program.h"
#include "convert/program/writer.h"
#include "support/decoder_factory.h"
#include "support/model_factory.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using test::ModuleSpec;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string printed_facts(const std::string& file, std::vector<std::string> options = {}) {
  options.insert(options.begin(), {"inspect", file});
  const ProgramResult result = run_arenite(options);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

size_t widest_line_after_first(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);
  size_t widest = 0;
  while (std::getline(lines, line)) widest = std::max(widest, line.size());
  return widest;
}

TEST(Inspect, PrintsEverySectionOfEveryKindOfModelWithin100Columns) {
  const TempFolder folder;
  for (const ModuleSpec& spec : test::all_specs()) {
    SCOPED_TRACE(spec.name);
    const std::string text =
        printed_facts(write_file(folder, "m.arn", test::make_model(spec).span()));
    for (const char* part : {"\nTargets\n", "\nProgram\n", "\nMasks\n", "\nCaches ",
                             "\nArena for P = ", "session", "kv cache", "activations", "scratch"}) {
      EXPECT_TRUE(holds(text, part)) << part << "\n" << text;
    }
    EXPECT_TRUE(holds(text, spec.name));
    EXPECT_EQ(spec.head_dim != 0, holds(text, "\nTensors "));
    EXPECT_LE(widest_line_after_first(text), 100u) << text;
  }
}

TEST(Inspect, SaysWhichCpusAFileServes) {
  const TempFolder folder;
  const auto model =
      test::make_model(test::spec_named("causal"), {Target::kPortable, Target::kX86_64_v4_vnni});
  EXPECT_TRUE(holds(printed_facts(write_file(folder, "m.arn", model.span())),
                    "  portable serves every CPU\n"
                    "  x86-64-v4-vnni serves x86-64 with AVX-512 VNNI: Intel since Cascade Lake, "
                    "AMD since Zen 4\n"));
}

TEST(Inspect, NamesTheKindOfTokenizer) {
  const TempFolder folder;
  const auto words = test::model_with(test::word_spec({"a"}));
  EXPECT_TRUE(
      holds(printed_facts(write_file(folder, "w.arn", words.span())), "WordPiece, 5 tokens"));
  const auto none = test::make_model(test::all_specs().front());
  EXPECT_FALSE(holds(printed_facts(write_file(folder, "n.arn", none.span())), "tokenizer"));
}

TEST(Inspect, PrintsDecodersWithin100Columns) {
  const TempFolder folder;
  for (const test::DecoderShape& shape : test::all_decoders()) {
    SCOPED_TRACE(shape.name);
    const std::string text =
        printed_facts(write_file(folder, "m.arn", test::make_decoder_model(shape).span()));
    for (const char* part : {"\nTargets\n", "\nProgram\n", "\nTensors ", "\nCaches ", "embedding",
                             "attention_norm", "mlp_add", "select", "logits"}) {
      EXPECT_TRUE(holds(text, part)) << part << "\n" << text;
    }
    EXPECT_LE(widest_line_after_first(text), 100u) << text;
  }
}

TEST(Inspect, ShowsTheArenaThatPlanArenaSays) {
  const TempFolder folder;
  const convert::AlignedBytes bytes = test::make_model(test::spec_named("causal"));
  const Result<Model> model = Model::load(bytes.span());
  ASSERT_TRUE(model.ok());
  SessionOptions options;
  options.positions_max = 300;
  options.tokens_max = 7;
  options.sequences_max = 2;
  const Result<ArenaPlan> plan = plan_arena(*model, options);
  ASSERT_TRUE(plan.ok());
  const std::string text =
      printed_facts(write_file(folder, "m.arn", bytes.span()),
                    {"--positions", "300", "--tokens", "7", "--sequences", "2"});
  std::string total = std::to_string(plan->total_bytes);
  for (size_t i = total.size(); i > 3;) total.insert(i -= 3, 1, ',');
  EXPECT_TRUE(holds(text, total)) << total << "\n" << text;
  EXPECT_TRUE(holds(text, "P = 300 positions, T = 7 tokens a call, S = 2 sequences, N = 1 thread"));
}

TEST(Inspect, ReadsFilesThatThisCpuCannotRun) {
  const Target foreign =
      (cpu_targets() & bit(Target::kArm64)) != 0 ? Target::kX86_64_v2 : Target::kArm64;
  const TempFolder folder;
  const convert::AlignedBytes bytes = test::make_model(test::spec_named("causal"), {foreign});
  const std::string file = write_file(folder, "foreign.arn", bytes.span());
  EXPECT_TRUE(holds(printed_facts(file), "cannot run"));
  EXPECT_TRUE(holds(printed_facts(file, {"--brief"}), "which this CPU cannot run"));
}

TEST(Inspect, KeepsControlCharactersFromTheTerminal) {
  const TempFolder folder;
  ModuleSpec spec = test::spec_named("causal");
  // C0, DEL, C1, marks of direction and isolates, breaks of lines, what has no width, no UTF-8.
  spec.name =
      "red \x1b[31m\n\x7f \xc2\x9b 31m \xe2\x80\xae \xe2\x81\xa6 \xe2\x80\xa8 \xef\xbb\xbf "
      "\xd8\x9c "
      "\x9b\xff";
  const std::string file = write_file(folder, "m.arn", test::make_model(spec).span());
  EXPECT_TRUE(holds(printed_facts(file), "red ?[31m?? ? 31m ? ? ? ? ? \\x9B\\xFF\n"));
  const std::string json = run_arenite({"inspect", file, "--json"}).output;
  EXPECT_TRUE(holds(json, "\\u009b 31m \\u202e \\u2066 \\u2028 \\ufeff \\u061c"));
  for (const char* const raw : {"\xc2\x9b", "\xe2\x80\xae", "\xe2\x81\xa6", "\x7f"}) {
    EXPECT_FALSE(holds(json, raw));
  }
}

TEST(Inspect, KeepsControlCharactersOfPathsAndArgumentsFromTheTerminal) {
  const TempFolder folder;
  for (const char* const hostile : {"\xc2\x9b"
                                    "31m",
                                    "\xe2\x80\xae", "\xe2\x81\xa9", "\x1b[2J", "\x9b"}) {
    const std::string name = std::string("m") + hostile + ".arn";
    const std::string file =
        write_file(folder, name, test::make_model(test::spec_named("causal")).span());
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"inspect", file},
          {"inspect", file, "--brief"},
          {"inspect", file, "--json"},
          {"verify", file},
          {"inspect", file + hostile},
          {"inspect", file, std::string("--") + hostile},
          {"inspect", file, hostile},
          {hostile},
          {"inspect", file, "--positions", hostile},
          {"convert", file, "-o", file, "--target", hostile},
          {"run", file, "--input", file, "--output", hostile}}) {
      const ProgramResult result = run_arenite(command);
      EXPECT_FALSE(holds(result.output, hostile)) << fmt::format("{}", fmt::join(command, " "));
    }
    // The files made from the model, for readers and for compilers.
    const std::string made = (folder.path() / "made").string();
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"inspect", file, "--report", made + ".html"},
          {"embed", file, "-o", made + ".h"}}) {
      ASSERT_TRUE(ends(run_arenite(command), kDone));
      std::ifstream stream(command.back());
      const std::string text{std::istreambuf_iterator<char>(stream), {}};
      EXPECT_FALSE(text.empty() || holds(text, hostile)) << command.back();
    }
  }
}

TEST(Inspect, RefusesADamagedFileWithTheReason) {
  const TempFolder folder;
  convert::AlignedBytes bytes = test::make_model(test::spec_named("causal"));
  bytes.data()[100] ^= std::byte{1};
  const std::string file = write_file(folder, "damaged.arn", bytes.span());
  const ProgramResult result = run_arenite({"inspect", file});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(holds(result.output, file)) << result.output;
  EXPECT_TRUE(holds(result.output, "the metadata is damaged: its CRC-32C differs"));

  const std::string cut = write_file(folder, "cut.arn", bytes.span().first(500));
  EXPECT_TRUE(holds(run_arenite({"inspect", cut}).output, "the file is truncated"));
  const std::string empty = write_file(folder, "empty.arn", {});
  EXPECT_TRUE(holds(run_arenite({"inspect", empty}).output, "too short for a model"));
  EXPECT_EQ(run_arenite({"inspect", folder.path() / "none.arn"}).exit_code, 1);
}

// tests/bench/board_estimate_test.py tests the figures themselves.
TEST(Inspect, EstimatesTheCostOfACallOnABoard) {
  const TempFolder folder;
  const auto model = test::make_decoder_model(test::all_decoders().front());
  const std::string file = write_file(folder, "m.arn", model.span());
  const std::string text = printed_facts(file, {"--brief", "--board", "nucleo-h743"});
  for (const char* part : {"\nOn nucleo-h743 (STM32H743ZI", ", for cortex-m-dsp\n", "ms at 480 MHz",
                           "  run of ", "  step after "}) {
    EXPECT_TRUE(holds(text, part)) << part << "\n" << text;
  }
  EXPECT_LE(widest_line_after_first(text), 100u) << text;
  EXPECT_TRUE(holds(printed_facts(file, {"--board", "pico2", "--clock", "75.5"}),
                    "measured on a Cortex-M33 in QEMU, within 10 % of what"));
  const std::string without_fpu = printed_facts(file, {"--board", "pico"});
  EXPECT_TRUE(holds(without_fpu, "or 25 % where")) << without_fpu;
  EXPECT_TRUE(holds(without_fpu, "ARENITE_INTEGER_ROWS")) << without_fpu;
  EXPECT_FALSE(holds(printed_facts(file), "\nOn "));
}

TEST(Inspect, RefusesBoardsWithoutMeasuredRates) {
  const TempFolder folder;
  const auto model =
      test::make_model(test::spec_named("causal"), {Target::kX86_64_v3, Target::kCortexMMve});
  const std::string file = write_file(folder, "m.arn", model.span());
  const auto refusal = [&](const char* board) {
    const ProgramResult result = run_arenite({"inspect", file, "--board", board});
    EXPECT_EQ(result.exit_code, 1);
    return result.output;
  };
  EXPECT_TRUE(
      holds(refusal("esp32c3"), "no instructions were measured for its CPU, expected one of"));
  EXPECT_TRUE(holds(refusal("pico"), "arenite repack FILE -o NEW.arn --target portable"));
  EXPECT_TRUE(holds(refusal("nucleo"), "expected one of generic, nucleo-f446"));
  EXPECT_TRUE(holds(refusal("nucleo-f446"), "found weights for none of its targets"));
  EXPECT_EQ(run_arenite({"inspect", file, "--clock", "80"}).exit_code, 2);
  EXPECT_EQ(run_arenite({"inspect", file, "--board", "pico2", "--clock", "0"}).exit_code, 2);
}

TEST(Inspect, RefusesSizesThatTheModelCannotServe) {
  const TempFolder folder;
  const convert::AlignedBytes bytes = test::make_model(test::spec_named("strip"));
  const std::string file = write_file(folder, "m.arn", bytes.span());
  const ProgramResult result = run_arenite({"inspect", file, "--positions", "71"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_TRUE(holds(result.output, "found 71, expected 70")) << result.output;
  EXPECT_EQ(run_arenite({"inspect", file, "--positions", "0"}).exit_code, 2);
  EXPECT_EQ(run_arenite({"inspect", file, "--tokens", "many"}).exit_code, 2);
  EXPECT_EQ(run_arenite({"inspect", file, "--json", "--brief"}).exit_code, 2);
  EXPECT_EQ(run_arenite({"inspect"}).exit_code, 2);
}

}  // namespace
}  // namespace arenite::testing
