// SPDX-License-Identifier: Apache-2.0
// Read-only folders and a full standard output: every command reports the failure and fails, and
// its other outputs are complete.
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/printed.h"
#include "cli/writing_commands.h"

namespace arenite::testing {
namespace {

namespace fs = std::filesystem;

TEST(UnwritablePlaces, NoCommandWritesToAReadOnlyFolder) {
  const Workplace place;
  Command somebody;
  somebody.unprivileged = geteuid() == 0;
  constexpr fs::perms kReadable = fs::perms::others_read | fs::perms::others_exec |
                                  fs::perms::owner_read | fs::perms::owner_exec;
  fs::permissions(place.folder(), kReadable | fs::perms::owner_write);
  std::vector<WritingCommand> commands = writing_commands();
  commands.push_back(bench_command());
  for (const WritingCommand& command : commands) {
    Contents old;
    for (const std::string& file : command.files) old[file] = "old";
    place.set_outputs(old);
    fs::permissions(place.outputs(), kReadable);
    const ProgramResult result = place.run(command, somebody);
    fs::permissions(place.outputs(), fs::perms::owner_all);
    if (result.exit_code == 126) GTEST_SKIP() << "this machine knows one user only";
    EXPECT_TRUE(ends(result, kBadInput, {"arenite: cannot ", "'out", "Permission denied"}))
        << command.name;
    EXPECT_EQ(contents_of(place.outputs()), old) << command.name;
  }
}

TEST(UnwritablePlaces, AFullStandardOutputIsAnErrorOfEveryCommand) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "there is no /dev/full";
  const Workplace place;
  std::vector<WritingCommand> commands = writing_commands();
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"inspect", "small.arn", "--json"},
           {"verify", "small.arn"},
           {"classify", "classifier.arn", "--text", "the pump"},
           {"generate", "text.arn", "--prompt", "a", "--tokens", "9"},
           {"help"},
           {"help", "targets"},
           {"help", "--man", "convert"},
           {"help", "--schema", "inspect"},
           {"help", "--completion", "bash"},
           {"help", "--completion", "zsh"},
           {"help", "--completion", "fish"},
           {"--help"},
           {"--version"}}) {
    commands.push_back({words[0], words, {}});
  }
  Command full;
  full.output_file = "/dev/full";
  const auto fails = [&](const WritingCommand& command) {
    return ends(place.run(command, full), kBadInput,
                {"arenite: cannot write to the standard output: No space left on device"});
  };
  for (const WritingCommand& command : commands) {
    if (command.name == "help" && !command.all_or_none) continue;  // prints nothing
    place.set_outputs({});
    ASSERT_TRUE(ends(place.run(command), kDone)) << command.name;
    const Contents expected = contents_of(place.outputs());
    place.set_outputs({});
    EXPECT_TRUE(fails(command)) << command.name << " " << command.words.back();
    const Contents left = contents_of(place.outputs());
    if (left.empty()) continue;
    // The files were finished before anything was printed.
    EXPECT_TRUE(std::ranges::equal(left, expected, [&](const auto& a, const auto& b) {
      return a.first == b.first && (a.second == b.second || a.first == "trace.json");
    })) << command.name;
  }
  EXPECT_TRUE(fails(bench_command()));
}

}  // namespace
}  // namespace arenite::testing
