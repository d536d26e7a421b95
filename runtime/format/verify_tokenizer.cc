// SPDX-License-Identifier: Apache-2.0
// Verifies a tokenizer: every id and offset, the order of every list that is searched, and that
// tokens stand for the bytes that made them.
#include "format/verify.h"

#include <cstring>

#include "core/needs.h"
#include "core/utf8.h"
#include "format/tokenizer_reader.h"

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

constexpr uint32_t kByteValues = 256;
constexpr uint32_t kLowLine = 0x2581;  // what SentencePiece writes for a space

// That ids are of tokens. Inline, so that the compiler joins the refusals.
struct Vocabulary {
  uint32_t size;
  const Refusal& refuse;

  Vocabulary(const TokenizerView& view, const Refusal& refuse_in)
      : size(view.vocab_size()), refuse(refuse_in) {}

  [[gnu::always_inline]] bool has(uint32_t token, uint32_t index, Message field) const {
    return token < size || refuse("a token is not in the vocabulary", field, index, token, size);
  }
};

bool verify_choices(const TokenizerView& view, const Refusal& refuse) {
  const struct {
    Message field;
    uint32_t found, count;
  } choices[] = {
      {"tokenizer.kind", static_cast<uint32_t>(view.kind), kTokenizerKinds},
      {"tokenizer.pattern", static_cast<uint32_t>(view.pattern), kPatterns},
      {"tokenizer.prefix", static_cast<uint32_t>(view.prefix), kPrefixes},
      {"tokenizer.unknown", static_cast<uint32_t>(view.unknown), kUnknowns},
  };
  for (const auto& choice : choices) {
    if (choice.found >= choice.count) {
      return refuse("a tokenizer is of an unknown kind", choice.field, 0, choice.found,
                    choice.count - 1);
    }
  }
  if ((view.flags & ~uint32_t{kTokenizerFlagsAll}) != 0) {
    return refuse("a tokenizer has an unknown flag", "tokenizer.flags", 0, view.flags,
                  kTokenizerFlagsAll);
  }
  return true;
}

bool verify_bytes(const TokenizerView& view, const Refusal& refuse) {
  if (view.token_offsets.size() < 2 || view.token_offsets.size() - 1 > kVocabularyMax) {
    return refuse("a vocabulary has no sensible size", "tokenizer.token_offsets", 0,
                  view.token_offsets.size(), kVocabularyMax);
  }
  uint32_t end = 0;
  for (uint32_t i = 0; i < view.token_offsets.size(); ++i) {
    const uint32_t offset = view.token_offsets[i];
    if (i == 0 ? offset != 0 : offset < end || offset - end > kTokenBytesMax) {
      return refuse("tokens do not follow each other, or one is too long",
                    "tokenizer.token_offsets", i, offset, end);
    }
    end = offset;
  }
  if (end != view.token_bytes.size()) {
    return refuse("the tokens do not fill their bytes", "tokenizer.token_bytes", 0,
                  view.token_bytes.size(), end);
  }
  return true;
}

bool verify_ids(const TokenizerView& view, const Refusal& refuse) {
  const Vocabulary vocabulary(view, refuse);
  const bool lacks_bos = view.bos == kNoToken && !view.has(kAddBos);
  const bool lacks_unknown = view.unknown_token == kNoToken && view.unknown != Unknown::kToken;
  if (!lacks_bos && !vocabulary.has(view.bos, 0, "tokenizer.bos")) return false;
  if (!lacks_unknown && !vocabulary.has(view.unknown_token, 0, "tokenizer.unknown_token")) {
    return false;
  }
  if (view.ends.size() > kEndsMax || (view.ends.empty() && view.has(kAddEnd))) {
    return refuse("there are no end tokens, or too many", "tokenizer.ends", 0, view.ends.size(),
                  kEndsMax);
  }
  for (uint32_t i = 0; i < view.ends.size(); ++i) {
    if (!vocabulary.has(view.ends[i], i, "tokenizer.ends")) return false;
  }
  return true;
}

bool verify_byte_tokens(const TokenizerView& view, const Refusal& refuse) {
  const Vocabulary vocabulary(view, refuse);
  const bool absent = view.byte_tokens.empty() && view.kind != TokenizerKind::kBytePairs;
  if (!absent && view.byte_tokens.size() != kByteValues) {
    return refuse("a token is needed for each of the 256 bytes", "tokenizer.byte_tokens", 0,
                  view.byte_tokens.size(), kByteValues);
  }
  for (uint32_t i = 0; i < view.byte_tokens.size(); ++i) {
    const uint32_t token = view.byte_tokens[i];
    if (token == kNoToken) continue;
    if (!vocabulary.has(token, i, "tokenizer.byte_tokens")) return false;
    const std::string_view bytes = view.bytes(token);
    if (bytes.size() != 1 || static_cast<uint8_t>(bytes[0]) != i) {
      return refuse("a token stands for something else", "tokenizer.byte_tokens", i, token);
    }
  }
  return true;
}

