// SPDX-License-Identifier: Apache-2.0
// Whichever file operation fails and wherever the program is killed, each output is byte for byte
// the new file, the old file, or absent.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/printed.h"
#include "cli/writing_commands.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "support/file_faults.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

// Commands with many calls (help, bundle, and all commands in sanitized builds) are tested at about
// this many calls per effect; with ARENITE_EVERY_CALL in the environment (`make test-faults`), at
// every call.
constexpr size_t kCallsMax = kSanitized ? 15 : 100;
constexpr size_t kCallsTried = kSanitized ? 4 : 10;

constexpr Effect kEffects[] = {Effect::kFailsOnce, Effect::kDiskFull, Effect::kReadOnly,
                               Effect::kKilled, Effect::kKilledHalf};

int error_of(SystemCall call) {
  switch (call) {
    case SystemCall::kOpen:
    case SystemCall::kRename:
    case SystemCall::kMkdir:
      return EACCES;
    case SystemCall::kFtruncate:
      return EFBIG;
    case SystemCall::kClose:
      return EDQUOT;
    case SystemCall::kLink:
      return EPERM;
    case SystemCall::kFlock:
      return ENOLCK;
    default:
      return EIO;
  }
}

// Returns the error that the message must show; 0: none.
int shown_error(Effect effect, SystemCall call) {
  switch (effect) {
    case Effect::kFailsOnce:
      return error_of(call);
    case Effect::kDiskFull:
      return ENOSPC;
    case Effect::kReadOnly:
      return EROFS;
    default:
      return 0;
  }
}

bool is_killed(Effect effect) { return effect == Effect::kKilled || effect == Effect::kKilledHalf; }

// Returns false if the effect would equal that of another effect or call.
bool is_worth_trying(Effect effect, SystemCall call) {
  switch (effect) {
    case Effect::kDiskFull:
      return takes_space(call);
    case Effect::kReadOnly:
      return call != SystemCall::kClose && call != SystemCall::kFlock;
    case Effect::kKilledHalf:
      return call == SystemCall::kWrite || call == SystemCall::kPwrite;
    default:
      return true;
  }
}

bool is_temporary(const std::string& name) {
  return name.find(".arenite-") != std::string::npos && name.find(".tmp") != std::string::npos;
}

// Traces contain times, so two of them differ: any complete JSON is accepted.
bool is_same(const std::string& name, const std::string& bytes, const std::string& expected) {
  if (!name.ends_with("trace.json") || expected == "old") return bytes == expected;
  return nlohmann::json::accept(bytes);
}

bool are_same(const Contents& contents, const Contents& expected) {
  return std::ranges::equal(contents, expected, [](const auto& a, const auto& b) {
    return a.first == b.first && is_same(a.first, a.second, b.second);
  });
}

class FileFaults : public ::testing::TestWithParam<WritingCommand> {
 protected:
  // From these contents on, every call of the command.
  void try_all(const Contents& old);
  void try_one(const Fault& fault, SystemCall call);
  void expect_whole(const Contents& contents) const;
  void expect_removed_by_the_next(const Contents& contents);

  void TearDown() override { RecordProperty("faults", static_cast<int>(faults_)); }

  Workplace place_;
  Contents old_, fresh_;
  size_t faults_ = 0;  // that happened
};

void FileFaults::try_all(const Contents& old) {
  old_ = old;
  place_.set_outputs(old);
  std::vector<SystemCall> calls;
  {
    const FileFault none;
    ASSERT_TRUE(ends(place_.run(GetParam()), kDone));
    calls = none.calls();
  }
  fresh_ = contents_of(place_.outputs());
  ASSERT_GE(calls.size(), 4u);  // or the calls do not come through here
  ASSERT_FALSE(are_same(fresh_, old_));
  const bool every = std::getenv("ARENITE_EVERY_CALL") != nullptr;
  const size_t step = every || calls.size() <= kCallsMax ? 1 : calls.size() / kCallsTried;
  size_t start = 0;
  for (const Effect effect : kEffects) {
    for (size_t index = start++ % step; index < calls.size(); index += step) {
      const SystemCall call = calls[index];
      if (!is_worth_trying(effect, call)) continue;
      SCOPED_TRACE(std::string(name(call)) + ", call " + std::to_string(index) + ", effect " +
                   std::to_string(static_cast<int>(effect)));
      try_one({effect, error_of(call), index}, call);
      if (HasFailure()) return;
    }
  }
}

