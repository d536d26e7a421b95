// SPDX-License-Identifier: Apache-2.0
// Dense masks of the patterns that models are trained with.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convert/masks/masks.h"
#include "core/views.h"

namespace arenite::test {

struct MaskPattern {
  std::string name;
  convert::DenseMask dense;
  MaskKind kind;  // what it compiles to
};

convert::DenseMask dense_where(uint32_t positions,
                               const std::function<bool(uint32_t query, uint32_t key)>& sees);

// Returns masks of `positions` positions: causal, windows, prefixes, documents, strides, global
// tokens, noise. REQUIRES: positions >= 9, so that each name is true.
std::vector<MaskPattern> mask_patterns(uint32_t positions);

// Conventions of buffers that say the same.
std::vector<double> ones_where_visible(const convert::DenseMask& dense);
std::vector<double> ones_where_hidden(const convert::DenseMask& dense);
std::vector<double> added_to_scores(const convert::DenseMask& dense, double hiding);

}  // namespace arenite::test
