// SPDX-License-Identifier: Apache-2.0
// Finds the merges of pieces through an index of their texts.
#include "convert/tokenizers/subwords.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_set>
#include <utility>

#include "convert/files/error.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "core/utf8.h"

namespace arenite::convert {
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

// Pieces, from the highest score on; equal scores have equal ranks.
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

// Adds the merges that make pieces of two others.
class PairFinder {
 public:
  // `texts` of the pieces that are merged, by id; empty for the others.
  PairFinder(TokenizerSpec& spec, const std::vector<std::string_view>& texts)
      : spec_(spec),
        name_(quote(spec.origin)),
        lefts_(texts, TextEdge::kBegin),
        rights_(texts, TextEdge::kEnd) {}

  // Adds those that make `text`, and returns how many there are.
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
        "{}: piece {} ({}) is unused, yet merging makes it: expected unused pieces that only fill "
        "the vocabulary up",
        quote(spec.origin), id, quote(pieces[id].text));
  }
}

}  // namespace

std::string piece_bytes(std::string_view token) {
  std::string bytes;
  for (size_t i = 0; i < token.size();) {
    if (token.substr(i, kLowLine.size()) == kLowLine) {
      bytes += ' ';
      i += kLowLine.size();
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

void add_character(TokenizerSpec& spec, std::string_view written, TokenId token) {
  if (written.empty()) return;
  const CodePoint code_point = decode_utf8(written);
  if (code_point.value == kInvalidCodePoint || code_point.bytes != written.size()) return;
  spec.characters[code_point.value] = token;
  if (written == kLowLine) spec.characters[' '] = token;
}

void fill_sentence_pieces(TokenizerSpec& spec, const std::vector<SentencePiece>& pieces,
                          bool escaped) {
  spec.kind = format::TokenizerKind::kSentencePieces;
  const std::string name = quote(spec.origin);
  std::unordered_set<std::string_view> seen;
  for (TokenId id = 0; id < pieces.size(); ++id) {
    const SentencePiece& piece = pieces[id];
    check_token(name, id, piece.text);
    const std::string bytes = escaped ? piece_bytes(piece.text) : piece.text;
    if (std::isnan(piece.score)) {
      throw InputError("{}: the score of piece {} ({}) is not a number", quote(spec.origin), id,
                       quote(piece.text));
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
          throw InputError("{}: piece {} is {} once more: expected each text once",
                           quote(spec.origin), id, quote(piece.text));
        }
        add_character(spec, piece.text, id);
        break;
      case PieceType::kUnused:
        break;
    }
    const bool is_name = piece.type == PieceType::kUnknown || piece.type == PieceType::kControl;
    spec.tokens.push_back(is_name ? piece.text : bytes);
  }
  add_all_pairs(spec, pieces);
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
    // Many pieces may have long runs in common, along which none is left out.
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