bool is_utf8_of(uint32_t code_point, std::string_view bytes) {
  char form[kUtf8BytesMax];
  const uint32_t length = encode_utf8(code_point, form);
  return bytes == std::string_view(form, length);
}

bool verify_characters(const TokenizerView& view, const Refusal& refuse) {
  const Vocabulary vocabulary(view, refuse);
  if (view.characters.size() != view.character_tokens.size()) {
    return refuse("each character has one token", "tokenizer.character_tokens", 0,
                  view.character_tokens.size(), view.characters.size());
  }
  if (view.kind == TokenizerKind::kBytePairs && !view.characters.empty()) {
    return refuse("bytes are merged, yet characters have tokens", "tokenizer.characters", 0,
                  view.characters.size(), 0);
  }
  for (uint32_t i = 0; i < view.characters.size(); ++i) {
    const uint32_t code_point = view.characters[i];
    const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    if (code_point > kCodePointMax || is_surrogate ||
        (i > 0 && code_point <= view.characters[i - 1])) {
      return refuse("characters are not in order, or are none", "tokenizer.characters", i,
                    code_point, i > 0 ? view.characters[i - 1] : 0);
    }
    const uint32_t token = view.character_tokens[i];
    if (!vocabulary.has(token, i, "tokenizer.character_tokens")) return false;
    const bool is_space = code_point == kLowLine && view.bytes(token) == " ";
    if (!is_space && !is_utf8_of(code_point, view.bytes(token))) {
      return refuse("a token stands for something else", "tokenizer.character_tokens", i, token);
    }
  }
  return true;
}

bool verify_merge(const TokenizerView& view, const Vocabulary& vocabulary, uint32_t left,
                  uint32_t row, const Refusal& refuse) {
  const uint32_t right = view.merge_rights[row];
  const uint32_t token = view.merge_tokens[row];
  if (!vocabulary.has(right, row, "tokenizer.merge_rights")) return false;
  if (row > view.merge_begin[left] && right <= view.merge_rights[row - 1]) {
    return refuse("merges are not in order", "tokenizer.merge_rights", row, right,
                  view.merge_rights[row - 1]);
  }
  if (view.merge_ranks[row] == kNoRank) {
    return refuse("a merge has no rank", "tokenizer.merge_ranks", row);
  }
  if (!vocabulary.has(token, row, "tokenizer.merge_tokens")) return false;
  const std::string_view head = view.bytes(left);
  const std::string_view tail = view.bytes(right);
  const std::string_view whole = view.bytes(token);
  if (whole.size() != head.size() + tail.size() ||
      std::memcmp(whole.data(), head.data(), head.size()) != 0 ||
      std::memcmp(whole.data() + head.size(), tail.data(), tail.size()) != 0) {
    return refuse("a merge gives a token that its parts do not make", "tokenizer.merge_tokens", row,
                  token);
  }
  return true;
}

bool verify_merges(const TokenizerView& view, const Refusal& refuse) {
  const Vocabulary vocabulary(view, refuse);
  const size_t merges = view.merge_rights.size();
  if (merges > kMergesMax || view.merge_ranks.size() != merges ||
      view.merge_tokens.size() != merges) {
    return refuse("merges need a right side, a rank and a token each", "tokenizer.merge_rights", 0,
                  merges, view.merge_tokens.size());
  }
  if (view.merge_begin.empty() && merges == 0) return true;
  if (view.kind == TokenizerKind::kCharacters || view.kind == TokenizerKind::kWordPiece) {
    return refuse("characters and words are not merged", "tokenizer.merge_rights", 0, merges, 0);
  }
  if (view.merge_begin.size() != view.token_offsets.size() || view.merge_begin.front() != 0 ||
      view.merge_begin.back() != merges) {
    return refuse("the merges are not divided among the tokens", "tokenizer.merge_begin", 0,
                  view.merge_begin.size(), view.token_offsets.size());
  }
  for (uint32_t left = 0; left < view.vocab_size(); ++left) {
    if (view.merge_begin[left + 1] < view.merge_begin[left] ||
        view.merge_begin[left + 1] > merges) {
      return refuse("the merges are not divided among the tokens", "tokenizer.merge_begin", left,
                    view.merge_begin[left + 1], view.merge_begin[left]);
    }
    for (uint32_t row = view.merge_begin[left]; row < view.merge_begin[left + 1]; ++row) {
      if (!verify_merge(view, vocabulary, left, row, refuse)) return false;
    }
  }
  return true;
}

