// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite bundle`: the files of a bundle, whether a compiler accepts them, and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "cli/printed.h"
#include "support/decoder_factory.h"
#include "support/model_factory.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

class Bundle : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  // A trained model of this tree.
  std::string convert(const std::string& model, const std::string& targets = "portable") const {
    const std::string file = path(model + ".arn");
    const std::string checkpoint = (project_folder() / "models" / model).string();
    EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", file, "--target", targets}), kDone));
    return file;
  }
  std::string write(const std::string& name, const convert::AlignedBytes& model) const {
    return write_file(folder_, name + ".arn", model.span());
  }
  ProgramResult bundle(std::vector<std::string> words, const std::string& folder = "b") const {
    words.insert(words.begin(), "bundle");
    words.insert(words.end(), {"-o", path(folder)});
    return run_arenite(words);
  }
  // All files of a folder, by their paths in it.
  Names files(const std::string& folder = "b") const {
    Names names;
    for (const auto& entry : fs::recursive_directory_iterator(path(folder))) {
      if (entry.is_regular_file()) names.insert(fs::relative(entry, path(folder)).string());
    }
    return names;
  }

  TempFolder folder_;
};

Names that_begin(const Names& names, const std::string& beginning) {
  Names found;
  std::ranges::copy_if(names, std::inserter(found, found.end()),
                       [&](const std::string& name) { return name.starts_with(beginning); });
  return found;
}

const convert::AlignedBytes& causal_module() {
  static const convert::AlignedBytes model =
      test::make_model(test::spec_named("causal"), {Target::kPortable});
  return model;
}

TEST_F(Bundle, SaysWhatItWroteAndWhereToBegin) {
  const std::string vibration = convert("vibration");
  EXPECT_TRUE(ends(bundle({vibration}), kDone,
                   {"12 microkernels", "vibration  297,120", "main.c", "README.md"}));
}

TEST_F(Bundle, HoldsOnlyTheSourcesThatItsModelsNeed) {
  ASSERT_TRUE(ends(bundle({write("m", causal_module())}), kDone));
  const Names few = files();
  EXPECT_TRUE(few.contains("arenite_ops_attention.cc"));
  for (const char* absent : {"text", "ops_norm", "ops_rope", "ops_embedding", "kernels_x86_64"}) {
    EXPECT_TRUE(that_begin(few, std::string("arenite_") + absent).empty()) << absent;
  }
  const Names kernels = that_begin(few, "xnnpack_");
  EXPECT_EQ(kernels.size(), 9u);
  EXPECT_TRUE(kernels.contains("xnnpack_f32_gemm_4x4_scalar.c"));

  ASSERT_TRUE(ends(bundle({convert("home-intent")}, "text"), kDone));
  const Names with_text = files("text");
  EXPECT_TRUE(with_text.contains("arenite_text_sampler.cc"));
  EXPECT_TRUE(with_text.contains("arenite/arenite_text.h"));
  EXPECT_TRUE(with_text.contains("xnnpack_f32_vcmul_scalar_u4.c"));
  EXPECT_FALSE(few.contains("arenite/arenite_text.h"));
}

// The bundle has every included file, and every file in it is included or compiled.
TEST_F(Bundle, HasEveryFileThatItsSourcesInclude) {
  ASSERT_TRUE(ends(bundle({convert("home-intent")}), kDone));
  Names included;
  for (const std::string& name : files()) {
    if (!name.ends_with(".h") && !name.ends_with(".cc") && !name.ends_with(".c")) continue;
    std::istringstream text(read_bytes(path("b/" + name)));
    for (std::string line; std::getline(text, line);) {
      if (!line.starts_with("#include \"")) continue;
      const std::string other = line.substr(10, line.rfind('"') - 10);
      // Programs are compiled with the bundle's folder among those of headers.
      const fs::path from = name.starts_with("programs/") ? "" : fs::path(name).parent_path();
      const fs::path place = (from / other).lexically_normal();
      included.insert(place.string());
      if (!other.starts_with("absl/") && other != "utility.h") {
        EXPECT_TRUE(files().contains(place.string())) << name << " includes " << other;
      }
    }
  }
  for (const std::string& name : that_begin(files(), "arenite/internal/")) {
    EXPECT_TRUE(included.contains(name)) << name;
  }
}

