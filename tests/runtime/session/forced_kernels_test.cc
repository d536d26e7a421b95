// SPDX-License-Identifier: Apache-2.0
// Runs whole models on every kernel set for this CPU, also on those that a better set replaces, and
// on stand-ins for the sets of all targets. Results are near the reference, and do not depend on
// the previous contents of arena and stack.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "convert/graph/interpreter.h"
#include "convert/program/weights.h"
#include "convert/program/writer.h"
#include "support/compare.h"
#include "support/decoder_factory.h"
#include "support/few_bits_models.h"
#include "support/kernel_sets.h"
#include "support/slow_builds.h"
#include "support/stand_in_kernels.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

constexpr uint32_t kTokens = 21;
constexpr double kOfInt8Cache = 0.05;

struct ForcedSet {
  const KernelSet* kernels;
  bool is_stand_in;

  std::string name() const { return (is_stand_in ? "like_" : "") + std::string(kernels->name); }
};

std::vector<ForcedSet> all_sets() {
  std::vector<ForcedSet> sets;
  for (const Target target : targets_in_tests()) sets.push_back({kernel_set(target), false});
  const KernelSet* const plain = plain_avx2_set();
  if (plain != nullptr && plain != kernel_set(Target::kX86_64_v3)) sets.push_back({plain, false});
  // Plain C++, which takes minutes in slow builds.
  for (uint32_t i = 0; i < (kSampled ? 0 : kTargets); ++i) {
    sets.push_back({&stand_in_kernels(static_cast<Target>(i)), true});
  }
  return sets;
}

void PrintTo(const ForcedSet& set, std::ostream* out) { *out << set.name(); }

// Fills the stack below, so that uninitialized variables of later calls hold this word.
[[gnu::noinline]] void fill_stack(uint32_t word) {
  volatile uint32_t words[16 * 1024];
  for (volatile uint32_t& each : words) each = word;
}

class ForcedKernels : public testing::TestWithParam<ForcedSet> {
 protected:
  void SetUp() override { force_kernels(GetParam().kernels); }
  void TearDown() override { force_kernels(nullptr); }

  // In an arena and on a stack that are full of a word: a run, then the same in steps.
  static std::vector<float> outputs(const Model& model, const FewBitsModel& of, KvType kv,
                                    uint32_t word) {
    SessionOptions options = options_for(kTokens);
    options.outputs = Outputs::kAll;
    options.kv_cache = kv;
    const Result<ArenaPlan> plan = plan_arena(model, options);
    const GuardedBuffer arena(plan->total_bytes, kArenaAlignment);
    for (size_t i = 0; i + sizeof(word) <= arena.size(); i += sizeof(word)) {
      std::memcpy(arena.data() + i, &word, sizeof(word));
    }
    Session* const session = *Session::create(model, options, arena.span());
    const std::vector<float> features = random_floats(kTokens * of.features, 7);
    const std::vector<TokenId> ids = random_ids(kTokens, std::max(of.vocab_size, 1u));
    const auto feed = [&](uint32_t first, uint32_t count, bool is_run) {
      Batch batch{std::span(features).subspan(first * of.features, count * of.features), 1, count};
      TokenBatch tokens{std::span(ids).subspan(first, count), 1, count};
      fill_stack(word);
      if (of.vocab_size != 0)
        return values_of(is_run ? session->run(tokens) : session->step(tokens));
      return values_of(is_run ? session->run(batch) : session->step(batch));
    };
    std::vector<float> all = feed(0, kTokens, true);
    if (!model.causal()) return all;
    session->reset();
    for (uint32_t first = 0; first < kTokens; first += 7) {
      const std::vector<float> rows = feed(first, 7, false);
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }
};
INSTANTIATE_TEST_SUITE_P(Sets, ForcedKernels, testing::ValuesIn(all_sets()), [](const auto& info) {
  std::string name = info.param.name();
  std::ranges::replace(name, '-', '_');
  return name;
});

struct Reference {
  FewBitsModel model;
  std::vector<double> outputs;  // of a run, then, where tokens see none after them, of steps
};

// Computed once for all kernel sets, in double precision.
const std::vector<Reference>& references() {
  static const std::vector<Reference> all = [] {
    std::vector<FewBitsModel> models = few_bits_modules();
    for (FewBitsModel& model : few_bits_encoder_models()) models.push_back(std::move(model));
    std::vector<Reference> references;
    for (FewBitsModel& of : models) {
      const std::vector<float> features = random_floats(kTokens * of.features, 7);
      const std::vector<TokenId> ids = random_ids(kTokens, std::max(of.vocab_size, 1u));
      convert::SequenceInput input;
      if (of.vocab_size != 0) {
        input.tokens = ids;
      } else {
        input.features = features;
      }
      std::vector<double> outputs =
          convert::evaluate(convert::with_stored_weights(of.graph), input).values;
      references.push_back({std::move(of), std::move(outputs)});
    }
    return references;
  }();
  return all;
}

TEST_P(ForcedKernels, RunWholeModels) {
  const Target target = GetParam().kernels->target;
  for (const Reference& reference : references()) {
    const FewBitsModel& of = reference.model;
    const TestModel model(convert::write_model(of.program(), {target}).span(), target);
    std::vector<double> expected = reference.outputs;
    if (model->causal()) {
      expected.insert(expected.end(), reference.outputs.begin(), reference.outputs.end());
    }
    for (const KvType kv : {KvType::kF32, KvType::kInt8}) {
      const std::vector<float> all = outputs(*model, of, kv, 0);
      const double tolerance = of.tolerance + (kv == KvType::kInt8 ? kOfInt8Cache : 0.0);
      EXPECT_TRUE(all_near(all, expected, tolerance)) << of.name;
      constexpr uint32_t kSignallingNan = 0x7FA00000;
      for (const uint32_t word : {UINT32_MAX, kSignallingNan}) {
        EXPECT_TRUE(same_bits(outputs(*model, of, kv, word), all)) << of.name << std::hex << word;
      }
    }
  }
}

}  // namespace
}  // namespace arenite::test
