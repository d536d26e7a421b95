// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite embed`: a compiler compares the header with the planner.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/program.h"
#include "convert/check/check_session.h"
#include "convert/check/pack_model.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "format/reader.h"
#include "runtime/session/functions_fixture.h"
#include "session/session_state.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"

namespace arenite::testing {
namespace {

using test::ModuleSpec;

struct Sizes {
  uint32_t positions, tokens, sequences, threads;
};

// Positions around the tile sizes of all kernel sets, and around a page of values.
constexpr Sizes kSizes[] = {{1, 1, 1, 1},    {4, 4, 1, 1},      {5, 3, 2, 1},
                            {31, 31, 1, 2},  {33, 66, 2, 3},    {70, 1, 5, 7},
                            {511, 64, 1, 1}, {512, 512, 1, 16}, {2049, 4098, 2, 1024}};

size_t planned_bytes(std::span<const std::byte> model, uint32_t packed_index, const Sizes& sizes,
                     Outputs outputs = Outputs::kLast, InputSizes second = {}) {
  SessionOptions options;
  options.others[0] = second;
  options.positions_max = sizes.positions;
  options.tokens_max = sizes.tokens;
  options.sequences_max = sizes.sequences;
  options.outputs = outputs;
  options.parallel.threads = sizes.threads;
  options.parallel.run = [](void*, uint32_t, ParallelFor::Task, void*) {};
  const Target target = static_cast<Target>(format::ModelReader(model).packed(packed_index).target);
  const Result<ArenaPlan> plan =
      plan_arena(ModelAccess::make(model, packed_index, target), options);
  EXPECT_TRUE(plan.ok());
  return plan.ok() ? plan->total_bytes : 0;
}

std::string identifier(Target target) {
  std::string text = name(target);
  for (char& c : text) c = c == '-' ? '_' : c;
  return text;
}

// Lines of C++ that only compile if the functions of the header agree with the planner. Those of
// decoders have an argument more: whether all rows are given out.
std::string comparisons(const std::string& prefix, std::span<const std::byte> model,
                        Outputs outputs = Outputs::kLast) {
  const format::ModelReader reader(model);
  std::string text;
  for (const Sizes& sizes : kSizes) {
    if (reader.positions_max() != 0 && sizes.positions > reader.positions_max()) continue;
    const std::string call =
        fmt::format("arena_bytes({}u, {}u, {}u, {}u{})", sizes.positions, sizes.tokens,
                    sizes.sequences, sizes.threads, outputs == Outputs::kAll ? ", true" : "");
    size_t largest = 0;
    for (uint32_t i = 0; i < reader.packed_count(); ++i) {
      const size_t bytes = planned_bytes(model, i, sizes, outputs);
      largest = std::max(largest, bytes);
      text += fmt::format("static_assert({}_{}_{} == {}u);\n", prefix,
                          identifier(static_cast<Target>(reader.packed(i).target)), call, bytes);
    }
    text += fmt::format("static_assert({}_{} == {}u);\n", prefix, call, largest);
  }
  return text;
}

ProgramResult compile(const TempFolder& folder, const std::string& source,
                      const std::string& program = "") {
  std::vector<std::string> words = {
      ARENITE_COMPILER, "-std=c++20",         "-Wall",
      "-Wextra",        "-Wconversion",       "-Wpedantic",
      "-Werror",        "-I" ARENITE_INCLUDE, folder.write("source.cc", source)};
  if (program.empty()) {
    words.push_back("-fsyntax-only");
  } else {
    words.insert(words.end(), {"-o", program});
  }
  return run(words);
}

TEST(Embed, HeadersOfAllKindsOfModelsAgreeWithThePlanner) {
  const TempFolder folder;
  std::string includes, asserts;
  for (const ModuleSpec& spec : test::all_specs()) {
    const convert::AlignedBytes model = test::make_model(spec);
    const std::string file = write_file(folder, spec.name + ".arn", model.span());
    const std::string header = folder.path() / (spec.name + ".h");
    const ProgramResult result = run_arenite({"embed", file, "-o", header});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    includes += fmt::format("#include \"{}.h\"\n", spec.name);
    asserts += comparisons(spec.name, model.span());
  }
  for (const test::DecoderShape& shape : test::all_decoders()) {
    const convert::AlignedBytes model = test::make_decoder_model(shape);
    const std::string name = "decoder_" + shape.name;
    const std::string file = write_file(folder, name + ".arn", model.span());
    const ProgramResult result = run_arenite({"embed", file, "-o", folder.path() / (name + ".h")});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    includes += fmt::format("#include \"{}.h\"\n", name);
    asserts += comparisons(name, model.span());
    asserts += comparisons(name, model.span(), Outputs::kAll);
  }
  for (const test::EncoderShape& shape : test::all_encoders()) {
    const convert::AlignedBytes model = test::make_encoder_model(shape);
    const std::string name = "encoder_" + shape.name;
    const std::string file = write_file(folder, name + ".arn", model.span());
    const ProgramResult result = run_arenite({"embed", file, "-o", folder.path() / (name + ".h")});
    ASSERT_EQ(result.exit_code, 0) << result.output;
    includes += fmt::format("#include \"{}.h\"\n", name);
    asserts += comparisons(name, model.span());
  }
  const ProgramResult result = compile(folder, includes + asserts + "int main() { return 0; }\n");
  EXPECT_EQ(result.exit_code, 0) << result.output.substr(0, 2000);
}

// The second input has its own sizes, which default to the model's maximum.
TEST(Embed, HeadersOfModelsWithTwoInputsTakeSizesOfBoth) {
  const TempFolder folder;
  const convert::AlignedBytes model = convert::write_model(
      convert::compile(test::functions_graph({}), "two"), {Target::kPortable, Target::kArm64});
  const std::string file = write_file(folder, "two.arn", model.span());
  const ProgramResult made =
      run_arenite({"embed", file, "-o", folder.path() / "two.h", "--positions", "40"});
  ASSERT_EQ(made.exit_code, 0) << made.output;
  const format::ModelReader reader(model.span());
  std::string asserts;
  size_t of_header = 0;
  for (const InputSizes& text : {InputSizes{24, 24}, InputSizes{7, 3}, InputSizes{24, 1}}) {
    for (const Sizes& sizes : {Sizes{40, 40, 1, 1}, Sizes{600, 64, 2, 3}}) {
      const std::string call =
          fmt::format("arena_bytes({}u, {}u, {}u, {}u{}, arenite::TensorType::kF32",
                      sizes.positions, sizes.tokens, sizes.sequences, sizes.threads,
                      convert::leaves_rows_open(reader) ? ", false" : "");
      size_t largest = 0;
      for (uint32_t i = 0; i < reader.packed_count(); ++i) {
        const size_t bytes = planned_bytes(model.span(), i, sizes, Outputs::kLast, text);
        largest = std::max(largest, bytes);
        asserts += fmt::format("static_assert(two_{}_{}, {{{}u, {}u}}) == {}u);\n",
                               identifier(static_cast<Target>(reader.packed(i).target)), call,
                               text.positions_max, text.tokens_max, bytes);
      }
      asserts += fmt::format("static_assert(two_{}, {{{}u, {}u}}) == {}u);\n", call,
                             text.positions_max, text.tokens_max, largest);
      if (text.tokens_max != 24 || sizes.positions != 40) continue;
      of_header = largest;
      asserts += fmt::format("static_assert(two_{}) == {}u);\n", call, largest);
    }
  }
  asserts += fmt::format("static_assert(two_arena_bytes_max == {}u);\n", of_header);
  const ProgramResult result =
      compile(folder, "#include \"two.h\"\n" + asserts + "int main() { return 0; }\n");
  EXPECT_EQ(result.exit_code, 0) << result.output.substr(0, 2000);
}

TEST(Embed, TheModelInTheProgramIsTheFile) {
  const TempFolder folder;
  const convert::AlignedBytes model = test::make_model(test::spec_named("prefix"));
  const std::string file = write_file(folder, "m.arn", model.span());
  const std::string header = folder.path() / "m.h";
  ASSERT_EQ(run_arenite({"embed", file, "-o", header, "--name", "other"}).exit_code, 0);
  const std::string source =
      "#include \"m.h\"\n"
      "#include <cstdio>\n"
      "int main() {\n"
      "  if (reinterpret_cast<std::uintptr_t>(other_model().data()) % 64 != 0) return 1;\n"
      "  return std::fwrite(other_model().data(), 1, other_model().size(), stdout) == 0;\n"
      "}\n";
  const std::string program = folder.path() / "program";
  const ProgramResult compiled = compile(folder, source, program);
  ASSERT_EQ(compiled.exit_code, 0) << compiled.output;
  const ProgramResult result = run({program});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.output == read_bytes(file));
}

TEST(Embed, ConstantsAreForTheSizesGiven) {
  const TempFolder folder;
  const convert::AlignedBytes model =
      test::make_model(test::spec_named("causal"), {Target::kArm64, Target::kPortable});
  const std::string file = write_file(folder, "m.arn", model.span());
  const std::string header = folder.path() / "m.h";
  ASSERT_EQ(run_arenite({"embed", file, "-o", header, "--positions", "50", "--tokens", "3",
                         "--sequences", "2", "--threads", "4"})
                .exit_code,
            0);
  const std::string text = read_bytes(header);
  const size_t arm64_bytes = planned_bytes(model.span(), 0, {50, 3, 2, 4});
  const size_t portable_bytes = planned_bytes(model.span(), 1, {50, 3, 2, 4});
  for (const std::string& line :
       {std::string("// Generated by arenite embed from 'm.arn', do not edit.\n"),
        std::string("m_positions_max = 50;\n"), std::string("m_tokens_max = 3;\n"),
        std::string("m_sequences_max = 2;\n"), std::string("m_threads = 4;\n"),
        fmt::format("m_arm64_arena_bytes_max = {};\n", arm64_bytes),
        fmt::format("m_portable_arena_bytes_max = {};\n", portable_bytes),
        fmt::format("m_arena_bytes_max = {};\n", std::max(arm64_bytes, portable_bytes))}) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

// Headers for C must compile as C99 and also as C++, because C++ programs include them too.
TEST(Embed, HeadersOfCHoldTheFileAndTheSizes) {
  const TempFolder folder;
  const convert::AlignedBytes model =
      test::make_model(test::spec_named("causal"), {Target::kArm64, Target::kPortable});
  const std::string file = write_file(folder, "m.arn", model.span());
  const std::string header = folder.path() / "m.h";
  ASSERT_EQ(run_arenite({"embed", file, "-o", header, "--language", "c", "--positions", "50",
                         "--tokens", "3", "--sequences", "2", "--threads", "4"})
                .exit_code,
            0);
  const std::string source = fmt::format(
      "#include \"m.h\"\n"
      "#include <stdio.h>\n"
      "typedef char sizes_are_as_planned[M_ARM64_ARENA_BYTES_MAX == {}u &&\n"
      "    M_PORTABLE_ARENA_BYTES_MAX == {}u && M_POSITIONS_MAX == 50 && M_TOKENS_MAX == 3 &&\n"
      "    M_SEQUENCES_MAX == 2 && M_THREADS == 4 &&\n"
      "    M_ARENA_BYTES_MAX >= M_ARM64_ARENA_BYTES_MAX &&\n"
      "    M_ARENA_BYTES_MAX >= M_PORTABLE_ARENA_BYTES_MAX ? 1 : -1];\n"
      "int main(void) {{\n"
      "  if ((uintptr_t)M_MODEL % 64 != 0 || sizeof(sizes_are_as_planned) != 1) return 1;\n"
      "  return fwrite(M_MODEL, 1, M_MODEL_BYTES, stdout) == 0;\n"
      "}}\n",
      planned_bytes(model.span(), 0, {50, 3, 2, 4}), planned_bytes(model.span(), 1, {50, 3, 2, 4}));
  const std::string path = folder.write("source.c", source);
  const std::string program = folder.path() / "program";
  for (const std::vector<std::string>& language :
       {std::vector<std::string>{"-x", "c", "-std=c99"}, {"-x", "c++", "-std=c++20"}}) {
    std::vector<std::string> words = {ARENITE_COMPILER};
    words.insert(words.end(), language.begin(), language.end());
    words.insert(words.end(), {"-Wall", "-Wextra", "-Wconversion", "-Wpedantic", "-Werror", path,
                               "-o", program});
    const ProgramResult compiled = run(words);
    ASSERT_EQ(compiled.exit_code, 0) << compiled.output;
    const ProgramResult result = run({program});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_TRUE(result.output == read_bytes(file)) << language[1];
  }
  EXPECT_EQ(run_arenite({"embed", file, "-o", header, "--language", "rust"}).exit_code, 2);
}

TEST(Embed, MakesAnIdentifierOfAnyFileName) {
  const TempFolder folder;
  const convert::AlignedBytes model = test::make_model(test::spec_named("causal"));
  const struct {
    const char* file;
    const char* prefix;
  } cases[] = {{"7-seg model!.arn", "seg_model"},
               {"__x__.arn", "x"},
               {"42.arn", "embedded"},
               {"a\\\nb.arn", "a_b"},
               {"int.arn", "int"},
               {"\xc3\xa4rger.arn", "rger"}};
  for (const auto& [file_name, prefix] : cases) {
    const std::string file = write_file(folder, file_name, model.span());
    const std::string header = folder.path() / "out.h";
    ASSERT_EQ(run_arenite({"embed", file, "-o", header}).exit_code, 0) << file_name;
    const ProgramResult result = compile(
        folder,
        fmt::format("#include \"out.h\"\nint main() {{ return {}_model().empty(); }}\n", prefix));
    EXPECT_EQ(result.exit_code, 0) << file_name << "\n" << result.output.substr(0, 1000);
  }
}

TEST(Embed, RefusesNamesThatAreNoIdentifiers) {
  const TempFolder folder;
  const convert::AlignedBytes model = test::make_model(test::spec_named("causal"));
  const std::string file = write_file(folder, "m.arn", model.span());
  const std::string header = folder.path() / "m.h";
  for (const char* name : {"7up", "a b", "a-b", "a__b", "_a", "a_", "a;b", "\xc3\xa4", ""}) {
    const ProgramResult result = run_arenite({"embed", file, "-o", header, "--name", name});
    EXPECT_EQ(result.exit_code, 1) << name << result.output;
    EXPECT_FALSE(std::filesystem::exists(header)) << name;
  }
}

TEST(Embed, LeavesTheOldHeaderWhereItRefusesTheModel) {
  const TempFolder folder;
  convert::AlignedBytes model = test::make_model(test::spec_named("strip"));
  const std::string header = folder.write("m.h", "the old one");
  const std::string file = write_file(folder, "m.arn", model.span());
  EXPECT_EQ(run_arenite({"embed", file, "-o", header, "--positions", "71"}).exit_code, 1);
  EXPECT_EQ(run_arenite({"embed", file, "-o", header, "--threads", "0"}).exit_code, 2);
  EXPECT_EQ(run_arenite({"embed", file}).exit_code, 2);
  model.data()[200] ^= std::byte{4};
  const ProgramResult result =
      run_arenite({"embed", write_file(folder, "m.arn", model.span()), "-o", header});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.output.find("damaged"), std::string::npos) << result.output;
  EXPECT_EQ(read_bytes(header), "the old one");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

}  // namespace
}  // namespace arenite::testing
