// SPDX-License-Identifier: Apache-2.0
// Normalizes a text before pre-tokenization: runs the steps that the file lists (format::TextStep),
// such as lower case, white space, and SentencePiece's character map.
//   steps lower case, kShrink, kStrip: " Two  Words " becomes "two words"
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "format/tokenizer_reader.h"

namespace arenite::text {

// Sets `normal` to the normalized text and returns true. The text lies at the end of `space`, or is
// a view of `text` if all steps only strip it. Returns false if `space` is too small for the
// result, or for an intermediate one. Bytes that are not UTF-8 stay unchanged.
bool normalize(const format::TokenizerView& view, std::string_view text, std::span<uint32_t> space,
               std::string_view& normal);

}  // namespace arenite::text
