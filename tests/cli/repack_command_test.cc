// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite repack`: the contents of the file and the printed report.
#include <gtest/gtest.h>

#include <filesystem>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "format/file_layout.h"
#include "support/byte_string.h"
#include "support/model_surgery.h"
#include "support/test_data.h"

namespace arenite::testing {
namespace {

class Repack : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult repack(const std::string& model, const std::string& targets) const {
    return run_arenite({"repack", model, "-o", path("r.arn"), "--target", targets});
  }
  // A model of this tree; the name in the file is not the file's.
  std::string convert(const std::string& model, const std::string& targets,
                      std::vector<std::string> options = {}) const {
    const std::string file = path(targets + ".arn");
    std::string folder = project_folder().string();
    folder += "/models/" + model;
    std::vector<std::string> words = {"convert", folder,  "-o",       file,
                                      "--name",  "model", "--target", targets};
    words.insert(words.end(), options.begin(), options.end());
    EXPECT_TRUE(ends(run_arenite(words), kDone));
    return file;
  }
  // Those of a file, in its order, as --target takes them.
  std::string targets_of(const std::string& model) const {
    const std::string bytes = read_bytes(model);
    const test::ModelSurgery file(std::as_bytes(std::span(bytes)));
    std::string targets;
    for (const format::Packed* packed : *file.model().packed()) {
      targets += (targets.empty() ? "" : ",") + std::string(name(Target(packed->target())));
    }
    return targets;
  }
  bool wrote() const { return std::filesystem::exists(path("r.arn")); }

  TempFolder folder_;
};

TEST_F(Repack, WritesTheSameBytesAsConvert) {
  const std::vector<std::vector<std::string>> options = {
      {}, {"--weights", "w8"}, {"--weights", "q8"}, {"--weights", "q4"}};
  for (const std::vector<std::string>& weights : options) {
    if (kSanitized && weights != options.back()) continue;  // any type will do
    for (const std::string model : {"home-intent", "vibration"}) {
      const std::string few = convert(model, "portable,x86-64-v3", weights);
      const std::string many = convert(model, "all", weights);
      const std::string other = convert(model, "arm64-i8mm,x86-64-v4", weights);
      EXPECT_TRUE(ends(repack(few, "all"), kDone, {"new, from portable", "self-test  passed"}));
      EXPECT_EQ(read_bytes(path("r.arn")), read_bytes(many)) << model;
      EXPECT_TRUE(ends(run_arenite({"verify", path("r.arn")}), kDone, {"sound"}));
      EXPECT_TRUE(ends(repack(many, "portable,x86-64-v3"), kDone, {"stays", "dropped"}));
      EXPECT_EQ(read_bytes(path("r.arn")), read_bytes(few)) << model;
      EXPECT_TRUE(ends(repack(few, "arm64-i8mm,x86-64-v4"), kDone));
      EXPECT_EQ(read_bytes(path("r.arn")), read_bytes(other)) << model;
    }
  }
}

TEST_F(Repack, KeepsTokenizersLabelsAndMasks) {
  for (const std::string& model :
       {write_text_decoder(folder_), write_sentence_encoder(folder_), write_tagger(folder_),
        write_text_classifier(folder_), write_sensor_classifier(folder_),
        write_counting_encoder(folder_), convert_small(folder_)}) {
    EXPECT_TRUE(ends(repack(model, "arm64-dot"), kDone)) << model;
    EXPECT_NE(read_bytes(path("r.arn")), read_bytes(model)) << model;
    std::filesystem::rename(path("r.arn"), path("other.arn"));
    EXPECT_TRUE(ends(repack(path("other.arn"), targets_of(model)), kDone)) << model;
    EXPECT_EQ(read_bytes(path("r.arn")), read_bytes(model)) << model;
  }
}

TEST_F(Repack, ReportsTheFateOfEachTarget) {
  const ProgramResult result =
      repack(convert_small(folder_, "portable,x86-64-v2"), "arm64,portable");
  EXPECT_TRUE(
      ends(result, kDone,
           {"r.arn: ", " bytes, where ", "target     bytes", "arm64        320  new, from portable",
            "portable     256  stays", "x86-64-v2      0  dropped",
            "self-test  passed with kernels scalar; recorded anew"}));
}

TEST_F(Repack, TestsScalarKernelsWhereThisCpuRunsNoTarget) {
  const bool is_arm = (cpu_targets() & bit(Target::kArm64)) != 0;
  EXPECT_TRUE(ends(repack(convert_small(folder_), is_arm ? "x86-64-v2" : "arm64"), kDone,
                   {"kernels scalar, since this CPU runs no target of the file"}));
}

TEST_F(Repack, LeavesOutTheSelfTestOfAFileThatHasNone) {
  const std::string model = convert_small(folder_);
  EXPECT_TRUE(ends(run_arenite({"strip", model, "-o", path("flash.arn")}), kDone));
  EXPECT_TRUE(ends(repack(path("flash.arn"), "portable"), kDone, {"self-test  none, as before"}));
  EXPECT_TRUE(ends(run_arenite({"inspect", path("r.arn")}), kDone, {"self-test     none"}));
}

TEST_F(Repack, AsksForTargetsByTheNamesOfConvert) {
  const std::string model = convert_small(folder_);
  EXPECT_TRUE(ends(run_arenite({"repack", model, "-o", path("r.arn")}), kBadUsage,
                   {"--target is required"}));
  EXPECT_TRUE(ends(repack(model, "x86-64-v9"), kBadUsage, {"x86-64-v9", "portable"}));
  EXPECT_TRUE(ends(repack(model, ""), kBadUsage, {"--target"}));
  EXPECT_TRUE(ends(repack(model, "portable,,arm64"), kBadUsage, {"--target"}));
  EXPECT_FALSE(wrote());
}

TEST_F(Repack, RefusesFilesThatAreNotSound) {
  std::string bytes = read_bytes(convert_small(folder_));
  const auto refused = [&](const std::string& text, std::string_view part) {
    const std::string model = folder_.write("bad.arn", text).string();
    EXPECT_TRUE(ends(repack(model, "all"), kBadInput, {"bad.arn': ", part}));
    EXPECT_FALSE(wrote());
  };
  std::string damaged = bytes;
  damaged[bytes.size() / 2] ^= 1;
  refused(damaged, "bad model");
  refused(bytes.substr(0, 100), "truncated");
  refused("", "bad model");
  test::ModelSurgery newer(std::as_bytes(std::span(bytes)));
  format::Footer footer = newer.footer();
  ++footer.format_version;
  newer.set_footer(footer);
  const std::string model = write_file(folder_, "bad.arn", newer.file());
  EXPECT_TRUE(ends(repack(model, "all"), kBadInput, {"bad.arn': ", "version"}));
  EXPECT_TRUE(ends(repack(path("none.arn"), "all"), kBadInput, {"none.arn"}));
  EXPECT_FALSE(wrote());
}

TEST_F(Repack, LeavesNothingOnAFullDisk) {
  const std::string model = convert_small(folder_);
  const auto before = names_in(folder_.path());
  Command full_disk;
  full_disk.file_bytes_max = 1000;
  EXPECT_TRUE(
      ends(run_arenite({"repack", model, "-o", path("r.arn"), "--target", "all"}, full_disk),
           kBadInput, {"r.arn'", "File too large"}));
  EXPECT_EQ(names_in(folder_.path()), before);
  EXPECT_TRUE(ends(run_arenite({"repack", model, "-o", path("no/r.arn"), "--target", "all"}),
                   kBadInput, {"cannot write"}));
}

}  // namespace
}  // namespace arenite::testing
