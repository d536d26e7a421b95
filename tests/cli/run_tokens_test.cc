// SPDX-License-Identifier: Apache-2.0
// Tests of `arenite run` on decoders: rows, chunks, lengths, hidden states, refusals.
#include <gtest/gtest.h>

#include <cstring>

#include "cli/checkpoints.h"
#include "cli/printed.h"
#include "cli/token_models.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"
#include "support/compare.h"
#include "support/encoder_factory.h"
#include "support/kernel_sets.h"
#include "support/test_session.h"

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

const std::vector<int64_t> kDecoderIds = {3, 36, 0, 7, 7, 1, 20, 30, 11};

TEST_F(RunTokens, WritesTheLogitsOfAllTokens) {
  const std::string input = write_ids(folder_, "9,", kDecoderIds);
  EXPECT_TRUE(ends(run_on(input, "y.npy"), kDone, {"[9, 37] float32"}));
  const NpyArray logits = NpyArray::read(path("y.npy"));
  EXPECT_EQ(logits.shape(), (std::vector<uint64_t>{9, kPlainVocabulary}));
  EXPECT_EQ(logits.to_f32(), logits_of(model_, {kDecoderIds.begin(), kDecoderIds.end()}));
}

TEST_F(RunTokens, GivesTheSameBitsInChunksOnThreadsAndForEveryTypeOfIds) {
  std::string input = write_ids(folder_, "9,", kDecoderIds);
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
  const std::vector<int32_t> narrow(kDecoderIds.begin(), kDecoderIds.end());
  for (const char* descr : {"<i4", "<u4"}) {
    input = folder_.write("i.npy", npy_bytes(descr, "False", "9,", bytes_of(narrow))).string();
    EXPECT_TRUE(ends(run_on(input, "y.npy"), kDone));
    EXPECT_EQ(read_bytes(path("y.npy")), logits) << descr;
  }
}

TEST_F(RunTokens, RunsSequencesUpToTheirLengthsAndPadsWithZeros) {
  std::vector<int64_t> two = kDecoderIds;
  two.insert(two.end(), {5, 6, 8, -1, -1, 99, 37, 4294967296, -100});  // padding is any number
  const std::string input = write_ids(folder_, "2, 9", two);
  const std::vector<float> first = logits_of(model_, {kDecoderIds.begin(), kDecoderIds.end()});
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
  EXPECT_TRUE(refuses(write_ids(folder_, "1, 1, 1", {1}), {"has shape [1, 1, 1]", "[tokens]"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "0,", {}), {"has shape [0]", "at least one"}));
  EXPECT_TRUE(refuses(write_features(folder_, "f.npy", {3}), {"F32", "token ids"}));
  EXPECT_TRUE(refuses(write_ids(folder_, "2, 2", {1, 2, 3, 4}), {"--lengths: found 1 values"},
                      {"--lengths", "2"}));
}

TEST_F(RunTokens, RefusesToReplaceItsInputs) {
  const std::string input = write_ids(folder_, "9,", kDecoderIds);
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--hidden-states", input}), kBadUsage,
                   {"--hidden-states", "input of this command"}));
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--trace", model_}), kBadUsage, {"--trace"}));
  EXPECT_TRUE(ends(run_on(input, "y.npy", {"--hidden-states", path("y.npy")}), kBadUsage,
                   {"another file"}));
}

// A model with its author's array layout, and the runtime's results for all rows of an input.
class RunRows : public RunTokens {
 protected:
  test::EncoderShape shape() const {
    test::EncoderShape shape = test::encoder_named("sensor");
    shape.causal = true;
    shape.window = 4;
    shape.positions_max = 200;
    shape.pooling = SelectKind::kAsAsked;
    return shape;
  }
  void use(const test::EncoderShape& shape) {
    model_ = write_file(folder_, "rows.arn", test::make_encoder_model(shape).span());
  }
  std::vector<float> all_rows(const std::string& input, uint32_t sequences, uint32_t tokens) const {
    const std::string bytes = read_bytes(model_);
    const test::TestModel model(std::as_bytes(std::span(bytes)), test::targets_here().back());
    SessionOptions options = test::options_for(tokens, sequences);
    options.outputs = Outputs::kAll;
    return test::TestSession(*model, options).run(NpyArray::read(input).to_f32(), sequences);
  }
  ::testing::AssertionResult gives(const std::string& input,
                                   const std::vector<std::string>& options,
                                   const std::vector<uint64_t>& shape,
                                   const std::vector<float>& expected) const {
    if (const auto ended = ends(run_on(input, "y.npy", options), kDone); !ended) return ended;
    const NpyArray found = NpyArray::read(path("y.npy"));
    if (found.shape() != shape) return ::testing::AssertionFailure() << "is of another shape";
    return test::same_bits(found.to_f32(), expected);
  }
};

// Rows [sequences, tokens, 3] of the last tokens.
std::vector<float> last_rows(const std::vector<float>& all, size_t sequences) {
  std::vector<float> last;
  const size_t each = all.size() / sequences;
  for (size_t s = 1; s <= sequences; ++s) {
    const auto end = all.begin() + static_cast<ptrdiff_t>(s * each);
    last.insert(last.end(), end - 3, end);
  }
  return last;
}

