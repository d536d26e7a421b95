// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite embed --data`: the host's own assembler and linker read what it writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/printed.h"
#include "support/byte_string.h"
#include "support/model_factory.h"

namespace arenite::testing {
namespace {

class EmbedData : public ::testing::Test {
 protected:
  EmbedData() {
    const convert::AlignedBytes model = test::make_model(test::spec_named("prefix"));
    model_ = write_file(folder_, "m.arn", model.span());
  }

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult embed(std::vector<std::string> options) const {
    options.insert(options.begin(), {"embed", model_, "-o", path("m.h")});
    return run_arenite(options);
  }

  // Links a program of the header and `data` that writes the embedded model, and compares its
  // output with the file.
  ::testing::AssertionResult links(const std::string& data) const {
    const std::string source = folder_.write(
        "source.cc",
        "#include \"m.h\"\n"
        "#include <cstdio>\n"
        "int main() {\n"
        "  if (reinterpret_cast<std::uintptr_t>(m_model().data()) % 64 != 0) return 1;\n"
        "  return std::fwrite(m_model().data(), 1, m_model().size(), stdout) == 0;\n"
        "}\n");
    const ProgramResult compiled =
        run({ARENITE_COMPILER, "-std=c++20", "-Wall", "-Wextra", "-Werror", "-Wl,--fatal-warnings",
             "-I", ARENITE_INCLUDE, source, data, "-o", path("program")});
    if (compiled.exit_code != 0) return ::testing::AssertionFailure() << compiled.output;
    const ProgramResult result = run({path("program")});
    if (result.exit_code == 0 && result.output == read_bytes(model_)) {
      return ::testing::AssertionSuccess();
    }
    return ::testing::AssertionFailure() << "the program holds other bytes";
  }

  TempFolder folder_;
  std::string model_;
};

TEST_F(EmbedData, AssemblerSourceIncludesTheModel) {
  EXPECT_TRUE(ends(embed({"--data", path("m.S"), "--section", ".flash.models"}), kDone,
                   {"m_words", "section .flash.models"}));
  EXPECT_TRUE(links(path("m.S")));
  EXPECT_TRUE(ends(run({"readelf", "-SW", path("program")}), kDone, {".flash.models"}));
  EXPECT_LT(read_bytes(path("m.h")).size(), 15'000u);
}

// Without the bytes in it, a header of C may be included twice.
TEST_F(EmbedData, HeadersOfCNameTheModel) {
  EXPECT_TRUE(ends(embed({"--data", path("m.S"), "--language", "c"}), kDone, {"m_words"}));
  const std::string one = folder_.write("one.c",
                                        "#include \"m.h\"\n#include <stdio.h>\n"
                                        "const void* two(void);\n"
                                        "int main(void) {\n"
                                        "  if (two() != M_MODEL) return 1;\n"
                                        "  return fwrite(M_MODEL, 1, M_MODEL_BYTES, stdout) == 0;\n"
                                        "}\n");
  const std::string two = folder_.write("two.c",
                                        "#include \"m.h\"\n"
                                        "const void* two(void);\n"
                                        "const void* two(void) { return M_MODEL; }\n");
  const ProgramResult compiled =
      run({ARENITE_COMPILER, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-x", "c",
           one, "-x", "c", two, "-x", "assembler-with-cpp", path("m.S"), "-o", path("program")});
  EXPECT_TRUE(ends(compiled, kDone));
  EXPECT_TRUE(run({path("program")}).output == read_bytes(model_));
}

TEST_F(EmbedData, AnObjectHoldsTheModel) {
#if defined(__x86_64__)
  const char* const abi = "x86_64";
#elif defined(__aarch64__)
  const char* const abi = "aarch64";
#else
  GTEST_SKIP() << "no object for this machine";
#endif
  EXPECT_TRUE(ends(embed({"--data", path("m.o"), "--abi", abi}), kDone, {".rodata.arenite"}));
  EXPECT_TRUE(links(path("m.o")));
}

TEST_F(EmbedData, ObjectsForOtherMachinesSuitTheirTools) {
  const struct {
    const char* abi;
    const char* elf_class;
    const char* machine;
  } machines[] = {{"x86_64", "ELF64", "X86-64"},
                  {"aarch64", "ELF64", "AArch64"},
                  {"arm", "ELF32", "ARM"},
                  {"riscv64", "ELF64", "RISC-V"}};
  for (const auto& [abi, elf_class, machine] : machines) {
    EXPECT_TRUE(ends(embed({"--data", path("m.o"), "--abi", abi}), kDone));
    const ProgramResult read = run({"readelf", "-aW", path("m.o")});
    EXPECT_TRUE(ends(read, kDone,
                     {elf_class, machine, "REL (Relocatable file)", ".rodata.arenite",
                      ".note.GNU-stack", "OBJECT  GLOBAL DEFAULT    1 m_words"}));
    EXPECT_EQ(read.output.find("arning"), std::string::npos) << read.output;
  }
}

TEST_F(EmbedData, RefusesIncompatibleOptions) {
  EXPECT_TRUE(ends(embed({"--abi", "arm"}), kBadInput, {"--abi", "--data"}));
  EXPECT_TRUE(ends(embed({"--section", ".x"}), kBadInput, {"--section", "--data"}));
  EXPECT_TRUE(ends(embed({"--data", path("m.o"), "--abi", "vax"}), kBadInput,
                   {"'vax'", "x86_64, aarch64, arm, riscv64"}));
  EXPECT_TRUE(ends(embed({"--data", path("m.o"), "--section", "a b"}), kBadInput,
                   {"--section 'a b'", ".rodata.arenite"}));
  EXPECT_TRUE(ends(embed({"--data", model_}), kBadUsage, {"--data"}));
  EXPECT_FALSE(std::filesystem::exists(path("m.o")));
}

}  // namespace
}  // namespace arenite::testing
