// SPDX-License-Identifier: Apache-2.0
// The words of diagnostics, which a build for the smallest flash leaves out (ARENITE_MESSAGES).
#pragma once

namespace arenite {

// A string literal, known when the program is compiled; or nothing, which is then not even passed.
class Message {
 public:
#if defined(ARENITE_NO_MESSAGES)
  consteval Message(const char*) {}  // NOLINT: implicit
  static constexpr Message of(const char*) { return ""; }
  constexpr operator const char*() const { return nullptr; }
#else
  consteval Message(const char* literal) : text_(literal) {}  // NOLINT: implicit
  // The same for a literal out of a table.
  static constexpr Message of(const char* literal) {
    Message message("");
    message.text_ = literal;
    return message;
  }
  constexpr operator const char*() const { return text_; }

 private:
  const char* text_;
#endif
};

}  // namespace arenite
