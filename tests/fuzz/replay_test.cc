// SPDX-License-Identifier: Apache-2.0
// Feeds every fuzz target its stored inputs, without a fuzzer.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "convert/files/memory.h"
#include "convert/files/zip_archive.h"
#include "support/temp_folder.h"

#define ARENITE_FUZZ_TARGET(name) extern "C" int fuzz_##name(const uint8_t* data, size_t size);
#include "fuzz_targets.inc"
#undef ARENITE_FUZZ_TARGET

namespace arenite::test {
namespace {

struct FuzzTarget {
  const char* name;
  int (*test_one_input)(const uint8_t* data, size_t size);
};

constexpr FuzzTarget kFuzzTargets[] = {
#define ARENITE_FUZZ_TARGET(name) {#name, fuzz_##name},
#include "fuzz_targets.inc"
#undef ARENITE_FUZZ_TARGET
};

class FuzzCorpus : public ::testing::TestWithParam<FuzzTarget> {};

TEST_P(FuzzCorpus, IsReadWithoutAFinding) {
  const std::filesystem::path path =
      std::filesystem::path(ARENITE_FUZZ_CORPUS) / (std::string(GetParam().name) + ".zip");
  ASSERT_TRUE(std::filesystem::exists(path)) << path << ": make it with tests/fuzz/fuzz.py keep";
  const convert::FileMap file(path);
  const std::string name = path.string();
  convert::ZipArchive archive(file.bytes(), name);
  EXPECT_FALSE(archive.members().empty());
  for (const auto& [member_name, member] : archive.members()) {
    SCOPED_TRACE(member_name);
    const auto bytes = archive.read(member_name, member);
    const auto* const data = reinterpret_cast<const uint8_t*>(bytes.get());
    EXPECT_EQ(GetParam().test_one_input(data, static_cast<size_t>(member.bytes)), 0);
  }
}

// Feeds the fuzzer's seeds too, some of which are too large to be stored.
TEST_P(FuzzCorpus, BeginsWithSeedsWithoutAFinding) {
  const ::arenite::testing::TempFolder folder;
  const std::string command = ARENITE_MAKE_CORPUS " " + folder.path().string();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const std::filesystem::path seeds = folder.path() / GetParam().name;
  if (!std::filesystem::exists(seeds)) return;  // it begins with nothing
  for (const auto& entry : std::filesystem::directory_iterator(seeds)) {
    SCOPED_TRACE(entry.path());
    const convert::FileMap file(entry.path());
    const auto* const data = reinterpret_cast<const uint8_t*>(file.bytes().data());
    EXPECT_EQ(GetParam().test_one_input(data, file.bytes().size()), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, FuzzCorpus, ::testing::ValuesIn(kFuzzTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace arenite::test
