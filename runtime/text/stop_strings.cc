// SPDX-License-Identifier: Apache-2.0
// Holds back text that may be the beginning of a stop string: always less than the longest stop
// string. With the stop string "END":
//   next("the E") releases "the "; next("Nd") releases "ENd"
#include <algorithm>
#include <cassert>

#include "arenite/text_stream.h"

namespace arenite {
namespace {

size_t held_bytes_max(std::span<const std::string_view> stops) {
  size_t longest = 1;
  for (const std::string_view stop : stops) longest = std::max(longest, stop.size());
  return longest - 1;
}

}  // namespace

size_t StopStrings::bytes_needed(std::span<const std::string_view> stops) {
  return 2 * held_bytes_max(stops);
}

StopStrings::StopStrings(std::span<const std::string_view> stops, std::span<char> space)
    : stops_(stops), held_(space.data()), ready_(space.data() + held_bytes_max(stops)) {
  assert(space.size() >= bytes_needed(stops));
}

char StopStrings::byte(std::string_view text, size_t index) const {
  return index < held_bytes_ ? held_[index] : text[index - held_bytes_];
}

bool StopStrings::begins(std::string_view text, size_t index, std::string_view words) const {
  for (size_t i = 0; i < words.size(); ++i) {
    if (byte(text, index + i) != words[i]) return false;
  }
  return true;
}

TextParts StopStrings::release(std::string_view text, size_t end, size_t held_end) {
  const size_t from_held = std::min(end, held_bytes_);
  std::copy_n(held_, from_held, ready_);
  const size_t from_text = end - from_held;
  for (size_t i = end; i < held_end; ++i) held_[i - end] = byte(text, i);
  held_bytes_ = held_end - end;
  return {{from_held != 0 ? ready_ : "", from_held},
          {from_text != 0 ? text.data() : "", from_text}};
}

TextParts StopStrings::next(std::string_view text) {
  if (stopped_) return release({}, 0, 0);
  const size_t size = held_bytes_ + text.size();
  // A complete stop string takes precedence over the incomplete beginning of an earlier one.
  size_t held_begin = size;
  for (size_t begin = 0; begin < size; ++begin) {
    for (const std::string_view stop : stops_) {
      const std::string_view seen = {stop.data(), std::min(stop.size(), size - begin)};
      if (seen.empty() || !begins(text, begin, seen)) continue;
      stopped_ = seen.size() == stop.size();
      if (stopped_) return release(text, begin, begin);
      held_begin = std::min(held_begin, begin);
    }
  }
  return release(text, held_begin, size);
}

std::string_view StopStrings::finish() {
  const std::string_view rest = release({}, held_bytes_, held_bytes_).head;
  stopped_ = false;
  return rest;
}

}  // namespace arenite
