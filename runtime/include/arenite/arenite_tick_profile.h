// SPDX-License-Identifier: Apache-2.0
// Measures how long each op of a model takes, in C99, with any tick counter; the counterpart of
// tick_profile.h:
//
//     arenite_tick_profile profile = {ops, arenite_model_ops(&model), read_cycle_counter, 0};
//     options.profile = arenite_tick_profile_hook(&profile);
//
#pragma once

#include "arenite/arenite.h"

#ifdef __cplusplus
extern "C" {
#endif

// Ticks of one op over all calls so far; all zero before the first call.
typedef struct arenite_op_ticks {
  uint32_t calls;  // how often the op has run
  uint32_t least;  // ticks of the fastest call
  uint32_t most;   // ticks of the slowest call
  uint64_t total;  // the mean is total / calls
} arenite_op_ticks;

// Points to a table of the application with one element for each op (arenite_model_ops). Ops beyond
// the table are not counted.
typedef struct arenite_tick_profile {
  arenite_op_ticks* ops;  // [ops_count], zero before the first call
  uint32_t ops_count;     // elements of the table
  // Returns a counter that counts up and may wrap once within an op, e.g. DWT->CYCCNT of a
  // Cortex-M.
  uint32_t (*now)(void);
  uint32_t begin;  // counter at the start of the current op
} arenite_tick_profile;

// Notes when an op begins, as arenite_profile_hook::op_begins; `context` is the profile.
static inline void arenite_tick_profile_begins(void* context, uint32_t op_index) {
  arenite_tick_profile* const profile = (arenite_tick_profile*)context;
  (void)op_index;
  profile->begin = profile->now();
}

// Counts a call of the op that ends, as arenite_profile_hook::op_ends; `context` is the profile.
static inline void arenite_tick_profile_ends(void* context, uint32_t op_index) {
  arenite_tick_profile* const profile = (arenite_tick_profile*)context;
  const uint32_t ticks = profile->now() - profile->begin;
  arenite_op_ticks* op;
  if (op_index >= profile->ops_count) return;
  op = &profile->ops[op_index];
  if (op->calls == 0 || ticks < op->least) op->least = ticks;
  if (ticks > op->most) op->most = ticks;
  op->total += ticks;
  ++op->calls;
}

// Returns the hook for arenite_session_options::profile. The table and `profile` must outlive the
// session.
static inline arenite_profile_hook arenite_tick_profile_hook(arenite_tick_profile* profile) {
  const arenite_profile_hook hook = {arenite_tick_profile_begins, arenite_tick_profile_ends,
                                     profile};
  return hook;
}

#ifdef __cplusplus
}  // extern "C"
#endif
