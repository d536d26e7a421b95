// SPDX-License-Identifier: Apache-2.0
// Encodes a text: finds special tokens, splits the parts between them into pieces, and writes the
// symbols of a piece after the tokens so far, where they are merged.
//   "two words<|end|>"   part "two words", special token <|end|>
//   part "two words"     pieces "two", " words", each looked up or merged from its symbols
//
// Why the span is large enough: a part of k bytes has at most k + 1 symbols, its prefix included,
// and each part but the first follows a special token of at least one byte. After c bytes the span
// holds at most 2 c tokens; merging the rest needs 5 (n - c + 1) elements.
#include "text/encoder.h"

#include <algorithm>
#include <cassert>

#include "core/needs.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/special_finder.h"
#include "text/word_pieces.h"

namespace arenite::text {
namespace {

constexpr size_t kByteValues = 256;

// Compares a piece with `bytes` as unsigned bytes: returns a value below 0, 0, or above 0.
int compare(const Part& part, const Piece& piece, std::string_view bytes) {
  const size_t length = piece.end - piece.begin;
  for (size_t i = 0; i < length && i < bytes.size(); ++i) {
    const int difference = part.byte(piece.begin + i) - static_cast<uint8_t>(bytes[i]);
    if (difference != 0) return difference;
  }
  return length == bytes.size() ? 0 : length < bytes.size() ? -1 : 1;
}

}  // namespace

Result<size_t> Encoder::run(bool read_specials, Message field, Diagnostic* why) {
  const SpecialFinder specials(view_, read_specials);
  const SpecialFinder names(view_, read_specials, true);
  for (size_t position = 0; position < text_.size();) {
    const SpecialMatch match = specials.find(text_, position);
    const bool added = has_lone_prefix(match) ? add_part(Part({}, true), 0)
                                              : add_between(position, match.begin, names);
    if (linked(Need::kUnigram) && !added && is_too_small_) {
      return refuse(why, Status::kInvalidArgument, "the span is too small for the normalized text",
                    "out", 0, out_.size(), 0);
    }
    if (!added) {
      const Message reason = view_.kind == format::TokenizerKind::kWordPiece
                                 ? Message("the vocabulary lacks a word of the text")
                                 : Message("the vocabulary lacks a character of the text");
      return refuse(why, Status::kInvalidArgument, reason, field,
                    static_cast<uint32_t>(refused_offset_), refused_code_point_);
    }
    if (match.token != kNoToken) push(match.token);
    position = match.end;
  }
  return count_;
}

// Encodes bytes [begin, end) of the text. `names` are found once it is normalized.
bool Encoder::add_between(size_t begin, size_t end, const SpecialFinder& names) {
  if (begin == end) return true;
  std::string_view text(text_.data() + begin, end - begin);
  if constexpr (linked(Need::kUnigram)) {
    is_too_small_ = !normalize(view_, text, out_.subspan(count_), text);
    if (is_too_small_) return false;
    const auto offset =
        reinterpret_cast<uintptr_t>(text.data()) - reinterpret_cast<uintptr_t>(out_.data());
    is_normalized_ = offset < out_.size_bytes();  // steps may also leave the text where it is
    if (!names.finds_none()) return add_named(text, begin, names);
  }
  return add_text(text, begin);
}

// Finds special tokens in a normalized part.
bool Encoder::add_named(std::string_view text, size_t begin, const SpecialFinder& names) {
  for (size_t at = 0; at < text.size();) {
    const SpecialMatch match = names.find(text, at);
    const std::string_view before(text.data() + at, match.begin - at);
    const bool has_prefix_alone = begin + at == 0 && has_lone_prefix(match);
    const bool is_added = has_prefix_alone ? add_part(Part(before, true), 0)
                                           : before.empty() || add_text(before, begin + at);
    if (!is_added) return false;
    if (match.token != kNoToken) {
      if (!fits(1, Part(text, false), match.end)) return false;
      push(match.token);
    }
    at = match.end;
  }
  return true;
}

// Encodes a text without special tokens. `begin` is 0 at the start of the whole text.
bool Encoder::add_text(std::string_view text, size_t begin) {
  if constexpr (linked(Need::kUnigram)) {
    if (view_.has(format::kWordsAreParts)) return add_spaced(text, begin);
    if (text.empty()) return true;
    if (has_step(view_, format::kPartsFollow)) return add_parts(text, begin);
  }
  if constexpr (linked(Need::kWordPiece)) {
    const bool has_words = view_.kind == format::TokenizerKind::kWordPiece;
    if (has_words && view_.splits.empty()) return add_words(text, begin);
  }
  return add_part(Part(text, has_prefix(text, begin == 0)), begin);
}

bool Encoder::add_words(std::string_view text, size_t begin) {
  WordPieces words(view_, text, out_.subspan(count_));
  if (!words.run()) {
    const std::string_view word(text.data() + words.word_offset(),
                                text.size() - words.word_offset());
    refused_offset_ = begin + words.word_offset();
    refused_code_point_ = decode_utf8(word).value;
    return false;
  }
  count_ += words.count();
  return true;
}

// Encodes each word between white space as a part with its own prefix; the white space is dropped.
bool Encoder::add_spaced(std::string_view text, size_t begin) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    CodePoint next;
    while (end < text.size()) {
      next = decode_utf8({text.data() + end, text.size() - end});
      if (is_space(next.value)) break;
      end += next.bytes;
    }
    const std::string_view word(text.data() + at, end - at);
    if (!word.empty() && !add_part(Part(word, has_prefix(word, begin + at == 0)), begin + at)) {
      return false;
    }
    at = end < text.size() ? end + next.bytes : end;
  }
  return true;
}

