// SPDX-License-Identifier: Apache-2.0
// Tests of --profile and --trace: the output is complete and can be parsed.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"

namespace arenite::testing {
namespace {

constexpr const char* kKinds[] = {"embedding", "norm",       "linear", "rope",
                                  "attention", "activation", "add",    "select"};

TEST(Profile, ListsEveryKindOfOp) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const ProgramResult result = run_arenite(
      {"generate", model, "--prompt-ids", "1,2,3", "--ids", "--tokens", "4", "--profile"});
  ASSERT_TRUE(ends(result, kDone, {"Profile of 4 calls", "GFLOP/s", "us/call", "logits"}));
  for (const std::string kind : kKinds) {
    EXPECT_NE(result.errors.find("\n  all"), std::string::npos);
    EXPECT_NE(result.errors.find(" " + kind + " "), std::string::npos) << kind;
  }
}

TEST(Profile, WritesATraceOfEveryOp) {
  const TempFolder folder;
  const std::string model = write_plain_decoder(folder);
  const std::string trace = (folder.path() / "t.json").string();
  for (const char* threads : {"1", "2"}) {
    ASSERT_TRUE(ends(run_arenite({"generate", model, "--prompt-ids", "1,2,3", "--ids", "--tokens",
                                  "4", "--trace", trace, "--threads", threads}),
                     kDone));
    const nlohmann::json json = nlohmann::json::parse(read_bytes(trace), nullptr, false);
    ASSERT_TRUE(json.is_object());
    std::set<std::string> kinds;
    std::map<int, double> steps;  // with the end of each
    std::map<int, int> tokens;
    for (const nlohmann::json& event : json["traceEvents"]) {
      if (event["ph"] == "M") continue;
      ASSERT_EQ(event["ph"], "X");
      EXPECT_GE(event["dur"], 0.0);
      kinds.insert(event["cat"]);
      if (event["cat"] != "step") continue;
      const int step = event["args"]["step"];
      EXPECT_TRUE(step == 0 || steps[step - 1] <= event["ts"].get<double>());
      steps[step] = event["ts"].get<double>() + event["dur"].get<double>();
      tokens[step] = event["args"]["tokens"];
    }
    EXPECT_EQ(tokens, (std::map<int, int>{{0, 3}, {1, 1}, {2, 1}, {3, 1}}));
    for (const char* kind : kKinds) EXPECT_TRUE(kinds.contains(kind)) << kind;
  }
}

TEST(Profile, WorksForModelsOfFeaturesToo) {
  const TempFolder folder;
  const std::string model = convert_small(folder);
  const std::string input = write_features(folder, "x.npy", {5, 3});
  const std::string trace = (folder.path() / "t.json").string();
  const std::vector<std::string> words = {"run", model,      "--input",
                                          input, "--output", (folder.path() / "y.npy").string()};
  std::vector<std::string> profiled = words;
  profiled.insert(profiled.end(), {"--profile", "--trace", trace});
  ASSERT_TRUE(ends(run_arenite(words), kDone));
  const std::string result = read_bytes(folder.path() / "y.npy");
  ASSERT_TRUE(ends(run_arenite(profiled), kDone, {"Profile of 1 call", "linear", "attention"}));
  EXPECT_EQ(read_bytes(folder.path() / "y.npy"), result);
  EXPECT_TRUE(nlohmann::json::accept(read_bytes(trace)));
}

TEST(Profile, SaysThatATraceCannotBeWritten) {
  const TempFolder folder;
  EXPECT_TRUE(ends(run_arenite({"generate", write_plain_decoder(folder), "--prompt-ids", "1",
                                "--ids", "--tokens", "1", "--trace", "/none/t.json"}),
                   kBadInput, {"cannot write '/none/t.json'"}));
}

}  // namespace
}  // namespace arenite::testing
