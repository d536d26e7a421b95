// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite bench`: what it prints, not how fast the machine is.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/checkpoints.h"
#include "tools/printed.h"

namespace arenite::testing {
namespace {

TEST(BenchCommand, PrintsATableOrTheSameAsJson) {
  const TempFolder folder;
  const std::string model = convert_small(folder, "portable");
  const std::string bytes = std::to_string(std::filesystem::file_size(model)) + " bytes";
  EXPECT_TRUE(
      ends(run_arenite({"bench", model, "--tokens", "3"}), kDone,
           {bytes, "kernel set scalar, 1 thread", "GFLOP/s peak", "tokens", "\n       3 "}));
  const ProgramResult result = run_arenite({"bench", model, "--json", "--threads", "2"});
  ASSERT_TRUE(ends(result, kDone));
  const nlohmann::json json = nlohmann::json::parse(result.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << result.output;
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["kernel_set"], "scalar");
  ASSERT_EQ(json["runs"].size(), 1u);  // of the usual sizes, only 6 fits this context
  EXPECT_EQ(json["runs"][0]["tokens"], 6);
  EXPECT_GT(json["runs"][0]["gflops"], 0.0);
}

TEST(BenchCommand, RefusesSizesBeyondTheContext) {
  const TempFolder folder;
  const std::string model = convert_small(folder);
  EXPECT_TRUE(ends(run_arenite({"bench", model, "--tokens", "6,7"}), kBadInput,
                   {"small.arn'", "--tokens: found 7, expected at most 6"}));
}

}  // namespace
}  // namespace arenite::testing
