// SPDX-License-Identifier: Apache-2.0
// Asks utf8proc about every code point.
#include "convert/tokenizers/unicode_ranges.h"

#include "convert/error.h"
#include "core/utf8.h"

#ifdef ARENITE_HAVE_UTF8PROC
#include <utf8proc.h>
#endif

namespace arenite::convert {

#ifdef ARENITE_HAVE_UTF8PROC

std::vector<uint32_t> unicode_ranges(char major) {
  std::vector<uint32_t> ranges;
  bool inside = false;
  for (uint32_t code_point = 0x80; code_point <= kCodePointMax; ++code_point) {
    const char* category = utf8proc_category_string(static_cast<utf8proc_int32_t>(code_point));
    const bool belongs = category[0] == major;
    if (belongs && !inside) {
      ranges.push_back(code_point);
      ranges.push_back(code_point);
    }
    if (belongs) ranges.back() = code_point;
    inside = belongs;
  }
  return ranges;
}

#else

std::vector<uint32_t> unicode_ranges(char) {
  throw InputError(
      "this tokenizer cuts text by Unicode's letters and numbers, and this build lacks utf8proc: "
      "build the converter with libutf8proc-dev");
}

#endif  // ARENITE_HAVE_UTF8PROC

}  // namespace arenite::convert
