// SPDX-License-Identifier: Apache-2.0
// Tests whether two names lead to the same file.
#include "convert/files/output_files.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "convert/files/memory.h"
#include "support/refusal.h"
#include "support/temp_folder.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;
using testing::refuses;

// Whether `action` throws a SameFileError with these parts in its message.
template <typename Action>
::testing::AssertionResult refuses_same(const Action& action,
                                        std::initializer_list<std::string_view> parts) {
  const auto translated = [&] {
    try {
      action();
    } catch (const SameFileError& error) {
      throw InputError("{}", error.what());
    } catch (const InputError& error) {
      throw std::logic_error(error.what());
    }
  };
  return refuses(translated, parts);
}

// A folder with the file "in", and other names for it.
class OutputGuards : public ::testing::Test {
 protected:
  OutputGuards() {
    folder_.write("in", "input");
    fs::create_directory(path("below"));
    fs::create_hard_link(path("in"), path("hard"));
    fs::create_symlink("in", path("soft"));
    fs::create_symlink("../soft", path("below") / "twice");
    fs::create_directory_symlink("below", path("other"));
  }
  fs::path path(const char* name) const { return folder_.path() / name; }

  testing::TempFolder folder_;
};

TEST_F(OutputGuards, AnOutputIsNoInputUnderAnyName) {
  for (const char* const name :
       {"in", "./in", "below/../in", "other/../in", "hard", "soft", "below/twice", "other/twice"}) {
    const OutputGuard guard({{"--output", path(name)}});
    EXPECT_TRUE(
        refuses_same([&] { FileMap file(path("in")); },
                     {"--output: ", "is an input of this command", "expected another file"}))
        << name;
    EXPECT_TRUE(refuses_same([&] { note_read(path("soft")); }, {"is an input"})) << name;
  }
}

TEST_F(OutputGuards, AnotherFileIsNoInput) {
  folder_.write("copy", "input");
  const OutputGuard guard({{"--output", path("copy")}, {"--trace", path("new")}, {"--data", ""}});
  EXPECT_EQ(FileMap(path("in")).bytes().size(), 5u);
  AtomicFile file(path("copy"));
  file.commit();
  EXPECT_EQ(testing::read_bytes(path("copy")), "");
}

TEST_F(OutputGuards, TwoOutputsAreTwoFiles) {
  const std::pair<const char*, const char*> names[] = {
      {"new", "new"}, {"new", "below/../new"}, {"below/new", "other/new"}, {"in", "hard"},
      {"in", "soft"}, {"in", "./in"},          {"soft", "other/twice"}};
  for (const auto& pair : names) {
    EXPECT_TRUE(refuses_same(
        [&] {
          OutputGuard({{"--a", path(pair.first)}, {"--b", path(pair.second)}});
        },
        {"--b: ", "is the file of --a"}))
        << pair.first << " " << pair.second;
  }
  fs::create_symlink("later", path("dangling"));
  EXPECT_TRUE(refuses_same(
      [&] {
        OutputGuard({{"--a", path("later")}, {"--b", path("dangling")}});
      },
      {"is the file of --a"}));
  const OutputGuard fine(
      {{"--a", path("new")}, {"--b", path("below/new")}, {"--c", path("newer")}});
}

// A name may come to lead to an input after the check at the start.
TEST_F(OutputGuards, InputsAreNotReplaced) {
  const OutputGuard guard({{"--output", path("out")}});
  const FileMap input(path("in"));
  AtomicFile file(path("out"));
  fs::create_hard_link(path("in"), path("out"));
  EXPECT_TRUE(refuses_same([&] { file.commit(); }, {"cannot write", "out'", "is an input"}));
  EXPECT_TRUE(refuses_same([&] { AtomicFile again(path("soft")); }, {"soft'", "is an input"}));
  EXPECT_EQ(testing::read_bytes(path("in")), "input");
}

TEST_F(OutputGuards, EndsWithItsCommand) {
  {
    const OutputGuard guard({{"--output", path("out")}});
    const FileMap input(path("in"));
  }
  AtomicFile file(path("in"));
  file.commit();
  EXPECT_EQ(testing::read_bytes(path("in")), "");
}

TEST_F(OutputGuards, RefusesUnwritableOutputsBeforeAnyWork) {
  const auto refuses_output = [&](const fs::path& output,
                                  std::initializer_list<std::string_view> parts) {
    return refuses([&] { OutputGuard({{"--output", output}}); }, parts);
  };
  EXPECT_TRUE(refuses_output(path("below"), {"below'", "a folder", "name a file in it"}));
  EXPECT_TRUE(refuses_output(path("other"), {"other'", "a folder"}));
  EXPECT_TRUE(refuses_output("/dev/null", {"'/dev/null'", "not a regular file"}));
  EXPECT_TRUE(refuses_output(path("none/out"), {"none/out'", "No such file", "create it first"}));
  EXPECT_TRUE(refuses_output(path("none/"), {"none/'", "names no file"}));
  EXPECT_TRUE(refuses([] { AtomicFile file(""); }, {"''", "names no file"}));
  EXPECT_TRUE(refuses_output(path("in/out"), {"in/out'", "Not a directory"}));
  EXPECT_EQ(testing::read_bytes(path("in")), "input");
}

}  // namespace
}  // namespace arenite::convert
