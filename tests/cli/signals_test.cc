// SPDX-License-Identifier: Apache-2.0
// A signal ends the program with the status that a shell expects, and no temporary file remains.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "cli/printed.h"
#include "cli/token_models.h"

namespace arenite::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSequences = 32;

class Signals : public ::testing::Test {
 protected:
  Signals() {
    model_ = write_large_decoder(folder_);
    ids_ = write_ids(folder_, "32, 512", std::vector<int64_t>(kSequences * 512, 1));
    fs::create_directory(results());
    folder_.write("results/old", "old");
  }
  fs::path results() const { return folder_.path() / "results"; }

  // Seconds of work, with two temporary files from the start.
  std::vector<std::string> long_command() const {
    return {ARENITE_PROGRAM,
            "run",
            model_,
            "--input",
            ids_,
            "--output",
            (results() / "old").string(),
            "--hidden-states",
            (results() / "h").string(),
            "--chunk",
            "1",
            "--threads",
            "2"};
  }

  // Waits for the temporary files, and sends the signals.
  std::function<void(pid_t)> send(std::vector<int> numbers) const {
    return [this, numbers](pid_t child) {
      const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (names_in(results()).size() < 3 && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_EQ(names_in(results()).size(), 3u);  // or nothing is tested
      for (const int number : numbers) kill(child, number);
    };
  }

  void left_nothing() const {
    EXPECT_EQ(names_in(results()), (std::set<std::string>{"old"}));
    EXPECT_EQ(read_bytes(results() / "old"), "old");
  }

  TempFolder folder_;
  std::string model_, ids_;
};

TEST_F(Signals, EndTheProgramAndLeaveNothing) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    Command command{long_command()};
    command.meanwhile = send({number});
    const ProgramResult result = run(command);
    EXPECT_EQ(result.signal, number) << result.exit_code << result.output;
    left_nothing();
  }
}

TEST_F(Signals, IgnoredOnesStayIgnored) {
  Command command{{"sh", "-c", "trap '' HUP; exec \"$0\" \"$@\""}};
  const std::vector<std::string> words = long_command();
  command.words.insert(command.words.end(), words.begin(), words.end());
  command.meanwhile = send({SIGHUP, SIGTERM});
  const ProgramResult result = run(command);
  EXPECT_EQ(result.signal, SIGTERM) << result.exit_code << result.output;
  left_nothing();
}

// A file size limit (ulimit -f) must act like a full disk, although its signal ends programs by
// default.
TEST_F(Signals, FileSizeLimitsBecomeErrors) {
  const std::string script = "ulimit -c 0; ulimit -f 1; \"$0\" \"$@\"; echo code $?";
  Command command{{"sh", "-c", script}};
  const std::vector<std::string> words = long_command();
  command.words.insert(command.words.end(), words.begin(), words.end());
  EXPECT_TRUE(ends(run(command), kDone, {"File too large", "code 1"}));
  left_nothing();
}

}  // namespace
}  // namespace arenite::testing
