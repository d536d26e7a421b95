// SPDX-License-Identifier: Apache-2.0
// A table from the file, and arithmetic for the 11,172 syllables that a table would hold too.
#include "text/folding.h"

#include <algorithm>

#include "text/characters.h"

namespace arenite::text {
namespace {

// The Unicode Standard, section 3.12: a syllable is an initial consonant, a vowel and, of all but
// the first of each 28, a final consonant.
constexpr uint32_t kSyllables = 0xAC00;
constexpr uint32_t kSyllablesLast = 0xD7A3;
constexpr uint32_t kInitials = 0x1100;
constexpr uint32_t kVowels = 0x1161;
constexpr uint32_t kVowelCount = 21;
constexpr uint32_t kFinals = 0x11A7;
constexpr uint32_t kFinalCount = 28;

Folded decompose_syllable(uint32_t code_point) {
  const uint32_t index = code_point - kSyllables;
  const uint32_t final_index = index % kFinalCount;
  Folded letters;
  letters.code_points = {kInitials + index / (kVowelCount * kFinalCount),
                         kVowels + index / kFinalCount % kVowelCount, kFinals + final_index};
  letters.count = final_index == 0 ? 2 : 3;
  return letters;
}

}  // namespace

Folded fold(const format::TokenizerView& view, uint32_t code_point) {
  Folded folded;
  if (in_ranges(view.dropped, code_point)) return folded;
  if (view.has(format::kDecomposeHangul) && code_point >= kSyllables &&
      code_point <= kSyllablesLast) {
    return decompose_syllable(code_point);
  }
  folded.code_points[0] = code_point;
  folded.count = 1;
  const size_t place = place_of(view.fold_from, code_point);
  if (place == view.fold_from.size()) return folded;
  const uint32_t to = view.fold_to[place];
  const uint32_t value = to & format::kFoldValueMask;
  folded.count = to >> format::kFoldCountShift;
  if (folded.count == 1) {
    folded.code_points[0] = value;
  } else {
    std::copy_n(&view.fold_sequences[value], folded.count, folded.code_points.begin());
  }
  return folded;
}

}  // namespace arenite::text
