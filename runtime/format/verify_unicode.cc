// SPDX-License-Identifier: Apache-2.0
// Verifies what a tokenizer knows about Unicode: classes of characters, and what they become.
#include "core/utf8.h"
#include "format/tokenizer_reader.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

enum class Presence { kAbsent, kOptional, kNeeded };

bool verify_ranges(std::span<const uint32_t> ranges, Presence presence, uint32_t least,
                   Message field, const Refusal& refuse) {
  const bool is_wrong =
      ranges.empty() ? presence == Presence::kNeeded : presence == Presence::kAbsent;
  if (ranges.size() % 2 != 0 || ranges.size() / 2 > kRangesMax || is_wrong) {
    return refuse("ranges of characters are missing, or not needed, or too many", field, 0,
                  ranges.size(), presence == Presence::kNeeded ? 2 : 0);
  }
  uint32_t end = least;
  for (uint32_t i = 0; i < ranges.size(); i += 2) {
    if (ranges[i] < end || ranges[i + 1] < ranges[i] || ranges[i + 1] > kCodePointMax) {
      return refuse("ranges of characters are not in order", field, i, ranges[i], end);
    }
    end = ranges[i + 1] + 1;
  }
  return true;
}

// A character becomes no more code points than it has bytes: so tokens and words fit in a span
// that is made for the bytes of a text. A byte that is no UTF-8 is read as U+FFFD.
bool verify_fold(const TokenizerView& view, uint32_t index, const Refusal& refuse) {
  const uint32_t from = view.fold_from[index];
  if (from > kCodePointMax || (index > 0 && from <= view.fold_from[index - 1])) {
    return refuse("folded characters are not in order, or are none", "tokenizer.fold_from", index,
                  from, index > 0 ? view.fold_from[index - 1] : 0);
  }
  const uint32_t count = view.fold_to[index] >> kFoldCountShift;
  const uint32_t value = view.fold_to[index] & kFoldValueMask;
  char form[kUtf8BytesMax];
  const uint32_t most = from == kReplacementCharacter ? 1 : encode_utf8(from, form);
  if (count == 0 || count > most) {
    return refuse("a character becomes none, or more than it has bytes", "tokenizer.fold_to", index,
                  count, most);
  }
  const bool is_within =
      count == 1 ? value <= kCodePointMax : value + uint64_t{count} <= view.fold_sequences.size();
  if (!is_within) {
    return refuse("a character becomes what is not there", "tokenizer.fold_to", index, value,
                  count == 1 ? kCodePointMax : view.fold_sequences.size());
  }
  return true;
}

bool verify_folds(const TokenizerView& view, const Refusal& refuse) {
  if (view.fold_to.size() != view.fold_from.size() || view.fold_from.size() > kFoldsMax) {
    return refuse("each folded character becomes one thing", "tokenizer.fold_to", 0,
                  view.fold_to.size(), view.fold_from.size());
  }
  if (view.kind != TokenizerKind::kWordPiece && !view.fold_from.empty()) {
    return refuse("characters are folded for words only", "tokenizer.fold_from", 0,
                  view.fold_from.size(), 0);
  }
  for (uint32_t i = 0; i < view.fold_from.size(); ++i) {
    if (!verify_fold(view, i, refuse)) return false;
  }
  for (uint32_t i = 0; i < view.fold_sequences.size(); ++i) {
    if (view.fold_sequences[i] > kCodePointMax) {
      return refuse("a character becomes none", "tokenizer.fold_sequences", i,
                    view.fold_sequences[i], kCodePointMax);
    }
  }
  return true;
}

}  // namespace

bool verify_unicode(const TokenizerView& view, const Refusal& refuse) {
  constexpr uint32_t kAsciiEnd = 0x80;  // whose classes need no table
  const Presence classes = view.pattern != Pattern::kNone && view.pattern != Pattern::kSpaces
                               ? Presence::kNeeded
                               : Presence::kAbsent;
  const bool has_words = view.kind == TokenizerKind::kWordPiece;
  return verify_ranges(view.letters, classes, kAsciiEnd, "tokenizer.letters", refuse) &&
         verify_ranges(view.numbers, classes, kAsciiEnd, "tokenizer.numbers", refuse) &&
         verify_ranges(view.dropped, has_words ? Presence::kOptional : Presence::kAbsent, 0,
                       "tokenizer.dropped", refuse) &&
         verify_ranges(view.punctuation, has_words ? Presence::kNeeded : Presence::kAbsent,
                       kAsciiEnd, "tokenizer.punctuation", refuse) &&
         verify_folds(view, refuse);
}

}  // namespace arenite::format