// Encodes each piece of the steps up to the one with kPartsFollow as a part with its own prefix.
bool Encoder::add_parts(std::string_view text, size_t begin) {
  const Part whole(text, false);
  PreTokenizer pre_tokenizer(view_, whole, SplitSteps::kUpToParts);
  for (Piece piece; pre_tokenizer.next(piece);) {
    const std::string_view part(text.data() + piece.begin, piece.end - piece.begin);
    if (!add_part(Part(part, has_prefix(part, begin + piece.begin == 0)), begin + piece.begin)) {
      return false;
    }
  }
  return true;
}

// Whether `words` more elements fit after the tokens. A normalized part lies at the end of `out_`:
// the elements must not overwrite its unread bytes, from `position` on.
bool Encoder::fits(size_t words, const Part& part, size_t position) {
  const char* const end =
      is_normalized_ ? part.at(position) : reinterpret_cast<const char*>(out_.data() + out_.size());
  const size_t room = static_cast<size_t>(end - reinterpret_cast<const char*>(out_.data()));
  is_too_small_ = (count_ + words) * sizeof(TokenId) > room;
  return !is_too_small_;
}

bool Encoder::add_best(const Part& part, const Piece& piece) {
  const size_t words = kPathWords * (piece.end - piece.begin + 1);
  if (!fits(words, part, piece.begin)) return false;
  const BestPath path = best_path(view_, part, piece, out_.subspan(count_, words));
  if (path.is_refused) {
    refused_offset_ = part_begin_ + (is_normalized_ ? 0 : part.text_offset(path.refused));
    refused_code_point_ = part.code_point(path.refused).value;
    return false;
  }
  count_ += path.count;
  return true;
}

// Writes the longest tokens from left to right, as WordPieces does, or the unknown one.
bool Encoder::add_word(const Part& part, const Piece& piece) {
  size_t end = count_, characters = 0;
  for (size_t at = piece.begin; at < piece.end; at += part.code_point(at).bytes) ++characters;
  bool is_known = characters <= view_.word_characters_max;
  for (size_t begin = piece.begin; is_known && begin < piece.end;) {
    PrefixSearch search(view_, view_.whole_tokens);
    if (begin != piece.begin) (void)search.narrow(format::kContinuation);
    TokenId longest = kNoToken;
    size_t next = begin;
    for (size_t at = begin; at < piece.end && search.narrow(part.byte(at)); ++at) {
      const size_t place = search.whole();
      if (place == view_.whole_tokens.size()) continue;
      longest = view_.whole_tokens[place];
      next = at + 1;
    }
    is_known = longest != kNoToken;
    if (!is_known) break;
    if (!fits(end - count_ + 1, part, piece.begin)) return false;
    out_[end++] = longest;
    begin = next;
  }
  if (is_known) {
    count_ = end;
    return true;
  }
  if (view_.unknown == format::Unknown::kRefuse) {
    refused_offset_ = part_begin_ + (is_normalized_ ? 0 : part.text_offset(piece.begin));
    refused_code_point_ = part.code_point(piece.begin).value;
    return false;
  }
  if (!fits(1, part, piece.begin)) return false;
  if (view_.unknown == format::Unknown::kToken) push(view_.unknown_token);
  return true;
}

bool Encoder::add_part(const Part& part, size_t begin) {
  part_begin_ = begin;
  unknown_before_ = false;
  if constexpr (kPiecesLinked) {
    PreTokenizer pre_tokenizer(view_, part, SplitSteps::kOfParts);
    Piece piece;
    while (pre_tokenizer.next(piece)) {
      if (!add_piece(part, piece)) return false;
    }
  }
  return true;
}

bool Encoder::has_prefix(std::string_view text, bool is_first) const {
  if (!is_first && !view_.has(format::kPrefixEveryPart)) return false;
  if (view_.prefix != format::Prefix::kUnlessSpace) return view_.prefix == format::Prefix::kAlways;
  const uint32_t first = decode_utf8(text).value;
  return first != ' ' &&
         (first != kSpaceMark ||
          (view_.kind != format::TokenizerKind::kSentencePieces &&
           (!linked(Need::kUnigram) || view_.kind != format::TokenizerKind::kUnigram)));
}

