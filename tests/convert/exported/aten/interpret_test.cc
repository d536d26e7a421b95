// SPDX-License-Identifier: Apache-2.0
// Compares interpreted programs with outputs that PyTorch computed in double precision.
// tests/convert/data/make_exported.py made the small programs.
#include "convert/exported/aten/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "convert/files/npy.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

// Both sides compute in double; inputs and weights are float32, and so are some constants.
constexpr double kRelativeError = 1e-7;

Array array_of(const NpyArray& file) {
  const Shape shape(file.shape().begin(), file.shape().end());
  const Array values = Array::real(shape, file.to_f64(), ElementType::kF64);
  return values.to(is_real(file.dtype()) ? ElementType::kF32 : ElementType::kI64);
}

void expect_pytorchs(const std::filesystem::path& folder, const std::string& name,
                     const std::string& expected_name) {
  const ExportedProgram program = read_exported(folder / (name + ".pt2"));
  const Array input = array_of(NpyArray::read(folder / (expected_name + "_input.npy")));
  const NpyArray file = NpyArray::read(folder / (expected_name + "_expected.npy"));
  const std::vector<Array> outputs =
      interpret(program, {{input}}, interpreting_budget(program, input.elements()));
  ASSERT_FALSE(outputs.empty()) << name;
  const Shape shape(file.shape().begin(), file.shape().end());
  ASSERT_EQ(outputs[0].shape(), shape) << name;
  const Array::Reals found = outputs[0].to_reals();
  const std::vector<double> expected = file.to_f64();
  double largest = 0.0;
  for (const double value : expected) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i]) continue;
    ASSERT_NEAR(found[i], expected[i], kRelativeError * largest) << name << ", element " << i;
  }
}

class SmallPrograms : public ::testing::TestWithParam<const char*> {};

TEST_P(SmallPrograms, AgreeWithPyTorch) {
  const std::string name = std::string("exported_") + GetParam();
  expect_pytorchs(convert_fixture(""), name, name);
}

INSTANTIATE_TEST_SUITE_P(All, SmallPrograms,
                         ::testing::Values("elementwise", "moves", "reduce", "products", "rotate",
                                           "in_place", "dynamic"));

// The input is [sequences, tokens], where one symbol has one value.
TEST(Inputs, HaveTheShapeOfTheExample) {
  const ExportedProgram program = read_exported(convert_fixture("exported_dynamic.pt2"));
  const auto run = [&](const std::vector<Shape>& shapes) {
    std::vector<Array> inputs;
    for (const Shape& shape : shapes) {
      inputs.push_back(Array::integer(shape, Array::Integers(elements_of(shape), 1)));
    }
    interpret(program, inputs, interpreting_budget(program, 7));
  };
  EXPECT_NO_THROW(run({{1, 5}}));
  EXPECT_TRUE(refuses([&] { run({{5}}); }, {"a tensor [5]: expected [1, 7]"}));
  EXPECT_TRUE(refuses([&] { run({{2, 5}}); }, {"a tensor [2, 5]: expected [1, 7]"}));
  EXPECT_TRUE(refuses([&] { run({{1, 5}, {1, 5}}); }, {"expected 1 input tensors, found 2"}));
}

class Models : public ::testing::TestWithParam<const char*> {};

TEST_P(Models, AgreeWithPyTorch) {
  const std::filesystem::path folder = collection_folder() / "goldens" / "exported";
  const std::string name = GetParam();
  ARENITE_NEEDS_DATA(folder / (name + ".pt2"));
  const size_t dynamic = name.find("_dyn");
  expect_pytorchs(folder, name, name.substr(0, dynamic));
}

INSTANTIATE_TEST_SUITE_P(All, Models,
                         ::testing::Values("bare_raschka_mha", "hf_bert_eager", "hf_bert_eager_dyn",
                                           "hf_gpt2", "hf_gpt2_dyn", "karpathy_gpt", "llama_half",
                                           "llama_half_dyn", "llama_rotate_half",
                                           "llama_rotate_half_dyn", "nanogpt_sdpa",
                                           "nanogpt_sdpa_dyn", "raschka_gpt", "torch_encoder_cls",
                                           "torch_encoder_cls_dyn", "torch_encoder_lm",
                                           "torch_encoder_lm_dyn"));

}  // namespace
}  // namespace arenite::convert