// Sources lie in one folder, and no two of them make an object file of the same name.
TEST_F(Bundle, NamesOfFilesAreUnique) {
  ASSERT_TRUE(ends(bundle({convert("home-intent"), write("m", causal_module())}), kDone));
  Names stems;
  for (const std::string& name : files()) {
    if (!name.ends_with(".cc") && !name.ends_with(".c")) continue;
    EXPECT_EQ(name.find('/'), name.starts_with("programs/") ? 8 : std::string::npos) << name;
    EXPECT_TRUE(stems.insert(fs::path(name).stem().string()).second) << name;
  }
  EXPECT_TRUE(stems.contains("arenite_model_home_intent"));
  EXPECT_TRUE(stems.contains("arenite_model_m"));
}

// Every build file is made from the list of what is there.
TEST_F(Bundle, BuildFilesNameEverySource) {
  ASSERT_TRUE(ends(bundle({write("m", causal_module())}), kDone));
  for (const char* file :
       {"Makefile", "CMakeLists.txt", "zephyr/CMakeLists.txt", "Arenite.models.pdsc"}) {
    const std::string text = read_bytes(path(std::string("b/") + file));
    for (const std::string& name : files()) {
      const bool is_source = name.ends_with(".cc") || name.ends_with(".c");
      if (is_source && name != "main.c") {
        EXPECT_NE(text.find(name), std::string::npos) << file << " lacks " << name;
      }
    }
  }
  for (const std::string& name : files()) {
    if (name.starts_with("arenite/internal/")) continue;
    EXPECT_EQ(read_bytes(path("b/" + name)).find("@model"), std::string::npos) << name;
    EXPECT_EQ(read_bytes(path("b/" + name)).find("@version"), std::string::npos) << name;
  }
  EXPECT_EQ(nlohmann::json::parse(read_bytes(path("b/library.json")))["name"], "arenite-models");
}

TEST_F(Bundle, JsonListsTheWrittenFiles) {
  const ProgramResult result = bundle({write("m", causal_module()), "--json"});
  ASSERT_TRUE(ends(result, kDone));
  const nlohmann::json json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["folder"], path("b"));
  EXPECT_EQ(json["models"][0]["name"], "m");
  EXPECT_EQ(json["models"][0]["bytes"], causal_module().span().size());
  EXPECT_GT(json["models"][0]["arena_bytes"], 0);
  EXPECT_EQ(json["kernels"].size(), 9u);
  EXPECT_EQ(json["needs"][0], "op linear");
  Names listed;
  for (const auto& file : json["files"]) {
    listed.insert(file["path"]);
    EXPECT_EQ(file["bytes"], fs::file_size(path("b/" + std::string(file["path"]))));
  }
  listed.insert("arenite_files.txt");  // which files a later run may replace
  EXPECT_EQ(listed, files());
}

TEST_F(Bundle, BoardsSetCompilersMemoryAndStartUpCode) {
  const std::string vibration = convert("vibration");
  EXPECT_TRUE(ends(bundle({vibration, "--board", "nucleo-f446", "--tokens", "8"}, "f446"), kDone,
                   {"STM32F446RE", "297,120 of 524,288 bytes by models", "of 131,072 bytes by"}));
  const std::string makefile = read_bytes(path("f446/Makefile"));
  EXPECT_NE(makefile.find("CC := arm-none-eabi-gcc\n"), std::string::npos);
  EXPECT_NE(makefile.find("CPU ?= -mcpu=cortex-m4 "), std::string::npos);
  EXPECT_NE(read_bytes(path("f446/board/board.mk")).find("arenite_ram_bytes=0x20000 "),
            std::string::npos);
  EXPECT_TRUE(files("f446").contains("board/start.cc"));
  // The vendor's own build has start-up code and memory.
  ASSERT_TRUE(ends(bundle({vibration, "--board", "pico"}, "pico"), kDone, {"270,336"}));
  EXPECT_NE(read_bytes(path("pico/Makefile")).find("all: lib\n"), std::string::npos);
  EXPECT_TRUE(that_begin(files("pico"), "board/").empty());
  ASSERT_TRUE(ends(bundle({vibration}, "any"), kDone));
  EXPECT_NE(read_bytes(path("any/Makefile")).find("all: self_test\n"), std::string::npos);
}

