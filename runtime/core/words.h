// SPDX-License-Identifier: Apache-2.0
// The words of diagnostics, which a build for the smallest flash leaves out (ARENITE_MESSAGES).
#pragma once

namespace arenite {

#if defined(ARENITE_NO_MESSAGES)
inline constexpr bool kMessages = false;
#else
inline constexpr bool kMessages = true;
#endif

// A string literal, or null where messages are left out: the literal is then not in the program.
class Words {
 public:
  consteval Words(const char* literal)
      : text_(kMessages ? literal : nullptr) {}  // NOLINT: implicit
  // The same for a literal out of a table.
  static constexpr Words of(const char* literal) {
    Words words("");
    words.text_ = kMessages ? literal : nullptr;
    return words;
  }
  constexpr operator const char*() const { return text_; }  // NOLINT

 private:
  const char* text_;
};

}  // namespace arenite
