// SPDX-License-Identifier: Apache-2.0
// Each note says what happens, and where it is not the caller's business, who sees to it.
#include "convert/tokenizers/tokenizer_notes.h"

#include <algorithm>

#include "convert/files/error.h"
#include "convert/tokenizers/unicode_library.h"

namespace arenite::convert {
namespace {

std::string fate_of_unknown(const TokenizerSpec& spec) {
  switch (spec.unknown) {
    case format::Unknown::kRefuse:
      return "are refused";
    case format::Unknown::kDrop:
      return "are left out";
    case format::Unknown::kToken:
      if (spec.unknown_token == kNoToken) break;
      return fmt::format("become token {}, {}", spec.unknown_token,
                         quote(spec.tokens[spec.unknown_token]));
  }
  return "have none";
}

void note_unknown(TokenizerSpec& spec) {
  if (spec.kind == format::TokenizerKind::kWordPiece) return;  // words are unknown, not characters
  const auto lacking = std::count(spec.byte_tokens.begin(), spec.byte_tokens.end(), kNoToken);
  if (!spec.byte_tokens.empty() && lacking == 0) return;
  const bool is_bytes = spec.kind == format::TokenizerKind::kBytePairs;
  const std::string found = spec.byte_tokens.empty()
                                ? "no bytes have tokens"
                                : fmt::format("{} bytes have no token", lacking);
  spec.notes.push_back(fmt::format(
      "{}: {} {}", found, is_bytes ? "they" : "characters without a token", fate_of_unknown(spec)));
}

}  // namespace

void add_notes(TokenizerSpec& spec) {
  note_unknown(spec);
  if ((spec.flags & format::kExpectsNfc) != 0) {
    spec.notes.push_back(
        "texts are expected in Unicode's form C: generate, embed-text and classify see to it, a "
        "program asks Tokenizer::expects_nfc");
  }
}

std::string describe_unicode(const TokenizerSpec& spec) {
  if (spec.kind == format::TokenizerKind::kWordPiece) {
    return fmt::format("punctuation, controls and accents of Unicode {}, lower case of {}",
                       kWordUnicode, kCaseUnicode);
  }
  if (spec.letters.empty()) return "";
  return fmt::format("letters and numbers of Unicode {}", pattern_unicode());
}

}  // namespace arenite::convert