TEST_F(Bundle, RefusesModelsTooLargeForTheBoardAndNamesSizesThatFit) {
  EXPECT_TRUE(ends(bundle({write("m", causal_module()), "--board", "nucleo"}), kBadInput,
                   {"--board 'nucleo'", "expected one of generic, nucleo-f446"}));
  const std::string vibration = convert("vibration");
  EXPECT_TRUE(ends(bundle({vibration, "--board", "nucleo-f446", "--sequences", "4"}), kBadInput,
                   {"found an arena of", "vibration.arn", "at most 131,072 of RAM; with",
                    "--positions 16 it takes"}));
  const std::string intent = convert("home-intent");
  EXPECT_TRUE(ends(bundle({intent, "--board", "mps3-an547"}), kBadInput,
                   {"bytes of models and at least 32,768 of code", "524,288 of flash",
                    "convert --weights q8 the models take some"}));
  EXPECT_FALSE(fs::exists(path("b")));
}

// tests/device/bundle_test.py compiles the archives for boards.
TEST_F(Bundle, RefusesArchivesWithoutTheBoardsCompilers) {
  const std::string model = write("m", causal_module());
  const auto refused = [&](const char* board, std::string_view found, std::string_view expected) {
    Command without_programs;
    without_programs.environment = {"PATH=" + folder_.path().string()};
    return ends(run_arenite({"bundle", model, "-o", path("b"), "--archive", "--board", board},
                            without_programs),
                kBadInput, {found, expected});
  };
  EXPECT_TRUE(refused("nucleo-f446", "--archive --board nucleo-f446: found no arm-none-eabi-gcc",
                      "Debian's packages gcc-arm-none-eabi"));
  EXPECT_TRUE(refused("esp32c3", "riscv32-esp-elf-gcc", "install.sh esp32c3"));
  EXPECT_TRUE(refused("generic", "no compilers of its own", "expected a board"));
  EXPECT_EQ(names_in(folder_.path()), Names{"m.arn"});
}

TEST_F(Bundle, ReportsErrorsOfTheBoardsCompilers) {
  const std::string model = write("m", causal_module());
  fs::create_directory(path("bin"));
  for (const char* name : {"arm-none-eabi-gcc", "arm-none-eabi-g++", "arm-none-eabi-ar"}) {
    const fs::path program = folder_.write(std::string("bin/") + name,
                                           "#!/bin/sh\necho 'a.cc: error: no C++20'; false\n");
    fs::permissions(program, fs::perms::owner_all);
  }
  Command old_compilers;
  old_compilers.environment = {"PATH=" + path("bin") + ":/usr/bin:/bin"};
  EXPECT_TRUE(ends(run_arenite({"bundle", model, "-o", path("b"), "--archive", "--board", "pico"},
                               old_compilers),
                   kBadInput,
                   {"arm-none-eabi-g++ did not compile", "a.cc: error: no C++20", "Debian's"}));
  EXPECT_EQ(names_in(folder_.path()), (Names{"bin", "m.arn"}));
}

TEST_F(Bundle, RefusesKernelsThatTheBoardsCpuLacks) {
  const std::string mve = convert("recall", "cortex-m-mve");
  EXPECT_TRUE(ends(bundle({mve, "--board", "nucleo-h743"}), kBadInput,
                   {"packed for cortex-m-mve, which its CPU lacks", "--target cortex-m-dsp"}));
  EXPECT_TRUE(ends(bundle({mve, "--board", "esp32c3"}), kBadInput, {"--target portable"}));
  EXPECT_FALSE(fs::exists(path("b")));
  EXPECT_TRUE(ends(bundle({mve, "--board", "mps3-an547"}), kDone));
}

