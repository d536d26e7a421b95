// SPDX-License-Identifier: Apache-2.0
// Shared parts of BPE vocabularies, and the merges of SentencePiece pieces, found through an index
// of their texts.
#include "convert/tokenizers/subwords.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <unordered_set>
#include <utility>

#include "convert/files/error.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "core/utf8.h"

namespace arenite::convert {

// ---- byte-level BPE ----

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
        "{}: merge {} needs token {}, which the vocabulary lacks: the files are damaged, or of "
        "different tokenizers",
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
    throw InputError("{}: merge {}: expected two tokens with a space between", quote(origin),
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
      throw InputError("{}: id {} is used by {} and by another token: expected each id once",
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
                     const std::vector<std::pair<std::string, std::string>>& merges,
                     const std::string& suffix) {
  spec.kind = format::TokenizerKind::kBytePairs;
  add_vocabulary(spec, vocabulary, byte_level_bytes);
  add_merges(spec, vocabulary, merges);
  const auto add_bytes = [&](const std::string& after) {
    for (int byte = 0; byte < 256; ++byte) {
      char form[kUtf8BytesMax];
      const uint32_t length = encode_utf8(byte_character(static_cast<uint8_t>(byte)), form);
      const auto found = vocabulary.find(std::string(form, length) + after);
      spec.byte_tokens.push_back(found == vocabulary.end() ? kNoToken : found->second);
    }
  };
  add_bytes("");
  if (!suffix.empty()) add_bytes(suffix);
}

// ---- SentencePiece ----

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

void add_byte(TokenizerSpec& spec, const SentencePiece& piece, TokenId id) {
  const int byte = piece_byte(piece.text);
  if (byte < 0) {
    throw InputError("{}: piece {} is {} and of type byte: expected a name such as '<0x0A>'",
                     quote(spec.origin), id, quote(piece.text));
  }
  if (spec.byte_tokens.empty()) spec.byte_tokens.assign(256, kNoToken);
  spec.byte_tokens[static_cast<size_t>(byte)] = id;
  spec.tokens.push_back(std::string(1, static_cast<char>(byte)));
}

// Returns the rank of each piece, highest score first; equal scores have equal ranks.
std::vector<uint32_t> ranks_of(const std::vector<SentencePiece>& pieces) {
  std::vector<float> scores;
  for (const SentencePiece& piece : pieces) scores.push_back(piece.score);
  std::sort(scores.begin(), scores.end(), std::greater<>());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  std::vector<uint32_t> ranks;
  for (const SentencePiece& piece : pieces) {
    const auto place =
        std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
    ranks.push_back(static_cast<uint32_t>(place - scores.begin()));
  }
  return ranks;
}

// Finds pairs of pieces that concatenate to a piece, and adds them as merges.
class PairFinder {
 public:
  // `texts` holds the texts of merged pieces, by id; empty for others.
  PairFinder(TokenizerSpec& spec, const std::vector<std::string_view>& texts)
      : spec_(spec),
        name_(quote(spec.origin)),
        lefts_(texts, TextEdge::kBegin),
        rights_(texts, TextEdge::kEnd) {}

  // Adds the merges that result in `text`, and returns their number.
  size_t add(std::string_view text, TokenId id, uint32_t rank) {
    const size_t before = spec_.merges.size();
    lefts_.find(text, left_);
    rights_.find(text, right_);
    for (size_t cut = decode_utf8(text).bytes; cut < text.size();
         cut += decode_utf8(text.substr(cut)).bytes) {
      const TokenId left = left_[cut - 1];
      const TokenId right = right_[text.size() - cut - 1];
      if (left == kNoToken || right == kNoToken) continue;
      spec_.merges.push_back({left, right, id, rank});
    }
    check_merge_count(name_, spec_.merges.size());
    return spec_.merges.size() - before;
  }

 private:
  TokenizerSpec& spec_;
  std::string name_;
  PieceSearch lefts_, rights_;
  std::vector<TokenId> left_, right_;  // of one text
};

void add_all_pairs(TokenizerSpec& spec, const std::vector<SentencePiece>& pieces) {
  std::vector<std::string_view> texts;
  for (const SentencePiece& piece : pieces) {
    texts.push_back(piece.type == PieceType::kNormal ? std::string_view(piece.text)
                                                     : std::string_view());
  }
  PairFinder finder(spec, texts);
  const std::vector<uint32_t> ranks = ranks_of(pieces);
  for (TokenId id = 0; id < pieces.size(); ++id) {
    const bool is_unused = pieces[id].type == PieceType::kUnused;
    if ((pieces[id].type != PieceType::kNormal && !is_unused) || pieces[id].text.empty()) continue;
    if (finder.add(pieces[id].text, id, ranks[id]) == 0 || !is_unused) continue;
    throw InputError(
        "{}: piece {} ({}) is marked unused, but merges produce it: expected unused pieces to be "
        "mere padding of the vocabulary",
        quote(spec.origin), id, quote(pieces[id].text));
  }
}

}  // namespace

std::string piece_bytes(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    if (token.substr(i, kSpaceMark.size()) == kSpaceMark) {
      bytes += ' ';
      i += kSpaceMark.size();
    } else {
      bytes += token[i++];
    }
  }
  return bytes;
}

