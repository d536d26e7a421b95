// SPDX-License-Identifier: Apache-2.0
// Between the types of C and of C++: the same numbers in both, the same objects in the same bytes.
#pragma once

#include <memory>
#include <type_traits>

#include "arenite/arenite.h"
#include "arenite/status.h"

namespace arenite::c {

// Whether enumerators mean the same in both languages.
template <typename C, typename Cpp>
constexpr bool same(C c, Cpp cpp) {
  return static_cast<uint32_t>(c) == static_cast<uint32_t>(cpp);
}

// The C++ object that lies in a C struct of opaque bytes.
template <typename Object, typename Storage>
Object& object_in(Storage* storage) {
  using Bare = std::remove_const_t<Object>;
  static_assert(sizeof(Bare) <= sizeof(Storage) && alignof(Bare) <= alignof(Storage));
  static_assert(std::is_trivially_copyable_v<Bare> && std::is_trivially_destructible_v<Bare>);
  return *reinterpret_cast<Object*>(storage);
}

template <typename Object, typename Storage>
void place(const Object& object, Storage* storage) {
  std::construct_at(&object_in<Object>(storage), object);
}

// Hands `from` to the caller who wants to know, and returns the status.
inline arenite_status report(Status status, const Diagnostic& from, arenite_diagnostic* why) {
  if (why != nullptr) {
    *why = {from.reason,   from.field,        from.index,        from.found,
            from.expected, from.bytes_needed, from.file_targets, from.cpu_targets};
  }
  return static_cast<arenite_status>(status);
}

// The same where no value is asked for.
inline arenite_status finish(Status status, const Diagnostic& from, arenite_diagnostic* why) {
  return report(status, status == Status::kOk ? Diagnostic{} : from, why);
}

// Hands over the value, or why there is none.
template <typename T, typename Take>
arenite_status finish(const Result<T>& result, const Diagnostic& from, arenite_diagnostic* why,
                      Take take) {
  if (result.ok()) take(*result);
  return report(result.status(), result.ok() ? Diagnostic{} : from, why);
}

}  // namespace arenite::c
