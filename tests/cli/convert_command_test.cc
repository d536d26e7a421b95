// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite convert`: output, refusals, and no files left after a failure.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "arenite/session.h"
#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/text_table.h"
#include "convert/files/memory.h"
#include "support/kernel_sets.h"
#include "support/safetensors_builder.h"

namespace arenite::testing {
namespace {

using test::CheckpointBuilder;

class ConvertCommand : public ::testing::Test {
 protected:
  std::string write(const std::string& bytes, const std::string& name = "in.safetensors") const {
    return folder_.write(name, bytes).string();
  }
  // Converts to out.arn.
  ProgramResult convert(const std::string& checkpoint,
                        std::vector<std::string> options = {}) const {
    options.insert(options.begin(), {"convert", checkpoint, "-o", output()});
    return run_arenite(options);
  }
  // Bad input: this exit code and message, and nothing new in the folder.
  ::testing::AssertionResult refuses(const std::string& bytes,
                                     std::initializer_list<std::string_view> parts,
                                     const std::vector<std::string>& options = {}) const {
    const std::string checkpoint = write(bytes);
    const std::set<std::string> before = names_in(folder_.path());
    const ProgramResult result = convert(checkpoint, options);
    if (const auto ended = ends(result, kBadInput, parts); !ended) return ended;
    if (result.output.find("in.safetensors") == std::string::npos ||
        result.output != result.errors || !result.output.starts_with("arenite: ") ||
        names_in(folder_.path()) != before) {
      return ::testing::AssertionFailure() << result.output;
    }
    return ::testing::AssertionSuccess();
  }
  std::string output() const { return (folder_.path() / "out.arn").string(); }
  const TempFolder& folder() const { return folder_; }

