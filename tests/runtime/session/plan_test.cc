// SPDX-License-Identifier: Apache-2.0
// The parts of an arena do not overlap and hold the data of the ops, for models of every kind and
// options of every size.
#include <gtest/gtest.h>

#include <vector>

#include "ops/kv_cache.h"
#include "runtime/session/decoder_fixture.h"
#include "runtime/session/encoder_fixture.h"
#include "session/session_state.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class ArenaLayouts : public SessionTest {
 protected:
  // Checks that no part begins before the end of the previous one, whose size follows from the
  // program.
  void expect_apart(const Model& model, const SessionOptions& options) const {
    SessionLayout layout;
    Diagnostic why;
    ASSERT_EQ(make_layout(model, options, layout, &why), Status::kOk);
    const format::ModelReader reader = ModelAccess::reader(model);
    const Packing packing = packing_of(GetParam(), TensorType::kF32);
    const Packing kept = packing_of(GetParam(), layout.kv_type);
    const uint32_t threads = options.parallel.threads;
    size_t cache_bytes = 0;
    uint32_t positions_most = 0;
    for (uint32_t i = 0; i < reader.caches(); ++i) {
      const uint32_t axis = reader.cache(i).axis;
      const uint32_t most = reader.rows_of_axes(layout.positions_max, 1, layout.all_rows)[axis];
      const uint32_t positions =
          cache_positions(reader.cache(i).lookback, packing.nr, most, layout.rows_max[axis]);
      cache_bytes += CacheLayout(kept, reader.cache(i).shape, positions).bytes();
      positions_most = std::max(positions_most, positions);
    }
    size_t floats[kAxesMax] = {};
    for (uint32_t i = 0; i < reader.slots(); ++i) {
      const format::SlotView& slot = reader.slot(i);
      size_t& most = floats[reader.area_of(slot.axis)];
      most = std::max(most, static_cast<size_t>(slot.offset + slot.width));
    }
    size_t activation_bytes = kReadAheadBytes;
    for (uint32_t i = 0; i < layout.axes; ++i) {
      activation_bytes += layout.rows_max[i] * floats[i] * sizeof(float);
    }
    const uint64_t score_bytes =
        reader.caches() == 0
            ? 0
            : size_t{packing.mr} * sizeof(float) *
                  (packing.nr + panels_of(packing, positions_most) * packing.nr + kScoreRowPadding);
    const size_t sequences = layout.sequences_max;
    const size_t cache_offset = layout.plan.session_bytes;
    EXPECT_LE(kSessionBytes + sequences * layout.axes * kSequenceBytes, cache_offset);
    EXPECT_LE(cache_offset + sequences * cache_bytes, layout.activation_offset());
    EXPECT_LE(layout.activation_offset() + activation_bytes, layout.scratch_offset());
    EXPECT_LE(score_bytes, layout.scratch_bytes_per_thread);
    const size_t row_bytes = reader.formula(0).axes[0].scratch;
    EXPECT_LE(layout.scratch_offset() + layout.tokens_max * row_bytes, layout.threads_offset);
    EXPECT_LE(layout.threads_offset + threads * layout.scratch_bytes_per_thread,
              layout.plan.total_bytes);
    for (const size_t offset : {cache_offset, layout.activation_offset(), layout.scratch_offset(),
                                layout.scratch_bytes_per_thread}) {
      EXPECT_EQ(offset % kArenaAlignment, 0u);
    }
    // Not a byte between the parts but what rounds them up.
    EXPECT_EQ(layout.activation_offset(), cache_offset + layout.plan.kv_cache_bytes);
    EXPECT_EQ(layout.scratch_offset(), layout.activation_offset() + layout.plan.activation_bytes);
    EXPECT_EQ(layout.plan.total_bytes, layout.scratch_offset() + layout.plan.scratch_bytes);
  }

  void expect_apart(const Model& model) const {
    Pool pool(3);
    for (const uint32_t positions : {1u, 8u, 33u, 70u, 1100u}) {
      if (model.positions_max() != 0 && positions > model.positions_max()) continue;
      for (const uint32_t sequences : {1u, 2u, 5u}) {
        for (const uint32_t tokens : {0u, 1u, 7u}) {
          for (const Outputs outputs : {Outputs::kLast, Outputs::kAll}) {
            SessionOptions options = options_for(positions, sequences);
            options.tokens_max = std::min(tokens, positions);
            options.outputs = outputs;
            ASSERT_NO_FATAL_FAILURE(expect_apart(model, options));
            options.parallel = pool.parallel_for();
            ASSERT_NO_FATAL_FAILURE(expect_apart(model, options));
          }
        }
      }
    }
  }
};
ARENITE_FOR_EACH_FLOAT_SET(ArenaLayouts);

TEST_P(ArenaLayouts, HaveDisjointParts) {
  for (const ModuleSpec& spec : all_specs()) {
    SCOPED_TRACE(spec.name);
    ASSERT_NO_FATAL_FAILURE(expect_apart(*load(spec)));
  }
  std::vector<DecoderShape> decoders = all_decoders();
  decoders.push_back(ring_decoder());
  for (const DecoderShape& shape : decoders) {
    SCOPED_TRACE(shape.name);
    const TestModel model(make_decoder_model(shape, {GetParam()}).span(), GetParam());
    ASSERT_NO_FATAL_FAILURE(expect_apart(*model));
  }
  for (const EncoderShape& shape : all_encoders()) {
    SCOPED_TRACE(shape.name);
    const TestModel model(make_encoder_model(shape, {GetParam()}).span(), GetParam());
    ASSERT_NO_FATAL_FAILURE(expect_apart(*model));
  }
}

// Tries each number of tokens per call up to a page; some just fill the last page.
TEST_P(ArenaLayouts, HaveRingsOfWholePages) {
  const TestModel model(make_decoder_model(ring_decoder(), {GetParam()}).span(), GetParam());
  for (uint32_t tokens = 1; tokens <= kPagePositions; ++tokens) {
    SessionOptions options = options_for(1100);
    options.tokens_max = tokens;
    ASSERT_NO_FATAL_FAILURE(expect_apart(*model, options)) << tokens;
  }
}

// No model has this formula yet: scratch per row, and more per thread.
TEST(ArenaParts, HoldTheScratchOfEveryOp) {
  ArenaFormula formula;
  formula.axes[0] = {40, 36};
  formula.scratch_bytes_per_thread = 1000;
  formula.nr = 8;
  ArenaLayout layout;
  layout.positions_max = layout.tokens_max = 7;
  layout.sequences_max = 1;
  layout.rows_max.of[0] = 7;
  Diagnostic why;
  ASSERT_EQ(place_parts(formula, 1, layout.rows_max, 3, layout, &why), Status::kOk);
  EXPECT_EQ(layout.threads_offset - layout.scratch_offset(), 320u) << "7 * 36 + 16, rounded up";
  EXPECT_EQ(layout.scratch_bytes_per_thread, 1024u);
  EXPECT_EQ(layout.plan.scratch_bytes, 320u + 3 * 1024u);
  EXPECT_EQ(layout.plan.total_bytes, layout.threads_offset + 3 * 1024u);
  EXPECT_EQ(layout.scratch_offset(), layout.activation_offset() + layout.plan.activation_bytes);
}

}  // namespace
}  // namespace arenite::test
