// SPDX-License-Identifier: Apache-2.0
// Runs the steps of a normalizer. A step reads a text at the end of the span and writes its result
// to the front, which then moves to the end; so the result may overwrite what is already read.
//   [front: written ... | free | ... not yet read :end]
#include "text/normalizer.h"

#include <algorithm>
#include <cstring>

#include "core/needs.h"
#include "core/utf8.h"
#include "text/pre_tokenizer.h"

namespace arenite::text {
namespace {

using format::GraphemeClass;
using format::TextStep;
using format::TokenizerView;

// Longer graphemes are mapped character by character.
constexpr size_t kMappedBytesMax = 5;
constexpr size_t kKeyBytesMax = 64;  // where the longest key counts

constexpr uint32_t kFirstMark = 0x300;  // characters before it are no marks, nor composed with

class Step {
 public:
  // `is_inside`: the text lies in `space`.
  Step(const TokenizerView& view, std::string_view text, std::span<uint32_t> space, bool is_inside)
      : view_(view),
        text_(text),
        begin_(reinterpret_cast<char*>(space.data())),
        end_(begin_ + space.size_bytes()),
        is_inside_(is_inside) {}

  // Returns false if the span is too small.
  bool run(std::span<const uint32_t> step) {
    bool fits = true;
    while (fits && read_ < text_.size()) {
      switch (static_cast<TextStep>(step[0])) {
        case TextStep::kFold:
          fits = fold(step);
          break;
        case TextStep::kCharsmap:
          fits = step[1] != 0 ? map_longest() : map_grapheme();
          break;
        case TextStep::kShrink:
          fits = shrink(step);
          break;
        case TextStep::kReplace:
          fits = replace(step);
          break;
        case TextStep::kPrepend:
          fits = put(step[1]) && copy(text_.size());
          break;
        case TextStep::kOrder:
          fits = order(numbers(step));
          break;
        case TextStep::kCompose:
          fits = compose(numbers(step));
          break;
        case TextStep::kDrop: {
          const CodePoint next = code_point(read_);
          const bool drops = in_ranges(numbers(step), next.value);
          fits = drops || copy(read_ + next.bytes);
          if (drops) read_ += next.bytes;
          break;
        }
        case TextStep::kStrip:
          return strip(step[1]);
        case TextStep::kWordCharacters:
        case TextStep::kName:
          return true;
      }
    }
    if (!fits) return false;
    char* const moved = end_ - written_;
    std::memmove(moved, begin_, written_);
    text_ = {moved, written_};
    is_inside_ = true;
    return true;
  }

  std::string_view text() const { return text_; }
  bool is_inside() const { return is_inside_; }

 private:
  CodePoint code_point(size_t at) const {
    return decode_utf8({text_.data() + at, text_.size() - at});
  }

  // Like substr, but never throws.
  std::string_view bytes(size_t begin, size_t end) const {
    return {text_.data() + begin, end - begin};
  }

  // Appends bytes to the result. They may overwrite the text up to `read_`.
  bool put(std::string_view bytes) {
    const char* const limit = is_inside_ ? text_.data() + read_ : end_;
    if (bytes.size() > static_cast<size_t>(limit - (begin_ + written_))) return false;
    std::memmove(begin_ + written_, bytes.data(), bytes.size());
    written_ += bytes.size();
    return true;
  }

  bool put(uint32_t code_point) {
    char form[kUtf8BytesMax];
    return put(std::string_view(form, encode_utf8(code_point, form)));
  }

  bool put(std::span<const uint32_t> code_points) {
    for (const uint32_t code_point : code_points) {
      if (!put(code_point)) return false;
    }
    return true;
  }

  // Copies the text up to `end` to the result.
  bool copy(size_t end) {
    const std::string_view copied = bytes(read_, end);
    read_ = end;
    return put(copied);
  }

