// SPDX-License-Identifier: Apache-2.0
// How the runtime reports what went wrong: a Status, a Result<T> that carries a value or a Status,
// and a Diagnostic with the details. Nothing here allocates, throws or prints.
#pragma once

#include "arenite/language.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace arenite {

enum class [[nodiscard]] Status : uint8_t{
    kOk = 0,
    kInvalidArgument,  // the caller's sizes, pointers or options
    kBadModel,         // the model's bytes are damaged or do not mean anything
    kVersionMismatch,  // a model of another format version
    kUnsupported,      // a sound model that this build or this CPU cannot run
    kArenaTooSmall,    // Diagnostic::bytes_needed says how many bytes are enough
    kContextFull,      // no room for the tokens among the positions of the session
};

// The name of a status, e.g. "arena too small". A static string.
const char* name(Status status);

// Why a call failed. All strings are static; fields that do not apply are zero or null.
struct Diagnostic {
  const char* reason =
      nullptr;  // a sentence without a full stop, e.g. "slots overlap in the arena"
  const char* field =
      nullptr;                // the field of the model file or of the options, e.g. "mask.row_end"
  uint32_t index = 0;         // which element of that field, where it is a list
  uint64_t found = 0;         // the value that was refused ...
  uint64_t expected = 0;      // ... and the value or limit it was held against
  size_t bytes_needed = 0;    // kArenaTooSmall: the size with which create succeeds
  uint32_t file_targets = 0;  // kUnsupported: bit set of Target, those that the file holds
  uint32_t cpu_targets = 0;   // kUnsupported: bit set of Target, those that this CPU and build run
};

// Writes one line that says everything in `why` into `out`, cut to its size and always terminated.
// Returns the number of characters written, without the terminator.
size_t describe(Status status, const Diagnostic& why, std::span<char> out);

// A value of type T, or the Status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  constexpr Result(const T& value) : value_(value), status_(Status::kOk) {}  // NOLINT: implicit
  // REQUIRES: `status` is not kOk.
  constexpr Result(Status status) : status_(status) {  // NOLINT: implicit
    require(status != Status::kOk);
  }

  constexpr bool ok() const { return status_ == Status::kOk; }
  constexpr Status status() const { return status_; }

  // REQUIRES: ok().
  constexpr const T& value() const {
    require(ok());
    return value_;
  }
  constexpr T& value() {
    require(ok());
    return value_;
  }
  constexpr const T& operator*() const { return value(); }
  constexpr T& operator*() { return value(); }
  constexpr const T* operator->() const { return &value(); }
  constexpr T* operator->() { return &value(); }

 private:
  // Stops a program whose code is wrong, unless NDEBUG is set. An assert of the C library would
  // link its output, and firmware would have to bring _write, _sbrk and _exit.
  static constexpr void require([[maybe_unused]] bool holds) {
#if !defined(NDEBUG)
    if (!holds) __builtin_trap();
#endif
  }

  T value_{};
  Status status_;
};

}  // namespace arenite
