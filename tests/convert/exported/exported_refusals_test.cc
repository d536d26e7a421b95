// SPDX-License-Identifier: Apache-2.0
// Programs that the runtime cannot compute are refused with the line of the author's file.
#include <gtest/gtest.h>

#include <string>

#include "convert/exported/exported_model.h"
#include "support/refusal.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using arenite::testing::convert_fixture;
using arenite::testing::refuses;

struct Refusal {
  const char* name;
  const char* code;  // of the author's line
  const char* why;
};

class Mistakes : public ::testing::TestWithParam<Refusal> {};

TEST_P(Mistakes, AreRefusedWithTheLineOfTheSource) {
  const Refusal& mistake = GetParam();
  const auto path = convert_fixture("exported") / (std::string(mistake.name) + ".pt2");
  EXPECT_TRUE(refuses([&] { read_exported_model(path, {}); },
                      {mistake.name, "model.py', line ", mistake.code, mistake.why}));
}

INSTANTIATE_TEST_SUITE_P(
    Exported, Mistakes,
    ::testing::Values(Refusal{"late_cap", "torch.tanh(scores / 5)", "caps scores first"},
                      Refusal{"clamp", "scores.clamp(-5, 5)", "not supported on attention scores"},
                      Refusal{"after", "weights * (j <= i)", "after their softmax"},
                      Refusal{"no_patches", "self.rows(x)", "cannot put constants beside"},
                      Refusal{"wrong_mask", "softmax(-1) @ half", "7 queries and 4 keys"}),
    [](const ::testing::TestParamInfo<Refusal>& info) { return std::string(info.param.name); });

TEST(ExportedRefusals, NameTheExistingOutputs) {
  ModelOptions options;
  options.output_indices = {2};
  const auto path = convert_fixture("exported") / "einsum_rms_fused.pt2";
  EXPECT_TRUE(refuses([&] { read_exported_model(path, options); },
                      {"--output-index 2", "2 tensors", "0 to 1"}));
}

TEST(ExportedRefusals, NameTheLimitOfPositions) {
  ModelOptions options;
  options.context = 17;
  const auto path = convert_fixture("exported") / "prefix_dyn.pt2";
  EXPECT_TRUE(refuses([&] { read_exported_model(path, options); }, {"--context", "17", "16"}));
}

}  // namespace
}  // namespace arenite::convert