TEST_F(Bundle, ModelsMayBeFilesForTheAssembler) {
  const std::string model = write("m", causal_module());
  ASSERT_TRUE(ends(bundle({model, "--incbin"}), kDone));
  EXPECT_EQ(read_bytes(path("b/m.arn")), read_bytes(model));
  const std::string program =
      "#include \"arenite_model.h\"\n#include <stdio.h>\n"
      "int main(void) { return fwrite(M_MODEL, 1, M_MODEL_BYTES, stdout) == 0; }\n";
  folder_.write("b/print.c", program);
  const std::string build =
      std::string(ARENITE_C_COMPILER) + " print.c arenite_model_m.c -o print && ./print";
  const ProgramResult result = run(Command{.words = {"sh", "-c", build}, .folder = path("b")});
  EXPECT_TRUE(result.output == read_bytes(model));
}

TEST_F(Bundle, RefusesModelsThatAreNotPortableAlone) {
  const std::string other =
      write("other", test::make_model(test::spec_named("causal"), {Target::kArm32}));
  EXPECT_TRUE(
      ends(bundle({other}), kBadInput,
           {"other.arn", "packed for arm32", "portable", "arenite repack", "--target portable"}));
  const std::string both =
      write("both",
            test::make_model(test::spec_named("causal"), {Target::kCortexMDsp, Target::kPortable}));
  EXPECT_TRUE(ends(bundle({both}), kBadInput, {"portable and cortex-m-dsp", "portable alone"}));
  EXPECT_FALSE(fs::exists(path("b")));
  ASSERT_TRUE(
      ends(run_arenite({"repack", other, "-o", path("new.arn"), "--target", "portable"}), kDone));
  EXPECT_TRUE(ends(bundle({path("new.arn")}), kDone));
}

// Kernels of each instruction set, with its options in all build files.
TEST_F(Bundle, HoldsTheKernelSetsOfApplications) {
  const std::string model =
      write("m", test::make_model(test::spec_named("causal"),
                                  {Target::kX86_64_v3, Target::kArm64, Target::kArm64_dot}));
  ASSERT_TRUE(ends(bundle({model}), kDone));
  const std::string kernel = "xnnpack_f32_gemm_1x16_minmax_fma3_broadcast.c";
  EXPECT_TRUE(files().contains(kernel));
  for (const char* file : {"CMakeLists.txt", "Makefile", "meson.build", "BUILD.bazel"}) {
    const std::string text = read_bytes(path(std::string("b/") + file));
    EXPECT_NE(text.find(kernel), std::string::npos) << file;
    EXPECT_NE(text.find("-mfma"), std::string::npos) << file;
  }
  EXPECT_EQ(read_bytes(path("b/" + kernel)).find("#if defined(__x86_64__)\n"), 0u);
  EXPECT_TRUE(ends(bundle({model, "--board", "pico"}, "pico"), kBadInput, {"which its CPU lacks"}));
}

// The CPU chooses a target when a model is loaded.
TEST_F(Bundle, ArenaHoldsTheLargestOfSeveralTargets) {
  const std::string model = convert("recall", "x86-64-v2,x86-64-v3,x86-64-v4-vnni,arm64");
  ASSERT_TRUE(ends(bundle({model}), kDone));
  const std::string header = read_bytes(path("b/arenite_model.h"));
  const auto bytes_of = [&](const std::string& name) {
    const size_t at = header.find(" " + name + "_ARENA_BYTES_MAX ((size_t)");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stoul(header.substr(header.find("(size_t)", at) + 8));
  };
  EXPECT_LT(bytes_of("RECALL_X86_64_V2"), bytes_of("RECALL_X86_64_V4_VNNI"));
  EXPECT_EQ(bytes_of("ARENITE_MODELS"), bytes_of("RECALL"));
  EXPECT_GE(bytes_of("RECALL"), bytes_of("RECALL_X86_64_V4_VNNI"));
}

