// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite run`: results, input arrays, kernel sets, and files after a failure.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "convert/files/npy.h"
#include "format/reader.h"
#include "support/byte_string.h"
#include "support/kernel_sets.h"
#include "support/model_surgery.h"
#include "support/test_session.h"

namespace arenite::testing {
namespace {

using convert::NpyArray;

class RunCommand : public ::testing::Test {
 protected:
  RunCommand() : model_(convert_small(folder_, "all")) {}

  ProgramResult run_on(const std::string& input, std::vector<std::string> options = {},
                       const Command& command = {}) const {
    options.insert(options.begin(), {"run", model_, "--input", input, "--output", output()});
    return run_arenite(options, command);
  }
  // Bad input: this message, and nothing new in the folder.
  ::testing::AssertionResult refuses(const std::string& input,
                                     std::initializer_list<std::string_view> parts,
                                     const std::vector<std::string>& options = {}) const {
    const std::set<std::string> before = names_in(folder_.path());
    const ProgramResult result = run_on(input, options);
    if (const auto ended = ends(result, kBadInput, parts); !ended) return ended;
    if (names_in(folder_.path()) != before) return ::testing::AssertionFailure() << "leaves files";
    return ::testing::AssertionSuccess();
  }
  std::string write_array(const std::string& bytes) const {
    return folder_.write("in.npy", bytes).string();
  }
  std::vector<float> result() const { return NpyArray::read(output()).to_f32(); }
  // Returns the runtime's own results for the first `tokens` tokens.
  std::vector<float> expected(const std::string& input, uint32_t tokens, Target target) const {
    const std::string bytes = read_bytes(model_);
    const test::TestModel model(std::as_bytes(std::span(bytes)), target);
    const std::vector<float> features = NpyArray::read(input).to_f32();
    return test::TestSession(*model, test::options_for(6))
        .run(std::span(features).first(size_t{tokens} * 3));
  }

  std::string output() const { return (folder_.path() / "out.npy").string(); }
  const TempFolder& folder() const { return folder_; }
  const std::string& model() const { return model_; }

