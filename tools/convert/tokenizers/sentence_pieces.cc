// SPDX-License-Identifier: Apache-2.0
// From scores to ranks, and from pieces to the pairs that make them.
#include "convert/tokenizers/sentence_pieces.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <unordered_map>

#include "convert/error.h"
#include "core/utf8.h"

namespace arenite::convert {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

using PieceIds = std::unordered_map<std::string_view, TokenId>;

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

void add_pairs(TokenizerSpec& spec, std::string_view text, TokenId id, uint32_t rank,
               const PieceIds& ids) {
  for (size_t cut = decode_utf8(text).bytes; cut < text.size();
       cut += decode_utf8(text.substr(cut)).bytes) {
    const auto left = ids.find(text.substr(0, cut));
    const auto right = ids.find(text.substr(cut));
    if (left == ids.end() || right == ids.end()) continue;
    spec.merges.push_back({left->second, right->second, id, rank});
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
  PieceIds ids;
  for (TokenId id = 0; id < pieces.size(); ++id) {
    const SentencePiece& piece = pieces[id];
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
        if (!ids.emplace(piece.text, id).second) {
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
  const std::vector<uint32_t> ranks = ranks_of(pieces);
  for (TokenId id = 0; id < pieces.size(); ++id) {
    const bool is_unused = pieces[id].type == PieceType::kUnused;
    if ((pieces[id].type != PieceType::kNormal && !is_unused) || pieces[id].text.empty()) continue;
    const size_t merges = spec.merges.size();
    add_pairs(spec, pieces[id].text, id, ranks[id], ids);
    if (!is_unused || spec.merges.size() == merges) continue;
    throw InputError(
        "{}: piece {} ({}) is unused, yet merging makes it: expected unused pieces that only fill "
        "the vocabulary up",
        quote(spec.origin), id, quote(pieces[id].text));
  }
}

}  // namespace arenite::convert
