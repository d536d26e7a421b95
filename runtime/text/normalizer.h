// SPDX-License-Identifier: Apache-2.0
// What a tokenizer does to a text before it cuts it: lower case, white space, SentencePiece's map
// of characters, step by step as the file lists them (format::TextStep).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "format/tokenizer_reader.h"

namespace arenite::text {

// Leaves what the steps make of `text` at the end of `space`, or as it is where they only cut it,
// and returns true; false where `space` is too small, or lacks place for a step in between.
// A byte that is no UTF-8 stays.
bool normalize(const format::TokenizerView& view, std::string_view text, std::span<uint32_t> space,
               std::string_view& normal);

}  // namespace arenite::text
