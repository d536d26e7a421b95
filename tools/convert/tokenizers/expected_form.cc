// SPDX-License-Identifier: Apache-2.0
// Normalizes as Hugging Face's library: special tokens are taken out first.
#include "convert/tokenizers/expected_form.h"

#include <algorithm>
#include <cstdint>

#include "convert/files/error.h"
#include "convert/tokenizers/unicode_library.h"
#include "format/tokenizer_reader.h"
#include "text/special_finder.h"

namespace arenite::convert {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 128; });
}

std::string normalize(std::string_view text, const std::string& name) {
  try {
    return to_nfc(text);
  } catch (const InputError& error) {
    throw InputError(
        "{}: the model expects text in Unicode's form C, and it cannot be told whether this text, "
        "which is not ASCII, is: {}",
        name, error.what());
  }
}

}  // namespace

std::string in_expected_form(const Model& model, std::string_view text, bool read_specials,
                             const std::string& name) {
  const format::TokenizerView view = format::tokenizer_view(model.file());
  if (!view.has(format::kExpectsNfc) || is_ascii(text)) return std::string(text);
  const text::SpecialFinder specials(view, read_specials);
  std::string normalized;
  for (size_t position = 0; position < text.size();) {
    const text::SpecialMatch match = specials.find(text, position);
    normalized += normalize(text.substr(position, match.begin - position), name);
    normalized += text.substr(match.begin, match.end - match.begin);
    position = match.end;
  }
  return normalized;
}

}  // namespace arenite::convert
