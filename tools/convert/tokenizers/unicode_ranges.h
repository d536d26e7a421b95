// SPDX-License-Identifier: Apache-2.0
// Unicode's general categories as ranges of code points.
#pragma once

#include <cstdint>
#include <vector>

namespace arenite::convert {

// First, last, first, last, ... of the code points from 128 on whose pattern_category
// (unicode_library.h) is `major`: 'L' letters, 'N' numbers. Throws InputError in a build without
// utf8proc.
std::vector<uint32_t> unicode_ranges(char major);

// Puts in a code point above all that are there.
void append_to_ranges(std::vector<uint32_t>& ranges, uint32_t code_point);

}  // namespace arenite::convert
