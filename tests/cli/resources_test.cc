// SPDX-License-Identifier: Apache-2.0
// Tests of the memory that the program takes and of its progress output on a terminal.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/memory.h"
#include "support/test_session.h"

namespace arenite::testing {
namespace {

// Memory of the program itself, its libraries, and its buffers.
const uint64_t kAllowanceBytes = std::filesystem::file_size(ARENITE_PROGRAM) + (3 << 19);

// A separate function, so that its memory is freed before the child starts and does not count as
// the child's.
void write_gpt2(const TempFolder& folder) {
  folder.write("gpt2.safetensors", gpt2_checkpoint().safetensors());
}

TEST(Resources, RunTakesTheFileTheArenaAndLittleElse) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow takes memory of its own";
  const TempFolder folder;
  write_gpt2(folder);
  malloc_trim(0);
  const std::string checkpoint = (folder.path() / "gpt2.safetensors").string();
  const std::string model = (folder.path() / "gpt2.arn").string();
  ASSERT_TRUE(
      ends(run_arenite({"convert", checkpoint, "-o", model, "--heads", "12", "--context", "1024"}),
           kDone));
  const std::string output = (folder.path() / "y.npy").string();
  for (const uint32_t tokens : {1u, 200u, 1024u}) {
    const std::string input = write_features(folder, "x.npy", {tokens, 768});
    malloc_trim(0);
    const ProgramResult result = run_arenite({"run", model, "--input", input, "--output", output});
    ASSERT_TRUE(ends(result, kDone));
    uint64_t arena_bytes = 0;
    {
      const convert::FileMap file(model);
      const Result<Model> loaded = Model::load(file.bytes());
      ASSERT_TRUE(loaded.ok());
      arena_bytes = plan_arena(*loaded, test::options_for(tokens))->total_bytes;
    }
    const uint64_t limit = std::filesystem::file_size(model) + arena_bytes + kAllowanceBytes;
    EXPECT_LT(result.peak_bytes, limit) << tokens << " tokens";
  }
}

TEST(Resources, GenerateTakesTheFileTheArenaAndLittleElse) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow takes memory of its own";
  const TempFolder folder;
  const std::string model = write_large_decoder(folder);
  malloc_trim(0);
  for (const char* context : {"8", "512"}) {
    const ProgramResult result =
        run_arenite({"generate", model, "--prompt-ids", "1,2,3", "--ids", "--tokens", "5",
                     "--context", context, "--temperature", "1"});
    ASSERT_TRUE(ends(result, kDone));
    SessionOptions options = test::options_for(static_cast<uint32_t>(std::stoi(context)));
    options.tokens_max = std::min(options.positions_max, 64u);
    uint64_t arena_bytes = 0;
    {
      const convert::FileMap file(model);
      arena_bytes = plan_arena(*Model::load(file.bytes()), options)->total_bytes;
    }
    const uint64_t limit = std::filesystem::file_size(model) + arena_bytes + kAllowanceBytes;
    EXPECT_LT(result.peak_bytes, limit) << context << " positions";
  }
}

// convert, run, embed and bench say what takes long; the line is wiped when they are done.
TEST(Resources, ATerminalSeesProgressAndAPipeDoesNot) {
  const TempFolder folder;
  const std::string model = convert_small(folder);
  const std::string input = write_features(folder, "x.npy", {5, 3});
  const std::string path = folder.path().string();
  const std::vector<std::vector<std::string>> commands = {
      {"convert", path + "/small.safetensors", "-o", path + "/again.arn"},
      {"run", model, "--input", input, "--output", path + "/y.npy"},
      {"embed", model, "-o", path + "/m.h"}};
  for (const std::vector<std::string>& words : commands) {
    const ProgramResult piped = run_arenite(words);
    EXPECT_TRUE(ends(piped, kDone));
    EXPECT_TRUE(piped.errors.empty()) << piped.errors;
    Command on_terminal;
    on_terminal.terminal = true;
    const ProgramResult shown = run_arenite(words, on_terminal);
    EXPECT_TRUE(ends(shown, kDone));
    // A long name is shortened in the middle, so that a line fits the terminal.
    const std::string end = words[1].substr(words[1].size() - 12);
    EXPECT_NE(shown.errors.find(end), std::string::npos) << shown.errors;
    EXPECT_TRUE(shown.errors.ends_with("\r\033[K")) << shown.errors;
    EXPECT_EQ(shown.output.size(), piped.output.size() + shown.errors.size());
    if (words[0] != "convert") continue;
    for (const char* stage : {": reading", ": recognising", ": packing for ", ": checking "}) {
      EXPECT_NE(shown.errors.find(stage), std::string::npos) << stage << " in " << shown.errors;
    }
  }
}

TEST(Resources, ATerminalSeesTheErrorOnALineOfItsOwn) {
  const TempFolder folder;
  const std::string bad = folder.write("bad.safetensors", "bad").string();
  Command on_terminal;
  on_terminal.terminal = true;
  // A module that is named is looked for in a file of any kind, with progress shown.
  const ProgramResult result = run_arenite(
      {"convert", bad, "-o", (folder.path() / "m.arn").string(), "--module", "m"}, on_terminal);
  EXPECT_EQ(result.exit_code, kBadInput);
  EXPECT_NE(result.errors.find("\r\033[Karenite: "), std::string::npos) << result.errors;
}

}  // namespace
}  // namespace arenite::testing
