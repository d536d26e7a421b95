// SPDX-License-Identifier: Apache-2.0
// Calls the C interface, which takes integers in place of C++ enumerators and null pointers in
// place of spans.
#pragma once

#include <cstddef>
#include <span>

#include "fuzz/choices.h"

namespace arenite::test {

// Loads, plans, creates and calls, now and then with invalid enumerators and sizes.
void call_c_interface(std::span<const std::byte> file, Choices& choices);

}  // namespace arenite::test