  bool fold(std::span<const uint32_t> step) {
    const CodePoint next = code_point(read_);
    if (step[3] != 0 && next.value - kSyllables < kSyllableCount) {
      read_ += next.bytes;
      const uint32_t index = next.value - kSyllables, last = index % kFinalCount;
      const uint32_t letters[] = {kInitials + index / (kVowelCount * kFinalCount),
                                  kVowels + index / kFinalCount % kVowelCount, kFinals + last};
      return put(std::span(letters).first(last == 0 ? 2 : 3));
    }
    const size_t place = place_of(view_.fold_from.subspan(step[1], step[2]), next.value);
    if (place == step[2]) return copy(read_ + next.bytes);
    read_ += next.bytes;
    const uint32_t to = view_.fold_to[step[1] + place];
    const uint32_t value = to & format::kFoldValueMask, count = to >> format::kFoldCountShift;
    return count == 1 ? put(value) : put(view_.fold_sequences.subspan(value, count));
  }

  bool is_of_run(uint32_t code_point, uint32_t of) const {
    return of == 1 ? is_space(code_point) : code_point == (of == 0 ? ' ' : of);
  }

  bool shrink(std::span<const uint32_t> step) {
    size_t end = read_;
    uint32_t count = 0;
    while (end < text_.size()) {
      const CodePoint next = code_point(end);
      if (!is_of_run(next.value, step[1])) break;
      end += next.bytes;
      ++count;
    }
    if (count < step[2]) return copy(end > read_ ? end : read_ + code_point(read_).bytes);
    read_ = end;
    return put(step[3]);
  }

  bool replace(std::span<const uint32_t> step) {
    size_t end = read_;
    for (uint32_t i = 0; i < step[2]; ++i) {
      const CodePoint next = end < text_.size() ? code_point(end) : CodePoint{};
      if (next.value != view_.fold_sequences[step[1] + i]) {
        return copy(read_ + code_point(read_).bytes);
      }
      end += next.bytes;
    }
    read_ = end;
    return put(view_.fold_sequences.subspan(step[1] + step[2], step[3]));
  }

  std::span<const uint32_t> numbers(std::span<const uint32_t> step) const {
    return view_.fold_sequences.subspan(step[1], step[2]);
  }

