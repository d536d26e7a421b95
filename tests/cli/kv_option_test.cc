// SPDX-License-Identifier: Apache-2.0
// Tests of --kv. `arenite convert` stores the type in the file; other commands set the session's
// type.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/printed.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

using Json = nlohmann::json;

class KvOption : public ::testing::Test {
 protected:
  // models/home-intent, whose context is 128 positions.
  std::string converted(const std::string& name, const std::vector<std::string>& options = {}) {
    const std::string file = (folder_.path() / name).string();
    std::vector<std::string> words = {"convert", project_folder().string() + "/models/home-intent",
                                      "-o", file};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back("--verbose");
    report_ = run_arenite(words);
    return file;
  }
  static Json inspected(const std::string& file, const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {"inspect", file, "--json"};
    words.insert(words.end(), options.begin(), options.end());
    return Json::parse(run_arenite(words).output);
  }
  static size_t cache_bytes(const Json& json) {
    return json["targets"][0]["arena"]["kv_cache_bytes"].get<size_t>();
  }
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }

  ProgramResult report_;

 private:
  TempFolder folder_;
};

TEST_F(KvOption, MakesTheFilesChoiceThatEveryCommandCanOverrule) {
  const std::string f32 = converted("f32.arn");
  const std::string int8 = converted("int8.arn", {"--kv", "int8"});
  EXPECT_TRUE(ends(report_, kDone, {"perplexity", "mean KL", "cosine of outputs"}));
  EXPECT_EQ(inspected(f32)["model"]["kv_cache"], "f32");
  EXPECT_EQ(inspected(int8)["model"]["kv_cache"], "int8");
  EXPECT_LT(cache_bytes(inspected(int8)), cache_bytes(inspected(f32)) / 2);
  EXPECT_EQ(cache_bytes(inspected(f32, {"--kv", "int8"})), cache_bytes(inspected(int8)));
  EXPECT_EQ(cache_bytes(inspected(int8, {"--kv", "f32"})), cache_bytes(inspected(f32)));
  const std::vector<Json> caches = {inspected(f32)["caches"][0]["bytes"],
                                    inspected(int8)["caches"][0]["bytes"]};
  EXPECT_NE(caches[0], caches[1]);
}

// The answer is the same, and the arena smaller.
TEST_F(KvOption, GeneratesWithEither) {
  const std::string file = converted("m.arn");
  std::vector<std::string> answers;
  for (const char* kv : {"f32", "int8"}) {
    const ProgramResult result = run_arenite(
        {"generate", file, "--prompt", "turn on the kitchen light", "--no-prompt", "--kv", kv});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    answers.push_back(result.output.substr(0, result.output.find('\n')));
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST_F(KvOption, VerifiesEitherWithTolerancesOfItsOwn) {
  for (const char* choice : {"f32", "int8"}) {
    const std::string file = converted("m.arn", {"--kv", choice, "--target", "all"});
    for (const char* kv : {"f32", "int8"}) {
      EXPECT_TRUE(ends(run_arenite({"verify", file, "--kv", kv}), kDone, {"passed"}))
          << choice << " " << kv;
    }
  }
}

TEST_F(KvOption, KeepsTheChoiceThroughRepack) {
  const std::string file = converted("m.arn", {"--kv", "int8", "--target", "portable"});
  EXPECT_TRUE(ends(run_arenite({"repack", file, "-o", path("r.arn"), "--target", "arm64"}), kDone,
                   {"arm64"}));
  EXPECT_EQ(inspected(path("r.arn"))["model"]["kv_cache"], "int8");
}

TEST_F(KvOption, RefusesOtherTypes) {
  for (const char* kv : {"q8", "int4", ""}) {
    (void)converted("m.arn", {"--kv", kv});
    EXPECT_TRUE(ends(report_, kBadUsage, {"--kv"})) << kv;
  }
}

}  // namespace
}  // namespace arenite::testing
