// SPDX-License-Identifier: Apache-2.0
// Reads the mask buffers of a checkpoint: buffers named mask, bias or tril hold ones and zeros with
// either meaning, or what is added to scores.
//
//   [[1, 0], [1, 1]]       the diagonal is 1: 1 shows, causal
//   [[0, -inf], [0, 0]]    large negative numbers hide: causal, too
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convert/files/checkpoint.h"
#include "convert/masks/masks.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

struct MaskBuffer {
  DenseMask dense;
  std::string meaning;  // e.g. "1 hides: the diagonal is 0"
};

// Reads a mask buffer [T, T] (leading dimensions of 1 are accepted) of 0 and 1, bool, or 0 and a
// large negative number or -infinity. Whether 0 or 1 hides a key is decided by the first of these
// that applies: `ones`, if given; the reading that hides no row entirely; the reading that shows
// each query its own position; the name, where `mask` means that 1 hides (masked_fill) and `bias`
// or `tril` that 0 hides. `positions` above 0 keeps only that many rows and columns. Throws
// InputError; `file` is quoted, for messages.
MaskBuffer read_mask_buffer(const StoredTensor& tensor, const std::string& file, uint32_t positions,
                            std::optional<MaskOnes> ones);

// A band mask: each token sees itself, earlier tokens within `window`, and later tokens unless the
// model is causal.
struct BandChoice {
  bool causal = false;
  uint32_t window = 0;  // keys that a query sees, including its own; 0: all

  friend bool operator==(const BandChoice&, const BandChoice&) = default;
};

std::string describe(const BandChoice& mask);  // "a causal window of 8"

// Reads a buffer that holds a band. Throws InputError for other masks.
BandChoice read_band_buffer(const StoredTensor& tensor, const std::string& file,
                            std::optional<MaskOnes> ones = {});

}  // namespace arenite::convert
