// SPDX-License-Identifier: Apache-2.0
// Tests whole models on each target that their file has and this CPU runs.
#include <algorithm>
#include <cmath>

#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"
#include "ops/integer_rows.h"

namespace arenite::device {
namespace {

// This byte is never valid by accident, whether read as a byte, a float or a length.
constexpr std::byte kUntouched{0xFF};

// Error of a build on integer rows; logits reach 30.
constexpr float kIntegerError = kRowsAreIntegers ? 0.1f : 0.0f;

// Whether results have the bits of XNNPACK's scalar kernels, which are the same on every CPU.
bool has_scalar_bits(const Model& model) {
  if (kRowsAreIntegers) return false;
  return model.target() == Target::kPortable || model.target() == Target::kCortexMDsp;
}

bool is_expected(const ModelCase& model_case, const Output& output) {
  const size_t count = size_t{output.rows} * output.features;
  if (count != model_case.expected.size()) return false;
  for (size_t i = 0; i < count; ++i) {
    const float error = std::abs(output.data[i] - model_case.expected[i]);
    if (!(error <= model_case.tolerance + kIntegerError)) return false;
  }
  return true;
}

uint64_t digest_of(const Output& output, uint64_t before = kDigestOfNothing) {
  return digest({output.data, size_t{output.rows} * output.features}, before);
}

SessionOptions options_of(const ModelCase& model_case) {
  SessionOptions options;
  options.positions_max = model_case.tokens;
  options.sequences_max = model_case.sequences;
  options.outputs = model_case.outputs;
  return options;
}

// A session in an arena of just the size that it needs. Null, and a failed check, if there is none.
Session* create(const Model& model, const SessionOptions& options) {
  const Result<ArenaPlan> plan = plan_arena(model, options);
  if (!EXPECT(plan.ok())) return nullptr;
  if (!EXPECT(plan->total_bytes + kNeighbourBytes <= arena_memory().size())) return nullptr;
  std::ranges::fill(arena_memory(), kUntouched);
  const auto session = Session::create(model, options, arena_memory().first(plan->total_bytes));
  return EXPECT(session.ok()) ? *session : nullptr;
}

// Tokens [first, first + count) of sequence `sequence`, alone.
Result<Output> feed(Session& session, const Model& model, const ModelCase& model_case,
                    uint32_t sequence, uint32_t first, uint32_t count) {
  const size_t begin = size_t{sequence} * model_case.tokens + first;
  if (model.vocab_size() != 0) return session.step(model_case.ids.subspan(begin, count));
  const size_t width = model.input_features();
  return session.step(model_case.features.subspan(begin * width, count * width));
}

Result<Output> run(Session& session, const ModelCase& model_case) {
  if (!model_case.ids.empty()) {
    return session.run(
        TokenBatch{model_case.ids, model_case.sequences, model_case.tokens, model_case.lengths});
  }
  return session.run(
      Batch{model_case.features, model_case.sequences, model_case.tokens, model_case.lengths});
}

uint32_t length_of(const ModelCase& model_case, uint32_t sequence) {
  return model_case.lengths.empty() ? model_case.tokens : model_case.lengths[sequence];
}

// Calls check(model, model_case) for each case and each target.
template <typename Check>
void for_each_model(Check check) {
  for (const ModelCase& model_case : model_cases()) {
    for (uint32_t i = 0; i < kTargets; ++i) {
      in_hand(model_case.name, name(static_cast<Target>(i)));
      const Result<Model> any = Model::load(model_case.file.span());
      if (!EXPECT(any.ok())) break;
      if ((any->file_targets() & cpu_targets() & 1u << i) == 0) continue;
      LoadOptions options;
      options.force_target = true;
      options.target = static_cast<Target>(i);
      const Result<Model> model = Model::load(model_case.file.span(), nullptr, options);
      if (EXPECT(model.ok())) check(*model, model_case);
    }
  }
}

}  // namespace

void expected_numbers() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    Session* const session = create(model, options_of(model_case));
    if (session == nullptr) return;
    const Result<Output> output = run(*session, model_case);
    REQUIRE(output.ok());
    EXPECT(is_expected(model_case, *output));
  });
}

