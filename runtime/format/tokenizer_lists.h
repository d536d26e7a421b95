// SPDX-License-Identifier: Apache-2.0
// The lists of numbers in the tokenizer of a model file, in their order there. Lists that belong
// together are the columns of one table.
#pragma once

#include <cstdint>

namespace arenite::format {

enum class TokenizerList : uint32_t {
  kEnds,          // tokens that end a text, the first one is the end token proper
  kTokenOffsets,  // into token_bytes; vocabulary + 1
  kByteTokens,    // 256, or none
  kCharacters,    // code points, increasing
  kCharacterTokens,
  // Merges of (left, right): rows merge_begin[left] .. merge_begin[left + 1], by right.
  kMergeBegin,
  kMergeRights,
  kMergeRanks,
  kMergeTokens,
  // By their bytes: a piece that is one of them is not merged; WordPiece looks all words up here.
  kWholeTokens,
  kSpecials,      // tokens with a name, increasing
  kSpecialOrder,  // indexes into specials, by their bytes
  kLetters,       // first, last, first, last, ... from 128 on
  kNumbers,
  // WordPiece: what becomes of a text's characters before it is cut into words.
  kDropped,        // ranges from 0 on
  kPunctuation,    // ranges from 128 on; each character of them is a word
  kFoldFrom,       // code points that become others, increasing
  kFoldTo,         // 2^24 * their number + the one, or the place of the first in
  kFoldSequences,  // code points
};
inline constexpr uint32_t kTokenizerLists = 19;

}  // namespace arenite::format
