// SPDX-License-Identifier: Apache-2.0
// Files appear whole or not at all, and no other file remains.
#include "convert/files/output_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

using testing::refuses;

void write_text(AtomicFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text)));
}

size_t entries_in(const testing::TempFolder& folder) {
  const std::filesystem::directory_iterator entries(folder.path());
  return static_cast<size_t>(std::distance(begin(entries), end(entries)));
}

// Limits the size of files to `bytes` during its lifetime, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limited = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limited);
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int) = nullptr;
};

TEST(AtomicFile, AppearsWithItsWholeContentOnCommit) {
  const testing::TempFolder folder;
  const auto target = folder.path() / "out";
  AtomicFile file(target);
  write_text(file, "one ");
  write_text(file, "two");
  EXPECT_EQ(file.bytes_written(), 7u);
  EXPECT_FALSE(std::filesystem::exists(target));
  file.commit();
  EXPECT_EQ(testing::read_bytes(target), "one two");
  EXPECT_EQ(entries_in(folder), 1u);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const testing::TempFolder folder;
  folder.write("out", "old");
  {
    AtomicFile file(folder.path() / "out");
    write_text(file, "new");
  }
  EXPECT_EQ(testing::read_bytes(folder.path() / "out"), "old");
  EXPECT_EQ(entries_in(folder), 1u);
}

TEST(AtomicFile, ReplacesAFileAndHonoursTheUmask) {
  const testing::TempFolder folder;
  folder.write("out", "old");
  const mode_t before = umask(027);
  AtomicFile file(folder.path() / "out");
  umask(before);
  write_text(file, "new");
  file.commit();
  EXPECT_EQ(testing::read_bytes(folder.path() / "out"), "new");
  struct stat status = {};
  stat((folder.path() / "out").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777u, 0640u);
}

TEST(AtomicFile, TakesANameRelativeToTheWorkingFolder) {
  const testing::TempFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  AtomicFile file("out");
  file.commit();
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "out"));
}

TEST(AtomicFile, LetsTwoWritersOfOneNameFinish) {
  const testing::TempFolder folder;
  AtomicFile first(folder.path() / "out");
  AtomicFile second(folder.path() / "out");
  write_text(first, "first");
  write_text(second, "second");
  second.commit();
  first.commit();
  EXPECT_EQ(testing::read_bytes(folder.path() / "out"), "first");
  EXPECT_EQ(entries_in(folder), 1u);
}

// A killed program leaves its temporary file, and no process holds the lock.
TEST(AtomicFile, RemovesLeftoversOfAKilledProgram) {
  const testing::TempFolder folder;
  folder.write(".out.arenite-0.tmp", "half");
  folder.write(".out.arenite-0.tmp.old", "old");
  folder.write(".other.arenite-0.tmp", "of another output");
  AtomicFile file(folder.path() / "out");
  write_text(file, "new");
  EXPECT_EQ(entries_in(folder), 2u);
  file.commit();
  EXPECT_EQ(testing::read_bytes(folder.path() / "out"), "new");
  EXPECT_EQ(entries_in(folder), 2u);
}

TEST(AtomicFile, KeepsFilesThatOthersHoldOrThatAreNoLeftovers) {
  const testing::TempFolder folder;
  const auto victim = folder.write("victim", "precious");
  std::filesystem::create_symlink("victim", folder.path() / ".out.arenite-0.tmp");
  ASSERT_EQ(mkfifo((folder.path() / ".out.arenite-1.tmp").c_str(), 0600), 0);
  const auto held = folder.write(".out.arenite-2.tmp", "of a running program");
  const int holder = open(held.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(holder, LOCK_EX), 0);
  {
    AtomicFile file(folder.path() / "out");
    write_text(file, "new");
    EXPECT_EQ(testing::read_bytes(folder.path() / ".out.arenite-3.tmp"), "new");
    file.commit();
  }
  close(holder);
  EXPECT_EQ(testing::read_bytes(victim), "precious");
  EXPECT_EQ(testing::read_bytes(held), "of a running program");
  EXPECT_EQ(entries_in(folder), 5u);
}

// Another program takes a new file for a leftover, and removes it, until it is locked.
TEST(AtomicFile, StartsAgainWhereItsTemporaryFileWasTaken) {
  const testing::TempFolder folder;
  constexpr int kWriters = 4, kTurns = 50;
  std::vector<std::jthread> writers;
  for (int i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      for (int turn = 0; turn < kTurns; ++turn) {
        AtomicFile file(folder.path() / "out");
        write_text(file, std::string(1000, static_cast<char>('a' + i)));
        file.commit();
      }
    });
  }
  writers.clear();
  const std::string last = testing::read_bytes(folder.path() / "out");
  EXPECT_EQ(last, std::string(1000, last.empty() ? 'a' : last[0]));
  EXPECT_EQ(entries_in(folder), 1u);
}

TEST(AtomicFile, NamesTheFileAndCleansUpWhenTheDiskIsFull) {
  const testing::TempFolder folder;
  const FileSizeLimit limit(1000);
  AtomicFile file(folder.path() / "out");
  write_text(file, std::string(900, 'x'));
  EXPECT_TRUE(refuses([&] { write_text(file, std::string(900, 'x')); },
                      {"cannot write", "out'", "File too large", "nothing was left behind"}));
  EXPECT_EQ(entries_in(folder), 0u);
}

TEST(AtomicFile, RefusesTargetsThatCannotBeFiles) {
  const testing::TempFolder folder;
  EXPECT_TRUE(refuses([&] { AtomicFile file(folder.path()); }, {"not a regular file"}));
  EXPECT_TRUE(refuses([] { AtomicFile file("/dev/null"); }, {"'/dev/null'", "not a regular file"}));
  EXPECT_TRUE(refuses([&] { AtomicFile file(folder.path() / "none" / "out"); },
                      {"none/out'", "No such file"}));
}

TEST(AtomicFile, CleansUpWhenTheRenameFails) {
  const testing::TempFolder folder;
  const auto target = folder.path() / "out";
  AtomicFile file(target);
  std::filesystem::create_directory(target);  // after the check at the start
  EXPECT_TRUE(refuses([&] { file.commit(); }, {"out'", "Is a directory"}));
  EXPECT_EQ(entries_in(folder), 1u);
}

}  // namespace
}  // namespace arenite::convert
