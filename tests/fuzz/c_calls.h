// SPDX-License-Identifier: Apache-2.0
// The interface for C, which takes numbers where C++ has enumerations, and null where it has spans.
#pragma once

#include <cstddef>
#include <span>

#include "fuzz/choices.h"

namespace arenite::test {

// Loads, plans, creates and calls, now and then with numbers that stand for nothing.
void call_c_interface(std::span<const std::byte> file, Choices& choices);

}  // namespace arenite::test
