// SPDX-License-Identifier: Apache-2.0
// Compares exported PyTorch programs with PyTorch's float64 results on every kernel set: all
// programs of the data folder and of this repository that have stored inputs and outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "convert/check/check_session.h"
#include "convert/files/npy.h"
#include "convert/program/program.h"
#include "golden/converted.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/test_data.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

using arenite::testing::collection_folder;
using arenite::testing::convert_fixture;
using convert::NpyArray;

// Shares of the largest value. Where the runtime and PyTorch add in other orders, the language
// model's large scores, rounded to float32, are off by more.
constexpr double kRelativeError = 2e-6;
constexpr double kOfLargeScores = 5e-6;
constexpr double kOfBfloat16 =
    0x1p-7;  // PyTorch rounds every value; the runtime computes in float32

struct ExportedCase {
  std::filesystem::path folder;
  std::string name;  // of the input and the outputs

  std::filesystem::path file(const char* ending) const { return folder / (name + ending); }
};

void PrintTo(const ExportedCase& model, std::ostream* out) { *out << model.name; }

// All names in the folder that have outputs; none where it is not there.
std::vector<ExportedCase> cases_in(const std::filesystem::path& folder) {
  constexpr std::string_view kEnding = "_expected.npy";
  std::set<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing)) {
    const std::string file = entry.path().filename().string();
    if (file.ends_with(kEnding)) names.insert(file.substr(0, file.size() - kEnding.size()));
  }
  std::vector<ExportedCase> cases;
  for (const std::string& name : names) cases.push_back({folder, name});
  return cases;
}

std::vector<ExportedCase> all_cases() {
  std::vector<ExportedCase> cases;
  for (const auto& folder : {collection_folder() / "goldens" / "exported",
                             convert_fixture("exported"), convert_fixture("exported_zoo")}) {
    std::ranges::move(cases_in(folder), std::back_inserter(cases));
  }
  return cases;
}

class ExportedGolden : public ::testing::TestWithParam<ExportedCase> {
 protected:
  void SetUp() override {
    const ExportedCase& exported = GetParam();
    file_ = converted("exported", exported.file(".pt2"), {targets_for(targets_here())});
    const NpyArray input = NpyArray::read(exported.file("_input.npy"));
    sequences_ = static_cast<uint32_t>(input.shape().at(0));
    tokens_ = static_cast<uint32_t>(input.shape().at(1));
    const TestModel model(file_.span(), Target::kPortable);
    if (model->vocab_size() != 0) {
      for (const int64_t id : input.to_i64()) ids_.push_back(static_cast<TokenId>(id));
    } else {
      features_ = input.to_f32();
    }
    if (const auto image = convert::image_layout(*model)) {
      tokens_ = image->pixels();
      features_ = convert::pixels_of(features_, *image);
    }
    expected_ = NpyArray::read(exported.file("_expected.npy")).to_f64();
    if ((convert::array_flags(file_.span()) & convert::kColumnsFirst) != 0) put_tokens_first();
  }

  // Expected numbers [sequences, columns, tokens] as [sequences, tokens, columns].
  void put_tokens_first() {
    const std::vector<double> given = expected_;
    const size_t width = given.size() / (size_t{sequences_} * tokens_);
    for (size_t i = 0; i < given.size(); ++i) {
      const size_t sequence = i / (width * tokens_), token = i / width % tokens_;
      expected_[i] = given[(sequence * width + i % width) * tokens_ + token];
    }
  }

  SessionOptions options(uint32_t sequences, Outputs outputs) const {
    SessionOptions options = options_for(tokens_, sequences);
    options.outputs = outputs;
    return options;
  }

  std::vector<float> run(const Model& model, Outputs outputs) const {
    const TestSession session(model, options(sequences_, outputs));
    Diagnostic why;
    return ids_.empty()
               ? values_of(session->run(Batch{features_, sequences_, tokens_, {}}, &why), why)
               : values_of(session->run(TokenBatch{ids_, sequences_, tokens_}, &why), why);
  }

  convert::AlignedBytes file_;
  std::vector<TokenId> ids_;     // [sequences, tokens], or
  std::vector<float> features_;  // [sequences, tokens, width], or images
  std::vector<double> expected_;
  uint32_t sequences_ = 0;
  uint32_t tokens_ = 0;
};

TEST_P(ExportedGolden, AgreesWithPyTorch) {
  double largest = 0.0;
  for (const double value : expected_) largest = std::max(largest, std::abs(value));
  const double share = GetParam().name == "torch_encoder_lm" ? kOfLargeScores
                       : GetParam().name == "bfloat16"       ? kOfBfloat16
                                                             : kRelativeError;
  const double most = share * largest;
  for (const Target target : targets_here()) {
    const TestModel model(file_.span(), target);
    const std::vector<float> found = run(*model, convert::authors_outputs(file_.span()));
    ASSERT_EQ(found.size(), expected_.size());
    EXPECT_TRUE(all_near(found, expected_, most)) << name(target);
  }
}

TEST_P(ExportedGolden, GivesTheSameBitsTokenByToken) {
  for (const Target target : targets_here()) {
    const TestModel model(file_.span(), target);
    if (!model->causal()) return;  // it cannot step
    const std::vector<float> whole = run(*model, Outputs::kAll);
    const TestSession session(*model, options(1, Outputs::kAll));
    const std::vector<float> steps =
        ids_.empty()
            ? session.steps_of(1, std::span(features_).first(features_.size() / sequences_))
            : session.steps_of(1, std::span(ids_).first(tokens_));
    EXPECT_TRUE(same_bits(steps, std::span(whole).first(whole.size() / sequences_)))
        << name(target);
  }
}

INSTANTIATE_TEST_SUITE_P(PyTorch, ExportedGolden, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

// Without the folder there would be no cases, and no test would fail.
TEST(ExportedGoldens, HaveCases) {
  EXPECT_GE(cases_in(convert_fixture("exported")).size(), 25u);
  EXPECT_GE(cases_in(convert_fixture("exported_zoo")).size(), 16u);
  ARENITE_NEEDS_DATA(collection_folder() / "goldens" / "exported");
  EXPECT_GE(cases_in(collection_folder() / "goldens" / "exported").size(), 10u);
}

}  // namespace
}  // namespace arenite::test