// Whether the prefix stands alone before a special token that begins the text. SentencePiece writes
// the prefix before it looks for user-defined symbols.
bool Encoder::has_lone_prefix(const SpecialMatch& match) const {
  if (match.token == kNoToken || match.begin != 0 || view_.has(format::kPrefixEveryPart)) {
    return false;
  }
  const uint32_t flags = view_.special_flags[special_index(view_, match.token)];
  return view_.prefix == format::Prefix::kAlways && (flags & format::kIsText) != 0;
}

bool Encoder::add_piece(const Part& part, const Piece& piece) {
  if constexpr (linked(Need::kUnigram)) {
    if (view_.kind == format::TokenizerKind::kUnigram) return add_best(part, piece);
    if constexpr (linked(Need::kWordPiece)) {
      if (view_.kind == format::TokenizerKind::kWordPiece) return add_word(part, piece);
    }
  }
  const TokenId whole = whole_token(part, piece);
  if (whole != kNoToken) {
    push(whole);
    unknown_before_ = false;
    return true;
  }
  if (!view_.has(format::kAsSentencePiece)) unknown_before_ = false;
  size_t end = count_;
  if (!add_symbols(part, piece, end)) return false;
  const uint32_t symbols = static_cast<uint32_t>(end - count_);
  if constexpr (linked(Need::kUnigram)) {
    if (!fits(size_t{kMergeWords} * symbols, part, piece.end)) return false;
  }
  if constexpr (kMergesLinked) {
    count_ += merge(view_, out_.subspan(count_), symbols);
  } else {
    count_ += symbols;
  }
  return true;
}

// Writes a token for each byte, or for each character, of a piece, and moves `end` past them.
bool Encoder::add_symbols(const Part& part, const Piece& piece, size_t& end) {
  for (size_t i = piece.begin; i < piece.end;) {
    const bool is_bytes = view_.kind == format::TokenizerKind::kBytePairs;
    const CodePoint code_point = is_bytes ? CodePoint{part.byte(i), 1} : part.code_point(i);
    if constexpr (linked(Need::kUnigram)) {
      if (!fits(end - count_ + code_point.bytes, part, i)) return false;
    }
    TokenId token = is_bytes ? view_.byte_tokens[part.byte(i)] : character_token(code_point.value);
    // The last byte or character of a word has its own tokens, such as "d</w>".
    if constexpr (linked(Need::kUnigram)) {
      const bool is_last = i + code_point.bytes == piece.end;
      if (is_last && is_bytes && view_.byte_tokens.size() > kByteValues) {
        token = view_.byte_tokens[kByteValues + part.byte(i)];
      } else if (is_last && view_.has(format::kEndsAreSpaces)) {
        token = character_token(format::kLastCharacter + code_point.value);
      }
    }
    if (token != kNoToken) {
      out_[end++] = token;
      unknown_before_ = false;
    } else if (!add_character(part, i, end)) {
      refused_offset_ = part_begin_ + (is_normalized_ ? 0 : part.text_offset(i));
      refused_code_point_ = code_point.value;
      return false;
    }
    i += code_point.bytes;
  }
  return true;
}

// Writes a character or a byte that has no token: the tokens of its bytes, or unknown_token, or
// nothing. Returns false if the tokenizer refuses unknown characters.
bool Encoder::add_character(const Part& part, size_t position, size_t& end) {
  const bool is_bytes = view_.kind == format::TokenizerKind::kBytePairs;
  if (!is_bytes && !view_.byte_tokens.empty()) {
    const uint32_t bytes = part.code_point(position).bytes;
    bool complete = true;
    for (uint32_t i = 0; i < bytes; ++i) {
      out_[end + i] = view_.byte_tokens[part.byte(position + i)];
      complete = complete && out_[end + i] != kNoToken;
    }
    if (complete) {
      end += bytes;
      unknown_before_ = false;
      return true;
    }
  }
  if (view_.unknown == format::Unknown::kRefuse) return false;
  if (view_.unknown == format::Unknown::kToken) {
    if (!unknown_before_ || !view_.has(format::kFuseUnknown)) out_[end++] = view_.unknown_token;
    unknown_before_ = true;
  }
  return true;
}

TokenId Encoder::whole_token(const Part& part, const Piece& piece) const {
  const auto found = std::lower_bound(
      view_.whole_tokens.begin(), view_.whole_tokens.end(), piece,
      [&](TokenId token, const Piece& p) { return compare(part, p, view_.bytes(token)) > 0; });
  if (found == view_.whole_tokens.end() || compare(part, piece, view_.bytes(*found)) != 0) {
    return kNoToken;
  }
  return *found;
}

TokenId Encoder::character_token(uint32_t code_point) const {
  const size_t place = place_of(view_.characters, code_point);
  return place < view_.characters.size() ? view_.character_tokens[place] : kNoToken;
}

}  // namespace arenite::text