 private:
  TempFolder folder_;
};

TEST_F(ConvertCommand, PrintsModuleMaskArenaErrorAndFile) {
  const ProgramResult result =
      convert(write(small_checkpoint().safetensors()), {"--target", "all"});
  EXPECT_TRUE(ends(result, kDone,
                   {"module     CausalAttention\n", "[tokens, 3] -> [tokens, 4], 1 head of 4\n",
                    "context    6 positions, causal", "mask       causal; 8 bytes, dense 144\n",
                    "buffer 'mask', where 1 hides", "all 13", "error      computing",
                    "one sequence of 6 positions", "file       " + output()}));
  EXPECT_TRUE(result.errors.empty());
}

// The printed arena size is exactly what the runtime requires.
TEST_F(ConvertCommand, PrintsTheExactArenaOfEveryTarget) {
  const ProgramResult result =
      convert(write(small_checkpoint().safetensors()), {"--target", "all", "--verbose"});
  const convert::FileMap file(output());
  for (const Target target : test::targets_here()) {
    LoadOptions load;
    load.force_target = true;
    load.target = target;
    const Result<Model> model = Model::load(file.bytes(), nullptr, load);
    ASSERT_TRUE(model.ok());
    const Result<ArenaPlan> plan = plan_arena(*model, {});
    ASSERT_TRUE(plan.ok());
    EXPECT_TRUE(ends(
        result, kDone,
        {fmt::format("\n  {:<14}  {:>11}  ", name(target), tool::grouped(plan->total_bytes))}));
  }
}

TEST_F(ConvertCommand, WritesTheSameFileEachTime) {
  const std::string checkpoint = write(small_checkpoint().safetensors());
  EXPECT_TRUE(ends(convert(checkpoint, {"--target", "all"}), kDone));
  const std::string first = read_bytes(output());
  EXPECT_TRUE(ends(convert(checkpoint, {"--target", "all"}), kDone));
  EXPECT_EQ(read_bytes(output()), first);
  EXPECT_EQ(names_in(folder().path()), (std::set<std::string>{"in.safetensors", "out.arn"}));
}

TEST_F(ConvertCommand, DoesNotPutThePathIntoTheFile) {
  const std::string checkpoint = write(small_checkpoint().safetensors());
  EXPECT_TRUE(ends(convert(checkpoint), kDone));
  std::filesystem::create_directory(folder().path() / "sub");
  const std::string elsewhere = (folder().path() / "sub" / "out.arn").string();
  EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", elsewhere}), kDone));
  EXPECT_EQ(read_bytes(elsewhere), read_bytes(output()));
}

TEST_F(ConvertCommand, WritesForAnotherCpuAndSaysThatItDidNotRunIt) {
  const std::string foreign = (cpu_targets() & bit(Target::kArm64)) != 0 ? "x86-64-v3" : "arm64";
  EXPECT_TRUE(ends(convert(write(small_checkpoint().safetensors()), {"--target", foreign}), kDone,
                   {foreign, "not checked: this CPU cannot run it"}));
}

TEST_F(ConvertCommand, PrintsEveryMaskOfAModuleWithSeveral) {
  CheckpointBuilder heads;
  for (const std::string head : {"heads.0.", "heads.1."}) {
    for (const char* name : {"W_query", "W_key", "W_value"}) heads.add_linear(head + name, 2, 3);
  }
  heads.add("heads.0.mask", {2, 2}, {0, 1, 0, 0}).add("heads.1.mask", {2, 2}, {0, 0, 1, 0});
  EXPECT_TRUE(ends(convert(write(heads.safetensors())), kDone,
                   {"mask       causal; 8 bytes, dense 16\n", "'heads.0.mask'",
                    "anti-causal; 8 bytes", "'heads.1.mask'"}));
}

TEST_F(ConvertCommand, RefusesBadInputAndLeavesNothing) {
  CheckpointBuilder nan = small_checkpoint();
  std::vector<double> values(12, 0.0);
  values[4] = std::nan("");
  nan.add("W_key.weight", {4, 3}, values);
  EXPECT_TRUE(refuses(nan.safetensors(), {"'W_key.weight'", "nan", "index 4"}));
  EXPECT_TRUE(refuses(small_checkpoint().remove("W_key.weight").safetensors(),
                      {"'W_key.weight' is missing"}));
  EXPECT_TRUE(refuses(small_checkpoint().add("gate", {1}).safetensors(), {"'gate'"}));
  EXPECT_TRUE(refuses(small_checkpoint().safetensors(), {"3 heads", "1, 2, 4"}, {"--heads", "3"}));
  EXPECT_TRUE(
      refuses(small_checkpoint().safetensors(), {"--context asks for 7"}, {"--context", "7"}));
  EXPECT_TRUE(refuses(small_checkpoint().safetensors(), {"--bidirectional", "found causal"},
                      {"--bidirectional"}));
  EXPECT_TRUE(refuses(small_checkpoint().safetensors(), {"no module 'h'"}, {"--module", "h"}));
}

TEST_F(ConvertCommand, RefusesFilesThatAreNoCheckpoint) {
  const std::string good = small_checkpoint().safetensors();
  EXPECT_TRUE(refuses("", {"is empty"}));
  EXPECT_TRUE(refuses("short", {}));
  EXPECT_TRUE(refuses(good.substr(0, good.size() / 2), {}));
  EXPECT_TRUE(refuses(good.substr(0, good.size() - 1), {}));
  EXPECT_TRUE(refuses(good + "x", {}));
  EXPECT_TRUE(refuses(std::string(8, '\xff') + "{}", {}));  // a header of 2^64 - 1 bytes
  EXPECT_TRUE(
      refuses(safetensors_file(R"({"w":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "x"),
              {"'w'", "F4"}));
  EXPECT_TRUE(refuses(
      safetensors_file(
          R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", "1234"),
      {"'w'"}));
  EXPECT_TRUE(refuses("PK\x03\x04 not a zip", {}));
  EXPECT_TRUE(refuses("\x80\x02}q", {"bare pickle"}));
}

TEST_F(ConvertCommand, RefusesPathsThatCannotBeRead) {
  EXPECT_TRUE(ends(convert(folder().path() / "none.pt"), kBadInput, {"none.pt'", "No such file"}));
  EXPECT_TRUE(ends(convert(folder().path()), kBadInput, {"has no config.json"}));
  EXPECT_TRUE(ends(convert("/dev/zero"), kBadInput, {"'/dev/zero'", "not a regular file"}));
  EXPECT_TRUE(ends(convert(""), kBadInput, {"''"}));
  EXPECT_TRUE(ends(convert("/none/\xE2\x96\x81\xE2\x96.pt"), kBadInput,
                   {"'/none/\xE2\x96\x81\\xE2\\x96.pt'"}));
}

TEST_F(ConvertCommand, TakesAFolderWithOneCheckpointAsThatCheckpoint) {
  const TempFolder folder;
  const std::string checkpoint = small_checkpoint().safetensors();
  const std::string file = folder.write("mine.safetensors", checkpoint).string();
  folder.write("config.json", R"({"task": "recall"})");
  folder.write("input.npy", "not looked at");
  const std::string here = folder.path().string();
  const std::string of_file = (folder.path() / "file.arn").string();
  const std::string of_folder = (folder.path() / "folder.arn").string();
  EXPECT_TRUE(ends(run_arenite({"convert", file, "-o", of_file, "--name", "m"}), kDone));
  EXPECT_TRUE(ends(run_arenite({"convert", here, "-o", of_folder, "--name", "m"}), kDone));
  const convert::FileMap one(of_file), other(of_folder);
  EXPECT_TRUE(std::ranges::equal(one.bytes(), other.bytes()));
  folder.write("optimizer.pt", "no checkpoint");
  EXPECT_TRUE(ends(run_arenite({"convert", here, "-o", of_folder}), kDone));
  folder.write("other.pt", checkpoint);
  EXPECT_TRUE(ends(run_arenite({"convert", here, "-o", of_folder}), kBadInput,
                   {"2 checkpoints", "'mine.safetensors', 'other.pt'"}));
}

TEST_F(ConvertCommand, CheckpointsAndModelFilesAreDistinguished) {
  const std::string checkpoint = write(small_checkpoint().safetensors());
  EXPECT_TRUE(ends(run_arenite({"inspect", checkpoint}), kBadInput,
                   {"not an Arenite model file", "'arenite convert' makes"}));
  EXPECT_TRUE(ends(run_arenite({"run", checkpoint, "--input", "x", "--output", "y"}), kBadInput,
                   {"not an Arenite model file", "'arenite convert' makes"}));
  ASSERT_TRUE(ends(convert(checkpoint), kDone));
  EXPECT_TRUE(ends(run_arenite({"convert", output(), "-o", output() + "2"}), kBadInput,
                   {"out.arn' is a converted model already", "'arenite repack'"}));
}

TEST_F(ConvertCommand, RefusesPathsThatCannotBeWritten) {
  const std::string checkpoint = write(small_checkpoint().safetensors());
  const std::string here = folder().path().string();
  for (const std::string& target : {here + "/none/out.arn", here + "/in.safetensors/out.arn", here,
                                    std::string("/proc/out.arn"), std::string("/dev/null")}) {
    EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", target}), kBadInput,
                     {"cannot write", "'" + target + "'"}));
  }
  EXPECT_EQ(names_in(folder().path()), std::set<std::string>{"in.safetensors"});
}

TEST_F(ConvertCommand, RefusesToReplaceItsInput) {
  const std::string bytes = small_checkpoint().safetensors();
  const std::string checkpoint = write(bytes);
  std::filesystem::create_symlink(checkpoint, folder().path() / "link");
  std::filesystem::create_hard_link(checkpoint, folder().path() / "hard");
  for (const std::string& name :
       {checkpoint, folder().path().string() + "/./in.safetensors",
        folder().path().string() + "/link", folder().path().string() + "/hard"}) {
    EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", name}), kBadUsage,
                     {"--output", "input of this command"}));
  }
  EXPECT_EQ(read_bytes(checkpoint), bytes);
}

