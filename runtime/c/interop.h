// SPDX-License-Identifier: Apache-2.0
// Conversions between the types of C and of C++. Enumerators have equal values in both, and the
// opaque bytes of a C struct hold the C++ object itself:
//
//     const Model& model = object_in<const Model>(c_model);
//     return finish(result, diagnostic, why, [&](const Plan& plan) { *out = ...; });
//
#pragma once

#include <memory>
#include <type_traits>

#include "arenite/arenite.h"
#include "arenite/status.h"

namespace arenite::c {

// Returns whether two enumerators have equal values.
template <typename C, typename Cpp>
constexpr bool same(C c, Cpp cpp) {
  return static_cast<uint32_t>(c) == static_cast<uint32_t>(cpp);
}

// Returns the C++ object in the opaque bytes of a C struct.
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

// Writes `from` to `why`, unless that is null, and returns the status.
inline arenite_status report(Status status, const Diagnostic& from, arenite_diagnostic* why) {
  if (why != nullptr) {
    *why = {from.reason,   from.field,        from.index,        from.found,
            from.expected, from.bytes_needed, from.file_targets, from.cpu_targets};
  }
  return static_cast<arenite_status>(status);
}

// Reports the outcome of a call without a value.
inline arenite_status finish(Status status, const Diagnostic& from, arenite_diagnostic* why) {
  return report(status, status == Status::kOk ? Diagnostic{} : from, why);
}

// Reports the outcome of a call and passes its value, if there is one, to `take`.
template <typename T, typename Take>
arenite_status finish(const Result<T>& result, const Diagnostic& from, arenite_diagnostic* why,
                      Take take) {
  if (result.ok()) take(*result);
  return report(result.status(), result.ok() ? Diagnostic{} : from, why);
}

}  // namespace arenite::c