bool verify_whole_tokens(const TokenizerView& view, const Refusal& refuse) {
  const Vocabulary vocabulary(view, refuse);
  std::string_view previous;
  for (uint32_t i = 0; i < view.whole_tokens.size(); ++i) {
    const uint32_t token = view.whole_tokens[i];
    if (!vocabulary.has(token, i, "tokenizer.whole_tokens")) return false;
    if (view.bytes(token) <= previous) {  // so that the first one is not empty
      return refuse("whole tokens are not in the order of their bytes", "tokenizer.whole_tokens", i,
                    token);
    }
    previous = view.bytes(token);
  }
  return true;
}

bool verify_specials(const TokenizerView& view, const Refusal& refuse) {
  const Vocabulary vocabulary(view, refuse);
  const size_t count = view.specials.size();
  if (count > kSpecialsMax || view.special_flags.size() != count ||
      view.special_order.size() != count) {
    return refuse("special tokens need flags and an order", "tokenizer.specials", 0, count,
                  view.special_flags.size());
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t token = view.specials[i];
    if (!vocabulary.has(token, i, "tokenizer.specials")) return false;
    if (i > 0 && token <= view.specials[i - 1]) {
      return refuse("special tokens are not in order", "tokenizer.specials", i, token,
                    view.specials[i - 1]);
    }
    if (view.bytes(token).empty() || view.bytes(token).size() > kSpecialBytesMax) {
      return refuse("a special token's name is empty or too long", "tokenizer.specials", i,
                    view.bytes(token).size(), kSpecialBytesMax);
    }
    if ((view.special_flags[i] & ~uint32_t{kSpecialFlagsAll}) != 0) {
      return refuse("a special token has an unknown flag", "tokenizer.special_flags", i,
                    view.special_flags[i], kSpecialFlagsAll);
    }
  }
  std::string_view previous;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = view.special_order[i];
    if (index >= count || view.bytes(view.specials[index]) <= previous) {
      return refuse("special tokens are not in the order of their names", "tokenizer.special_order",
                    i, index, count);
    }
    previous = view.bytes(view.specials[index]);
  }
  return true;
}

// WordPiece looks words up as they are, and has no other tables of characters and merges.
bool verify_kind(const TokenizerView& view, const Refusal& refuse) {
  const bool is_cut =
      view.kind == TokenizerKind::kBytePairs || view.kind == TokenizerKind::kSentencePieces;
  if (!is_cut && view.pattern != Pattern::kNone) {
    return refuse("characters and words are not cut by a pattern", "tokenizer.pattern", 0,
                  static_cast<uint32_t>(view.pattern), 0);
  }
  const bool has_words = view.kind == TokenizerKind::kWordPiece;
  if (has_words && view.prefix != Prefix::kNever) {
    return refuse("words need no space before the text", "tokenizer.prefix", 0,
                  static_cast<uint32_t>(view.prefix), 0);
  }
  if (has_words && !(view.byte_tokens.empty() && view.characters.empty())) {
    return refuse("words need no tokens for bytes or characters", "tokenizer.characters", 0,
                  view.characters.size(), 0);
  }
  if (has_words ? view.word_characters_max == 0 || view.word_characters_max > kWordCharactersMax
                : view.word_characters_max != 0) {
    return refuse("the longest word has no sensible size", "tokenizer.word_characters_max", 0,
                  view.word_characters_max, has_words ? kWordCharactersMax : 0);
  }
  if (view.pair_separators > kPairSeparatorsMax ||
      (view.pair_separators > 0 && view.ends.empty())) {
    return refuse("a pair has too many separators, or no end token", "tokenizer.pair_separators", 0,
                  view.pair_separators, kPairSeparatorsMax);
  }
  return true;
}

}  // namespace

bool verify_tokenizer(std::span<const std::byte> file, const Refusal& refuse) {
  if (!has_tokenizer(file)) return true;
  if constexpr (!kTokenizersLinked) {  // verify_needs refused all kinds that there are
    return refuse("a tokenizer is of an unknown kind", "tokenizer.kind");
  }
  if (tokenizer_lists(file) != kTokenizerLists) {
    return refuse("a tokenizer has unknown lists", "tokenizer.lists", 0, tokenizer_lists(file),
                  kTokenizerLists);
  }
  const TokenizerView view = tokenizer_view(file);
  if (!verify_choices(view, refuse)) return false;
  return verify_kind(view, refuse) && verify_bytes(view, refuse) && verify_ids(view, refuse) &&
         verify_byte_tokens(view, refuse) && verify_characters(view, refuse) &&
         verify_merges(view, refuse) && verify_whole_tokens(view, refuse) &&
         verify_specials(view, refuse) && verify_unicode(view, refuse);
}

}  // namespace arenite::format
