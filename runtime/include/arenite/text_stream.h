// SPDX-License-Identifier: Apache-2.0
// Turns generated tokens into text, and ends the text at stop strings:
//
//     TextStream stream(tokenizer);
//     const TextParts parts = stream.next(id);
//     show(stops.next(parts.head));  // then stops.next(parts.tail)
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/token.h"
#include "arenite/tokenizer.h"

namespace arenite {

// One text in two consecutive parts; either may be empty, and data() is never null.
struct TextParts {
  std::string_view head{"", 0};  // in the object that returned it, valid until its next call
  std::string_view tail{"", 0};  // in the model, or in the text that was passed
};

// Turns tokens into text as they come. Bytes of an incomplete character are held back until the
// character is complete; bytes that are not UTF-8 pass unchanged. Has a small state of fixed size
// and views the bytes of the model, which must outlive it.
class TextStream {
 public:
  // Begins a text. Copies the view and the options. REQUIRES: `tokenizer` holds a tokenizer.
  explicit TextStream(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(tokenizer), options_(options), at_start_(!options.is_continuation) {}

  // Returns the text that this token completes. An id outside the vocabulary adds nothing.
  TextParts next(TokenId id);

  // Returns the bytes of an incomplete character and resets the stream: another text begins.
  TextParts finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  char held_[4] = {};   // bytes of an incomplete character
  char ready_[4] = {};  // the bytes that `head` views
  uint32_t held_bytes_ = 0;
  TokenId last_ = kNoToken;  // the last one of this text that has text
  bool at_start_;
};

// Ends a text before the first occurrence of a stop string, at any byte of any token. Text that may
// be the beginning of a stop string is held back until this is decided. The text may be passed in
// pieces of any size, e.g. the parts from TextStream.
//
//     const std::string_view ends[] = {"\n\n", "<|end|>"};
//     char space[64];  // at least StopStrings::bytes_needed(ends)
//     StopStrings stops(ends, space);
//
class StopStrings {
 public:
  // Returns the bytes of work space for these stop strings.
  static size_t bytes_needed(std::span<const std::string_view> stops);

  // `stops`, the texts they view and `space` must outlive this object. Empty stop strings are
  // ignored. REQUIRES: space.size() >= bytes_needed(stops).
  StopStrings(std::span<const std::string_view> stops, std::span<char> space);

  // Returns the text that may be shown; no text after a stop string.
  TextParts next(std::string_view text);
  // Returns the text still held back when the text ends without a stop string; resets this object.
  std::string_view finish();

  // Returns whether a stop string has ended the text.
  bool stopped() const { return stopped_; }

 private:
  // Returns byte `index` of the concatenation of the held text and `text`.
  char byte(std::string_view text, size_t index) const;
  bool begins(std::string_view text, size_t index, std::string_view words) const;
  // Returns the bytes before `end`, and holds back those from `end` to `held_end`.
  TextParts release(std::string_view text, size_t end, size_t held_end);

  std::span<const std::string_view> stops_;
  char* held_;
  char* ready_;  // held text that is now shown
  size_t held_bytes_ = 0;
  bool stopped_ = false;
};

}  // namespace arenite
