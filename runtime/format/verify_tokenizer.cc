// SPDX-License-Identifier: Apache-2.0
// Verifies a tokenizer: each id and offset is in range, each list with a binary search is sorted,
// and the bytes of a token are those of the byte, character or merge that gives it.
#include "format/verify.h"

#include <bit>
#include <cstring>
#include <iterator>

#include "core/needs.h"
#include "core/utf8.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {
namespace {

// The values that a list may hold.
enum class ListValues : uint8_t { kAny, kTokens, kTokensOrNone, kCodePoints, kRanks, kSpecials };

// Bit sets of TokenizerKind. The extra bit kWithSteps allows any kind that has steps.
constexpr uint8_t kAll = 31, kBytesOrPieces = 3, kPiecesOrCharacters = 6, kNoWords = 23, kWords = 8;
constexpr uint8_t kUnigramOnly = 16, kWithSteps = 32, kFolds = kWords | kWithSteps;
constexpr uint8_t kSplitKinds = linked(Need::kUnigram) ? 27 : 19;

// Limits are stored as logarithms, which keeps the rows small. REQUIRES: `most` is a power of 2.
constexpr uint8_t log2_of(uint32_t most) { return static_cast<uint8_t>(std::countr_zero(most)); }

struct ListRule {
  [[no_unique_address]] Message field;
  TokenizerList as_long_as;  // the list that it must be as long as; itself: any length
  ListValues numbers = ListValues::kAny;
  bool increases = false;
  uint8_t kinds = kAll;    // kinds of tokenizers that may have the list
  uint8_t most_log2 = 30;  // limit of its length
};

// In the order of TokenizerList.
using enum TokenizerList;
constexpr ListRule kListRules[] = {
    {"tokenizer.ends", kEnds, ListValues::kTokens, false, kAll, log2_of(kEndsMax)},
    {"tokenizer.token_offsets", kTokenOffsets},
    {"tokenizer.byte_tokens", kByteTokens, ListValues::kTokensOrNone, false, kNoWords},
    {"tokenizer.characters", kCharacters, ListValues::kAny, true, kPiecesOrCharacters},
    {"tokenizer.character_tokens", kCharacters, ListValues::kTokens},
    {"tokenizer.merge_begin", kMergeBegin, ListValues::kAny, false, kBytesOrPieces},
    {"tokenizer.merge_rights", kMergeRights, ListValues::kTokens, false, kBytesOrPieces,
     log2_of(kMergesMax)},
    {"tokenizer.merge_ranks", kMergeRights, ListValues::kRanks},
    {"tokenizer.merge_tokens", kMergeRights, ListValues::kTokens},
    {"tokenizer.whole_tokens", kWholeTokens, ListValues::kTokens},
    {"tokenizer.specials", kSpecials, ListValues::kTokens, true, kAll, log2_of(kSpecialsMax)},
    {"tokenizer.special_order", kSpecials, ListValues::kSpecials},
    {"tokenizer.columns", kColumns, ListValues::kAny, false, kSplitKinds, log2_of(kColumnsMax)},
    {"tokenizer.splits", kSplits, ListValues::kAny, false, kSplitKinds, log2_of(kSplitsMax)},
    {"tokenizer.dropped", kDropped, ListValues::kAny, false, kWords, log2_of(2 * kRangesMax)},
    {"tokenizer.punctuation", kPunctuation, ListValues::kAny, false, kWords,
     log2_of(2 * kRangesMax)},
    // With steps, only the entries of each step increase; verify_step checks these.
    {"tokenizer.fold_from", kFoldFrom, ListValues::kCodePoints, !linked(Need::kUnigram), kFolds,
     log2_of(kFoldsMax)},
    {"tokenizer.fold_to", kFoldFrom},
    {"tokenizer.fold_sequences", kFoldSequences, ListValues::kCodePoints},
};
static_assert(std::size(kListRules) == kFirstTokenizerLists);

constexpr ListRule kLaterListRules[] = {
    {"tokenizer.before", kBefore, ListValues::kTokens, false, kAll, log2_of(kAroundMax)},
    {"tokenizer.after", kAfter, ListValues::kTokens, false, kAll, log2_of(kAroundMax)},
    {"tokenizer.steps", kSteps, ListValues::kAny, false, kAll, log2_of(kStepsMax* kStepNumbers)},
    {"tokenizer.scores", kScores, ListValues::kAny, false, kUnigramOnly},
    {"tokenizer.charsmap", kCharsmap, ListValues::kAny, false, kNoWords, log2_of(kCharsmapMax)},
    {"tokenizer.graphemes", kGraphemes, ListValues::kAny, false, kNoWords, log2_of(4 * kRangesMax)},
};
static_assert(std::size(kLaterListRules) == kTokenizerLists - kFirstTokenizerLists);

const ListRule& rule_of(uint32_t list) {
  if constexpr (linked(Need::kUnigram)) {
    if (list >= kFirstTokenizerLists) return kLaterListRules[list - kFirstTokenizerLists];
  }
  return kListRules[list];
}

uint32_t largest(ListValues numbers, const TokenizerView& view) {
  switch (numbers) {
    case ListValues::kTokens:
    case ListValues::kTokensOrNone:
      return view.vocab_size() - 1;
    case ListValues::kCodePoints:
      return kCodePointMax;
    case ListValues::kRanks:
      return kNoRank - 1;
    case ListValues::kSpecials:  // without specials, special_order is empty, too
      return static_cast<uint32_t>(view.specials.size()) - 1;
    case ListValues::kAny:
      break;
  }
  return UINT32_MAX;
}

bool verify_list(const TokenizerView& view, uint32_t index, const Refusal& refuse) {
  const ListRule& rule = rule_of(index);
  const auto& list = view.list(static_cast<TokenizerList>(index));
  const bool is_of_steps = (rule.kinds & kWithSteps) != 0 && !view.steps.empty();
  if (!list.empty() && (rule.kinds >> static_cast<uint32_t>(view.kind) & 1) == 0 && !is_of_steps) {
    return refuse("a tokenizer of this kind has no such list", rule.field, 0, list.size());
  }
  const size_t length = view.list(rule.as_long_as).size();
  if (list.size() != length || length > size_t{1} << rule.most_log2) {
    return refuse("a list is too long, or not as long as its parallel list", rule.field, 0,
                  list.size(), list.size() != length ? length : size_t{1} << rule.most_log2);
  }
  const uint32_t most = largest(rule.numbers, view);
  for (uint32_t i = 0; i < list.size(); ++i) {
    if (rule.numbers == ListValues::kTokensOrNone && list[i] == kNoToken) continue;
    if (list[i] > most) {
      return refuse(rule.numbers == ListValues::kTokens || rule.numbers == ListValues::kTokensOrNone
                        ? Message("a token is not in the vocabulary")
                        : Message("a list has a value out of range"),
                    rule.field, i, list[i], most);
    }
    if (rule.increases && i > 0 && list[i] <= list[i - 1]) {
      return refuse("the values of a list are not sorted", rule.field, i, list[i], list[i - 1]);
    }
  }
  return true;
}

bool verify_lists(const TokenizerView& view, const Refusal& refuse) {
  for (uint32_t i = 0; i < kTokenizerListsLinked; ++i) {
    if (!verify_list(view, i, refuse)) return false;
  }
  return true;
}

constexpr uint32_t kAsciiEnd = 0x80;

bool verify_ranges(const std::span<const uint32_t>& ranges, bool needed, uint32_t least,
                   Message field, const Refusal& refuse) {
  if (ranges.size() % 2 != 0 || ranges.empty() == needed) {
    return refuse("ranges of characters are missing, or not needed", field, 0, ranges.size(),
                  needed ? 2 : 0);
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

bool verify_increase(const std::span<const uint32_t>& list, Message field, const Refusal& refuse) {
  for (uint32_t i = 1; i < list.size(); ++i) {
    if (list[i] > list[i - 1]) continue;
    return refuse("the values of a list are not sorted", field, i, list[i], list[i - 1]);
  }
  return true;
}

// Whether WordPiece folds characters and finds words by itself. With splits, steps do that.
bool folds_words(const TokenizerView& view) {
  return view.kind == TokenizerKind::kWordPiece && view.splits.empty();
}

// For WordPiece, a character must not become more code points than it has UTF-8 bytes: the tokens
// and words of a text share a span with one element for each byte. The limit of U+FFFD is 1,
// because it also stands for a single invalid byte. The steps of other kinds check the room as they
// write.
bool verify_fold(const TokenizerView& view, uint32_t index, const Refusal& refuse) {
  const uint32_t from = view.fold_from[index];
  const uint32_t count = view.fold_to[index] >> kFoldCountShift;
  const uint32_t value = view.fold_to[index] & kFoldValueMask;
  char form[kUtf8BytesMax];
  const bool is_step = linked(Need::kUnigram) && !folds_words(view);
  const uint32_t most = is_step                         ? UINT8_MAX
                        : from == kReplacementCharacter ? 1
                                                        : encode_utf8(from, form);
  if ((count == 0 && !is_step) || count > most) {
    return refuse("a character folds to none, or to too many", "tokenizer.fold_to", index, count,
                  most);
  }
  const bool is_within =
      count == 1 ? value <= kCodePointMax : value + uint64_t{count} <= view.fold_sequences.size();
  if (!is_within) {
    return refuse("a character folds to one that does not exist", "tokenizer.fold_to", index, value,
                  count == 1 ? kCodePointMax : view.fold_sequences.size());
  }
  return true;
}

bool verify_unicode(const TokenizerView& view, const Refusal& refuse) {
  const bool has_words = folds_words(view);
  if (linked(Need::kUnigram) && has_words &&
      !verify_increase(view.fold_from, "tokenizer.fold_from", refuse)) {
    return false;
  }
  for (uint32_t i = 0; i < view.fold_from.size(); ++i) {
    if (!verify_fold(view, i, refuse)) return false;
  }
  return verify_ranges(view.dropped, !view.dropped.empty(), 0, "tokenizer.dropped", refuse) &&
         verify_ranges(view.punctuation, has_words, kAsciiEnd, "tokenizer.punctuation", refuse);
}

bool verify_columns(const TokenizerView& view, uint32_t count, const Refusal& refuse) {
  constexpr uint32_t kMask = (1u << kColumnBits) - 1;
  if (view.columns.size() <= kAsciiElements || count > kMask + 1) {
    return refuse("no columns, or too many", "tokenizer.columns", 0, view.columns.size(),
                  kMask + 1);
  }
  uint32_t last = 0;
  for (uint32_t i = 0; i < view.columns.size(); ++i) {
    const uint32_t element = view.columns[i];
    const bool is_ascii = i < kAsciiElements;
    for (uint32_t bits = element, j = 0; j < (is_ascii ? 4 : 1); ++j, bits >>= kColumnBits) {
      if ((bits & kMask) != 0 && (bits & kMask) < count) continue;
      return refuse("a character has an unknown column", "tokenizer.columns", i, bits & kMask,
                    count);
    }
    if (is_ascii) continue;
    const uint32_t first = element >> kColumnBits;
    const bool is_next = i == kAsciiElements ? first == kAsciiEnd : first > last;
    if (!is_next || first > kCodePointMax) {
      return refuse("ranges of characters are not in order", "tokenizer.columns", i, first);
    }
    last = first;
  }
  return true;
}

// Checks that a search ends within its text: columns and states exist. Only byte pairs are split
// within characters, and not into characters again.
bool verify_splits(const TokenizerView& view, const Refusal& refuse) {
  const auto& splits = view.splits;
  if (splits.empty() && view.columns.empty()) return true;
  const uint32_t count = splits.empty() ? 0 : splits[0];
  if (!verify_columns(view, count, refuse)) return false;
  uint32_t of_bytes = 0;
  uint32_t steps = 0;
  bool has_parts = view.has(kWordsAreParts);  // of one kind, if any
  for (uint32_t i = 1; i < splits.size(); ++steps) {
    const uint32_t flags = splits[i], left = static_cast<uint32_t>(splits.size()) - i;
    const uint32_t states = left < kSplitHeader ? 0 : splits[i + 1];
    const uint32_t before = of_bytes;
    of_bytes = flags & kOfBytes;
    const bool parts_follow = (flags & kPartsFollow) != 0;
    if ((linked(Need::kUnigram) && parts_follow && has_parts) ||
        flags > (linked(Need::kUnigram) ? kSplitFlagsAll : kPartsFollow - 1) ||
        steps == kSplitStepsMax || of_bytes < before ||
        (of_bytes != 0 && view.kind != TokenizerKind::kBytePairs) || states < 2 ||
        states > (left - kSplitHeader) / count) {
      return refuse("a step is invalid", "tokenizer.splits", i, flags);
    }
    has_parts = has_parts || parts_follow;
    const uint32_t end = i + kSplitHeader + states * count;
    for (i += kSplitHeader; i < end; ++i) {
      if (splits[i] >> 1 < states) continue;
      return refuse("a next state does not exist", "tokenizer.splits", i, splits[i] >> 1, states);
    }
  }
  return true;
}

constexpr uint32_t kByteValues = 256;
constexpr uint32_t kSpaceMark = 0x2581;  // SentencePiece's space

// Checks the scalar fields. WordPiece has no prefix.
bool verify_choices(const TokenizerView& view, const Refusal& refuse) {
  static_assert((kTokenizerFlagsAll & (kTokenizerFlagsAll + 1)) == 0);
  const bool has_words = view.kind == TokenizerKind::kWordPiece;
  const bool lacks_bos = view.bos == kNoToken && !view.has(kAddBos);
  const bool lacks_unknown = view.unknown_token == kNoToken && view.unknown != Unknown::kToken;
  const uint32_t last = view.vocab_size() - 1;
  const struct {
    [[no_unique_address]] Message field;
    uint32_t found, most;
  } choices[] = {
      {"tokenizer.kind", static_cast<uint32_t>(view.kind), kTokenizerKinds - 1},
      {"tokenizer.prefix", static_cast<uint32_t>(view.prefix), has_words ? 0 : kPrefixes - 1},
      {"tokenizer.unknown", static_cast<uint32_t>(view.unknown), kUnknowns - 1},
      {"tokenizer.flags", view.flags,
       linked(Need::kUnigram) ? uint32_t{kTokenizerFlagsAll} : kWordsAreParts - 1},
      {"tokenizer.word_characters_max", view.word_characters_max,
       has_words ? kWordCharactersMax : 0},
      {"tokenizer.pair_separators", view.pair_separators,  // a separator is the first end token
       view.ends.empty() || !view.before.empty() || !view.after.empty() ? 0 : kPairSeparatorsMax},
      {"tokenizer.bos", view.bos, lacks_bos ? kNoToken : last},
      {"tokenizer.unknown_token", view.unknown_token, lacks_unknown ? kNoToken : last},
  };
  for (const auto& choice : choices) {
    if (choice.found > choice.most) {
      return refuse("a field is larger than this kind of tokenizer allows", choice.field, 0,
                    choice.found, choice.most);
    }
  }
  if (has_words && view.word_characters_max == 0) {
    return refuse("the longest word has no characters", "tokenizer.word_characters_max", 0, 0,
                  kWordCharactersMax);
  }
  if (view.ends.empty() && view.has(kAddEnd)) {
    return refuse("there are no end tokens", "tokenizer.ends", 0, 0, kEndsMax);
  }
  return true;
}

bool verify_bytes(const TokenizerView& view, const Refusal& refuse) {
  if (view.token_offsets.size() < 2 || view.token_offsets.size() - 1 > kVocabularyMax) {
    return refuse("a vocabulary is empty or too large", "tokenizer.token_offsets", 0,
                  view.token_offsets.size(), kVocabularyMax);
  }
  uint32_t end = 0;
  for (uint32_t i = 0; i < view.token_offsets.size(); ++i) {
    const uint32_t offset = view.token_offsets[i];
    if (i == 0 ? offset != 0 : offset < end || offset - end > kTokenBytesMax) {
      return refuse("token offsets decrease, or a token is too long", "tokenizer.token_offsets", i,
                    offset, end);
    }
    end = offset;
  }
  if (end != view.token_bytes.size()) {
    return refuse("the tokens do not fill their bytes", "tokenizer.token_bytes", 0,
                  view.token_bytes.size(), end);
  }
  return true;
}

// Whether the token is the name of a byte, such as "<0x0A>", which decoding writes.
bool is_byte_name(std::string_view token, uint32_t byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  const char name[] = {'<', '0', 'x', kDigits[byte / 16 % 16], kDigits[byte % 16], '>'};
  return token == std::string_view(name, sizeof name);
}

bool verify_byte_tokens(const TokenizerView& view, const Refusal& refuse) {
  const bool absent = view.byte_tokens.empty() && view.kind != TokenizerKind::kBytePairs;
  const bool has_last = linked(Need::kUnigram) && view.kind == TokenizerKind::kBytePairs &&
                        view.byte_tokens.size() == 2 * kByteValues;
  if (!absent && !has_last && view.byte_tokens.size() != kByteValues) {
    return refuse("a token is needed for each of the 256 bytes", "tokenizer.byte_tokens", 0,
                  view.byte_tokens.size(), kByteValues);
  }
  for (uint32_t i = 0; i < view.byte_tokens.size(); ++i) {
    const uint32_t token = view.byte_tokens[i];
    if (token == kNoToken && (!linked(Need::kUnigram) || view.kind != TokenizerKind::kUnigram)) {
      continue;
    }
    if (token == kNoToken) {
      return refuse("a token is needed for each of the 256 bytes", "tokenizer.byte_tokens", i);
    }
    const std::string_view bytes = view.bytes(token);
    // The token of a word's last byte may have a suffix, such as "</w>".
    const bool is_last = linked(Need::kUnigram) && i >= kByteValues;
    const bool has_name =
        linked(Need::kUnigram) && view.kind != TokenizerKind::kBytePairs && is_byte_name(bytes, i);
    if (!has_name && ((is_last ? bytes.empty() : bytes.size() != 1) ||
                      static_cast<uint8_t>(bytes[0]) != i % kByteValues)) {
      return refuse("a token does not spell its byte or character", "tokenizer.byte_tokens", i,
                    token);
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
  for (uint32_t i = 0; i < view.characters.size(); ++i) {
    const bool is_last =
        linked(Need::kUnigram) && view.has(kEndsAreSpaces) && view.characters[i] >= kLastCharacter;
    const uint32_t code_point = view.characters[i] - (is_last ? kLastCharacter : 0);
    const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
    if (is_surrogate || code_point > kCodePointMax) {
      return refuse("a character is a surrogate, or none", "tokenizer.characters", i, code_point);
    }
    const uint32_t token = view.character_tokens[i];
    const bool is_space = code_point == kSpaceMark && view.bytes(token) == " ";
    // The token of a word's last character has a suffix.
    if (!is_last && !is_space && !is_utf8_of(code_point, view.bytes(token))) {
      return refuse("a token does not spell its byte or character", "tokenizer.character_tokens", i,
                    token);
    }
  }
  return true;
}

bool verify_merge(const TokenizerView& view, uint32_t left, uint32_t row, const Refusal& refuse) {
  const uint32_t right = view.merge_rights[row];
  const uint32_t token = view.merge_tokens[row];
  if (row > view.merge_begin[left] && right <= view.merge_rights[row - 1]) {
    return refuse("merges are not in order", "tokenizer.merge_rights", row, right,
                  view.merge_rights[row - 1]);
  }
  const std::string_view head = view.bytes(left);
  const std::string_view tail = view.bytes(right);
  const std::string_view whole = view.bytes(token);
  if (whole.size() != head.size() + tail.size() ||
      std::memcmp(whole.data(), head.data(), head.size()) != 0 ||
      std::memcmp(whole.data() + head.size(), tail.data(), tail.size()) != 0) {
    return refuse("a merged token is not its two parts concatenated", "tokenizer.merge_tokens", row,
                  token);
  }
  return true;
}

bool verify_merges(const TokenizerView& view, const Refusal& refuse) {
  const size_t merges = view.merge_rights.size();
  if (view.merge_begin.empty() && merges == 0) return true;
  if (view.merge_begin.size() != view.token_offsets.size() || view.merge_begin.front() != 0 ||
      view.merge_begin.back() != merges) {
    return refuse("merge offsets decrease, or miss merges", "tokenizer.merge_begin", 0,
                  view.merge_begin.size(), view.token_offsets.size());
  }
  for (uint32_t left = 0; left < view.vocab_size(); ++left) {
    if (view.merge_begin[left + 1] < view.merge_begin[left] ||
        view.merge_begin[left + 1] > merges) {
      return refuse("merge offsets decrease, or miss merges", "tokenizer.merge_begin", left,
                    view.merge_begin[left + 1], view.merge_begin[left]);
    }
    for (uint32_t row = view.merge_begin[left]; row < view.merge_begin[left + 1]; ++row) {
      if (!verify_merge(view, left, row, refuse)) return false;
    }
  }
  return true;
}

// Checks that the tokens of `list` are in strictly increasing order of their bytes, and none is
// empty. `list` holds ids, or indexes into `tokens` unless that is null.
bool verify_order(const TokenizerView& view, const std::span<const uint32_t>& list,
                  const uint32_t* tokens, Message field, const Refusal& refuse) {
  std::string_view previous;
  for (uint32_t i = 0; i < list.size(); ++i) {
    const std::string_view name = view.bytes(tokens != nullptr ? tokens[list[i]] : list[i]);
    if (name <= previous) {
      return refuse("tokens are not in the order of their bytes", field, i, list[i]);
    }
    previous = name;
  }
  return true;
}

bool verify_specials(const TokenizerView& view, const Refusal& refuse) {
  static_assert((kSpecialFlagsAll & (kSpecialFlagsAll + 1)) == 0);
  const size_t count = view.specials.size();
  if (view.special_flags.size() != count) {
    return refuse("special tokens need flags", "tokenizer.special_flags", 0,
                  view.special_flags.size(), count);
  }
  for (uint32_t i = 0; i < count; ++i) {
    const std::string_view name = view.bytes(view.specials[i]);
    if (name.empty() || name.size() > kSpecialBytesMax) {
      return refuse("a special token's name is empty or too long", "tokenizer.specials", i,
                    name.size(), kSpecialBytesMax);
    }
    constexpr uint32_t kMost = linked(Need::kUnigram) ? kSpecialFlagsAll : kSingleWord - 1;
    if (view.special_flags[i] > kMost) {
      return refuse("a special token has an unknown flag", "tokenizer.special_flags", i,
                    view.special_flags[i], kMost);
    }
  }
  return verify_order(view, view.special_order, view.specials.data(), "tokenizer.special_order",
                      refuse);
}

bool verify_step(const TokenizerView& view, uint32_t place, const Refusal& refuse) {
  const auto step = view.steps.subspan(place, kStepNumbers);
  const uint64_t end = uint64_t{step[1]} + step[2];
  bool is_sound = false;
  switch (static_cast<TextStep>(step[0])) {
    case TextStep::kFold:
      is_sound = end <= view.fold_from.size() && step[3] <= 1;
      if (is_sound && !verify_increase(view.fold_from.subspan(step[1], step[2]),
                                       "tokenizer.fold_from", refuse)) {
        return false;
      }
      break;
    case TextStep::kCharsmap:
      is_sound = !view.charsmap.empty() && step[1] <= 1;
      break;
    case TextStep::kShrink:
      is_sound = step[1] <= kCodePointMax && step[2] > 0 && step[3] <= kCodePointMax;
      break;
    case TextStep::kStrip:
      is_sound = step[1] <= 7;
      break;
    case TextStep::kReplace:
      is_sound = step[2] > 0 && end + step[3] <= view.fold_sequences.size();
      break;
    case TextStep::kPrepend:
      is_sound = step[1] <= kCodePointMax;
      break;
    case TextStep::kOrder:
    case TextStep::kDrop:
    case TextStep::kWordCharacters:
      is_sound = end <= view.fold_sequences.size() && step[2] % 2 == 0;
      break;
    case TextStep::kCompose:
      is_sound = end <= view.fold_sequences.size() && step[2] > 0 &&
                 view.fold_sequences[step[1]] % 2 == 0 && view.fold_sequences[step[1]] < step[2] &&
                 (step[2] - 1 - view.fold_sequences[step[1]]) % 3 == 0;
      break;
    case TextStep::kName:
      is_sound = end <= view.fold_sequences.size() && step[2] > 0 && step[2] <= kSpecialBytesMax &&
                 step[3] < view.specials.size();
      break;
  }
  return is_sound ||
         refuse("a step of the normalizer is invalid", "tokenizer.steps", place, step[0]);
}

// Verifies the lists after the first kFirstTokenizerLists: tokens around a text, scores, charsmap,
// graphemes and steps.
bool verify_later(const TokenizerView& view, const Refusal& refuse) {
  if (folds_words(view) && !view.steps.empty()) {
    return refuse("a tokenizer of this kind has no such list", "tokenizer.steps", 0,
                  view.steps.size());
  }
  if (view.before.size() + view.after.size() > kAroundMax) {
    return refuse("too many special tokens around a text", "tokenizer.after", 0, view.after.size(),
                  kAroundMax);
  }
  const bool is_unigram = view.kind == TokenizerKind::kUnigram;
  const size_t scores = is_unigram ? 2 * (view.whole_tokens.size() + 1) : 0;
  if (view.scores.size() != scores) {
    return refuse("expected a score for each piece and the unknown one", "tokenizer.scores", 0,
                  view.scores.size(), scores);
  }
  const auto& map = view.charsmap;
  if (!map.empty() && (map.size() < 3 || map[0] == 0 ||
                       uint64_t{map[0]} + (uint64_t{map[1]} + 3) / 4 + 2 != map.size())) {
    return refuse("a charsmap is cut short", "tokenizer.charsmap", 0, map.size());
  }
  const auto& graphemes = view.graphemes;
  for (uint32_t i = 0; i < graphemes.size(); ++i) {
    const uint32_t least = i % 3 == 0 ? (i == 0 ? 0 : graphemes[i - 2] + 1) : graphemes[i - 1];
    const bool is_class = i % 3 == 2;
    if (graphemes.size() % 3 != 0 || (is_class && graphemes[i] >= kGraphemeClasses) ||
        (!is_class && (graphemes[i] < least || graphemes[i] > kCodePointMax))) {
      return refuse("ranges of characters are not in order", "tokenizer.graphemes", i, graphemes[i],
                    least);
    }
  }
  for (uint32_t i = 0; i < view.steps.size(); i += kStepNumbers) {
    if (view.steps.size() % kStepNumbers != 0) {
      return refuse("a step of the normalizer is invalid", "tokenizer.steps", i, view.steps.size());
    }
    if (!verify_step(view, i, refuse)) return false;
  }
  return true;
}

}  // namespace

bool verify_tokenizer(std::span<const std::byte> file, const Refusal& refuse) {
  if (!has_tokenizer(file)) return true;
  if constexpr (!kTokenizersLinked) {  // verify_needs has refused all known kinds
    return refuse("a tokenizer is of an unknown kind", "tokenizer.kind");
  }
  const uint32_t lists = tokenizer_lists(file);
  if (lists != kFirstTokenizerLists && lists != kTokenizerListsLinked) {
    return refuse("a tokenizer has unknown lists", "tokenizer.lists", 0, lists,
                  kTokenizerListsLinked);
  }
  const TokenizerView view = tokenizer_view(file);
  return verify_bytes(view, refuse) && verify_choices(view, refuse) && verify_lists(view, refuse) &&
         verify_byte_tokens(view, refuse) && verify_characters(view, refuse) &&
         verify_merges(view, refuse) &&
         verify_order(view, view.whole_tokens, nullptr, "tokenizer.whole_tokens", refuse) &&
         verify_specials(view, refuse) && verify_unicode(view, refuse) &&
         verify_splits(view, refuse) && (!linked(Need::kUnigram) || verify_later(view, refuse));
}

}  // namespace arenite::format
