// SPDX-License-Identifier: Apache-2.0
// What `arenite inspect` says that a call takes at most is what the kernels are asked for, counted,
// and it does not depend on what the tokens are.
#include "cli/model_cost.h"

#include <gtest/gtest.h>

#include <limits>

#include "cli/counting_kernels.h"
#include "runtime/session/encoder_fixture.h"

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
      const tool::CallBounds bounds = tool::call_bounds(reader, 0, kv_type);
      CountedSession counted(model, kv_cache, positions), other(model, kv_cache, positions);
      uint32_t held = 0;
      const uint32_t prefix = reader.prefix_rows();
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
        EXPECT_LE(found, tool::multiply_adds_max(bounds, size)) << name << " " << held;
        // What is useful of it is counted by another function.
        const tool::Feed feed = {held, tokens, 1};
        EXPECT_GE(2.0 * static_cast<double>(found), tool::model_flops(reader, feed)) << name;
        held += tokens;
      } while (held < positions);
      check_not_finite(model, kv_cache, bounds, prefix, name);
      check_bytes(reader, bounds, kv_type, name);
    }
  }

  static void check_not_finite(const TestModel& model, KvType kv_cache,
                               const tool::CallBounds& bounds, uint32_t prefix,
                               const std::string& name) {
    if (model->vocab_size() != 0) return;  // ids are finite
    CountedSession counted(model, kv_cache, kPositions);
    const tool::CallSize size = {0, kPositions + prefix, kPositions + prefix, false};
    EXPECT_LE(counted.feed(kPositions, 5, false), tool::multiply_adds_max(bounds, size)) << name;
  }

  // The bound of bytes against the sum over ops.
  static void check_bytes(const format::ModelReader& reader, const tool::CallBounds& bounds,
                          TensorType kv_type, const std::string& name) {
    const uint32_t rows = kPositions + reader.prefix_rows();
    uint64_t read = 0;
    for (uint32_t i = 0; i < reader.ops(); ++i) {
      read += tool::op_traffic(reader, 0, i, rows, kv_type).read;
    }
    EXPECT_LE(read, tool::bytes_read_max(bounds, {0, rows, 1})) << name;
    if (!reader.causal()) return;
    const double decoded = tool::decode_bytes(reader, 0, kPositions - 1, kv_type);
    EXPECT_LE(decoded, static_cast<double>(tool::bytes_read_max(bounds, {rows - 1, 1, 1}))) << name;
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

TEST_P(CallBoundsTest, HoldWhereARingComesRound) {
  for (const DecoderShape& shape : {ring_decoder(), int8_ring_decoder()}) {
    check(make_decoder_model(shape, {GetParam()}), shape.name, kRingPositions);
  }
}

TEST_P(CallBoundsTest, HoldForEncoders) {
  for (const EncoderShape& shape : all_encoders()) {
    check(make_encoder_model(shape, {GetParam()}), shape.name);
  }
}

// The sums themselves: 2 of 3 ops are attention, one of them with a window.
TEST(CallBoundsSums, AreThoseOfTheirParts) {
  tool::CallBounds bounds;
  bounds.block_rows = 4;
  bounds.multiply_adds_per_row = 10;
  bounds.multiply_adds_per_output = 100;
  bounds.bytes_once = 7;
  bounds.bytes_per_row = 3;
  bounds.bytes_per_output = 5;
  bounds.attention = {{UINT64_MAX, 2, 11, 1000, 13}, {6, 1, 1, 0, 0}};
  EXPECT_EQ(tool::multiply_adds_max(bounds, {8, 2, 1}), 20u + 100 + 2 * 10 * 2 + 2 * 6);
  EXPECT_EQ(tool::multiply_adds_max(bounds, {8, 2, 1, false}),
            20u + 100 + 2 * 10 * 2 + 2 * 6 + 2 * 10 * 1000);
  EXPECT_EQ(tool::bytes_read_max(bounds, {8, 5, 1}), 7u + 15 + 5 + 2 * 13 * 11 + 2 * 6);
  bounds.multiply_adds_per_row = UINT64_MAX / 2;
  EXPECT_EQ(tool::multiply_adds_max(bounds, {0, 3, 0}), UINT64_MAX);
}

}  // namespace
}  // namespace arenite::test
