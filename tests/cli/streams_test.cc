// SPDX-License-Identifier: Apache-2.0
// Standard streams that cannot be written, and machines short of memory or threads: every command
// ends with the right exit code, and no signal ends it.
#include <gtest/gtest.h>
#include <unistd.h>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"

namespace arenite::testing {
namespace {

namespace fs = std::filesystem;

class Streams : public ::testing::Test {
 protected:
  Streams() {
    small_ = convert_small(folder_);
    text_ = write_text_decoder(folder_);
    features_ = write_features(folder_, "x.npy", {5, 3});
  }
  std::string path(const char* name) const { return (folder_.path() / name).string(); }

  // Commands that succeed and print.
  std::vector<std::vector<std::string>> commands() const {
    return {{"convert", path("small.safetensors"), "-o", path("again.arn")},
            {"inspect", small_},
            {"inspect", small_, "--json"},
            {"verify", small_},
            {"strip", small_, "-o", path("s.arn")},
            {"repack", small_, "-o", path("r.arn"), "--target", "all"},
            {"embed", small_, "-o", path("m.h")},
            {"run", small_, "--input", features_, "--output", path("y.npy"), "--profile"},
            {"generate", text_, "--prompt", "a", "--tokens", "9"},
            {"run", "--help"},
            {"--version"}};
  }

  TempFolder folder_;
  std::string small_, text_, features_;
};

std::vector<Command> broken(Stream Command::*stream, fs::path Command::*file) {
  std::vector<Command> commands(2);
  commands[0].*stream = Stream::kClosed;
  commands[1].*stream = Stream::kReaderGone;
  if (fs::exists("/dev/full")) commands.emplace_back().*file = "/dev/full";
  return commands;
}

TEST_F(Streams, ErrorsThatCannotBeWrittenChangeNoExitCode) {
  for (const Command& command : broken(&Command::errors, &Command::errors_file)) {
    for (const std::vector<std::string>& words : commands()) {
      const ProgramResult result = run_arenite(words, command);
      EXPECT_TRUE(ends(result, kDone)) << words[0];
      EXPECT_EQ(result.signal, 0);
    }
    EXPECT_TRUE(ends(run_arenite({"inspect", "missing"}, command), kBadInput));
    EXPECT_TRUE(ends(run_arenite({"inspect"}, command), kBadUsage));
    EXPECT_TRUE(ends(run_arenite({}, command), kBadUsage));
  }
}

TEST_F(Streams, OutputThatCannotBeWrittenIsAnError) {
  for (const Command& command : broken(&Command::output, &Command::output_file)) {
    for (const std::vector<std::string>& words : commands()) {
      const ProgramResult result = run_arenite(words, command);
      EXPECT_TRUE(ends(result, kBadInput, {"arenite: cannot write to the standard output: "}))
          << words[0];
      EXPECT_EQ(result.signal, 0);
    }
  }
}

TEST_F(Streams, NeitherCanBeWritten) {
  Command command;
  command.output = command.errors = Stream::kClosed;
  for (const std::vector<std::string>& words : commands()) {
    EXPECT_TRUE(ends(run_arenite(words, command), kBadInput)) << words[0];
  }
}

// An opened file must not get the descriptor of a closed standard stream, and with it the output.
TEST_F(Streams, NothingIsPrintedIntoAFileThatIsWritten) {
  const std::vector<std::string> words = {"run",      small_,        "--input",  features_,
                                          "--output", path("y.npy"), "--profile"};
  ASSERT_TRUE(ends(run_arenite(words), kDone));
  const std::string expected = read_bytes(path("y.npy"));
  for (Stream Command::*const stream : {&Command::output, &Command::errors}) {
    fs::remove(path("y.npy"));
    Command command;
    command.*stream = Stream::kClosed;
    run_arenite(words, command);
    EXPECT_TRUE(read_bytes(path("y.npy")) == expected);
  }
}

TEST_F(Streams, ThreadsThatCannotBeMadeAreAnError) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow takes all of the address space";
  for (const std::string threads : {"200", "256"}) {
    Command command;
    command.address_bytes_max = 1000 << 20;  // a stack takes 8 MB of addresses
    const ProgramResult result = run_arenite(
        {"run", small_, "--input", features_, "--output", path("y.npy"), "--threads", threads},
        command);
    EXPECT_TRUE(ends(result, kBadInput, {"--threads: found " + threads, "cannot be started"}));
    EXPECT_FALSE(fs::exists(path("y.npy")));
  }
}

TEST_F(Streams, AUserOfFewProcessesGetsAnError) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer starts threads of its own";
  fs::permissions(folder_.path(), fs::perms::owner_all | fs::perms::others_all);
  Command command;
  command.unprivileged = geteuid() == 0;
  command.processes_max = 1;
  const std::vector<std::string> words = {"run",      small_,        "--input",   features_,
                                          "--output", path("y.npy"), "--threads", "2"};
  const ProgramResult result = run_arenite(words, command);
  if (result.exit_code > 125) GTEST_SKIP() << "no process can be started so";
  EXPECT_TRUE(ends(result, kBadInput, {"thread 2 cannot be started", "at most 1"}));
}

TEST_F(Streams, TooLittleMemoryIsAnErrorAndNoAbort) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's shadow takes all of the address space";
  const std::string large = write_large_decoder(folder_);
  const std::string ids = write_ids(folder_, "300,", std::vector<int64_t>(300, 1));
  std::vector<std::vector<std::string>> all = commands();
  all.push_back({"run", large, "--input", ids, "--output", path("y"), "--trace", path("t")});
  all.push_back({"generate", large, "--prompt-ids", "1,2", "--ids", "--tokens", "2"});
  all.push_back({"embed", large, "-o", path("m.h"), "--data", path("m.o"), "--abi", "arm"});
  // Where the program itself does not fit, the system ends it with a signal before it begins.
  const uint64_t program_bytes = fs::file_size(ARENITE_PROGRAM);
  for (const std::vector<std::string>& words : all) {
    bool has_failed = false;
    bool has_succeeded = false;
    for (uint64_t bytes = program_bytes; !has_succeeded && bytes < 400 << 20; bytes += 1 << 20) {
      Command command;
      command.address_bytes_max = bytes;
      const ProgramResult result = run_arenite(words, command);
      if (result.exit_code == 127) continue;  // not even the C library can be loaded
      ASSERT_EQ(result.signal, 0) << words[0] << " in " << bytes << " bytes";
      ASSERT_TRUE(result.exit_code == kDone || result.exit_code == kBadInput) << result.output;
      has_failed = has_failed || result.exit_code == kBadInput;
      has_succeeded = result.exit_code == kDone;
      EXPECT_EQ(result.output.find("internal error"), std::string::npos) << result.output;
    }
    EXPECT_TRUE(has_succeeded) << words[0];
    EXPECT_TRUE(has_failed || words[1] != large) << words[0];
  }
}

TEST_F(Streams, FailuresOfTheFileSystemAreErrors) {
  const std::string too_long(5000, 'a');
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"convert", too_long, "-o", path("m.arn")},
           {"convert", path("small.safetensors"), "-o", too_long},
           {"inspect", too_long},
           {"run", small_, "--input", too_long, "--output", path("y")},
           {"run", small_, "--input", features_, "--output", path("y"), "--trace", too_long}}) {
    EXPECT_TRUE(ends(run_arenite(words), kBadInput, {"too long"})) << words[0];
  }
}

}  // namespace
}  // namespace arenite::testing
