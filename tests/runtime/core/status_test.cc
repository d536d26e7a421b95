// SPDX-License-Identifier: Apache-2.0
// The one-line description of a failure, and Result.
#include "arenite/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "arenite/target.h"
#include "support/guarded_buffer.h"
#include "support/malloc_trap.h"

namespace arenite {
namespace {

std::string describe_all(Status status, const Diagnostic& why) {
  char line[512];
  const size_t length = describe(status, why, line);
  EXPECT_EQ(line[length], '\0');
  return std::string(line, length);
}

Diagnostic full_diagnostic() {
  Diagnostic why;
  why.reason = "slots overlap in the arena";
  why.field = "slots";
  why.index = 12;
  why.found = 18446744073709551615u;
  why.expected = 64;
  why.bytes_needed = 4096;
  why.file_targets = bit(Target::kX86_64_v2) | bit(Target::kArm64);
  why.cpu_targets = bit(Target::kPortable);
  return why;
}

constexpr char kFullLine[] =
    "bad model: slots overlap in the arena; slots[12]; found 18446744073709551615, expected 64; "
    "needs 4096 bytes; the file is packed for x86-64-v2, arm64, this CPU and build run portable: "
    "arenite convert --target portable";

TEST(Describe, GivesTheStatusAloneWhenNothingElseIsKnown) {
  EXPECT_EQ(describe_all(Status::kContextFull, {}), "context full");
}

TEST(Describe, SaysEverythingInOneLine) {
  EXPECT_EQ(describe_all(Status::kBadModel, full_diagnostic()), kFullLine);
}

TEST(Describe, SaysEachPartOnlyWhereItApplies) {
  Diagnostic why;
  why.reason = "no";
  EXPECT_EQ(describe_all(Status::kBadModel, why), "bad model: no");
  why = {};
  why.field = "options.tokens_max";
  EXPECT_EQ(describe_all(Status::kInvalidArgument, why), "invalid argument; options.tokens_max[0]");
  why = {};
  why.expected = 1;
  EXPECT_EQ(describe_all(Status::kInvalidArgument, why), "invalid argument; found 0, expected 1");
  why = {};
  why.found = why.expected = 2;
  EXPECT_EQ(describe_all(Status::kInvalidArgument, why), "invalid argument; found 2, expected 2");
  why = {};
  why.bytes_needed = 10;
  EXPECT_EQ(describe_all(Status::kArenaTooSmall, why), "arena too small; needs 10 bytes");
  why = {};
  why.file_targets = bit(Target::kX86_64_v4);
  EXPECT_EQ(describe_all(Status::kUnsupported, why),
            "unsupported; the file is packed for x86-64-v4, this CPU and build run none");
}

TEST(Describe, CutsTheLineToTheBuffer) {
  const std::string whole = kFullLine;
  for (size_t size = 0; size <= whole.size() + 2; ++size) {
    const test::GuardedBuffer buffer(size);
    const std::span<char> out(reinterpret_cast<char*>(buffer.data()), size);
    const size_t length = describe(Status::kBadModel, full_diagnostic(), out);
    ASSERT_EQ(length, size == 0 ? 0 : std::min(size - 1, whole.size()));
    ASSERT_TRUE(buffer.surroundings_intact());
    if (size == 0) continue;
    ASSERT_EQ(std::string(out.data()), whole.substr(0, length));
  }
}

TEST(Describe, UsesNoHeap) {
  char line[256];
  const Diagnostic why = full_diagnostic();
  const test::NoHeapScope no_heap;
  EXPECT_NE(describe(Status::kBadModel, why, line), 0u);
}

TEST(Status, HasADifferentNameForEachValue) {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(Status::kContextFull); ++i) {
    names.insert(name(static_cast<Status>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Status::kContextFull) + 1);
  EXPECT_EQ(names.count("unknown status"), 0u);
}

TEST(Result, HoldsAValueOrAStatus) {
  const Result<int> good = 7;
  EXPECT_TRUE(good.ok());
  EXPECT_EQ(good.status(), Status::kOk);
  EXPECT_EQ(*good, 7);
  const Result<int> bad = Status::kBadModel;
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.status(), Status::kBadModel);
}

}  // namespace
}  // namespace arenite
