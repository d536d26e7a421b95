// SPDX-License-Identifier: Apache-2.0
// Masks of every kind with their dense masks. The code is simple on purpose: the mask compiler in
// tools/convert is itself tested against dense masks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/views.h"
#include "reference/dense_mask.h"

namespace arenite::test {

// A compiled mask that owns its parts, for `dense.positions` positions.
struct TestMask {
  std::string name;  // for messages
  DenseMask dense;
  MaskKind kind = MaskKind::kBand;
  uint32_t lookback = kUnlimited;
  uint32_t lookahead = kUnlimited;
  std::vector<float> values;  // and kReadAheadBytes more
  std::vector<uint16_t> map;
  std::vector<uint32_t> bits;
  std::vector<uint32_t> row_begin;
  std::vector<uint32_t> row_end;

  TestMask(std::string name_in, DenseMask dense_in)
      : name(std::move(name_in)), dense(std::move(dense_in)) {}

  // Points into this mask.
  MaskView view() const;
  // No query sees a later key.
  bool causal() const;
};

// query - lookback <= key <= query + lookahead. `positions` is how many the dense mask has.
TestMask band_mask(uint32_t positions, uint32_t lookback, uint32_t lookahead);
inline TestMask causal_mask(uint32_t positions) { return band_mask(positions, kUnlimited, 0); }

// The band, and values[key - query + positions - 1] added to the scores; -infinity hides.
TestMask strip_mask(uint32_t positions, uint32_t lookback, uint32_t lookahead,
                    std::vector<float> values);
// A strip like ALiBi: a slope times the distance.
TestMask slope_mask(uint32_t positions, uint32_t lookback, uint32_t lookahead, float slope);

// Any visibility, as tiles. REQUIRES: every query sees a key, or its range is empty: [0, 0).
TestMask tile_mask(std::string name, const DenseMask& dense);
// A prefix that all see, then causal.
TestMask prefix_mask(uint32_t positions, uint32_t prefix);
// Documents of `length` positions, each causal in itself and blind to the others.
TestMask document_mask(uint32_t positions, uint32_t length);
// Each query sees itself and each other key with a probability of one in `one_in`; where `causal`,
// of the earlier keys only.
TestMask random_mask(uint32_t positions, uint32_t one_in, bool causal, uint64_t seed);
// Causal, but beyond the diagonal's tile only the first `sink` keys: whole tile columns between
// them are hidden.
TestMask sink_mask(uint32_t positions, uint32_t sink);

}  // namespace arenite::test