  // Returns the combining class of a character.
  static uint32_t class_in(std::span<const uint32_t> classes, uint32_t code_point) {
    uint32_t found = 0;
    if (code_point < kFirstMark) return found;
    for (size_t low = 0, high = classes.size() / 2; low < high;) {
      const size_t middle = low + (high - low) / 2;
      if (classes[2 * middle] <= code_point) {
        found = classes[2 * middle + 1] & 0xFF;  // bounds what order() takes for a run
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return found;
  }

  // Copies a character, or a run of marks in the order of their classes: one class after the other,
  // of which there are at most 255.
  bool order(std::span<const uint32_t> classes) {
    size_t end = read_;
    while (end < text_.size()) {
      const CodePoint next = code_point(end);
      if (class_in(classes, next.value) == 0) break;
      end += next.bytes;
    }
    if (end == read_) return copy(read_ + code_point(read_).bytes);
    for (uint32_t last = 0, least = 1; least != UINT32_MAX; last = least) {
      least = UINT32_MAX;
      for (size_t at = read_; at < end; at += code_point(at).bytes) {
        const uint32_t of = class_in(classes, code_point(at).value);
        if (of > last && of < least) least = of;
      }
      for (size_t at = read_; at < end; at += code_point(at).bytes) {
        const CodePoint next = code_point(at);
        if (class_in(classes, next.value) == least && !put(bytes(at, at + next.bytes))) {
          return false;
        }
      }
    }
    read_ = end;
    return true;
  }

  // Returns what two characters become together; kInvalidCodePoint if they stay apart.
  static uint32_t composed(std::span<const uint32_t> pairs, uint32_t first, uint32_t second) {
    const uint32_t syllable = first - kSyllables, vowel = second - kVowels;
    const uint32_t initial = first - kInitials, last = second - kFinals;
    if (initial < kInitialCount && vowel < kVowelCount) {
      return kSyllables + (initial * kVowelCount + vowel) * kFinalCount;
    }
    if (syllable < kSyllableCount && syllable % kFinalCount == 0 && last - 1 < kFinalCount - 1) {
      return first + last;
    }
    for (size_t low = 0, high = pairs.size() / 3; low < high && second >= kFirstMark;) {
      const size_t middle = low + (high - low) / 2;
      const uint32_t* const pair = &pairs[3 * middle];
      if (pair[0] == first && pair[1] == second) return pair[2];
      if (pair[0] < first || (pair[0] == first && pair[1] < second)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return kInvalidCodePoint;
  }

  // Copies a character, composed with the marks after it where that is possible, and other marks.
  // The list has the classes first, as many numbers as its first element says.
  bool compose(std::span<const uint32_t> list) {
    const auto classes = list.subspan(1, list[0]), pairs = list.subspan(1 + list[0]);
    CodePoint starter = code_point(read_);
    const size_t place = written_;
    if (!copy(read_ + starter.bytes)) return false;
    uint32_t last = class_in(classes, starter.value);
    bool is_next = last == 0, is_composed = false;
    if (!is_next) return true;
    while (read_ < text_.size()) {
      const CodePoint next = code_point(read_);
      const uint32_t of = class_in(classes, next.value);
      const uint32_t both =
          is_next || last < of ? composed(pairs, starter.value, next.value) : kInvalidCodePoint;
      if (both == kInvalidCodePoint) {
        if (of == 0) break;
        if (!copy(read_ + next.bytes)) return false;
        last = of;
        is_next = false;
        continue;
      }
      read_ += next.bytes;
      starter.value = both;
      is_composed = true;
    }
    return !is_composed || replace_written(place, starter);
  }

  // Writes the value of a character over its bytes in the result.
  bool replace_written(size_t place, CodePoint character) {
    char form[kUtf8BytesMax];
    const uint32_t size = encode_utf8(character.value, form);
    const size_t after = written_ - place - character.bytes;
    const char* const limit = is_inside_ ? text_.data() + read_ : end_;
    if (place + size + after > static_cast<size_t>(limit - begin_)) return false;
    std::memmove(begin_ + place + size, begin_ + place + character.bytes, after);
    std::memcpy(begin_ + place, form, size);
    written_ = place + size + after;
    return true;
  }

  // Narrows the view of the text; copies nothing.
  bool strip(uint32_t sides) {
    size_t first = text_.size(), last = 0;
    for (size_t at = 0; at < text_.size();) {
      const CodePoint next = code_point(at);
      const bool is_blank = (sides & 4) != 0 ? next.value == ' ' : is_space(next.value);
      if (!is_blank && first == text_.size()) first = at;
      if (!is_blank && ((sides & 4) == 0 || next.value != kSpaceMark)) last = at + next.bytes;
      at += next.bytes;
    }
    const size_t begin = (sides & 1) != 0 ? first : 0;
    const size_t end = (sides & 2) != 0 ? (last < begin ? begin : last) : text_.size();
    text_ = bytes(begin, end);
    return true;
  }

  GraphemeClass class_of(uint32_t code_point) const {
    size_t low = 0, high = view_.graphemes.size() / 3;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (code_point > view_.graphemes[3 * middle + 1]) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const bool found = 3 * low < view_.graphemes.size() && code_point >= view_.graphemes[3 * low];
    return found ? static_cast<GraphemeClass>(view_.graphemes[3 * low + 2]) : GraphemeClass::kOther;
  }

  // Returns the end of the grapheme that begins at `read_`, by Unicode Standard Annex 29 without
  // the rules that only concern graphemes of more than kMappedBytesMax bytes.
  size_t grapheme_end() const {
    const CodePoint first = code_point(read_);
    size_t end = read_ + first.bytes;
    if (first.value == '\r') return end < text_.size() && text_[end] == '\n' ? end + 1 : end;
    GraphemeClass before = class_of(first.value);
    bool is_pictograph = before == GraphemeClass::kPictograph;
    while (before != GraphemeClass::kControl && end < text_.size()) {
      const CodePoint next = code_point(end);
      const GraphemeClass of = class_of(next.value);
      const bool extends = of == GraphemeClass::kExtend || of == GraphemeClass::kJoiner;
      const bool follows = before == GraphemeClass::kPrepend && of != GraphemeClass::kControl;
      const bool joins =
          is_pictograph && before == GraphemeClass::kJoiner && of == GraphemeClass::kPictograph;
      if (!extends && !follows && !joins) break;
      if (!extends) is_pictograph = of == GraphemeClass::kPictograph;
      end += next.bytes;
      before = of;
    }
    return end;
  }

  // Returns the charsmap's text for the shortest prefix of `bytes` that is a key, or with `longest`
  // for the longest one, whose length it sets; null data if there is none. The walk through the
  // double array (SPEC.md) takes one unit for each byte, so it ends for any unit values.
  std::string_view mapped(std::string_view bytes, size_t* longest = nullptr) const {
    const std::span<const uint32_t> units = view_.charsmap.subspan(2, view_.charsmap[0]);
    const auto offset = [](uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); };
    std::string_view found;
    uint32_t place = offset(units[0]);
    for (size_t at = 0; at < bytes.size(); ++at) {
      const char c = bytes[at];
      place ^= static_cast<uint8_t>(c);
      if (c == 0 || place >= units.size()) return found;
      const uint32_t unit = units[place];
      if ((unit & 0x800000FF) != static_cast<uint8_t>(c)) return found;
      place ^= offset(unit);
      if ((unit & 0x100) == 0) continue;
      if (place >= units.size()) return found;
      const uint32_t begin = units[place] & 0x7FFFFFFF, size = view_.charsmap[1];
      if (begin >= size) return found;
      const char* const texts =
          reinterpret_cast<const char*>(view_.charsmap.data() + 2 + units.size());
      uint32_t end = begin;
      while (end < size && texts[end] != 0) ++end;
      found = {texts + begin, end - begin};
      if (longest == nullptr) return found;
      *longest = at + 1;
    }
    return found;
  }

  // Maps the longest key at `read_`, as SentencePiece does.
  bool map_longest() {
    size_t length = 0;
    const std::string_view to =
        mapped(bytes(read_, std::min(text_.size(), read_ + kKeyBytesMax)), &length);
    if (to.data() == nullptr) return copy(read_ + code_point(read_).bytes);
    read_ += length;
    return put(to);
  }

  // Maps the grapheme at `read_`. If a prefix of a short grapheme is a key, its text replaces the
  // whole grapheme, as in Hugging Face's library.
  bool map_grapheme() {
    const size_t end = grapheme_end();
    const std::string_view grapheme = bytes(read_, end);
    if (grapheme.size() <= kMappedBytesMax) {
      const std::string_view to = mapped(grapheme);
      if (to.data() != nullptr) {
        read_ = end;
        return put(to);
      }
    }
    while (read_ < end) {
      const size_t next = read_ + code_point(read_).bytes;
      const std::string_view to = mapped(bytes(read_, next));
      if (to.data() == nullptr) {
        if (!copy(next)) return false;
      } else {
        read_ = next;
        if (!put(to)) return false;
      }
    }
    return true;
  }

  const TokenizerView& view_;
  std::string_view text_;
  char* const begin_;
  char* const end_;
  bool is_inside_;
  size_t read_ = 0;
  size_t written_ = 0;
};

}  // namespace

bool normalize(const TokenizerView& view, std::string_view text, std::span<uint32_t> space,
               std::string_view& normal) {
  normal = text;
  bool is_inside = false;
  for (size_t i = 0; i < view.steps.size(); i += format::kStepNumbers) {
    Step step(view, normal, space, is_inside);
    if (!step.run(view.steps.subspan(i, format::kStepNumbers))) return false;
    normal = step.text();
    is_inside = step.is_inside();
  }
  return true;
}

}  // namespace arenite::text
