// SPDX-License-Identifier: Apache-2.0
// The words of diagnostics, which a build for the smallest flash leaves out (ARENITE_MESSAGES), and
// how a diagnostic is filled in.
#pragma once

#include <type_traits>

#include "arenite/status.h"

namespace arenite {

// A string literal, known when the program is compiled; or nothing, which is then not even passed.
class Message {
 public:
#if defined(ARENITE_NO_MESSAGES)
  consteval Message() {}
  consteval Message(const char*) {}  // NOLINT: implicit
  static constexpr Message of(const char*) { return ""; }
  constexpr operator const char*() const { return nullptr; }
#else
  consteval Message() : text_(nullptr) {}
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

// Null stands for a diagnostic that nobody wants.
void clear(Diagnostic* why);

// Fill in a diagnostic and empty what they do not name; a build has those that it uses.
void fill(Diagnostic* why, uint32_t index, uint32_t found, uint32_t expected);
void fill(Diagnostic* why, uint32_t index, uint64_t found, uint64_t expected);
void fill(Diagnostic* why, uint32_t index, uint32_t found, uint32_t expected, const char* reason,
          const char* field);
void fill(Diagnostic* why, uint32_t index, uint64_t found, uint64_t expected, const char* reason,
          const char* field);

// There are many calls, most of them with 32-bit numbers: what they pass is a good part of the code
// of all checks. Even an empty Message would take a register.
template <typename Found = uint32_t, typename Expected = uint32_t>
[[gnu::always_inline]] inline void explain(Diagnostic* why, Message reason, Message field = {},
                                           uint32_t index = 0, Found found = 0,
                                           Expected expected = 0) {
  constexpr size_t kBytes = sizeof(found) > sizeof(expected) ? sizeof(found) : sizeof(expected);
  using Number = std::conditional_t<(kBytes > sizeof(uint32_t)), uint64_t, uint32_t>;
  if constexpr (std::is_empty_v<Message>) {
    fill(why, index, static_cast<Number>(found), static_cast<Number>(expected));
  } else {
    fill(why, index, static_cast<Number>(found), static_cast<Number>(expected), reason, field);
  }
}

// The same; gives back `status`, so that a check reads: return refuse(...).
template <typename Found = uint32_t, typename Expected = uint32_t>
[[gnu::always_inline]] inline Status refuse(Diagnostic* why, Status status, Message reason,
                                            Message field = {}, uint32_t index = 0, Found found = 0,
                                            Expected expected = 0) {
  explain(why, reason, field, index, found, expected);
  return status;
}

}  // namespace arenite
