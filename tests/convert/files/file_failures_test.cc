// SPDX-License-Identifier: Apache-2.0
// Whichever step of writing a file fails, no partial or temporary file remains and the previous
// file stays; this also holds for several files that belong together.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <optional>
#include <string>

#include "convert/files/output_files.h"
#include "support/file_faults.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

using testing::FailingCall;
using testing::name;
using testing::refuses;
using testing::SystemCall;
using testing::TempFolder;

using Contents = std::map<std::string, std::string>;  // of a folder, by name

Contents contents_of(const TempFolder& folder) {
  Contents contents;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    contents[entry.path().filename().string()] = testing::read_bytes(entry.path());
  }
  return contents;
}

void write_all(AtomicFile& file, std::string_view text) {
  file.write(std::as_bytes(std::span(text)));
}

// Runs an AtomicFile through all of its operations.
void write_one(const std::filesystem::path& path) {
  AtomicFile file(path);
  write_all(file, "new");
  file.resize(8);
  file.write_at(4, std::as_bytes(std::span("end")));
  file.commit();
}

TEST(FileFailures, EachFailedCallLeavesTheOldFile) {
  for (const bool replaces : {false, true}) {
    for (const SystemCall call :
         {SystemCall::kOpen, SystemCall::kWrite, SystemCall::kPwrite, SystemCall::kFtruncate,
          SystemCall::kFsync, SystemCall::kClose, SystemCall::kRename}) {
      const TempFolder folder;
      folder.write("beside", "other");
      if (replaces) folder.write("out", "old");
      const Contents before = contents_of(folder);
      const FailingCall failing(call, ENOSPC);
      EXPECT_TRUE(refuses([&] { write_one(folder.path() / "out"); },
                          {"out'", "No space left on device", "nothing was left behind"}))
          << name(call);
      EXPECT_TRUE(failing.happened()) << name(call);
      EXPECT_EQ(contents_of(folder), before) << name(call);
    }
  }
}

TEST(FileFailures, NothingFailsWithoutAFailingCall) {
  const TempFolder folder;
  write_one(folder.path() / "out");
  EXPECT_EQ(contents_of(folder), (Contents{{"out", std::string("new\0end\0", 8)}}));
}

TEST(FileFailures, InterruptedWritesAreRepeated) {
  for (const SystemCall call : {SystemCall::kWrite, SystemCall::kPwrite}) {
    const TempFolder folder;
    const FailingCall failing(call, EINTR);
    write_one(folder.path() / "out");
    EXPECT_TRUE(failing.happened());
    EXPECT_EQ(contents_of(folder)["out"], std::string("new\0end\0", 8));
  }
}

TEST(FileFailures, AFileSystemWithoutFsyncWillDo) {
  const TempFolder folder;
  const FailingCall failing(SystemCall::kFsync, EINVAL);
  write_one(folder.path() / "out");
  EXPECT_TRUE(failing.happened());
  EXPECT_EQ(contents_of(folder).size(), 1u);
}

// Writes three files; the middle one is a null pointer.
void write_together(const TempFolder& folder) {
  AtomicFile first(folder.path() / "first");
  AtomicFile last(folder.path() / "last");
  write_all(first, "new first");
  write_all(last, "new last");
  AtomicFile* const files[] = {&first, nullptr, &last};
  commit_together(files);
}

TEST(FileFailures, FilesThatBelongTogetherAppearTogether) {
  const TempFolder folder;
  folder.write("last", "old last");
  write_together(folder);
  EXPECT_EQ(contents_of(folder), (Contents{{"first", "new first"}, {"last", "new last"}}));
}

TEST(FileFailures, WhenOneFailsNoneOfThemAppears) {
  for (const bool replaces : {false, true}) {
    for (const SystemCall call :
         {SystemCall::kWrite, SystemCall::kFsync, SystemCall::kClose, SystemCall::kRename}) {
      for (const size_t index : {0u, 1u}) {
        const TempFolder folder;
        if (replaces) folder.write("first", "old first");
        if (replaces) folder.write("last", "old last");
        const Contents before = contents_of(folder);
        const FailingCall failing(call, EIO, index);
        EXPECT_TRUE(refuses([&] { write_together(folder); },
                            {index == 0 ? "first'" : "last'", "Input/output error"}))
            << name(call) << index;
        EXPECT_TRUE(failing.happened()) << name(call) << index;
        EXPECT_EQ(contents_of(folder), before) << name(call) << index;
      }
    }
  }
}

TEST(FileFailures, AFileSystemWithoutHardLinksWillDo) {
  const TempFolder folder;
  folder.write("first", "old first");
  const FailingCall failing(SystemCall::kLink, EPERM);
  write_together(folder);
  EXPECT_TRUE(failing.happened());
  EXPECT_EQ(contents_of(folder), (Contents{{"first", "new first"}, {"last", "new last"}}));
}

TEST(FileFailures, ASignalHandlerFindsTheTemporaryFilesOfTheMoment) {
  const TempFolder folder;
  std::optional<AtomicFile> first(folder.path() / "first");
  std::optional<AtomicFile> second(folder.path() / "second");
  AtomicFile done(folder.path() / "done");
  done.commit();
  first.reset();
  EXPECT_EQ(contents_of(folder).size(), 2u);
  remove_temporary_files();
  EXPECT_EQ(contents_of(folder), (Contents{{"done", ""}}));
}

TEST(FileFailures, ALinkStaysALinkAndItsTargetIsReplaced) {
  const TempFolder folder;
  folder.write("real", "old");
  std::filesystem::create_directory(folder.path() / "below");
  std::filesystem::create_symlink("../real", folder.path() / "below" / "link");
  std::filesystem::create_symlink("below/link", folder.path() / "link");
  std::filesystem::create_symlink("later", folder.path() / "dangling");
  for (const char* const link : {"link", "dangling"}) {
    AtomicFile file(folder.path() / link);
    write_all(file, "new");
    file.commit();
    EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / link));
    EXPECT_EQ(testing::read_bytes(folder.path() / link), "new");
  }
  EXPECT_FALSE(std::filesystem::is_symlink(folder.path() / "later"));
  EXPECT_EQ(testing::read_bytes(folder.path() / "real"), "new");
}

}  // namespace
}  // namespace arenite::convert
