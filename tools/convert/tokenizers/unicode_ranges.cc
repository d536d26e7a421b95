// SPDX-License-Identifier: Apache-2.0
// Asks about every code point, and writes down where the answer changes.
#include "convert/tokenizers/unicode_ranges.h"

#include "convert/tokenizers/unicode_library.h"
#include "core/utf8.h"

namespace arenite::convert {

std::vector<uint32_t> unicode_ranges(char major) {
  std::vector<uint32_t> ranges;
  for (uint32_t code_point = 0x80; code_point <= kCodePointMax; ++code_point) {
    if (pattern_category(code_point) == major) append_to_ranges(ranges, code_point);
  }
  return ranges;
}

void append_to_ranges(std::vector<uint32_t>& ranges, uint32_t code_point) {
  if (!ranges.empty() && ranges.back() + 1 == code_point) {
    ranges.back() = code_point;
  } else {
    ranges.insert(ranges.end(), {code_point, code_point});
  }
}

}  // namespace arenite::convert
