// SPDX-License-Identifier: Apache-2.0
// Measures how long each op of a model takes, with any counter, e.g. the cycle counter of a
// microcontroller:
//
//     TickProfile profile({ticks, model.ops()}, read_cycle_counter);  // OpTicks ticks[kOps]
//     options.profile = profile.hook();
//
#pragma once

#include <cstdint>
#include <span>

#include "arenite/session.h"

namespace arenite {

// Ticks of one op over all calls so far. An op that runs in slices counts as one call, and the time
// between its slices counts, too.
struct OpTicks {
  uint32_t calls = 0;           // how often the op has run
  uint32_t least = UINT32_MAX;  // ticks of the fastest call
  uint32_t most = 0;            // ticks of the slowest call
  uint64_t total = 0;           // ticks of all calls

  // Counts one call.
  void add(uint32_t ticks) {
    ++calls;
    total += ticks;
    if (ticks < least) least = ticks;
    if (ticks > most) most = ticks;
  }

  // Returns the ticks of a call on average. REQUIRES: calls != 0.
  uint64_t mean() const { return total / calls; }
};

// Fills a table of the application with one element for each op (Model::ops()). Pass hook() to
// SessionOptions::profile; the table and this object must outlive the session.
// Sessions that run on different threads need one each.
class TickProfile {
 public:
  // `now` returns a counter that counts up and may wrap once within an op, e.g. DWT->CYCCNT of a
  // Cortex-M. Ops beyond the table are not counted.
  TickProfile(std::span<OpTicks> ops, uint32_t (*now)()) : ops_(ops), now_(now) {}

  // Returns the hook for SessionOptions::profile. It points to this object.
  ProfileHook hook() {
    return {[](void* self, uint32_t) {
              TickProfile& profile = *static_cast<TickProfile*>(self);
              profile.begin_ = profile.now_();
            },
            [](void* self, uint32_t op) {
              TickProfile& profile = *static_cast<TickProfile*>(self);
              const uint32_t ticks = profile.now_() - profile.begin_;
              if (op < profile.ops_.size()) profile.ops_[op].add(ticks);
            },
            this};
  }

 private:
  std::span<OpTicks> ops_;
  uint32_t (*now_)();
  uint32_t begin_ = 0;
};

}  // namespace arenite
