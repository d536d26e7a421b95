// SPDX-License-Identifier: Apache-2.0
// Each pattern as a rule for one query and one key.
#include "convert/modules/mask_patterns.h"

#include "support/random.h"

namespace arenite::test {
namespace {

using convert::DenseMask;

DenseMask noise(uint32_t positions, bool causal, uint64_t seed) {
  Random random(seed);
  return dense_where(positions, [&](uint32_t query, uint32_t key) {
    const bool chance = random.below(3) == 0;
    return query == key || (chance && !(causal && key > query));
  });
}

}  // namespace

DenseMask dense_where(uint32_t positions, const std::function<bool(uint32_t, uint32_t)>& sees) {
  DenseMask dense(positions);
  for (uint32_t query = 0; query < positions; ++query) {
    for (uint32_t key = 0; key < positions; ++key) dense.set(query, key, sees(query, key));
  }
  return dense;
}

std::vector<MaskPattern> mask_patterns(uint32_t positions) {
  const auto where = [&](const auto& sees) { return dense_where(positions, sees); };
  const auto far = [](uint32_t q, uint32_t k) { return q < k ? k - q : q - k; };
  return {
      {"causal", where([](uint32_t q, uint32_t k) { return k <= q; }), MaskKind::kBand},
      {"bidirectional", where([](uint32_t, uint32_t) { return true; }), MaskKind::kBand},
      {"itself", where([](uint32_t q, uint32_t k) { return k == q; }), MaskKind::kBand},
      {"window of 4", where([](uint32_t q, uint32_t k) { return k <= q && q - k < 4; }),
       MaskKind::kBand},
      {"window on both sides", where([&](uint32_t q, uint32_t k) { return far(q, k) <= 3; }),
       MaskKind::kBand},
      {"later only", where([](uint32_t q, uint32_t k) { return k >= q; }), MaskKind::kBand},
      {"strided", where([](uint32_t q, uint32_t k) { return k <= q && (q - k) % 3 == 0; }),
       MaskKind::kStrip},
      {"dilated window",
       where([&](uint32_t q, uint32_t k) { return far(q, k) <= 6 && far(q, k) % 2 == 0; }),
       MaskKind::kStrip},
      {"window and first distances",
       where([&](uint32_t q, uint32_t k) { return k <= q && (q - k < 2 || q - k > 6); }),
       MaskKind::kStrip},
      {"prefix of 5", where([](uint32_t q, uint32_t k) { return k <= q || k < 5; }),
       MaskKind::kTiles},
      {"documents", where([](uint32_t q, uint32_t k) { return q / 7 == k / 7; }), MaskKind::kTiles},
      {"causal documents", where([](uint32_t q, uint32_t k) { return k <= q && q / 5 == k / 5; }),
       MaskKind::kTiles},
      {"global, window and chance", where([&](uint32_t q, uint32_t k) {
         return q < 2 || k < 2 || far(q, k) <= 2 || (q * 31 + k * 17) % 11 == 0;
       }),
       MaskKind::kTiles},
      {"noise", noise(positions, false, 5), MaskKind::kTiles},
      {"causal noise", noise(positions, true, 6), MaskKind::kTiles},
      {"the last key", where([&](uint32_t, uint32_t k) { return k == positions - 1; }),
       MaskKind::kTiles},
      {"mirrored", where([&](uint32_t q, uint32_t k) { return q + k == positions - 1; }),
       MaskKind::kTiles},
  };
}

std::vector<double> ones_where_visible(const DenseMask& dense) {
  return {dense.visible.begin(), dense.visible.end()};
}

std::vector<double> ones_where_hidden(const DenseMask& dense) {
  std::vector<double> ones;
  for (const bool visible : dense.visible) ones.push_back(visible ? 0.0 : 1.0);
  return ones;
}

std::vector<double> added_to_scores(const DenseMask& dense, double hiding) {
  std::vector<double> added;
  for (const bool visible : dense.visible) added.push_back(visible ? 0.0 : hiding);
  return added;
}

}  // namespace arenite::test
