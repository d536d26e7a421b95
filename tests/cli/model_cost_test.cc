// SPDX-License-Identifier: Apache-2.0
// The cost of a call that `arenite inspect` states as a maximum bounds the counted multiply-adds of
// the kernels. The counts do not depend on the tokens' values.
#include "cli/model_cost.h"

#include "cli/inspect_facts.h"

#include <gtest/gtest.h>

#include <limits>

#include "cli/counting_kernels.h"
#include "cli/session_sizes.h"
#include "convert/check/pack_model.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "runtime/session/encoder_fixture.h"
#include "runtime/session/functions_fixture.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

constexpr uint32_t kPositions = 70;
constexpr uint32_t kRingPositions = 1200;  // more than two pages of the cache
constexpr uint32_t kChunk = 33;

// A session of one sequence that is fed tokens or features, the same number of rows each time.
class CountedSession {
 public:
  CountedSession(const TestModel& model, KvType kv_cache, uint32_t positions) : model_(*model) {
    SessionOptions options = options_for(positions);
    options.tokens_max = std::min(positions, kPositions);
    options.kv_cache = kv_cache;
    arena_ =
        std::make_unique<GuardedBuffer>(plan_arena(model_, options)->total_bytes, kArenaAlignment);
    const Result<Session*> session = Session::create(model_, options, arena_->span());
    EXPECT_TRUE(session.ok());
    session_ = *session;
  }

  // Multiply-adds of one call after those before.
  uint64_t feed(uint32_t tokens, uint64_t seed, bool finite = true) {
    (void)counted_multiply_adds();
    if (model_.vocab_size() != 0) {
      const std::vector<TokenId> ids = random_ids(tokens, model_.vocab_size(), seed);
      EXPECT_TRUE(session_->step(ids).ok());
    } else {
      std::vector<float> features = random_floats(size_t{tokens} * model_.input_features(), seed);
      if (!finite) std::ranges::fill(features, std::numeric_limits<float>::infinity());
      if (!finite) features.back() = std::numeric_limits<float>::quiet_NaN();
      EXPECT_TRUE(session_->step(features).ok());
    }
    return counted_multiply_adds();
  }

  // The most of a slice of a call that starts anew, none of which is refused.
  uint64_t slice(uint32_t tokens, uint64_t budget) {
    const std::vector<TokenId> ids = random_ids(tokens, model_.vocab_size(), 3);
    const std::vector<float> features = random_floats(size_t{tokens} * model_.input_features(), 3);
    const Status status = model_.vocab_size() != 0
                              ? session_->begin_run(TokenBatch{ids, 1, tokens})
                              : session_->begin_run(Batch{features, 1, tokens});
    EXPECT_EQ(status, Status::kOk);
    uint64_t most = 0;
    for (uint32_t left = 1; left != 0;) {
      (void)counted_multiply_adds();
      const Result<uint32_t> advanced = session_->advance(budget);
      if (!advanced.ok()) return UINT64_MAX;
      left = *advanced;
      most = std::max(most, counted_multiply_adds());
    }
    return most;
  }

 private:
  const Model& model_;
  std::unique_ptr<GuardedBuffer> arena_;
  Session* session_ = nullptr;
};

class CallBoundsTest : public EncoderTest {
 protected:
  void TearDown() override { RecordProperty("calls", static_cast<int>(calls_)); }

  void check(const convert::AlignedBytes& file, const std::string& name,
             uint32_t positions = kPositions) {
    const TestModel model(file.span(), GetParam());
    for (const KvType kv_cache : {KvType::kF32, KvType::kInt8}) {
      const TensorType kv_type = kv_cache == KvType::kInt8 ? TensorType::kInt8 : TensorType::kF32;
      const format::ModelReader reader(file.span());
      CountedSession counted(model, kv_cache, positions), other(model, kv_cache, positions);
      uint32_t held = 0;
      const uint32_t prefix = tool::max_rows(reader, 1) - 1;
      do {
        // One token at a time is another path than several.
        const uint32_t step = held % 2 == 0 ? kChunk : 1;
        const uint32_t tokens = model->causal() ? std::min(step, positions - held) : positions;
        const uint64_t found = counted.feed(tokens, 5 + held);
        ++calls_;
        EXPECT_EQ(found, other.feed(tokens, 1000 + held)) << name << " depends on the tokens";
        tool::CallSize size;
        size.held = held == 0 ? 0 : held + prefix;
        size.rows = held == 0 ? tokens + prefix : tokens;
        size.outputs = 1;  // where a model has no choice, no op makes rows of outputs
        EXPECT_LE(found, work_of(reader, size, kv_type).multiply_adds) << name << " " << held;
        // The useful multiply-adds are counted by another function.
        const tool::Feed feed = {held, tokens, 1};
        EXPECT_GE(2.0 * static_cast<double>(found), tool::model_flops(reader, feed)) << name;
        held += tokens;
      } while (held < positions);
      check_not_finite(model, reader, kv_cache, prefix, name);
      check_bytes(reader, kv_type, name);
    }
  }

