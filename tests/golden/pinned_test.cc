// SPDX-License-Identifier: Apache-2.0
// Runs the cases that are part of the source on every kernel set.
#include <gtest/gtest.h>

#include "convert/modules/attention_modules.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "golden/pinned_cases.h"
#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

// Outputs below 2, rounded to float32, from sums of at most a dozen rounded products.
constexpr double kTolerance = 5e-7;

class Pinned : public KernelSetTest {
 protected:
  // In one pass, and token by token.
  void check(const PinnedCase& pinned) const {
    const auto file = write_model(compile(build_graph(pinned.module), "pinned"), all_targets());
    const TestModel model(file.span(), GetParam());
    const TestSession session(*model, {});
    const std::vector<double> expected(pinned.output.begin(), pinned.output.end());
    const std::vector<float> found = session.run(pinned.input);
    EXPECT_TRUE(all_near(found, expected, kTolerance));
    session->reset();
    EXPECT_TRUE(same_bits(session.steps_of(1, pinned.input), found));
  }
};
ARENITE_FOR_EACH_KERNEL_SET(Pinned);

TEST_P(Pinned, CausalAttentionGivesTheNumbersOfPyTorch) { check(causal_attention()); }
TEST_P(Pinned, TwoHeadsGiveTheNumbersOfPyTorch) { check(two_heads()); }
TEST_P(Pinned, OutputProjectionGivesTheNumbersOfPyTorch) { check(output_projection()); }
TEST_P(Pinned, CausalMeanGivesTheNumbersOfPyTorch) { check(causal_mean()); }
TEST_P(Pinned, TinyGptGivesTheNumbersOfPyTorch) { check(gpt_tiny()); }

}  // namespace
}  // namespace arenite::test
