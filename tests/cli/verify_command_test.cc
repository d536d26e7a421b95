// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite verify` and `arenite strip`.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arenite/target.h"
#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "format/reader.h"
#include "support/byte_string.h"
#include "support/model_factory.h"
#include "support/model_surgery.h"

namespace arenite::testing {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t number = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++number;
  return number;
}

class Verify : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  std::string strip(const std::string& model) const {
    const ProgramResult result = run_arenite({"strip", model, "-o", path("stripped.arn")});
    EXPECT_TRUE(ends(result, kDone)) << result.output;
    return path("stripped.arn");
  }

  TempFolder folder_;
};

TEST_F(Verify, RunsTheSelfTestOnEveryKernelSetOfThisMachine) {
  const ProgramResult result = run_arenite({"verify", convert_small(folder_, "all")});
  EXPECT_TRUE(ends(result, kDone, {"sound; checksums are right", "portable", "scalar"}));
  const auto runnable = static_cast<size_t>(__builtin_popcount(cpu_targets()));
  EXPECT_EQ(count(result.output, "passed: "), runnable) << result.output;
  EXPECT_EQ(count(result.output, "not run: this CPU"), kTargets - runnable) << result.output;
}

TEST_F(Verify, RunsOneKernelSetWhereAsked) {
  const std::string model = convert_small(folder_, "all");
  const ProgramResult result = run_arenite({"verify", model, "--kernels", "scalar"});
  EXPECT_TRUE(ends(result, kDone, {"portable", "passed: no difference"}));
  EXPECT_EQ(count(result.output, "passed"), 1u);
  EXPECT_TRUE(ends(run_arenite({"verify", model, "--kernels", "sse9"}), kBadUsage, {"sse9"}));
}

// The checksums are right: the weights were wrong when they were packed.
TEST_F(Verify, NamesTheOpThatComputesSomethingElse) {
  const std::string bytes = read_bytes(convert_small(folder_, "portable"));
  test::ModelSurgery file(std::as_bytes(std::span(bytes)));
  const format::ModelReader reader(file.file());
  const auto offset = reader.packed(0).segment.begin() + reader.tensor_offset(0, 0);
  const float bias = 0.5f;
  file.overwrite(file.file().data() + offset, bias);
  file.repair();
  const ProgramResult result = run_arenite({"verify", write_file(folder_, "m.arn", file.file())});
  EXPECT_TRUE(ends(result, kBadInput,
                   {"scalar   FAILED at op 0, 'qkv': token 0 differs by", "is allowed",
                    "m.arn': the self-test failed on 1 of 1 kernel set\n"}));
}

TEST_F(Verify, RefusesDamage) {
  std::string bytes = read_bytes(convert_small(folder_));
  bytes[bytes.size() / 2] ^= 1;
  const std::string damaged = folder_.write("damaged.arn", bytes).string();
  EXPECT_TRUE(ends(run_arenite({"verify", damaged}), kBadInput, {"damaged.arn': bad model"}));
  EXPECT_TRUE(ends(run_arenite({"verify", path("none.arn")}), kBadInput, {"none.arn"}));
  const std::string part = folder_.write("part.arn", bytes.substr(0, 100)).string();
  EXPECT_TRUE(ends(run_arenite({"verify", part}), kBadInput, {"truncated"}));
}

TEST_F(Verify, ReportsWhatIsMissingWhereNothingCanRun) {
  EXPECT_TRUE(ends(run_arenite({"verify", strip(convert_small(folder_))}), kBadInput,
                   {"checksums are right", "the file has no self-test: convert it with one"}));
  const bool is_arm = (cpu_targets() & bit(Target::kArm64)) != 0;
  const std::string foreign = convert_small(folder_, is_arm ? "x86-64-v2" : "arm64");
  EXPECT_TRUE(ends(run_arenite({"verify", foreign}), kBadInput,
                   {"not run", "no self-test was run", "--target all"}));
}

TEST_F(Verify, PassesForTargetsThatTheConvertersMachineCannotRun) {
  const std::string model = convert_small(folder_, "arm64,arm32,portable");
  EXPECT_TRUE(ends(run_arenite({"verify", model}), kDone, {"passed"}));
}

TEST_F(Verify, StripMakesTheFileThatConvertWritesWithoutASelfTest) {
  const std::string model = convert_small(folder_);
  const ProgramResult result = run_arenite({"strip", model, "-o", path("flash.arn")});
  EXPECT_TRUE(ends(result, kDone, {"flash.arn: ", " less without the self-test"}));
  const std::string checkpoint = path("small.safetensors");
  EXPECT_TRUE(ends(run_arenite({"convert", checkpoint, "-o", path("none.arn"), "--name", "small",
                                "--no-self-test"}),
                   kDone));
  EXPECT_EQ(read_bytes(path("flash.arn")), read_bytes(path("none.arn")));
  EXPECT_LT(read_bytes(path("flash.arn")).size(), read_bytes(model).size());

  EXPECT_TRUE(ends(run_arenite({"strip", path("flash.arn"), "-o", path("again.arn")}), kDone,
                   {"as before: there was no self-test"}));
  EXPECT_EQ(read_bytes(path("again.arn")), read_bytes(path("flash.arn")));
  EXPECT_TRUE(ends(run_arenite({"strip", model, "-o", model}), kBadUsage, {"--output"}));
}

TEST_F(Verify, InspectReportsTheSizeOfASelfTest) {
  const std::string model = convert_small(folder_);
  EXPECT_TRUE(ends(run_arenite({"inspect", model}), kDone, {"self-test", "6 tokens"}));
  EXPECT_TRUE(ends(run_arenite({"inspect", strip(model)}), kDone, {"self-test     none"}));
  const ProgramResult json = run_arenite({"inspect", "--json", model});
  const nlohmann::json test = nlohmann::json::parse(json.output).at("self_test");
  EXPECT_EQ(test.at("tokens"), 6);
  EXPECT_GT(test.at("bytes"), 6 * 3 * 4);
}

}  // namespace
}  // namespace arenite::testing
