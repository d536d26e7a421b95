// SPDX-License-Identifier: Apache-2.0
// Walks the tables of the pre-tokenizer. GPT-2's splits "I'll  go" into "I", "'ll", " ", " go".
#include "text/pre_tokenizer.h"

#include <algorithm>

namespace arenite::text {
namespace {

constexpr uint32_t kStart = 1;  // the state that a search begins in

// Returns the character that stands for a byte in byte-level vocabularies: itself if it is visible,
// else the next one from U+0100 on.
uint32_t byte_character(uint32_t byte) {
  if (byte <= ' ') return byte + 0x100;
  if (byte >= 0x7F && byte <= 0xA0) return byte - 0x7F + 0x121;
  return byte == 0xAD ? 0x143 : byte;
}

}  // namespace

PreTokenizer::PreTokenizer(const format::TokenizerView& view, const Part& part, SplitSteps which)
    : columns_(view.columns), part_(part) {
  if (view.splits.empty()) return;
  column_count_ = view.splits[0];
  for (size_t i = 1; i < view.splits.size();) {
    const uint32_t* const step = &view.splits[i];
    steps_[step_count_++] = step;
    i += format::kSplitHeader + size_t{step[1]} * column_count_;
    if (linked(Need::kUnigram) && (step[0] & format::kPartsFollow) != 0) {
      if (which == SplitSteps::kUpToParts) return;
      step_count_ = 0;
    }
  }
}

bool has_step(const format::TokenizerView& view, format::SplitFlags flag) {
  for (size_t i = 1; i < view.splits.size();) {
    if ((view.splits[i] & flag) != 0) return true;
    i += format::kSplitHeader + size_t{view.splits[i + 1]} * view.splits[0];
  }
  return false;
}

bool PreTokenizer::next(Piece& piece) {
  while (position_ < part_.size()) {
    Range text = {0, part_.size()};
    bool is_dropped = false;
    for (uint32_t i = 0; i < step_count_ && !is_dropped; ++i) {
      if (pieces_[i].end <= position_) {
        pieces_[i] = {position_, piece_end(steps_[i], text, is_dropped)};
      }
      text = pieces_[i];
    }
    piece = {position_, text.end};
    position_ = text.end;
    if (!is_dropped) return true;
  }
  return false;
}

// Returns the end of the match at position_, or else of the gap before the next match.
size_t PreTokenizer::piece_end(const uint32_t* step, const Range& text, bool& is_dropped) const {
  size_t read = 0;
  size_t end = match_end(step, position_, text, read);
  const bool is_match = end != position_;
  while (!is_match) {
    uint32_t bytes = 0;
    (void)column_at(step, end, bytes);
    const bool skips = (step[0] & format::kSkipFailures) != 0 && read > end;
    end = skips ? read : end + bytes;
    if (end >= text.end || match_end(step, end, text, read) != end) break;
  }
  is_dropped = (step[0] & (is_match ? format::kDropMatches : format::kDropGaps)) != 0;
  return end;
}

// Returns the end of the match that begins at `begin`; `begin` if there is none. Sets `read` to the
// character that ends the search.
size_t PreTokenizer::match_end(const uint32_t* step, size_t begin, const Range& text,
                               size_t& read) const {
  const uint32_t* const table = step + format::kSplitHeader;
  size_t end = begin;
  for (size_t at = begin, state = start_state(step, begin, text); state != 0;) {
    read = at;
    uint32_t bytes = 0;
    const uint32_t column = at < text.end ? column_at(step, at, bytes) : 0;
    const uint32_t entry = table[state * column_count_ + column];
    if ((entry & 1) != 0) end = at;
    state = bytes != 0 ? entry >> 1 : 0;
    at += bytes;
  }
  return end;
}

// Returns the state that a search at `begin` starts in.
uint32_t PreTokenizer::start_state(const uint32_t* step, size_t begin, const Range& text) const {
  if (!linked(Need::kUnigram) || (step[0] & format::kLooksBehind) == 0) return kStart;
  uint32_t column = 0, bytes = 0;
  if (begin > text.begin) {
    size_t at = begin - 1;
    while (at > text.begin && begin - at < kUtf8BytesMax && (part_.byte(at) & 0xC0) == 0x80) --at;
    column = column_at(step, at, bytes);
    if (bytes != begin - at) column = column_at(step, begin - 1, bytes);  // a byte by itself
  }
  return step[format::kSplitHeader + column] >> 1;
}

// Returns the column of the character at a position, and its number of bytes. A byte that is not
// UTF-8 counts as U+FFFD. REQUIRES: position < part_.size().
uint32_t PreTokenizer::column_at(const uint32_t* step, size_t position, uint32_t& bytes) const {
  uint32_t character = part_.byte(position);
  bytes = 1;
  if ((step[0] & format::kOfBytes) != 0) {
    character = byte_character(character);
  } else if (character >= 0x80) {
    const CodePoint code_point = part_.code_point(position);
    const bool is_valid = code_point.value != kInvalidCodePoint;
    character = is_valid ? code_point.value : kReplacementCharacter;
    bytes = code_point.bytes;
  }
  constexpr uint32_t kMask = (1u << format::kColumnBits) - 1;
  if (character < 0x80) {
    return columns_[character / 4] >> character % 4 * format::kColumnBits & kMask;
  }
  const uint32_t key = character << format::kColumnBits | kMask;
  return *(std::upper_bound(columns_.begin() + format::kAsciiElements, columns_.end(), key) - 1) &
         kMask;
}

}  // namespace arenite::text