void FileFaults::try_one(const Fault& fault, SystemCall call) {
  place_.set_outputs(old_);
  ProgramResult result;
  {
    const FileFault happens(fault);
    result = place_.run(GetParam());
    ASSERT_TRUE(happens.happened());
  }
  ++faults_;
  Contents contents = contents_of(place_.outputs());
  const Contents all = contents;
  const bool leaves =
      std::erase_if(contents, [](const auto& entry) { return is_temporary(entry.first); }) > 0;
  expect_whole(contents);
  if (is_killed(fault.effect)) {
    EXPECT_EQ(result.signal, SIGKILL) << result.output;
  } else if (result.exit_code == kDone) {
    EXPECT_TRUE(are_same(contents, fresh_));
  } else {
    EXPECT_TRUE(
        ends(result, kBadInput,
             {"arenite: cannot ", "'out/", std::strerror(shown_error(fault.effect, call))}));
    const bool is_undone = GetParam().all_or_none && fault.effect != Effect::kReadOnly;
    EXPECT_TRUE(!is_undone || are_same(contents, old_)) << result.output;
  }
  const bool may_leave = is_killed(fault.effect) || fault.effect == Effect::kReadOnly ||
                         (fault.effect == Effect::kFailsOnce && call == SystemCall::kUnlink);
  EXPECT_TRUE(may_leave || !leaves) << ::testing::PrintToString(all);
  if (leaves) expect_removed_by_the_next(contents);
}

void FileFaults::expect_whole(const Contents& contents) const {
  for (const auto& [name, bytes] : contents) {
    const bool is_old = old_.contains(name) && bytes == old_.at(name);
    const bool is_new = fresh_.contains(name) && is_same(name, bytes, fresh_.at(name));
    EXPECT_TRUE(is_old || is_new) << name << " has " << bytes.size() << " bytes";
  }
  for (const auto& [name, bytes] : old_) EXPECT_TRUE(contents.contains(name)) << name;
  if (!GetParam().folder.empty()) {
    EXPECT_TRUE(contents == old_ || contents == fresh_) << contents.size() << " entries";
  }
}

void FileFaults::expect_removed_by_the_next(const Contents& contents) {
  if (contents == fresh_ && !GetParam().folder.empty()) return;  // which is not written twice
  ASSERT_TRUE(ends(place_.run(GetParam()), kDone));
  EXPECT_TRUE(are_same(contents_of(place_.outputs()), fresh_));
}

TEST_P(FileFaults, LeaveAllNewFilesOrNone) { try_all({}); }

TEST_P(FileFaults, LeaveTheNewOrTheOldFile) {
  Contents old;
  for (const std::string& file : GetParam().files) old[file] = "old";
  if (!GetParam().folder.empty()) old[GetParam().folder] = kFolder;
  if (GetParam().name == "help") {
    for (const char* const folder : {"share", "share/arenite", "share/arenite/schemas"}) {
      old[folder] = kFolder;
    }
    old["share/arenite/schemas/bench.schema.json"] = "old";
  }
  try_all(old);
}

TEST(FileFaultsOfBench, LeaveTheOldFile) {
  const Workplace place;
  const Contents old = {{"trace.json", "old"}};
  place.set_outputs(old);
  const FileFault full({Effect::kDiskFull, 0, 2});  // after open and lock
  EXPECT_TRUE(ends(place.run(bench_command()), kBadInput,
                   {"arenite: cannot write 'out/trace.json': No space left on device"}));
  EXPECT_EQ(contents_of(place.outputs()), old);
}

// Writes a folder as `arenite bundle` does, but with few files, so that the test can fail every
// call.
WritingCommand folder_command() {
  const auto body = [] {
    const convert::FolderFile files[] = {
        {"a", std::string(5000, 'a')}, {"b/c/d", "d"}, {"b/empty", ""}};
    try {
      convert::write_folder("out/folder", files);
    } catch (const convert::InputError& error) {
      return tool::fail(tool::kBadInput, error.what());
    }
    return kDone;
  };
  return {"folder", {}, {}, true, "folder", body};
}

std::vector<WritingCommand> all_commands() {
  std::vector<WritingCommand> commands = writing_commands();
  commands.push_back(folder_command());
  return commands;
}

INSTANTIATE_TEST_SUITE_P(Commands, FileFaults, ::testing::ValuesIn(all_commands()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace arenite::testing
