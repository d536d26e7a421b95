// SPDX-License-Identifier: Apache-2.0
// What a character becomes before words are looked up: lower case, without accents.
#pragma once

#include <array>
#include <cstdint>

#include "format/tokenizer_reader.h"

namespace arenite::text {

inline constexpr uint32_t kFoldedMax = 4;

// Never more code points than the character has bytes in UTF-8; none where it is dropped.
struct Folded {
  std::array<uint32_t, kFoldedMax> code_points = {};
  uint32_t count = 0;
};

Folded fold(const format::TokenizerView& view, uint32_t code_point);

}  // namespace arenite::text