TEST_F(ConvertCommand, LeavesNothingOnAFullDisk) {
  const std::string checkpoint = write(small_checkpoint().safetensors());
  write("old", "out.arn");
  Command command;
  for (const uint64_t bytes : {1u, 64u, 500u}) {
    command.file_bytes_max = bytes;
    EXPECT_TRUE(
        ends(run_arenite({"convert", checkpoint, "-o", output()}, command), kBadInput,
             {"cannot write '" + output() + "'", "File too large", "nothing was left behind"}));
    EXPECT_EQ(names_in(folder().path()), (std::set<std::string>{"in.safetensors", "out.arn"}));
    EXPECT_EQ(read_bytes(output()), "old");
  }
}

TEST_F(ConvertCommand, TakesTheLongestNamesThatFilesCanHave) {
  const std::string name(240, 'n');
  const std::string checkpoint = write(small_checkpoint().safetensors(), name + ".safetensors");
  const std::string model = (folder().path() / (name + "0123456789.arn")).string();
  EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", model}), kDone, {model}));
  EXPECT_TRUE(ends(run_arenite({"inspect", model}), kDone));
  const std::string too_long = (folder().path() / std::string(256, 'n')).string();
  EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", too_long}), kBadInput,
                   {"File name too long"}));
}

TEST_F(ConvertCommand, TakesNamesOfAnyBytesAndKeepsThemFromTheTerminal) {
  const std::string odd = "a \x1b[31m\n'\"\xff$x.safetensors";
  const std::string checkpoint = write(small_checkpoint().safetensors(), odd);
  EXPECT_TRUE(ends(convert(checkpoint), kDone));
  const ProgramResult result = convert(checkpoint, {"--heads", "3"});
  EXPECT_TRUE(ends(result, kBadInput, {"a ?[31m?"}));
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
}

TEST_F(ConvertCommand, TakesRelativeNamesAndNamesThatLookLikeOptions) {
  write(small_checkpoint().safetensors(), "-x.safetensors");
  Command command;
  command.folder = folder().path();
  EXPECT_TRUE(
      ends(run_arenite({"convert", "-o", "y.arn", "--", "-x.safetensors"}, command), kDone));
  EXPECT_TRUE(std::filesystem::exists(folder().path() / "y.arn"));
}

TEST_F(ConvertCommand, SaysThatItsOutputCannotBeWrittenAfterTheFileIs) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  Command to_full;
  to_full.output_file = "/dev/full";
  const std::string checkpoint = write(small_checkpoint().safetensors());
  EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", output()}, to_full), kBadInput,
                   {"cannot write to the standard output"}));
}

}  // namespace
}  // namespace arenite::testing
