// SPDX-License-Identifier: Apache-2.0
// No call takes more stack than format/bounds.h states, with any kernel set, model or input. The
// device tests measure the stack without an operating system.
#include <gtest/gtest.h>

#include <limits>

#include "device/stack_use.h"
#include "format/bounds.h"
#include "runtime/session/encoder_fixture.h"

namespace arenite::test {
namespace {

constexpr uint32_t kStackPositions = 70;

// The largest stack of all calls so far, and its call.
struct Deepest {
  size_t bytes = 0;
  std::string call;

  template <typename Call>
  void measure(const std::string& name, const Call& call_of) {
    bool ok = false;
    const size_t taken = device::stack_bytes_of([&] { ok = call_of(); });
    EXPECT_TRUE(ok) << name;
    if (taken <= bytes) return;
    bytes = taken;
    call = name;
  }
};

template <typename AnyBatch, typename Value>
void measure_session(Session& session, const Model& model, const std::string& name,
                     std::span<const Value> values, size_t width, Deepest& deepest) {
  const AnyBatch batch{values, 1, static_cast<uint32_t>(values.size() / width)};
  deepest.measure("run, " + name, [&] { return session.run(batch).ok(); });
  if (model.self_test_tokens() != 0) {
    deepest.measure("self_test, " + name, [&] { return session.self_test().ok(); });
  }
  session.reset();
  deepest.measure("step, " + name, [&] { return session.step(values.first(width)).ok(); });
}

class StackBounds : public EncoderTest {
 protected:
  void SetUp() override {
    if (!ARENITE_HAS_STACK_BOUNDS) GTEST_SKIP() << "this build lays out frames of its own";
  }

  void measure_model(const convert::AlignedBytes& file, const std::string& name) {
    LoadOptions load_options;
    load_options.force_target = true;
    load_options.target = GetParam();
    Result<Model> model = Status::kBadModel;
    deepest_.measure("load, " + name, [&] {
      model = Model::load(file.span(), nullptr, load_options);
      return model.ok();
    });
    for (const KvType kv_cache : {KvType::kF32, KvType::kInt8}) {
      SessionOptions options = options_for(kStackPositions);
      options.kv_cache = kv_cache;
      const GuardedBuffer arena(plan_arena(*model, options)->total_bytes, kArenaAlignment);
      Result<Session*> session = Status::kBadModel;
      deepest_.measure("create, " + name, [&] {
        session = Session::create(*model, options, arena.span());
        return session.ok();
      });
      if (model->vocab_size() != 0) {
        const std::vector<TokenId> ids = random_ids(kStackPositions, model->vocab_size());
        measure_session<TokenBatch, TokenId>(**session, *model, name, ids, 1, deepest_);
        continue;
      }
      // Rows that are not finite are computed again, by themselves.
      const size_t width = model->input_features();
      std::vector<float> features = random_floats(kStackPositions * width, 7);
      measure_session<Batch, float>(**session, *model, name, features, width, deepest_);
      features[width + 1] = std::numeric_limits<float>::quiet_NaN();
      features[0] = std::numeric_limits<float>::infinity();
      measure_session<Batch, float>(**session, *model, name, features, width, deepest_);
    }
  }

  Deepest deepest_;
};
ARENITE_FOR_EACH_FLOAT_SET(StackBounds);

TEST_P(StackBounds, HoldForEveryModel) {
  for (const ModuleSpec& spec : all_specs()) measure_model(make_model(spec), spec.name);
  for (const DecoderShape& shape : all_decoders()) {
    measure_model(make_decoder_model(shape), shape.name);
  }
  for (const EncoderShape& shape : all_encoders()) {
    measure_model(make_encoder_model(shape), shape.name);
  }
  RecordProperty("stack_bytes", static_cast<int>(deepest_.bytes));
  EXPECT_GT(deepest_.bytes, 500u);  // less would mean that nothing was measured
  EXPECT_LE(deepest_.bytes, stack_bound_here().bytes) << deepest_.call;
}

}  // namespace
}  // namespace arenite::test
