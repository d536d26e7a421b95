// SPDX-License-Identifier: Apache-2.0
// Reports errors: a Status, a Result<T> that holds a value or a Status, and a Diagnostic with
// details. Nothing here allocates, throws or prints.
//
//     const Result<ArenaPlan> plan = plan_arena(model, options, &why);
//     if (!plan.ok()) return plan.status();
//
#pragma once

#include "arenite/language.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace arenite {

// The outcome of a call. Unless a call says otherwise, a failure leaves everything unchanged.
enum class [[nodiscard]] Status : uint8_t{
    kOk = 0,
    kInvalidArgument,  // the caller's sizes, pointers or options
    kBadModel,         // the model's bytes are damaged or inconsistent
    kVersionMismatch,  // a model of another format version
    kUnsupported,      // a valid model that this build or this CPU cannot run
    kArenaTooSmall,    // Diagnostic::bytes_needed says how many bytes are enough
    kContextFull,      // the tokens exceed the positions_max of the session
};

// Returns the name of a status as a static string, e.g. "arena too small".
const char* name(Status status);

// Says why a call failed. Strings are static; fields that do not apply are zero or null, and builds
// with ARENITE_MESSAGES=OFF have no strings. Every call takes a null pointer in its place. Read it
// only after a failure: most calls of a session leave it unchanged when they succeed.
struct Diagnostic {
  const char* reason =
      nullptr;  // a sentence without a full stop, e.g. "slots overlap in the arena"
  const char* field =
      nullptr;                // the field of the model file or of the options, e.g. "mask.row_end"
  uint32_t index = 0;         // index of the element, if `field` is a list
  uint64_t found = 0;         // the value that was refused ...
  uint64_t expected = 0;      // ... and the expected value or limit
  size_t bytes_needed = 0;    // kArenaTooSmall: the size with which create succeeds
  uint32_t file_targets = 0;  // kUnsupported: bit set of the targets in the file
  uint32_t cpu_targets = 0;   // kUnsupported: bit set of the targets that this CPU and build run
};

// Writes one line with the whole content of `why` to `out`, cut to its size and always terminated,
// unless `out` is empty.
// Returns the number of characters written, without the terminator.
size_t describe(Status status, const Diagnostic& why, std::span<char> out);

// Holds a value of type T, or the Status that says why there is none. T is copied.
//
//     const Result<Model> model = Model::load(file_bytes);
//     return model.ok() ? use(*model) : model.status();
//
template <typename T>
class [[nodiscard]] Result {
 public:
  // Holds a copy of `value`.
  constexpr Result(const T& value) : value_(value), status_(Status::kOk) {}  // NOLINT: implicit
  // Holds no value. REQUIRES: `status` is not kOk.
  constexpr Result(Status status) : status_(status) {  // NOLINT: implicit
    require(status != Status::kOk);
  }

  constexpr bool ok() const { return status_ == Status::kOk; }  // whether there is a value
  constexpr Status status() const { return status_; }           // kOk if there is a value

  // Returns the value. REQUIRES: ok(); otherwise the program is stopped, unless NDEBUG is set.
  constexpr const T& value() const {
    require(ok());
    return value_;
  }
  // Returns the value, which may be changed. REQUIRES: ok().
  constexpr T& value() {
    require(ok());
    return value_;
  }
  constexpr const T& operator*() const { return value(); }    // value()
  constexpr T& operator*() { return value(); }                // value()
  constexpr const T* operator->() const { return &value(); }  // a member of value()
  constexpr T* operator->() { return &value(); }              // a member of value()

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