void bits_of_x86_64() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    if (!has_scalar_bits(model)) return;
    Session* const session = create(model, options_of(model_case));
    if (session == nullptr) return;
    const Result<Output> output = run(*session, model_case);
    REQUIRE(output.ok());
    EXPECT(digest_of(*output) == model_case.portable_digest);
  });
  for_each_model([](const Model& model, const ModelCase& model_case) {
    const bool is_same = model.target() == Target::kCortexMMve && model_case.rounds_rows;
    if (!has_scalar_bits(model) && !is_same) return;
    SessionOptions options = options_of(model_case);
    options.kv_cache = KvType::kInt8;
    Session* const session = create(model, options);
    if (session == nullptr) return;
    const Result<Output> output = run(*session, model_case);
    REQUIRE(output.ok());
    EXPECT(digest_of(*output) == model_case.int8_digest);
  });
}

void sound() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    if (kRowsAreIntegers || sound_info(model).rate == 0 || model.target() != Target::kPortable)
      return;
    SessionOptions options = options_of(model_case);
    options.positions_max = kSoundRate / 100;
    options.tokens_max = 1;
    Session* const session = create(model, options);
    if (session == nullptr) return;
    EXPECT(digest_of_sound(session) == sound_digest());
    EXPECT(session->positions() == sound_frames(model, kSoundRate));
  });
}

void step_by_step() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    if (!model.causal() || model_case.sequences != 1) return;
    Session* const session = create(model, options_of(model_case));
    if (session == nullptr) return;
    const Result<Output> at_once = run(*session, model_case);
    REQUIRE(at_once.ok());
    const uint64_t expected = digest_of(*at_once);
    session->reset();
    uint64_t found = kDigestOfNothing;
    for (uint32_t t = 0; t < model_case.tokens; ++t) {
      const Result<Output> output = feed(*session, model, model_case, 0, t, 1);
      REQUIRE(output.ok());
      // A session that gives out last rows gives one with each call.
      if (model_case.outputs == Outputs::kLast) found = kDigestOfNothing;
      found = digest_of(*output, found);
    }
    EXPECT(found == expected);
  });
}

void batches() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    if (model_case.sequences == 1) return;
    Session* const session = create(model, options_of(model_case));
    if (session == nullptr) return;
    const Result<Output> together = run(*session, model_case);
    REQUIRE(together.ok());
    const uint64_t expected = digest_of(*together);
    uint64_t found = kDigestOfNothing;
    for (uint32_t s = 0; s < model_case.sequences; ++s) {
      session->reset();
      const Result<Output> alone =
          feed(*session, model, model_case, s, 0, length_of(model_case, s));
      REQUIRE(alone.ok());
      found = digest_of(*alone, found);
    }
    EXPECT(found == expected);
  });
}

void arena_sizes() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    const SessionOptions options = options_of(model_case);
    const Result<ArenaPlan> plan = plan_arena(model, options);
    REQUIRE(plan.ok());
    const size_t bytes = plan->total_bytes;
    // The size of pointers must not show in an arena's.
    EXPECT(model.target() != Target::kPortable || bytes == model_case.portable_arena_bytes);
    EXPECT(Session::create(model, options, arena_memory().first(bytes)).ok());
    Diagnostic why;
    const auto refused = Session::create(model, options, arena_memory().first(bytes - 1), &why);
    EXPECT(refused.status() == Status::kArenaTooSmall);
    EXPECT(why.bytes_needed == bytes);
  });
}

void arena_neighbours() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    const SessionOptions options = options_of(model_case);
    Session* const session = create(model, options);
    if (session == nullptr) return;
    EXPECT(run(*session, model_case).ok());
    const auto lookback =
        arena_memory().subspan(plan_arena(model, options)->total_bytes, kNeighbourBytes);
    EXPECT(std::ranges::all_of(lookback, [](std::byte byte) { return byte == kUntouched; }));
  });
}

void self_tests() {
  for_each_model([](const Model& model, const ModelCase& model_case) {
    SessionOptions options = options_of(model_case);
    options.positions_max = std::max(options.positions_max, model.self_test_tokens());
    Session* const session = create(model, options);
    if (session == nullptr) return;
    const Result<SelfTest> test = session->self_test();
    if (kRowsAreIntegers) {
      EXPECT(test.status() == Status::kUnsupported);
      return;
    }
    REQUIRE(test.ok());
    EXPECT(test->passed);
    EXPECT(!has_scalar_bits(model) || test->difference == 0.0f);
  });
}

}  // namespace arenite::device
