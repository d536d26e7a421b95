// SPDX-License-Identifier: Apache-2.0
// Changes the metadata of a model file where it matters: most fields and all offsets are words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "support/random.h"

namespace arenite::test {

// Changes a few words of a FlatBuffer, each of them where it stands, so that what follows does not
// move; seldom any bytes at all. A list is chosen before a word in it, as lists differ in length.
void change_words(std::span<uint8_t> metadata, Random& random);

// Copies words of another FlatBuffer to the same place or to any.
void cross_words(std::span<uint8_t> metadata, std::span<const uint8_t> other, Random& random);

}  // namespace arenite::test