int piece_byte(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  return high < 0 || low < 0 ? -1 : 16 * high + low;
}

void add_character(TokenizerSpec& spec, std::string_view written, TokenId token,
                   bool marks_spaces) {
  if (written.empty()) return;
  const CodePoint code_point = decode_utf8(written);
  if (code_point.value == kInvalidCodePoint || code_point.bytes != written.size()) return;
  spec.characters[code_point.value] = token;
  if (marks_spaces && written == kSpaceMark) spec.characters[' '] = token;
}

void fill_sentence_pieces(TokenizerSpec& spec, const std::vector<SentencePiece>& pieces,
                          bool escaped, bool merges) {
  spec.kind = format::TokenizerKind::kSentencePieces;
  const std::string name = quote(spec.origin);
  std::unordered_set<std::string_view> seen;
  for (TokenId id = 0; id < pieces.size(); ++id) {
    const SentencePiece& piece = pieces[id];
    check_token(name, id, piece.text);
    const std::string bytes = escaped ? piece_bytes(piece.text) : piece.text;
    if (std::isnan(piece.score)) {
      throw InputError("{}: the score of piece {} ({}) is NaN: expected a number",
                       quote(spec.origin), id, quote(piece.text));
    }
    switch (piece.type) {
      case PieceType::kByte:
        add_byte(spec, piece, id);
        continue;
      case PieceType::kUnknown:
        spec.unknown_token = id;
        spec.specials[id] = 0;
        break;
      case PieceType::kControl:
        spec.specials[id] = 0;
        break;
      case PieceType::kUserDefined:
        spec.specials[id] = format::kReadAlways | format::kIsText;
        break;
      case PieceType::kNormal:
        if (!seen.insert(piece.text).second) {
          throw InputError("{}: piece {} repeats {}: expected each text once", quote(spec.origin),
                           id, quote(piece.text));
        }
        add_character(spec, piece.text, id);
        break;
      case PieceType::kUnused:
        break;
    }
    const bool is_name = piece.type == PieceType::kUnknown || piece.type == PieceType::kControl;
    spec.tokens.push_back(is_name ? piece.text : bytes);
  }
  if (merges) add_all_pairs(spec, pieces);
}

PieceSearch::PieceSearch(std::vector<std::string_view> texts, TextEdge edge)
    : texts_(std::move(texts)), edge_(edge) {
  for (TokenId id = 0; id < texts_.size(); ++id) {
    if (!texts_[id].empty()) order_.push_back(id);
  }
  std::sort(order_.begin(), order_.end(), [&](TokenId a, TokenId b) {
    const std::string_view left = texts_[a], right = texts_[b];
    const auto is_less = [](char x, char y) {
      return static_cast<uint8_t>(x) < static_cast<uint8_t>(y);
    };
    if (edge_ == TextEdge::kBegin) return left < right;
    return std::lexicographical_compare(left.rbegin(), left.rend(), right.rbegin(), right.rend(),
                                        is_less);
  });
}

void PieceSearch::find(std::string_view text, std::vector<TokenId>& found) const {
  found.assign(text.empty() ? 0 : text.size() - 1, kNoToken);
  auto begin = order_.begin();
  auto end = order_.end();
  for (size_t depth = 0; depth < found.size() && begin != end; ++depth) {
    if (texts_[*begin].size() == depth) ++begin;  // it was found a byte ago
    const uint8_t wanted = byte(text, depth);
    const auto byte_of = [&](TokenId id) { return byte(texts_[id], depth); };
    // Pieces may share a long prefix, along which the range does not shrink.
    const bool all_have =
        begin != end && byte_of(*begin) == wanted && byte_of(*(end - 1)) == wanted;
    if (!all_have) {
      begin = std::partition_point(begin, end, [&](TokenId id) { return byte_of(id) < wanted; });
      end = std::partition_point(begin, end, [&](TokenId id) { return byte_of(id) == wanted; });
    }
    if (begin != end && texts_[*begin].size() == depth + 1) found[depth] = *begin;
  }
}

}  // namespace arenite::convert