TEST_F(RunRows, FeatureModelsReturnAllTokensOrTheLast) {
  use(shape());
  for (const uint32_t tokens : {1u, 63u, 64u, 65u, 200u}) {
    const std::string input = write_features(folder_, "x.npy", {2, tokens, 5});
    const std::vector<float> all = all_rows(input, 2, tokens);
    const std::vector<float> last = last_rows(all, 2);
    for (const std::vector<std::string>& chunk : std::vector<std::vector<std::string>>{
             {}, {"--chunk", "1"}, {"--chunk", "100"}, {"--chunk", "4000000000"}}) {
      std::vector<std::string> options = chunk;
      EXPECT_TRUE(gives(input, options, {2, tokens, 3}, all)) << tokens;
      options.push_back("--all-rows");
      EXPECT_TRUE(gives(input, options, {2, tokens, 3}, all)) << tokens;
      options.back() = "--last";
      EXPECT_TRUE(gives(input, options, {2, 3}, last)) << tokens;
    }
  }
}

TEST_F(RunRows, AreTheLastOnesWhereTheProgramReturnsThose) {
  test::EncoderShape last_only = shape();
  last_only.array_flags = convert::kLastRows;
  use(last_only);
  const std::string input = write_features(folder_, "x.npy", {3, 70, 5});
  const std::vector<float> all = all_rows(input, 3, 70);
  EXPECT_TRUE(gives(input, {}, {3, 3}, last_rows(all, 3)));
  EXPECT_TRUE(gives(input, {"--last"}, {3, 3}, last_rows(all, 3)));
  EXPECT_TRUE(gives(input, {"--all-rows"}, {3, 70, 3}, all));
  const std::string one = write_features(folder_, "x.npy", {70, 5});
  EXPECT_TRUE(gives(one, {}, {3}, last_rows(all_rows(one, 1, 70), 1)));
}

// Arrays [tokens, sequences, ..], in and out.
TEST_F(RunRows, KeepTheAxisOrderOfTheProgram) {
  use(shape());
  const std::string input = write_features(folder_, "x.npy", {2, 67, 5});
  const std::vector<float> all = all_rows(input, 2, 67);
  const auto tokens_first = [](const std::vector<float>& rows, size_t width) {
    std::vector<float> turned;
    for (size_t t = 0; t < 67; ++t) {
      for (size_t s = 0; s < 2; ++s) {
        const auto row = rows.begin() + static_cast<ptrdiff_t>((s * 67 + t) * width);
        turned.insert(turned.end(), row, row + static_cast<ptrdiff_t>(width));
      }
    }
    return turned;
  };
  const std::vector<float> turned = tokens_first(NpyArray::read(input).to_f32(), 5);
  convert::write_npy(path("t.npy"), std::vector<uint64_t>{67, 2, 5}, turned);
  test::EncoderShape other = shape();
  other.array_flags = convert::kTokensFirst;
  use(other);
  EXPECT_TRUE(gives(path("t.npy"), {}, {67, 2, 3}, tokens_first(all, 3)));
  EXPECT_TRUE(gives(path("t.npy"), {"--last"}, {2, 3}, last_rows(all, 2)));
  std::vector<float> shorter = all;
  std::fill(shorter.begin() + 30 * 3, shorter.begin() + 67 * 3, 0.0f);
  EXPECT_TRUE(gives(path("t.npy"), {"--lengths", "30,67"}, {67, 2, 3}, tokens_first(shorter, 3)));
}

TEST_F(RunRows, PooledModelsRunInOneCall) {
  for (const SelectKind pooling : {SelectKind::kMean, SelectKind::kMax, SelectKind::kFirst}) {
    test::EncoderShape pooled = shape();
    pooled.pooling = pooling;
    use(pooled);
    for (const uint32_t tokens : {1u, 64u, 100u, 200u}) {
      const std::string input = write_features(folder_, "x.npy", {2, tokens, 5});
      EXPECT_TRUE(gives(input, {}, {2, 3}, all_rows(input, 2, tokens))) << tokens;
    }
    const std::string input = write_features(folder_, "x.npy", {2, 9, 5});
    for (const char* option : {"--last", "--all-rows"}) {
      EXPECT_TRUE(refuses(input, {option, "always outputs one row for each sequence"}, {option}));
    }
    EXPECT_TRUE(refuses(input, {"--chunk", "whole sequences", "all tokens"}, {"--chunk", "100"}));
  }
}

TEST_F(RunTokens, RefusesOptionsThatAModuleLacks) {
  model_ = convert_small(folder_);
  const std::string input = write_features(folder_, "f.npy", {5, 3});
  EXPECT_TRUE(refuses(input, {"--last", "always outputs one row for each token"}, {"--last"}));
  EXPECT_TRUE(refuses(input, {"--hidden-states", "has none"}, {"--hidden-states", path("h.npy")}));
}

}  // namespace
}  // namespace arenite::testing
