// SPDX-License-Identifier: Apache-2.0
// Tests the profile of ops with a counter that the test advances.
#include "arenite/tick_profile.h"

#include "runtime/session/session_fixture.h"

namespace arenite::test {
namespace {

class TickProfileOf : public SessionTest {};
ARENITE_FOR_EACH_FLOAT_SET(TickProfileOf);

uint32_t counter = 0;
uint32_t step = 0;

// Each reading is `step` later than the one before.
uint32_t read_counter() { return counter += step; }

TEST_P(TickProfileOf, CountsEachOpOfEachCall) {
  const TestModel model = load("causal");
  std::vector<OpTicks> ticks(model->ops());
  ASSERT_EQ(ticks.size(), 3u);
  TickProfile profile(ticks, read_counter);
  SessionOptions options = options_for(8);
  options.profile = profile.hook();
  const TestSession session(*model, options);
  counter = UINT32_MAX - 10;  // wraps within the first call
  for (const uint32_t each : {5u, 100u, 30u}) {
    step = each;
    session.run(features(*model, 3));
  }
  for (const OpTicks& op : ticks) {
    EXPECT_EQ(op.calls, 3u);
    EXPECT_EQ(op.least, 5u);
    EXPECT_EQ(op.most, 100u);
    EXPECT_EQ(op.total, 135u);
    EXPECT_EQ(op.mean(), 45u);
  }
}

TEST_P(TickProfileOf, LeavesOutOpsThatTheTableHasNoRoomFor) {
  const TestModel model = load("causal");
  OpTicks ticks[2];
  TickProfile profile({ticks, 1}, read_counter);
  SessionOptions options = options_for(8);
  options.profile = profile.hook();
  step = 1;
  const TestSession session(*model, options);
  session.run(features(*model, 3));
  EXPECT_EQ(ticks[0].calls, 1u);
  EXPECT_EQ(ticks[1].calls, 0u);
}

}  // namespace
}  // namespace arenite::test