 private:
  TempFolder folder_;
  std::string model_;
};

std::string zeros(size_t count) { return std::string(count * sizeof(float), '\0'); }

TEST_F(RunCommand, WritesTheResultsOfTheRuntimeOnEveryKernelSet) {
  const std::string input = write_features(folder(), "in.npy", {5, 3});
  for (const Target target : test::targets_here()) {
    const ProgramResult ran = run_on(input, {"--kernels", kernel_set_name(target)});
    EXPECT_TRUE(ends(ran, kDone, {"[5, 4] float32", kernel_set_name(target), "1 thread"}));
    EXPECT_TRUE(ran.errors.empty());
    EXPECT_EQ(NpyArray::read(output()).shape(), (std::vector<uint64_t>{5, 4}));
    EXPECT_EQ(result(), expected(input, 5, target));
    const std::string named = read_bytes(output());
    EXPECT_TRUE(ends(run_on(input, {"--kernels", name(target)}), kDone));
    EXPECT_EQ(read_bytes(output()), named);
    Command environment;
    environment.environment = {std::string("ARENITE_KERNELS=") + kernel_set_name(target)};
    EXPECT_TRUE(ends(run_on(input, {}, environment), kDone, {kernel_set_name(target)}));
    EXPECT_EQ(read_bytes(output()), named);
  }
}

TEST_F(RunCommand, WarnsOfResultsThatAreNotFinite) {
  std::vector<float> features(15, 0.5f);
  features[7] = std::numeric_limits<float>::quiet_NaN();  // of the third token
  const std::string input = (folder().path() / "in.npy").string();
  convert::write_npy(input, std::vector<uint64_t>{5, 3}, features);
  for (const Target target : test::targets_here()) {
    const ProgramResult ran = run_on(input, {"--kernels", kernel_set_name(target)});
    EXPECT_TRUE(ends(ran, kDone, {"[5, 4] float32", "NaN or infinity", "in.npy"}));
    EXPECT_NE(ran.errors.find("warning: " + output()), std::string::npos) << ran.errors;
    const std::vector<float> rows = result();
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(std::isfinite(rows[i]), i < 8) << i;
  }
}

TEST_F(RunCommand, GivesTheSameBitsEachTimeAndOnAnyNumberOfThreads) {
  const std::string input = write_features(folder(), "in.npy", {7, 6, 3});
  EXPECT_TRUE(ends(run_on(input), kDone));
  const std::string first = read_bytes(output());
  for (const char* threads : {"1", "2", "7", "256"}) {
    EXPECT_TRUE(ends(run_on(input, {"--threads", threads}), kDone));
    EXPECT_EQ(read_bytes(output()), first) << threads;
  }
}

TEST_F(RunCommand, RunsSequencesUpToTheirLengthsAndPadsWithZeros) {
  const std::string input = write_features(folder(), "in.npy", {3, 5, 3});
  EXPECT_TRUE(ends(run_on(input), kDone, {"[3, 5, 4]"}));
  const std::vector<float> whole = result();
  EXPECT_TRUE(ends(run_on(input, {"--lengths", "5,2,0"}), kDone));
  std::vector<float> padded = whole;
  std::fill(padded.begin() + (5 + 2) * 4, padded.begin() + 10 * 4, 0.0f);
  std::fill(padded.begin() + 10 * 4, padded.end(), 0.0f);
  EXPECT_EQ(result(), padded);  // the module is causal: a shorter sequence has the same first rows
}

TEST_F(RunCommand, RoundsDoubles) {
  std::vector<double> doubles;
  std::vector<float> floats;
  for (int i = 0; i < 6; ++i) {
    doubles.push_back(0.1 * i);
    floats.push_back(static_cast<float>(doubles.back()));
  }
  EXPECT_TRUE(
      ends(run_on(write_array(npy_bytes("<f8", "False", "2, 3", bytes_of(doubles)))), kDone));
  const std::string of_doubles = read_bytes(output());
  EXPECT_TRUE(
      ends(run_on(write_array(npy_bytes("<f4", "False", "2, 3", bytes_of(floats)))), kDone));
  EXPECT_EQ(read_bytes(output()), of_doubles);
}

TEST_F(RunCommand, ReadsFloatsThatLieAtAnOddAddress) {
  const std::string bytes = read_bytes(write_features(folder(), "even.npy", {4, 3}));
  EXPECT_TRUE(ends(run_on((folder().path() / "even.npy").string()), kDone));
  const std::string even = read_bytes(output());
  // One byte more of padding in the header.
  const std::string header = std::string(bytes.substr(10, 117)) + " \n";
  const std::string odd = bytes.substr(0, 8) + bytes_of(static_cast<uint16_t>(header.size())) +
                          header + bytes.substr(128);
  EXPECT_TRUE(ends(run_on(write_array(odd)), kDone));
  EXPECT_EQ(read_bytes(output()), even);
}

TEST_F(RunCommand, RefusesArraysOfOtherShapes) {
  for (const char* shape :
       {"", "3,", "5, 4", "2, 5, 4", "1, 1, 5, 3", "0, 3", "0, 5, 3", "2, 0, 3"}) {
    size_t count = 1;
    for (const char* digit = shape; *digit != '\0'; ++digit) {
      if (*digit >= '0' && *digit <= '9') count *= static_cast<size_t>(*digit - '0');
    }
    EXPECT_TRUE(refuses(write_array(npy_bytes("<f4", "False", shape, zeros(count))),
                        {"in.npy'", "has shape [", "expected"}))
        << shape;
  }
  EXPECT_TRUE(refuses(write_array(npy_bytes("<f4", "False", "7, 3", zeros(21))),
                      {"in.npy'", "[7, 3]", "found 7 tokens", "at most 6"}));
}

TEST_F(RunCommand, RefusesArraysOfOtherTypesAndOrders) {
  EXPECT_TRUE(refuses(write_array(npy_bytes("<i4", "False", "5, 3", zeros(15))),
                      {"in.npy'", "I32", "float32"}));
  EXPECT_TRUE(
      refuses(write_array(npy_bytes("<f2", "False", "2, 3", zeros(3))), {"in.npy'", "<f2"}));
  EXPECT_TRUE(
      refuses(write_array(npy_bytes(">f4", "False", "5, 3", zeros(15))), {"in.npy'", ">f4"}));
  EXPECT_TRUE(refuses(write_array(npy_bytes("<f4", "True", "5, 3", zeros(15))),
                      {"in.npy'", "fortran_order", "ascontiguousarray"}));
}

TEST_F(RunCommand, RefusesArraysThatAreCutOrMissing) {
  const std::string good = npy_bytes("<f4", "False", "5, 3", zeros(15));
  for (const size_t bytes : {size_t{0}, size_t{5}, size_t{60}, good.size() - 1}) {
    EXPECT_TRUE(refuses(write_array(good.substr(0, bytes)), {"in.npy'"})) << bytes;
  }
  EXPECT_TRUE(refuses(write_array(good + "x"), {"in.npy'"}));
  EXPECT_TRUE(refuses(write_array(npy_bytes("<f4", "False", "4294967296, 4294967296, 3", "")),
                      {"in.npy'", "shape"}));
  EXPECT_TRUE(refuses((folder().path() / "none.npy").string(), {"none.npy'", "No such file"}));
  EXPECT_TRUE(refuses(folder().path().string(), {"not a regular file"}));
  EXPECT_TRUE(refuses(model(), {"small.arn'", "not a NumPy array"}));
}

TEST_F(RunCommand, RefusesLengthsThatDoNotFit) {
  const std::string input = write_features(folder(), "in.npy", {2, 5, 3});
  EXPECT_TRUE(
      refuses(input, {"--lengths: found 1 values", "2 sequences", "in.npy'"}, {"--lengths", "5"}));
  EXPECT_TRUE(refuses(input, {"--lengths: found 3 values"}, {"--lengths", "1,2,3"}));
  EXPECT_TRUE(refuses(input, {"--lengths: found length 6", "at most 5, the tokens in"},
                      {"--lengths", "5,6"}));
  EXPECT_TRUE(
      refuses(input, {"--lengths: found length 4294967295"}, {"--lengths", "4294967295,1"}));
  EXPECT_TRUE(refuses(input, {"--lengths: found zeros only"}, {"--lengths", "0,0"}));
  const std::string flat = write_features(folder(), "flat.npy", {5, 3});
  EXPECT_TRUE(refuses(flat, {"found 2 values", "the 1 sequence in"}, {"--lengths", "1,2"}));
  EXPECT_TRUE(ends(run_on(flat, {"--lengths", "2"}), kDone));
}

TEST_F(RunCommand, RefusesKernelSetsThatAreNotThere) {
  const std::string input = write_features(folder(), "in.npy", {5, 3});
  const bool on_arm = (cpu_targets() & bit(Target::kArm64)) != 0;
  EXPECT_TRUE(refuses(input, {"small.arn'", "this CPU"}, {"--kernels", on_arm ? "avx2" : "neon"}));
  const std::string portable = convert_small(folder(), "portable");
  EXPECT_TRUE(refuses(input, {"packed for portable"}, {"--kernels", on_arm ? "neon" : "sse41"}));
  Command environment;
  environment.environment = {"ARENITE_KERNELS=mmx"};
  EXPECT_TRUE(ends(run_on(input, {}, environment), kBadInput, {"ARENITE_KERNELS", "'mmx'"}));
  environment.environment = {"ARENITE_KERNELS="};
  EXPECT_TRUE(ends(run_on(input, {}, environment), kDone));
}

TEST_F(RunCommand, RefusesModelsForOtherCpusAndNamesBoth) {
  const std::string input = write_features(folder(), "in.npy", {5, 3});
  const bool on_arm = (cpu_targets() & bit(Target::kArm64)) != 0;
  convert_small(folder(), on_arm ? "x86-64-v3" : "arm64");
  EXPECT_TRUE(refuses(input, {"small.arn'", on_arm ? "packed for x86-64-v3" : "packed for arm64",
                              on_arm ? "run portable, arm64" : "run portable, x86-64-v2"}));
}

TEST_F(RunCommand, RefusesDamagedModels) {
  const std::string input = write_features(folder(), "in.npy", {5, 3});
  const std::string good = read_bytes(model());
  const size_t weights =
      format::ModelReader(std::as_bytes(std::span(good))).packed(0).segment.begin();
  const auto with = [&](size_t index, int flip) {
    std::string bytes = good;
    bytes[index] = static_cast<char>(bytes[index] ^ flip);
    return bytes;
  };
  const struct {
    std::string bytes;
    const char* reason;
  } cases[] = {{"", "too short"},
               {good.substr(0, 39), "too short"},
               {good.substr(0, good.size() - 64), "truncated"},
               {good + "x", "appended"},
               {with(100, 1), "metadata is damaged"},
               {with(weights, 1), "packed weights are damaged"},
               {with(good.size() - 100, 1), "the self-test is damaged"},
               {with(good.size() - 28, 8), "another format version"},
               {with(4, 1), "not an Arenite model"}};
  for (const auto& damaged : cases) {
    folder().write("small.arn", damaged.bytes);
    EXPECT_TRUE(refuses(input, {"small.arn'", damaged.reason}));
  }
  std::filesystem::remove(model());
  EXPECT_TRUE(refuses(input, {"small.arn'", "No such file"}));
}

TEST_F(RunCommand, RefusesPathsThatCannotBeWritten) {
  const std::string input = write_features(folder(), "in.npy", {5, 3});
  const std::set<std::string> before = names_in(folder().path());
  for (const std::string& target : {folder().path().string() + "/none/out.npy",
                                    folder().path().string(), std::string("/dev/null")}) {
    EXPECT_TRUE(ends(run_arenite({"run", model(), "--input", input, "--output", target}), kBadInput,
                     {"cannot write '" + target + "'"}));
  }
  for (const std::string& target : {input, model()}) {
    const std::string bytes = read_bytes(target);
    EXPECT_TRUE(ends(run_arenite({"run", model(), "--input", input, "--output", target}), kBadUsage,
                     {"--output", "input of this command"}));
    EXPECT_EQ(read_bytes(target), bytes);
  }
  EXPECT_EQ(names_in(folder().path()), before);
}

TEST_F(RunCommand, LeavesNothingOnAFullDisk) {
  const std::string input = write_features(folder(), "in.npy", {5, 3});
  folder().write("out.npy", "old");
  const std::set<std::string> before = names_in(folder().path());
  Command command;
  for (const uint64_t bytes : {1u, 100u, 150u}) {
    command.file_bytes_max = bytes;
    EXPECT_TRUE(ends(run_on(input, {}, command), kBadInput,
                     {"cannot write '" + output() + "'", "File too large"}));
    EXPECT_EQ(names_in(folder().path()), before);
    EXPECT_EQ(read_bytes(output()), "old");
  }
}

// All these shapes have the same elements in the same order.
TEST(RunProgram, GivesTheArrayOfTheProgramInItsShape) {
  const TempFolder folder;
  const std::string model = (folder.path() / "m.arn").string();
  const std::string output = (folder.path() / "y.npy").string();
  for (const char* const name :
       {"convolutions/raised", "convolutions/nearest", "exported_zoo/columns_first",
        "exported_zoo/codebooks", "exported_zoo/experts"}) {
    const std::string path = project_folder().string() + "/tests/convert/data/" + name;
    const std::string input = path + "_input.npy", expected = path + "_expected.npy";
    ASSERT_TRUE(ends(
        run_arenite({"convert", path + ".pt2", "-o", model, "--expect", input + "," + expected}),
        kDone));
    ASSERT_TRUE(ends(run_arenite({"run", model, "--input", input, "--output", output}), kDone));
    const NpyArray found = NpyArray::read(output), wanted = NpyArray::read(expected);
    EXPECT_EQ(found.shape(), wanted.shape()) << name;
    const std::vector<float> values = found.to_f32(), right = wanted.to_f32();
    ASSERT_EQ(values.size(), right.size());
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(values[i], right[i], 1e-4) << name;
    // And of what was packed anew.
    ASSERT_TRUE(
        ends(run_arenite({"repack", model, "-o", model + "2", "--target", "portable"}), kDone));
    ASSERT_TRUE(
        ends(run_arenite({"run", model + "2", "--input", input, "--output", output}), kDone));
    EXPECT_EQ(NpyArray::read(output).shape(), wanted.shape()) << name;
  }
}

}  // namespace
}  // namespace arenite::testing