  // The printed smallest slice suffices for every call, and no slice exceeds it.
  void check_slices(const convert::AlignedBytes& file, const std::string& name,
                    uint32_t positions = kPositions) {
    const TestModel model(file.span(), GetParam());
    for (const KvType kv_cache : {KvType::kF32, KvType::kInt8}) {
      SessionOptions options = options_for(positions);
      options.tokens_max = std::min(positions, kPositions);
      options.kv_cache = kv_cache;
      const tool::SmallestSlice smallest = tool::smallest_slice(file.span(), 0, options);
      CountedSession counted(model, kv_cache, positions);
      for (const uint32_t tokens : {1u, 3u, 8u, 9u, options.tokens_max}) {
        if (tokens < model->tokens_min()) continue;
        EXPECT_LE(counted.slice(tokens, smallest.multiply_adds), smallest.multiply_adds) << name;
        EXPECT_LE(counted.slice(tokens, 50000), std::max<uint64_t>(smallest.multiply_adds, 50000))
            << name;
      }
    }
  }

  static tool::CallWork work_of(const format::ModelReader& reader, const tool::CallSize& size,
                                TensorType kv_type) {
    return tool::call_work_max(reader, 0, 0, size, kv_type);
  }

  static void check_not_finite(const TestModel& model, const format::ModelReader& reader,
                               KvType kv_cache, uint32_t prefix, const std::string& name) {
    if (model->vocab_size() != 0) return;  // ids are finite
    CountedSession counted(model, kv_cache, kPositions);
    const tool::CallSize size = {0, kPositions + prefix, kPositions + prefix, false};
    const TensorType kv_type = kv_cache == KvType::kInt8 ? TensorType::kInt8 : TensorType::kF32;
    EXPECT_LE(counted.feed(kPositions, 5, false), work_of(reader, size, kv_type).multiply_adds)
        << name;
  }

  // The bound of bytes against the sum over ops.
  static void check_bytes(const format::ModelReader& reader, TensorType kv_type,
                          const std::string& name) {
    const uint32_t rows = tool::max_rows(reader, kPositions);
    uint64_t read = 0;
    for (uint32_t i = 0; i < reader.ops(); ++i) {
      read += tool::op_traffic(reader, 0, i, kPositions, kv_type).read;
    }
    EXPECT_LE(read, work_of(reader, {0, rows, 1}, kv_type).bytes_read) << name;
    if (!reader.causal()) return;
    const double decoded = tool::decode_bytes(reader, 0, kPositions - 1, kv_type);
    const uint64_t most = work_of(reader, {rows - 1, 1, 1}, kv_type).bytes_read;
    EXPECT_LE(decoded, static_cast<double>(most)) << name;
  }

 private:
  uint32_t calls_ = 0;
};
ARENITE_FOR_EACH_KERNEL_SET(CallBoundsTest);

TEST_P(CallBoundsTest, HoldForModules) {
  for (const ModuleSpec& spec : all_specs()) {
    check(make_model(spec, {GetParam()}), spec.name);
  }
}

TEST_P(CallBoundsTest, HoldForDecoders) {
  for (const DecoderShape& shape : all_decoders()) {
    check(make_decoder_model(shape, {GetParam()}), shape.name);
  }
}

TEST_P(CallBoundsTest, HoldWhereARingWrapsAround) {
  for (const DecoderShape& shape : {ring_decoder(), int8_ring_decoder()}) {
    check(make_decoder_model(shape, {GetParam()}), shape.name, kRingPositions);
  }
}

TEST_P(CallBoundsTest, HoldForEncoders) {
  for (const EncoderShape& shape : all_encoders()) {
    check(make_encoder_model(shape, {GetParam()}), shape.name);
  }
}

TEST_P(CallBoundsTest, HoldForSlices) {
  for (const ModuleSpec& spec : all_specs())
    check_slices(make_model(spec, {GetParam()}), spec.name);
  for (const DecoderShape& shape : all_decoders()) {
    check_slices(make_decoder_model(shape, {GetParam()}), shape.name);
  }
  check_slices(make_decoder_model(ring_decoder(), {GetParam()}), "ring", kRingPositions);
  for (const EncoderShape& shape : all_encoders()) {
    check_slices(make_encoder_model(shape, {GetParam()}), shape.name);
  }
}

