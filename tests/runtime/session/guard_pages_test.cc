// SPDX-License-Identifier: Apache-2.0
// The runtime stays inside its memory: model, arena and input each end exactly at an inaccessible
// page, or begin right after one. Kernels may read past rows, so the padding counts as inside.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "runtime/session/session_fixture.h"
#include "support/model_surgery.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class GuardPages : public SessionTest {
 protected:
  // A model file whose length is a multiple of its alignment, so that it can end at a page.
  static ModelSurgery page_end_model(const ModuleSpec& spec, const std::vector<Target>& targets) {
    ModelSurgery file(make_model(spec, targets).span());
    file.pad_to(kModelAlignment);
    return file;
  }
};
ARENITE_FOR_EACH_KERNEL_SET(GuardPages);

TEST_P(GuardPages, AreNotTouchedByRunAndStep) {
  for (const ModuleSpec& spec : all_specs()) {
    ModelSurgery file = page_end_model(spec, {GetParam()});
    ASSERT_EQ(file.file().size() % kModelAlignment, 0u);
    const auto reference_file = make_model(spec);
    const TestModel reference_model(reference_file.span(), GetParam());
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      const TestModel model(file.file(), GetParam(), guard);
      for (uint32_t count = 1; count <= kSpecPositions; count += count < 10 ? 1 : 12) {
        const std::vector<float> tokens = features(*model, count);
        const GuardedFloats input(tokens.size(), 0, sizeof(float), guard);
        std::ranges::copy(tokens, input.data());
        const TestSession reference(*reference_model, options_for(kSpecPositions));
        const std::vector<float> expected = reference.run(tokens);
        const TestSession session(*model, options_for(count), guard);
        ASSERT_TRUE(same_bits(session.run(input.span()), expected)) << spec.name << count;
        if (model->causal()) {
          session->reset();
          // Each step's single row is as near to the guard as it can be.
          std::vector<float> all;
          const size_t width = model->input_features();
          const GuardedFloats row(width, 0, sizeof(float), guard);
          for (uint32_t token = 0; token < count; ++token) {
            std::ranges::copy(rows(tokens, width, token, 1), row.data());
            const std::vector<float> part = session.step(row.span());
            all.insert(all.end(), part.begin(), part.end());
          }
          ASSERT_TRUE(same_bits(all, expected)) << spec.name << count;
        }
        EXPECT_TRUE(session.arena().surroundings_intact());
        EXPECT_TRUE(input.surroundings_intact());
      }
      EXPECT_TRUE(model.memory().surroundings_intact());
      EXPECT_EQ(std::memcmp(model.memory().data(), file.file().data(), file.file().size()), 0)
          << "the model was written to";
    }
  }
}

TEST_P(GuardPages, AreNotTouchedByThreadsAndRaggedBatches) {
  Pool pool(3, Order::kReversed);
  const uint32_t lengths[] = {33, 0, 1, 8};
  for (const ModuleSpec& spec : all_specs()) {
    ModelSurgery file = page_end_model(spec, {Target::kPortable, GetParam()});
    if (GetParam() == Target::kPortable) file = page_end_model(spec, {GetParam()});
    for (const Guard guard : {Guard::kBehind, Guard::kBefore}) {
      const TestModel model(file.file(), GetParam(), guard);
      SessionOptions options = options_for(33, 4);
      options.tokens_max = 42;  // exactly those of the lengths
      options.parallel = pool.parallel_for();
      const TestSession session(*model, options, guard);
      const std::vector<float> tokens = features(*model, 4 * 33);
      EXPECT_EQ(session.run(tokens, 4, lengths).size(), 42 * model->output_features());
      EXPECT_TRUE(session.arena().surroundings_intact());
    }
  }
}

// Only the 32 bytes of the footer follow the last weights.
TEST_P(GuardPages, AreNotTouchedWhenTheFooterFollowsTheWeights) {
  for (const char* const name : {"causal", "wide", "strip"}) {
    const auto file = make_model(spec_named(name), {GetParam()});
    const TestModel model(file.span(), GetParam());
    const TestSession session(*model, options_for(kSpecPositions));
    const std::vector<float> tokens = features(*model, kSpecPositions);
    EXPECT_FALSE(session.run(tokens).empty());
    EXPECT_TRUE(model.memory().surroundings_intact());
  }
}

}  // namespace
}  // namespace arenite::test
