// SPDX-License-Identifier: Apache-2.0
// Merges the tokens of one piece: again and again the pair of lowest rank, the leftmost first.
#pragma once

#include <cstdint>
#include <span>

#include "format/tokenizer_reader.h"

namespace arenite::text {

// Numbers of work space for each symbol of a piece, its own token included.
inline constexpr uint32_t kMergeWords = 5;

// `work` begins with `symbols` tokens, the rest is work space; the merged tokens then stand at its
// front. Returns how many. O(n log n) look-ups and steps for n symbols.
// REQUIRES: work.size() >= kMergeWords * symbols.
uint32_t merge(const format::TokenizerView& view, std::span<uint32_t> work, uint32_t symbols);

}  // namespace arenite::text
