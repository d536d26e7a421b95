// SPDX-License-Identifier: Apache-2.0
// Commands print and write the same on several threads as on one. Under ThreadSanitizer, a race
// ends the child process that runs the command.
#include <gtest/gtest.h>

#include "cli/printed.h"
#include "cli/writing_commands.h"

namespace arenite::testing {
namespace {

struct Case {
  std::vector<std::string> words;
  std::string end;  // of what is printed alike; then come times, or the threads and their arena
};

TEST(CommandThreads, DoNotChangeOutputsOrFiles) {
  const Workplace place;
  const std::vector<Case> cases = {
      {{"generate", "text.arn", "--prompt", "a b", "--tokens", "9", "--seed", "3"}, "\n\nprompt"},
      {{"run", "plain.arn", "--input", "ids.npy", "--output", "out/y", "--hidden-states", "out/h"},
       " on "},
      {{"run", "small.arn", "--input", "x.npy", "--output", "out/y"}, " on "},
      {{"classify", "classifier.arn", "--text", "the pump is loud", "--json"}, "\"threads\""},
      {{"embed-text", "sentences.arn", "--text", "the pump is loud", "-o", "out/v"}, ", in an"}};
  for (const Case& one : cases) {
    const auto printed = [&](const ProgramResult& result) {
      EXPECT_NE(result.output.find(one.end), std::string::npos) << result.output;
      return result.output.substr(0, result.output.find(one.end));
    };
    place.set_outputs({});
    const ProgramResult alone = place.run({one.words[0], one.words, {}});
    ASSERT_TRUE(ends(alone, kDone)) << one.words[0];
    const Contents expected = contents_of(place.outputs());
    std::vector<std::string> with_threads = one.words;
    with_threads.insert(with_threads.end(), {"--threads", "4"});
    place.set_outputs({});
    const ProgramResult result = place.run({one.words[0], with_threads, {}});
    ASSERT_TRUE(ends(result, kDone)) << one.words[0];
    EXPECT_EQ(printed(result), printed(alone)) << one.words[0];
    EXPECT_TRUE(contents_of(place.outputs()) == expected) << one.words[0];
  }
}

// All threads write to the profiler.
TEST(CommandThreads, MayBeProfiledAndTraced) {
  const Workplace place;
  EXPECT_TRUE(ends(place.run({"run",
                              {"run", "plain.arn", "--input", "ids.npy", "--output", "out/y",
                               "--trace", "out/t", "--profile", "--threads", "4"},
                              {}}),
                   kDone));
}

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
// Takes seconds; without ThreadSanitizer the tests of bench have threads enough.
TEST(CommandThreads, MayBeTimed) {
  const Workplace place;
  EXPECT_TRUE(ends(place.run({"bench",
                              {"bench", "plain.arn", "--prompt", "9", "--decode", "3", "--at", "10",
                               "--threads", "4"},
                              {}}),
                   kDone));
}
#endif
#endif

}  // namespace
}  // namespace arenite::testing