TEST_F(Bundle, RefusesFoldersThatHoldSomething) {
  const std::string model = write("m", causal_module());
  fs::create_directory(path("b"));
  EXPECT_TRUE(ends(bundle({model}), kDone));  // an empty one becomes the bundle
  fs::create_directory(path("full"));
  folder_.write("full/notes", "");
  EXPECT_TRUE(ends(bundle({model}, "full"), kBadInput,
                   {"full'", "exists and is not empty", "name a new one"}));
  EXPECT_EQ(files("full"), Names{"notes"});
  fs::remove_all(path("full"));
  EXPECT_TRUE(ends(bundle({model}, "m.arn"), kBadInput, {"is not a folder"}));
  EXPECT_TRUE(ends(bundle({model}, "absent/b"), kBadInput, {"parent folder is missing"}));
  EXPECT_TRUE(ends(bundle({}), kBadUsage, {"model is required"}));
  EXPECT_TRUE(ends(run_arenite({"bundle", model}), kBadUsage, {"--output is required"}));
  EXPECT_EQ(names_in(folder_.path()), (Names{"b", "m.arn"}));
}

// Bundles another model into the same folder after the user edited files there.
TEST_F(Bundle, KeepsFilesThatTheUserAddedOrChanged) {
  const std::string model = write("m", causal_module());
  ASSERT_TRUE(
      ends(bundle({convert("vibration"), "--board", "nucleo-f446", "--tokens", "8"}), kDone));
  folder_.write("b/main.c", "int main(void) { return 7; }\n");
  folder_.write("b/own.mk", "MAIN := app.cc\n");
  folder_.write("b/board/board.cc", "// My UART.\n");
  const auto licence_time = fs::last_write_time(path("b/LICENSE"));
  EXPECT_TRUE(
      ends(bundle({model}), kDone, {"Kept as you changed them: ", "main.c", "board/board.cc"}));
  EXPECT_EQ(read_bytes(path("b/main.c")), "int main(void) { return 7; }\n");
  EXPECT_EQ(read_bytes(path("b/own.mk")), "MAIN := app.cc\n");
  EXPECT_EQ(read_bytes(path("b/board/board.cc")), "// My UART.\n");
  EXPECT_EQ(fs::last_write_time(path("b/LICENSE")), licence_time) << "builds see no change";
  EXPECT_FALSE(files().contains("board/mps2.ld")) << "no longer of the bundle";
  EXPECT_FALSE(files().contains("arenite_model_vibration.c"));
  ASSERT_TRUE(ends(bundle({model}, "new"), kDone));
  Names expected = files("new");
  expected.insert({"own.mk", "board/board.cc"});
  EXPECT_EQ(files(), expected);
  for (const std::string& name : files("new")) {
    if (name == "main.c") continue;
    EXPECT_EQ(read_bytes(path("b/" + name)), read_bytes(path("new/" + name))) << name;
  }
  const ProgramResult again = bundle({model, "--json"});
  EXPECT_EQ(nlohmann::json::parse(again.output)["kept"], nlohmann::json({"main.c"}));
}

TEST_F(Bundle, RefusesModelsOfOneName) {
  const std::string model = write("m", causal_module());
  const std::string other = write("M", causal_module());
  EXPECT_TRUE(ends(bundle({model, other}), kBadInput, {"M.arn", "both", "rename"}));
  EXPECT_TRUE(ends(bundle({model, path("absent.arn")}), kBadInput, {"absent.arn"}));
  EXPECT_FALSE(fs::exists(path("b")));
}

// If the disk is full, nothing of the bundle remains.
TEST_F(Bundle, LeavesNothingWhereTheDiskIsFull) {
  const std::string model = write("m", causal_module());
  Command small_disk;
  small_disk.file_bytes_max = 4096;
  EXPECT_TRUE(ends(run_arenite({"bundle", model, "-o", path("b")}, small_disk), kBadInput,
                   {"cannot write", "nothing was left behind"}));
  EXPECT_EQ(names_in(folder_.path()), Names{"m.arn"});
}

}  // namespace
}  // namespace arenite::testing
