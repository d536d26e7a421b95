// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite run` on models of tokens: logits, chunks, lengths, hidden states, refusals.
#include <gtest/gtest.h>

#include <cstring>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"

namespace arenite::testing {
namespace {

using convert::NpyArray;

class RunTokens : public ::testing::Test {
 protected:
  RunTokens() : model_(write_plain_decoder(folder_)) {}

  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult run_on(const std::string& input, const std::string& output,
                       const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words = {"run", model_, "--input", input, "--output", path(output)};
    words.insert(words.end(), options.begin(), options.end());
    return run_arenite(words);
  }
  ::testing::AssertionResult refuses(const std::string& input,
                                     std::initializer_list<std::string_view> parts,
                                     const std::vector<std::string>& options = {}) const {
    const std::set<std::string> before = names_in(folder_.path());
    const ProgramResult result = run_on(input, "none.npy", options);
    if (const auto ended = ends(result, kBadInput, parts); !ended) return ended;
    if (names_in(folder_.path()) != before) return ::testing::AssertionFailure() << "leaves files";
    return ::testing::AssertionSuccess();
  }

  TempFolder folder_;
  std::string model_;
};

const std::vector<int64_t> kIds = {3, 36, 0, 7, 7, 1, 20, 30, 11};

TEST_F(RunTokens, WritesTheLogitsOfAllTokens) {
  const std::string input = write_ids(folder_, "9,", kIds);
  EXPECT_TRUE(ends(run_on(input, "y.npy"), kDone, {"[9, 37] float32"}));
  const NpyArray logits = NpyArray::read(path("y.npy"));
  EXPECT_EQ(logits.shape(), (std::vector<uint64_t>{9, kPlainVocabulary}));
  EXPECT_EQ(logits.to_f32(), logits_of(model_, {kIds.begin(), kIds.end()}));
}

TEST_F(RunTokens, GivesTheSameBitsInChunksOnThreadsAndForEveryTypeOfIds) {
  std::string input = write_ids(folder_, "9,", kIds);
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--hidden-states", path("h.npy")}), kDone));
  const std::string logits = read_bytes(path("y.npy"));
  const std::string states = read_bytes(path("h.npy"));
  EXPECT_EQ(NpyArray::read(path("h.npy")).shape(), (std::vector<uint64_t>{3, 9, 12}));
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--chunk", "1"}, {"--chunk", "4"}, {"--chunk", "4000000000"}, {"--threads", "2"}}) {
    std::vector<std::string> complete = options;
    complete.insert(complete.end(), {"--hidden-states", path("h.npy")});
    EXPECT_TRUE(ends(run_on(input, "y.npy", complete), kDone));
    EXPECT_EQ(read_bytes(path("y.npy")), logits) << options.back();
    EXPECT_EQ(read_bytes(path("h.npy")), states) << options.back();
  }
  const std::vector<int32_t> narrow(kIds.begin(), kIds.end());
  for (const char* descr : {"<i4", "<u4"}) {
    input = folder_.write("i.npy", npy_bytes(descr, "False", "9,", bytes_of(narrow))).string();
    EXPECT_TRUE(ends(run_on(input, "y.npy"), kDone));
    EXPECT_EQ(read_bytes(path("y.npy")), logits) << descr;
  }
}

TEST_F(RunTokens, RunsSequencesUpToTheirLengthsAndPadsWithZeros) {
  std::vector<int64_t> two = kIds;
  two.insert(two.end(), {5, 6, 8, -1, -1, 99, 37, 4294967296, -100});  // padding is any number
  const std::string input = write_ids(folder_, "2, 9", two);
  const std::vector<float> first = logits_of(model_, {kIds.begin(), kIds.end()});
  const std::vector<float> second = logits_of(model_, {5, 6, 8});
  std::vector<float> expected = first;
  expected.insert(expected.end(), second.begin(), second.end());
  expected.resize(2 * first.size(), 0.0f);
  for (const char* chunk : {"1", "2", "64"}) {
    EXPECT_TRUE(
        ends(run_on(input, "y.npy",
                    {"--lengths", "9,3", "--chunk", chunk, "--hidden-states", path("h.npy")}),
             kDone, {"[2, 9, 37]"}));
    EXPECT_EQ(NpyArray::read(path("y.npy")).to_f32(), expected);
    EXPECT_EQ(NpyArray::read(path("h.npy")).shape(), (std::vector<uint64_t>{3, 2, 9, 12}));
    EXPECT_TRUE(
        ends(run_on(input, "y.npy", {"--lengths", "9,3", "--chunk", chunk, "--last"}), kDone));
    std::vector<float> last(first.end() - kPlainVocabulary, first.end());
    last.insert(last.end(), second.end() - kPlainVocabulary, second.end());
    EXPECT_EQ(NpyArray::read(path("y.npy")).shape(), (std::vector<uint64_t>{2, 37}));
    EXPECT_EQ(NpyArray::read(path("y.npy")).to_f32(), last);
  }
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--lengths", "0,3", "--last"}), kDone));
  const std::vector<float> values = NpyArray::read(path("y.npy")).to_f32();
  EXPECT_EQ(values, [&] {
    std::vector<float> last(kPlainVocabulary, 0.0f);
    last.insert(last.end(), second.end() - kPlainVocabulary, second.end());
    return last;
  }());
}

TEST_F(RunTokens, RefusesIdsOutsideTheVocabularyAndArraysThatDoNotFit) {
  EXPECT_TRUE(refuses(write_ids(folder_, "3,", {1, 37, 2}),
                      {"ids.npy'", "found token 37 at [1]", "from 0 to 36"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "2, 2", {1, 2, 3, -1}), {"found token -1 at [1, 1]"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "1,", {4294967296 + 3}), {"found token 4294967299"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "71,", std::vector<int64_t>(71)),
                      {"found 71 tokens", "at most 70"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "1, 1, 1", {1}), {"shape is [1, 1, 1]", "[tokens]"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "0,", {}), {"shape is [0]", "at least one sequence"}));
  EXPECT_TRUE(refuses(write_features(folder_, "f.npy", {3}), {"F32", "token ids"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "2, 2", {1, 2, 3, 4}), {"--lengths: found 1 numbers"},
                      {"--lengths", "2"}));
}

TEST_F(RunTokens, RefusesToReplaceItsInputs) {
  const std::string input = write_ids(folder_, "9,", kIds);
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--hidden-states", input}), kBadUsage,
                   {"--hidden-states", "input of this command"}));
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--trace", model_}), kBadUsage, {"--trace"}));
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--hidden-states", path("y.npy")}), kBadUsage,
                   {"another file"}));
}

TEST_F(RunTokens, RefusesOptionsOfTokensForModelsOfFeatures) {
  const std::string model = convert_small(folder_);
  const std::string input = write_features(folder_, "f.npy", {5, 3});
  for (const std::vector<std::string>& option : std::vector<std::vector<std::string>>{
           {"--last"}, {"--chunk", "2"}, {"--hidden-states", path("h.npy")}}) {
    std::vector<std::string> words = {"run", model, "--input", input, "--output", path("y.npy")};
    words.insert(words.end(), option.begin(), option.end());
    EXPECT_TRUE(ends(run_arenite(words), kBadInput, {option[0], "models that read tokens"}));
  }
}

}  // namespace
}  // namespace arenite::testing
