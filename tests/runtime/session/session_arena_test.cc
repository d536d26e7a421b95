// SPDX-License-Identifier: Apache-2.0
// The arena takes exactly the planned bytes, and the parts add up to them.
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "arenite/arena_formula.h"
#include "runtime/session/session_fixture.h"
#include "session/session_state.h"
#include "support/pool.h"

namespace arenite::test {
namespace {

class SessionArena : public SessionTest {};
ARENITE_FOR_EACH_FLOAT_SET(SessionArena);

// Sizes that meet tiles, pages and roundings in different ways.
std::vector<SessionOptions> module_options(const Model& model) {
  std::vector<SessionOptions> all;
  for (const uint32_t positions : {1u, 8u, 33u, kSpecPositions, 300u}) {
    if (model.positions_max() != 0 && positions > model.positions_max()) continue;
    for (const uint32_t sequences : {1u, 3u}) {
      SessionOptions options = options_for(positions, sequences);
      all.push_back(options);
      options.tokens_max = 1;
      all.push_back(options);
    }
  }
  return all;
}

Status create_in(const Model& model, const SessionOptions& options, size_t bytes, Diagnostic* why) {
  const GuardedBuffer arena(bytes, kArenaAlignment);
  return Session::create(model, options, arena.span(), why).status();
}

TEST_P(SessionArena, SucceedsWithThePlannedBytesAndFailsWithOneLess) {
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    for (const SessionOptions& options : module_options(*model)) {
      const size_t bytes = plan_arena(*model, options)->total_bytes;
      Diagnostic why;
      ASSERT_EQ(create_in(*model, options, bytes, &why), Status::kOk) << spec.name;
      EXPECT_EQ(why.reason, nullptr);
      ASSERT_EQ(create_in(*model, options, bytes - 1, &why), Status::kArenaTooSmall);
      EXPECT_EQ(why.bytes_needed, bytes);
      EXPECT_EQ(why.found, bytes - 1);
      EXPECT_STREQ(why.field, "arena");
      ASSERT_EQ(create_in(*model, options, bytes + 1, &why), Status::kOk) << spec.name;
    }
  }
}

TEST_P(SessionArena, MovesWithAllOfItsBytes) {
  const TestModel model = load("causal");
  const SessionOptions options = options_for(kSpecPositions, 2);
  const std::vector<float> tokens = features(*model, kSpecPositions);
  const std::vector<float> expected = TestSession(*model, options).run(tokens);
  const size_t in = model->input_features();
  const size_t out = model->output_features();
  const size_t bytes = plan_arena(*model, options)->total_bytes;
  // To and fro, over its own old place.
  const GuardedBuffer memory(bytes + 5 * kArenaAlignment, kArenaAlignment);
  std::byte* place = memory.span().data();
  Session* session = *Session::create(*model, options, {place, bytes});
  for (uint32_t token = 0; token < kSpecPositions; ++token) {
    const Result<Output> output = session->step(rows(tokens, in, token, 1));
    ASSERT_TRUE(output.ok());
    ASSERT_TRUE(same_bits(output->row(0), rows(expected, out, token, 1))) << token;
    std::byte* const next = memory.span().data() + (token % 2 == 0 ? 5 : 0) * kArenaAlignment;
    std::memmove(next, place, bytes);
    session = reinterpret_cast<Session*>(next);
    place = next;
    EXPECT_EQ(session->positions(), token + 1);
  }
}

TEST_P(SessionArena, NeverCrashesWhileItGrowsUntilItSuffices) {
  for (const char* const spec : {"causal", "documents", "mask_only"}) {
    const TestModel model = load(spec);
    const SessionOptions options = options_for(20, 2);
    const size_t needed = plan_arena(*model, options)->total_bytes;
    const std::vector<float> tokens = features(*model, 20);
    const GuardedBuffer arena(needed, kArenaAlignment);
    for (size_t bytes = 0; bytes < needed; bytes += bytes < 600 ? 1 : 61) {
      // The arena ends as close to the guard page as alignment allows, so that an access beyond it
      // faults.
      const size_t start = (needed - bytes) / kArenaAlignment * kArenaAlignment;
      Diagnostic why;
      ASSERT_EQ(Session::create(*model, options, arena.span().subspan(start, bytes), &why).status(),
                Status::kArenaTooSmall);
      ASSERT_EQ(why.bytes_needed, needed);
    }
    const Result<Session*> session = Session::create(*model, options, arena.span());
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE((*session)->run({tokens, 1, 20, {}}).ok());
  }
}

TEST_P(SessionArena, FailsWithoutAnArena) {
  const TestModel model = load("causal");
  Diagnostic why;
  EXPECT_EQ(Session::create(*model, options_for(4), {}, &why).status(), Status::kArenaTooSmall);
  EXPECT_EQ(why.bytes_needed, plan_arena(*model, options_for(4))->total_bytes);
}

TEST_P(SessionArena, RefusesANullArenaOfAnySize) {
  const TestModel model = load("causal");
  for (const size_t bytes : {size_t{1}, size_t{1} << 20}) {
    Diagnostic why;
    const std::span<std::byte> arena(static_cast<std::byte*>(nullptr), bytes);
    EXPECT_EQ(Session::create(*model, options_for(4), arena, &why).status(),
              Status::kInvalidArgument);
    EXPECT_STREQ(why.reason, "the arena is null");
  }
}

TEST_P(SessionArena, RefusesAnArenaOverTheModel) {
  const TestModel model = load("causal");
  const size_t bytes = plan_arena(*model, options_for(4))->total_bytes;
  const size_t file_bytes = model->file().size();
  // The file, with room for an arena on either side.
  const size_t room = (bytes / kArenaAlignment + 1) * kArenaAlignment;
  const GuardedBuffer memory(2 * room + file_bytes, kArenaAlignment);
  std::ranges::copy(model->file(), memory.span().subspan(room).begin());
  const Result<Model> moved =
      Model::load(memory.span().subspan(room, file_bytes), nullptr, {true, GetParam()});
  ASSERT_TRUE(moved.ok());
  for (size_t start = 0; start + bytes <= memory.span().size(); start += kArenaAlignment) {
    Diagnostic why;
    const Result<Session*> session =
        Session::create(*moved, options_for(4), memory.span().subspan(start, bytes), &why);
    const bool apart = start + bytes <= room || start >= room + file_bytes;
    ASSERT_EQ(session.status(), apart ? Status::kOk : Status::kInvalidArgument) << start;
    if (!apart) {
      EXPECT_STREQ(why.field, "arena");
    }
  }
}

TEST_P(SessionArena, RefusesAMisalignedArena) {
  const TestModel model = load("causal");
  const size_t bytes = plan_arena(*model, options_for(4))->total_bytes;
  const GuardedBuffer arena(bytes + kArenaAlignment, kArenaAlignment);
  for (size_t offset = 1; offset < kArenaAlignment; ++offset) {
    Diagnostic why;
    const Result<Session*> session =
        Session::create(*model, options_for(4), arena.span().subspan(offset, bytes), &why);
    ASSERT_EQ(session.status(), Status::kInvalidArgument);
    EXPECT_STREQ(why.field, "arena");
    EXPECT_EQ(why.found, offset);
  }
}

TEST_P(SessionArena, PlanAddsUpInWholeUnits) {
  Pool pool(3);
  for (const ModuleSpec& spec : all_specs()) {
    const TestModel model = load(spec);
    for (SessionOptions options : module_options(*model)) {
      const ArenaPlan one = *plan_arena(*model, options);
      options.parallel = pool.parallel_for();
      const ArenaPlan three = *plan_arena(*model, options);
      EXPECT_EQ(one.total_bytes,
                one.session_bytes + one.kv_cache_bytes + one.activation_bytes + one.scratch_bytes);
      for (const size_t part : {one.session_bytes, one.kv_cache_bytes, one.activation_bytes,
                                one.scratch_bytes, three.scratch_bytes}) {
        EXPECT_EQ(part % kArenaAlignment, 0u);
      }
      EXPECT_EQ(three.scratch_bytes, 3 * one.scratch_bytes);
      EXPECT_EQ(three.total_bytes - three.scratch_bytes, one.total_bytes - one.scratch_bytes);
    }
  }
}

TEST_P(SessionArena, PlanIsTheFormulaInTheFile) {
  const TestModel model = load("head_masks");
  const ArenaFormula formula =
      ModelAccess::reader(*model).formula(ModelAccess::packed_index(*model));
  for (const SessionOptions& options : module_options(*model)) {
    const uint32_t tokens = options.tokens_max != 0 ? options.tokens_max
                                                    : options.positions_max * options.sequences_max;
    const ArenaSizes sizes = evaluate(formula, ModelAccess::reader(*model).axes(),
                                      {options.positions_max, tokens, options.sequences_max});
    EXPECT_EQ(plan_arena(*model, options)->total_bytes, sizes.total_bytes.value());
  }
}

// The bytes after the plan are the application's: a session in a larger arena leaves them alone.
TEST_P(SessionArena, LeavesTheRestOfALargerArenaAlone) {
  const TestModel model = load("wide");
  const SessionOptions options = options_for(40);
  const size_t needed = plan_arena(*model, options)->total_bytes;
  const GuardedBuffer arena(needed + 4096, kArenaAlignment);
  const Result<Session*> session = Session::create(*model, options, arena.span());
  ASSERT_TRUE(session.ok());
  const std::vector<float> tokens = features(*model, 40);
  ASSERT_TRUE((*session)->run({tokens, 1, 40, {}}).ok());
  for (const std::byte byte : arena.span().subspan(needed)) ASSERT_EQ(byte, std::byte{0xFF});
}

}  // namespace
}  // namespace arenite::test
