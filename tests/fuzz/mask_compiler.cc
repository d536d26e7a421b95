// SPDX-License-Identifier: Apache-2.0
// A fuzz target: any dense mask, compiled. The compiled mask, read as SPEC.md defines, must equal
// the dense mask.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "convert/files/error.h"
#include "convert/masks/masks.h"
#include "fuzz/choices.h"
#include "fuzz/require.h"

namespace arenite::test {
namespace {

constexpr uint32_t kPositionsMost = 100;  // more than three tiles

using convert::DenseMask;

// The masks that models have, before single entries are changed.
bool usual(uint32_t pattern, uint32_t reach, uint32_t query, uint32_t key) {
  switch (pattern) {
    case 0:
      return key <= query;
    case 1:
      return key <= query && query - key <= reach;
    case 2:
      return key < reach || key <= query;
    case 3:
      return query / (reach + 1) == key / (reach + 1);
    case 4:
      return (query > key ? query - key : key - query) % (reach + 1) == 0;
    default:
      return key == query;
  }
}

DenseMask any_mask(Choices& choices) {
  const uint32_t positions = 1 + choices.below(kPositionsMost);
  const uint32_t pattern = choices.below(6);
  const uint32_t reach = choices.below(positions);
  DenseMask mask(positions);
  for (uint32_t query = 0; query < positions; ++query) {
    for (uint32_t key = 0; key < positions; ++key) {
      mask.set(query, key, usual(pattern, reach, query, key));
    }
  }
  while (!choices.ended()) {
    const uint32_t query = choices.below(positions);
    const uint32_t begin = choices.below(positions);
    const uint32_t end = begin + 1 + choices.below(positions - begin);
    const bool value = choices.below(2) != 0;
    for (uint32_t key = begin; key < end; ++key) mask.set(query, key, value);
  }
  return mask;
}

// Reads a compiled mask as SPEC.md defines.
bool sees(const MaskView& mask, uint32_t query, uint32_t key) {
  if (mask.kind == MaskKind::kTiles) {
    const uint32_t columns = (mask.positions + 31) / 32;
    const uint16_t tile = mask.map[size_t{query / 32} * columns + key / 32];
    if (tile < 2) return tile == 1;
    return (mask.bits[(tile - 2u) * 32 + query % 32] >> key % 32 & 1) != 0;
  }
  const bool in_band = (mask.lookback == UINT32_MAX || uint64_t{key} + mask.lookback >= query) &&
                       (mask.lookahead == UINT32_MAX || key <= uint64_t{query} + mask.lookahead);
  if (mask.kind == MaskKind::kBand) return in_band;
  const float value = mask.values[key + mask.positions - 1 - query];
  require(in_band || value == -std::numeric_limits<float>::infinity(), "a strip in its band");
  return value != -std::numeric_limits<float>::infinity();
}

void compare(const DenseMask& dense, const convert::CompiledMask& compiled) {
  const MaskView mask = compiled.view();
  require(mask.positions == dense.positions, "as many positions");
  bool causal = true;
  uint64_t visible = 0;
  for (uint32_t query = 0; query < dense.positions; ++query) {
    for (uint32_t key = 0; key < dense.positions; ++key) {
      require(sees(mask, query, key) == dense.at(query, key), "the mask that was compiled");
      causal = causal && (key <= query || !dense.at(query, key));
      visible += dense.at(query, key);
    }
  }
  require(convert::is_causal(convert::Mask(compiled)) == causal, "causal where it is");
  require(convert::MaskPairs(mask, dense.positions).visible() == visible, "pairs are counted");
}

bool has_hidden_row(const DenseMask& mask) {
  for (uint32_t query = 0; query < mask.positions; ++query) {
    bool sees_any = false;
    for (uint32_t key = 0; key < mask.positions; ++key) sees_any = sees_any || mask.at(query, key);
    if (!sees_any) return true;
  }
  return false;
}

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  Choices choices({data, size});
  const DenseMask mask = any_mask(choices);
  try {
    const arenite::convert::CompiledMask compiled = arenite::convert::compile_mask(mask, "mask");
    compare(mask, compiled);
    const arenite::convert::CompiledMask tiles = arenite::convert::tile_mask(mask, "mask");
    compare(mask, tiles);
    require(compiled.bytes() <= tiles.bytes(), "the smallest form");
  } catch (const arenite::convert::InputError&) {
    require(has_hidden_row(mask), "only a mask that hides a row is refused");
  }
  return 0;
}
