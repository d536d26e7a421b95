// SPDX-License-Identifier: Apache-2.0
// Implements TextStream: decodes tokens and holds back the bytes of incomplete UTF-8 characters.
//   tokens "caf\xC3", "\xA9 au"   give "caf", then "\xC3\xA9" (head) and " au" (tail)
#include <algorithm>
#include <cstring>

#include "arenite/text_stream.h"
#include "arenite/tokenizer.h"
#include "core/utf8.h"
#include "format/tokenizer_reader.h"
#include "text/special_finder.h"

namespace arenite {
namespace {

uint8_t byte_at(std::string_view bytes, size_t index) { return static_cast<uint8_t>(bytes[index]); }

bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Returns the length of the incomplete character at the end of `bytes`; 0 if there is none.
uint32_t open_bytes(std::string_view bytes) {
  for (uint32_t count = 1; count < kUtf8BytesMax && count <= bytes.size(); ++count) {
    const uint8_t first = byte_at(bytes, bytes.size() - count);
    if (is_continuation(first)) continue;
    const bool begins = utf8_length(first) > count;
    const bool goes_on =
        count == 1 || (begins && utf8_may_follow(first, byte_at(bytes, bytes.size() - count + 1)));
    return begins && goes_on ? count : 0;
  }
  return 0;
}

// With kCleansUp, decoding omits the space before tokens that begin with one of these.
constexpr std::string_view kCleanedUp[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};

bool has_space_before(const format::TokenizerView& view, std::string_view token) {
  return !view.has(format::kCleansUp) ||
         std::ranges::none_of(kCleanedUp, [&](auto start) { return token.starts_with(start); });
}

}  // namespace

TextParts TextStream::next(TokenId id) {
  const format::TokenizerView view = format::tokenizer_view(tokenizer_.file_);
  if (id >= view.vocab_size()) return {};
  const uint32_t special = text::special_index(view, id);
  if (special < view.specials.size() && !options_.keep_specials &&
      (view.special_flags[special] & format::kIsText) == 0) {
    return {};
  }
  std::string_view bytes = view.bytes(id);
  if (bytes.empty()) {
    if (linked(Need::kUnigram) && view.has(format::kDropRepeats)) last_ = id;
    return {};
  }
  const bool ends_words = view.has(format::kEndsAreSpaces);
  if constexpr (linked(Need::kUnigram)) {
    if (view.has(format::kDropRepeats) && id == last_) return {};
  }
  if (at_start_ && view.has(format::kDropFirstSpace) && bytes.front() == ' ') {
    bytes.remove_prefix(1);
    if constexpr (linked(Need::kUnigram)) {  // Hugging Face's decoder drops all leading spaces
      const bool drops_all =
          view.kind == format::TokenizerKind::kUnigram && !view.has(format::kAsSentencePiece);
      while (drops_all && bytes.starts_with(' ')) bytes.remove_prefix(1);
    }
  }
  const bool is_first = at_start_;
  const bool ended_word = ends_words && last_ != kNoToken && view.bytes(last_).ends_with(' ');
  at_start_ = false;
  last_ = id;
  if (ends_words && bytes.ends_with(' ')) bytes.remove_suffix(1);

  TextParts parts;
  const bool is_apart = view.has(format::kTokensAreApart);
  const bool is_word_piece = view.kind == format::TokenizerKind::kWordPiece && !is_apart;
  if (ended_word || ((is_word_piece || is_apart) && !is_first)) {
    if (is_word_piece && bytes.starts_with(format::kContinuation)) {
      bytes.remove_prefix(format::kContinuation.size());
    } else if (has_space_before(view, bytes)) {  // the held bytes stay incomplete: release them
      std::memcpy(ready_, held_, held_bytes_);
      ready_[held_bytes_] = ' ';
      parts.head = {ready_, held_bytes_ + 1};
      held_bytes_ = 0;
    }
  }
  while (held_bytes_ > 0 && !bytes.empty()) {
    const uint8_t first = static_cast<uint8_t>(held_[0]);
    const uint8_t byte = byte_at(bytes, 0);
    const bool fits = held_bytes_ == 1 ? utf8_may_follow(first, byte) : is_continuation(byte);
    if (fits) {
      held_[held_bytes_++] = bytes.front();
      bytes.remove_prefix(1);
      if (held_bytes_ < utf8_length(first)) continue;
    }
    std::memcpy(ready_, held_, held_bytes_);
    parts.head = {ready_, held_bytes_};
    held_bytes_ = 0;
  }
  if (held_bytes_ > 0) return parts;
  held_bytes_ = open_bytes(bytes);
  std::memcpy(held_, bytes.data() + bytes.size() - held_bytes_, held_bytes_);
  parts.tail = {bytes.data(), bytes.size() - held_bytes_};
  return parts;
}

TextParts TextStream::finish() {
  std::memcpy(ready_, held_, held_bytes_);
  const TextParts parts{.head = {ready_, held_bytes_}};
  held_bytes_ = 0;
  last_ = kNoToken;
  at_start_ = !options_.is_continuation;
  return parts;
}

}  // namespace arenite
