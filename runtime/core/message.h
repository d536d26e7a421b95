// SPDX-License-Identifier: Apache-2.0
// Texts of diagnostics, which ARENITE_MESSAGES=OFF removes from builds for the smallest flash, and
// the functions that fill in a Diagnostic:
//
//     if (size > limit) return refuse(why, Status::kBadModel, "too large", "slots", i, size);
//
#pragma once

#include <type_traits>

#include "arenite/status.h"

namespace arenite {

// A string literal known at compile time. Without messages it is an empty type, so that calls do
// not even pass it.
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
  // Makes a message from a literal in a table.
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

// In all of these functions `why` may be null if the caller does not want a diagnostic.
void clear(Diagnostic* why);

// Sets the given members of a diagnostic and clears all others. A build has the overloads that it
// uses.
void fill(Diagnostic* why, uint32_t index, uint32_t found, uint32_t expected);
void fill(Diagnostic* why, uint32_t index, uint64_t found, uint64_t expected);
void fill(Diagnostic* why, uint32_t index, uint32_t found, uint32_t expected, const char* reason,
          const char* field);
void fill(Diagnostic* why, uint32_t index, uint64_t found, uint64_t expected, const char* reason,
          const char* field);

// Always inlined with 32-bit numbers where possible, because the many calls are a large part of the
// code of all checks: 64-bit arguments, or an empty Message, would take more registers.
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

// Fills in the diagnostic and returns `status`, so that a check can end with: return refuse(...).
template <typename Found = uint32_t, typename Expected = uint32_t>
[[gnu::always_inline]] inline Status refuse(Diagnostic* why, Status status, Message reason,
                                            Message field = {}, uint32_t index = 0, Found found = 0,
                                            Expected expected = 0) {
  explain(why, reason, field, index, found, expected);
  return status;
}

}  // namespace arenite
