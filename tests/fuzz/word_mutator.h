// SPDX-License-Identifier: Apache-2.0
// Mutates the metadata of a model file by words, because most fields and all offsets are words.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "support/random.h"

namespace arenite::test {

// Changes a few words of a FlatBuffer in place, so that later bytes do not move; rarely, arbitrary
// bytes. Chooses a vector before a word in it, because vectors differ in length.
void change_words(std::span<uint8_t> metadata, Random& random);

// Copies words of another FlatBuffer to the same place or to any.
void cross_words(std::span<uint8_t> metadata, std::span<const uint8_t> other, Random& random);

}  // namespace arenite::test
