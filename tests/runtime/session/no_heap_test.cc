// SPDX-License-Identifier: Apache-2.0
// No call takes heap memory: from load to the last step, on success and on every failure.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/session/no_heap_fixture.h"

namespace arenite::test {
namespace {

using NoHeap = NoHeapTest<SessionTest>;
ARENITE_FOR_EACH_FLOAT_SET(NoHeap);

constexpr uint32_t kModuleTokens = 37;

// All calls of a session's life, in a scope in which an allocation ends the process.
Status live(std::span<const std::byte> file, const LoadOptions& load_options,
            const SessionOptions& options, std::span<std::byte> arena,
            std::span<const float> tokens) {
  const NoHeapScope no_heap;
  Diagnostic why;
  const Result<Model> model = Model::load(file, &why, load_options);
  if (!model.ok()) return model.status();
  const Result<ArenaPlan> plan = plan_arena(*model, options, &why);
  if (!plan.ok()) return plan.status();
  const Result<Session*> created = Session::create(*model, options, arena, &why);
  if (!created.ok()) return created.status();
  Session& session = **created;
  const Batch batch{tokens, 2, kModuleTokens, {}};
  if (const Result<Output> output = session.run(batch, &why); !output.ok()) return output.status();
  session.reset();
  if (const Result<Output> output = session.step(batch, &why); !output.ok()) return output.status();
  const uint32_t keep = model->causal() ? 5 : 0;
  if (const Status status = session.rewind(0, keep); status != Status::kOk) return status;
  const size_t width = model->input_features();
  const Result<Output> output = session.step(tokens.first(3 * width), &why);
  char text[256];
  (void)describe(output.status(), why, text);
  return output.status();
}

TEST_P(NoHeap, IsTouchedInTheLifeOfASession) {
  Pool two(2);
  for (const ModuleSpec& spec : all_specs()) {
    const auto file = make_model(spec);
    const Result<Model> model = Model::load(file.span());
    const std::vector<float> tokens = features(*model, 2 * kModuleTokens);
    SessionOptions options = options_for(kSpecPositions, 2);
    for (const bool threads : {false, true}) {
      if (threads) options.parallel = two.parallel_for();
      convert::AlignedBytes arena(plan_arena(*model, options)->total_bytes + 4096);
      EXPECT_EQ(live(file.span(), this_target(), options, arena.span(), tokens), Status::kOk)
          << spec.name;
    }
  }
}

TEST_P(NoHeap, IsTouchedWhenAFileIsRefused) {
  const auto sound = make_model(spec_named("documents"));
  convert::AlignedBytes damaged(sound.size());
  size_t refused = 0;
  {
    const NoHeapScope no_heap;
    Diagnostic why;
    for (size_t i = 0; i < sound.size(); i += 7) {
      std::memcpy(damaged.data(), sound.span().data(), sound.size());
      damaged.data()[i] ^= std::byte{0x40};
      refused += Model::load(damaged.span(), &why).ok() ? 0 : 1;
      refused += Model::load(sound.span().first(i), &why).ok() ? 0 : 1;
    }
    refused += Model::load(sound.span().subspan(4), &why).ok() ? 0 : 1;
  }
  EXPECT_EQ(refused, 2 * ((sound.size() + 6) / 7) + 1);
}

TEST_P(NoHeap, IsTouchedWhenACpuIsRefused) {
  std::vector<Target> others;
  for (const Target target : all_targets()) {
    if (target != GetParam()) others.push_back(target);
  }
  const auto file = make_model(spec_named("causal"), others);
  EXPECT_EQ(live(file.span(), this_target(), {}, {}, {}), Status::kUnsupported);
}

TEST_P(NoHeap, IsTouchedWhenOptionsOrArenasAreRefused) {
  const auto file = make_model(spec_named("causal"));
  convert::AlignedBytes arena(1 << 20);
  const auto refusal = [&](const SessionOptions& options, std::span<std::byte> memory) {
    return live(file.span(), this_target(), options, memory, {});
  };
  EXPECT_EQ(refusal({}, arena.span()), Status::kInvalidArgument);
  EXPECT_EQ(refusal(options_for(4, 0), arena.span()), Status::kInvalidArgument);
  EXPECT_EQ(refusal(options_for(UINT32_MAX, UINT32_MAX), arena.span()), Status::kInvalidArgument);
  EXPECT_EQ(refusal(options_for(4), arena.span().first(64)), Status::kArenaTooSmall);
  EXPECT_EQ(refusal(options_for(4), arena.span().subspan(1)), Status::kInvalidArgument);
}

TEST_P(NoHeap, IsTouchedWhenABatchIsRefused) {
  const TestModel model = load("bidirectional");
  const TestSession session(*model, options_for(8, 2));
  const std::vector<float> tokens = features(*model, 20);
  const uint32_t too_long[] = {9, 1};
  Status statuses[8];
  {
    const NoHeapScope no_heap;
    Diagnostic why;
    const std::span<const float> all = tokens;
    const size_t width = model->input_features();
    statuses[0] = session->run({all, 3, 1, {}}, &why).status();
    statuses[1] = session->run({all.first(5), 1, 1, {}}, &why).status();
    statuses[2] = session->run({all.first(9 * width), 1, 9, {}}, &why).status();
    statuses[3] = session->run({all.first(18 * width), 2, 9, too_long}, &why).status();
    statuses[4] = session->run({all.first(2 * width), 1, 2, too_long}, &why).status();
    statuses[5] = session->run(Batch{}, &why).status();
    statuses[6] = session->rewind(5, 0);
    statuses[7] = session->run({all.first(2 * width), 1, 2, {}}, &why).status();
    if (statuses[7] == Status::kOk) statuses[7] = session->step(all.first(width), &why).status();
  }
  for (const int i : {0, 1, 4, 5, 6}) EXPECT_EQ(statuses[i], Status::kInvalidArgument) << i;
  for (const int i : {2, 3}) EXPECT_EQ(statuses[i], Status::kContextFull) << i;
  EXPECT_EQ(statuses[7], Status::kUnsupported);
}

}  // namespace
}  // namespace arenite::test
