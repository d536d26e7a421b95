// SPDX-License-Identifier: Apache-2.0
// Text that grows token by token, and what ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/token.h"
#include "arenite/tokenizer.h"

namespace arenite {

// Bytes of text in two parts, one after the other; either may be empty, and no data() is null.
struct TextParts {
  std::string_view head{"", 0};  // in the object that gave it, valid until its next call
  std::string_view tail{"", 0};  // in the model, or in the text that was passed
};

// Turns tokens into text as they come. A character whose bytes are spread over tokens is held back
// until it is complete; bytes that are no UTF-8 pass as they are. A fixed few bytes of state.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : tokenizer_(tokenizer), options_(options), at_start_(!options.is_continuation) {}

  // The text that this token completes. An id outside the vocabulary stands for nothing.
  TextParts next(TokenId id);

  // What is still held back. The stream is then as new.
  TextParts finish();

 private:
  Tokenizer tokenizer_;
  DecodeOptions options_;
  char held_[4] = {};   // the start of a character
  char ready_[4] = {};  // what `head` views
  uint32_t held_bytes_ = 0;
  bool at_start_;
};

// Ends a text before the first of some stop strings, wherever tokens begin and end. Text that may
// be the beginning of one is held back until it is clear that it is not. What is passed may come in
// any pieces: the parts of TextStream one after the other, say.
class StopStrings {
 public:
  // Bytes of work space that these stop strings need.
  static size_t bytes_needed(std::span<const std::string_view> stops);

  // `stops`, what they view and `space` must outlive it. Empty stop strings stop nothing.
  // REQUIRES: space.size() >= bytes_needed(stops).
  StopStrings(std::span<const std::string_view> stops, std::span<char> space);

  // The text that may be shown now. Once it has stopped, there is none.
  TextParts next(std::string_view text);
  // What is still held back, where the text ends without a stop string. It is then as new.
  std::string_view finish();

  // Whether a stop string is complete.
  bool stopped() const { return stopped_; }

 private:
  // Byte `index` of what is held and what comes after it.
  char byte(std::string_view text, size_t index) const;
  bool begins(std::string_view text, size_t index, std::string_view words) const;
  // What is before `end`; holds what is from there to `held_end`.
  TextParts release(std::string_view text, size_t end, size_t held_end);

  std::span<const std::string_view> stops_;
  char* held_;
  char* ready_;  // what was held and is shown
  size_t held_bytes_ = 0;
  bool stopped_ = false;
};

}  // namespace arenite
