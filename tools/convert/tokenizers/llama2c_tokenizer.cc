// SPDX-License-Identifier: Apache-2.0
// A length, then for each token its score, its length and its bytes, spaces already in place.
#include "convert/tokenizers/llama2c_tokenizer.h"

#include <cstring>
#include <string_view>

#include "convert/error.h"
#include "convert/file_map.h"
#include "convert/input_limits.h"
#include "convert/tokenizers/sentence_pieces.h"

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
    position_ += length;
    return bytes_.substr(position_ - length, length);
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
    piece.text = reader.text(length);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace

TokenizerSpec read_llama2c_tokenizer(const std::filesystem::path& file) {
  const FileMap map(file, kVocabularyBytesMax);
  const std::string name = quote(file.string());
  std::vector<SentencePiece> pieces = read_pieces(map.text(), name);
  if (pieces.size() < kFixedTokens) {
    throw InputError("{} has {} tokens: expected at least {}: unknown, begin, end and 256 bytes",
                     name, pieces.size(), kFixedTokens);
  }
  pieces[kUnknownId] = {"<unk>", 0.0f, PieceType::kUnknown};
  pieces[kBosId] = {"<s>", 0.0f, PieceType::kControl};  // the file has newlines around them
  pieces[kEosId] = {"</s>", 0.0f, PieceType::kControl};
  for (TokenId id = kFirstByteId; id < kFixedTokens; ++id) {
    if (piece_byte(pieces[id].text) != static_cast<int>(id - kFirstByteId)) {
      throw InputError("{}: token {} is {}: expected the byte {}", name, id, quote(pieces[id].text),
                       id - kFirstByteId);
    }
    pieces[id].type = PieceType::kByte;
  }

  TokenizerSpec spec;
  spec.origin = file.string();
  fill_sentence_pieces(spec, pieces, false);
  spec.unknown = format::Unknown::kToken;
  spec.prefix = format::Prefix::kAlways;
  spec.flags = format::kAddBos | format::kDropFirstSpace | format::kFuseUnknown;
  spec.bos = kBosId;
  spec.ends = {kEosId};
  return spec;
}

}  // namespace arenite::convert
