// SPDX-License-Identifier: Apache-2.0
// A length, then for each token its score, its length and its bytes, spaces already in place.
#include "convert/tokenizers/llama2c_tokenizer.h"

#include <cstring>
#include <string_view>

#include "convert/files/error.h"
#include "convert/tokenizers/sentence_pieces.h"
#include "convert/tokenizers/tokenizer_file.h"

namespace arenite::convert {
namespace {

// The program counts on these places.
constexpr TokenId kUnknownId = 0, kBosId = 1, kEosId = 2, kFirstByteId = 3;
constexpr size_t kFixedTokens = kFirstByteId + 256;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  bool at_end() const { return position_ == bytes_.size(); }

  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, text(sizeof value).data(), sizeof value);
    return value;
  }

  std::string_view text(uint64_t length) {
    if (length > bytes_.size() - position_) {
      throw InputError(
          "{}: {} bytes are needed at byte {} and {} are left: the file is truncated, "
          "or no tokenizer of llama2.c",
          name_, length, position_, bytes_.size() - position_);
    }
    const std::string_view found = bytes_.substr(position_, static_cast<size_t>(length));
    position_ += found.size();
    return found;
  }

 private:
  std::string_view bytes_;
  const std::string& name_;
  size_t position_ = 0;
};

std::vector<SentencePiece> read_pieces(std::string_view bytes, const std::string& name) {
  Reader reader(bytes, name);
  const auto longest = reader.number<uint32_t>();
  std::vector<SentencePiece> pieces;
  while (!reader.at_end()) {
    if (pieces.size() == format::kVocabularyMax) {
      throw InputError("{} has more than {} tokens", name, format::kVocabularyMax);
    }
    SentencePiece piece;
    piece.score = reader.number<float>();
    const auto length = reader.number<uint32_t>();
    if (length > longest) {
      throw InputError("{}: token {} has {} bytes: expected at most the {} that the file announces",
                       name, pieces.size(), length, longest);
    }
    const std::string_view text = reader.text(length);
    check_token(name, pieces.size(), text);
    piece.text = text;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// The bytes are all where the program counts on them, or there are none.
bool mark_bytes(std::vector<SentencePiece>& pieces, const std::string& name) {
  const bool has_bytes = pieces.size() > kFirstByteId && piece_byte(pieces[kFirstByteId].text) == 0;
  if (has_bytes && pieces.size() < kFixedTokens) {
    throw InputError("{} has {} tokens: expected at least {}: unknown, begin, end and 256 bytes",
                     name, pieces.size(), kFixedTokens);
  }
  for (TokenId id = kFirstByteId; id < pieces.size(); ++id) {
    const bool is_byte = has_bytes && id < kFixedTokens;
    const int expected = is_byte ? static_cast<int>(id - kFirstByteId) : -1;
    if (is_byte) pieces[id].type = PieceType::kByte;
    if (piece_byte(pieces[id].text) == expected) continue;
    const std::string what = is_byte ? fmt::format("the byte {}", expected) : "no byte";
    throw InputError("{}: token {} is {}: expected {}; bytes are tokens {} to {}, or none is", name,
                     id, quote(pieces[id].text), what, kFirstByteId, kFixedTokens - 1);
  }
  return has_bytes;
}

}  // namespace

TokenizerSpec read_llama2c_tokenizer(const std::filesystem::path& file) {
  const TokenizerFile source(file);
  const std::string& name = source.name();
  std::vector<SentencePiece> pieces = read_pieces(source.text(), name);
  if (pieces.size() < kFirstByteId) {
    throw InputError("{} has {} tokens: expected at least {}: unknown, begin and end", name,
                     pieces.size(), kFirstByteId);
  }
  pieces[kUnknownId] = {"<unk>", 0.0f, PieceType::kUnknown};
  pieces[kBosId] = {"<s>", 0.0f, PieceType::kControl};  // the file has newlines around them
  pieces[kEosId] = {"</s>", 0.0f, PieceType::kControl};
  const bool has_bytes = mark_bytes(pieces, name);

  TokenizerSpec spec;
  spec.origin = file.string();
  fill_sentence_pieces(spec, pieces, false);
  spec.unknown = format::Unknown::kToken;
  spec.flags = format::kAddBos | format::kFuseUnknown;
  if (has_bytes || spec.characters.contains(' ')) {  // else the space before a text is unknown
    spec.prefix = format::Prefix::kAlways;
    spec.flags |= format::kDropFirstSpace;
  }
  spec.bos = kBosId;
  spec.ends = {kEosId};
  return spec;
}

}  // namespace arenite::convert