// An encoder of rows of features, and a decoder of a text that sees its keys.
class FunctionBounds : public EncoderTest {
 protected:
  static convert::AlignedBytes make(bool whole_text) {
    const convert::Graph graph = functions_graph({.whole_text = whole_text});
    return convert::write_model(convert::compile(graph, "functions"), {GetParam()});
  }
  static SessionOptions options_of(uint32_t memory) {
    SessionOptions options = options_for(memory);
    options.others[0].positions_max = kTextPositions;
    return options;
  }
  static InputTokens tokens_of(uint32_t memory, uint32_t text) {
    InputTokens tokens;
    tokens.of[kMemory] = memory;
    tokens.of[kText] = text;
    return tokens;
  }

  const std::vector<TokenId> ids_ = random_ids(kTextPositions, kVocabulary, 4);
};
ARENITE_FOR_EACH_KERNEL_SET(FunctionBounds);

// Cross-attention has as many keys as were encoded. Without masks, the sums of the ops equal the
// counted multiply-adds.
TEST_P(FunctionBounds, HoldForCrossAttention) {
  for (const bool whole_text : {false, true}) {
    const convert::AlignedBytes file = make(whole_text);
    const TestModel model(file.span(), GetParam());
    const format::ModelReader reader(file.span());
    for (const uint32_t memory : {1u, 9u, 530u}) {
      const TestSession session(*model, options_of(memory));
      const std::vector<float> features = random_floats(size_t{memory} * kFeatures, 3);
      const Input inputs[] = {Batch{features, 1, memory, {}},
                              TokenBatch{ids_, 1, kTextPositions, {}}};
      const InputTokens tokens = tokens_of(memory, kTextPositions);
      for (const uint32_t function : {kEncode, kStep}) {
        (void)counted_multiply_adds();
        const bool encodes = function == kEncode;
        ASSERT_TRUE((encodes ? session->run(function, {&inputs[function], 1})
                             : session->step(function, {&inputs[function], 1}))
                        .ok());
        const uint64_t found = counted_multiply_adds();
        uint64_t expected = 0, read = 0;
        for (uint32_t i = reader.first_op(function); i < reader.end_of_ops(function); ++i) {
          expected += tool::pass_multiply_adds(reader, i, tokens);
          read += tool::op_traffic(reader, 0, i, tokens, TensorType::kF32).read;
        }
        EXPECT_GE(found, expected) << memory;
        if (encodes || whole_text) {
          EXPECT_EQ(found, expected) << memory;
        }
        const tool::CallSize size = {0, tokens[function], 1, true,
                                     tool::most_stored(reader, tokens, function)};
        EXPECT_EQ(size.stored, encodes ? 0 : memory);
        const tool::CallWork most =
            tool::call_work_max(reader, 0, function, size, TensorType::kF32);
        EXPECT_LE(found, most.multiply_adds) << memory;
        EXPECT_LE(read, most.bytes_read) << memory;
      }
    }
  }
}

TEST_P(FunctionBounds, HoldForTheLastToken) {
  constexpr uint32_t kHeld = 9;  // of the memory
  const convert::AlignedBytes file = make(false);
  const TestModel model(file.span(), GetParam());
  const format::ModelReader reader(file.span());
  const TestSession session(*model, options_of(kHeld));
  const std::vector<float> features = random_floats(size_t{kHeld} * kFeatures, 3);
  const Input encoded = Batch{features, 1, kHeld, {}};
  ASSERT_TRUE(session->run(kEncode, {&encoded, 1}).ok());
  const std::span<const TokenId> ids = ids_;
  const Input before = TokenBatch{ids.first(kTextPositions - 1), 1, kTextPositions - 1, {}};
  ASSERT_TRUE(session->step(kStep, {&before, 1}).ok());
  (void)counted_multiply_adds();
  const Input last = TokenBatch{ids.last(1), 1, 1, {}};
  ASSERT_TRUE(session->step(kStep, {&last, 1}).ok());
  const uint64_t found = counted_multiply_adds();
  const tool::Feed feed = {tokens_of(kHeld, kTextPositions - 1), tokens_of(0, 1), 1};
  EXPECT_EQ(2.0 * static_cast<double>(found), tool::model_flops(reader, feed));
  const tool::CallSize size = {kTextPositions - 1, 1, 1, true, kHeld};
  const tool::CallWork most = tool::call_work_max(reader, 0, kStep, size, TensorType::kF32);
  EXPECT_LE(found, most.multiply_adds);
  EXPECT_LE(tool::decode_bytes(reader, 0, feed.held, TensorType::kF32),
            static_cast<double>(most.bytes_read));
}

}  // namespace
}  // namespace arenite::test
