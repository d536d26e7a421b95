// SPDX-License-Identifier: Apache-2.0
// The alphabet, and what all BPE vocabularies have in common.
#include "convert/tokenizers/subwords.h"

#include <array>

#include "convert/files/error.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kFirstInvented = 256;
constexpr uint32_t kLastInvented = 323;

constexpr bool prints(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

// The character of each byte, and the byte of each character; -1 for none.
struct Alphabet {
  std::array<uint32_t, 256> characters = {};
  std::array<int, kLastInvented + 1> bytes = {};

  constexpr Alphabet() {
    bytes.fill(-1);
    uint32_t invented = kFirstInvented;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      characters[byte] = prints(byte) ? byte : invented++;
      bytes[characters[byte]] = static_cast<int>(byte);
    }
  }
};
constexpr Alphabet kAlphabet;

TokenId find(const TokenizerSpec& spec, const Vocabulary& vocabulary, const std::string& token,
             size_t merge_index) {
  const auto found = vocabulary.find(token);
  if (found == vocabulary.end()) {
    throw InputError(
        "{}: merge {} needs the token {}, which is not in the vocabulary: the files "
        "do not belong together, or are damaged",
        quote(spec.origin), merge_index, quote(token));
  }
  return found->second;
}

}  // namespace

uint32_t byte_character(uint8_t byte) { return kAlphabet.characters[byte]; }

std::string byte_level_bytes(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    const CodePoint code_point = decode_utf8(token.substr(i));
    if (code_point.value > kLastInvented || kAlphabet.bytes[code_point.value] < 0) {
      return std::string(token);
    }
    bytes += static_cast<char>(kAlphabet.bytes[code_point.value]);
    i += code_point.bytes;
  }
  return bytes;
}

std::pair<std::string, std::string> split_merge(std::string_view line, const std::string& origin) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos) {
    throw InputError("{}: the merge {} is not two tokens with a space between", quote(origin),
                     quote(line));
  }
  return {std::string(line.substr(0, space)), std::string(line.substr(space + 1))};
}

void add_vocabulary(TokenizerSpec& spec, const Vocabulary& vocabulary,
                    std::string (*bytes_of)(std::string_view token)) {
  std::vector<bool> taken;
  for (const auto& [token, id] : vocabulary) {
    if (id >= format::kVocabularyMax) {
      throw InputError("{}: token {} has id {}: expected ids below {}", quote(spec.origin),
                       quote(token), id, format::kVocabularyMax);
    }
    if (id >= spec.tokens.size()) spec.tokens.resize(size_t{id} + 1);
    if (id >= taken.size()) taken.resize(size_t{id} + 1);
    if (taken[id]) {
      throw InputError("{}: id {} is that of {} and of another token: expected each id once",
                       quote(spec.origin), id, quote(token));
    }
    taken[id] = true;
    spec.tokens[id] = bytes_of(token);
  }
}

void add_merges(TokenizerSpec& spec, const Vocabulary& vocabulary,
                const std::vector<std::pair<std::string, std::string>>& merges) {
  uint32_t rank = 0;
  for (const auto& [left, right] : merges) {
    spec.merges.push_back({find(spec, vocabulary, left, rank), find(spec, vocabulary, right, rank),
                           find(spec, vocabulary, left + right, rank), rank});
    ++rank;
  }
}

void fill_byte_pairs(TokenizerSpec& spec, const Vocabulary& vocabulary,
                     const std::vector<std::pair<std::string, std::string>>& merges) {
  spec.kind = format::TokenizerKind::kBytePairs;
  add_vocabulary(spec, vocabulary, byte_level_bytes);
  add_merges(spec, vocabulary, merges);
  for (int byte = 0; byte < 256; ++byte) {
    char form[kUtf8BytesMax];
    const uint32_t length = encode_utf8(byte_character(static_cast<uint8_t>(byte)), form);
    const auto found = vocabulary.find(std::string(form, length));
    spec.byte_tokens.push_back(found == vocabulary.end() ? kNoToken : found->second);
  }
}

}  // namespace arenite::convert
