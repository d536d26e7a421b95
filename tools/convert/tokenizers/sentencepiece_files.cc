// SPDX-License-Identifier: Apache-2.0
// tokenizer.model, a protocol buffer, and tokenizer.bin, which llama2.c makes of it.
#include "convert/tokenizers/tokenizer_readers.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "convert/files/error.h"
#include "convert/tokenizers/subwords.h"

namespace arenite::convert {
namespace {

struct ProtobufField {
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t integer = 0;      // of kVarint, kFixed64, kFixed32
  std::string_view bytes{};  // of kBytes: text, or another message

  float as_float() const;  // of kFixed32
};

class ProtobufReader {
 public:
  // `where` says in error messages which message this is.
  ProtobufReader(std::string_view message, std::string where)
      : message_(message), where_(std::move(where)) {}

  // The next field. False at the end. Throws InputError for what is no message.
  bool next(ProtobufField& field);

  const std::string& where() const { return where_; }

 private:
  uint64_t varint();
  uint64_t fixed(size_t bytes);

  std::string_view message_;
  std::string where_;
  size_t position_ = 0;
};

using Type = ProtobufField::Type;

// ModelProto
constexpr uint32_t kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3;
// SentencePiece
constexpr uint32_t kPieceText = 1, kPieceScore = 2, kPieceType = 3;
// TrainerSpec
constexpr uint32_t kModelType = 3, kSpaceAsSuffix = 24, kByteFallback = 35, kBosIdField = 41,
                   kEosIdField = 42;
// NormalizerSpec
constexpr uint32_t kNormalizerName = 1, kCharsMap = 2, kDummyPrefix = 3, kRemoveSpaces = 4,
                   kEscapeSpaces = 5;

constexpr uint64_t kBpe = 2;
const char* const kModelTypes[] = {"unknown", "unigram", "BPE", "word", "char"};

// What is not in the file has the default of the .proto.
struct Model {
  std::vector<SentencePiece> pieces;
  uint64_t model_type = 1;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  int32_t bos = 1;
  int32_t eos = 2;
  std::string normalizer;
  bool has_charsmap = false;
  bool dummy_prefix = true;
  bool remove_spaces = true;
  bool escape_spaces = true;
};

void expect(const ProtobufReader& reader, const ProtobufField& field, Type type) {
  if (field.type == type) return;
  throw InputError("{}: field {} is of wire type {}: expected {}", reader.where(), field.number,
                   static_cast<int>(field.type), static_cast<int>(type));
}

SentencePiece read_piece(std::string_view message, const std::string& where) {
  SentencePiece piece;
  ProtobufReader reader(message, where);
  for (ProtobufField field; reader.next(field);) {
    if (field.number == kPieceText) {
      expect(reader, field, Type::kBytes);
      piece.text = field.bytes;
    } else if (field.number == kPieceScore) {
      expect(reader, field, Type::kFixed32);
      piece.score = field.as_float();
    } else if (field.number == kPieceType) {
      expect(reader, field, Type::kVarint);
      if (field.integer < 1 || field.integer > 6) {
        throw InputError("{}: its type is {}: expected 1 to 6", where, field.integer);
      }
      piece.type = static_cast<PieceType>(field.integer);
    }
  }
  return piece;
}

void read_trainer_spec(Model& model, std::string_view message, const std::string& where) {
  ProtobufReader reader(message, where);
  for (ProtobufField field; reader.next(field);) {
    const bool is_known = field.number == kModelType || field.number == kSpaceAsSuffix ||
                          field.number == kByteFallback || field.number == kBosIdField ||
                          field.number == kEosIdField;
    if (!is_known) continue;  // the rest says how it was trained
    expect(reader, field, Type::kVarint);
    if (field.number == kModelType) model.model_type = field.integer;
    if (field.number == kSpaceAsSuffix) model.space_as_suffix = field.integer != 0;
    if (field.number == kByteFallback) model.byte_fallback = field.integer != 0;
    if (field.number == kBosIdField) model.bos = static_cast<int32_t>(field.integer);
    if (field.number == kEosIdField) model.eos = static_cast<int32_t>(field.integer);
  }
}

void read_normalizer_spec(Model& model, std::string_view message, const std::string& where) {
  ProtobufReader reader(message, where);
  for (ProtobufField field; reader.next(field);) {
    if (field.number == kNormalizerName || field.number == kCharsMap) {
      expect(reader, field, Type::kBytes);
      if (field.number == kNormalizerName) model.normalizer = field.bytes;
      if (field.number == kCharsMap) model.has_charsmap = !field.bytes.empty();
    } else if (field.number >= kDummyPrefix && field.number <= kEscapeSpaces) {
      expect(reader, field, Type::kVarint);
      if (field.number == kDummyPrefix) model.dummy_prefix = field.integer != 0;
      if (field.number == kRemoveSpaces) model.remove_spaces = field.integer != 0;
      if (field.number == kEscapeSpaces) model.escape_spaces = field.integer != 0;
    }
  }
}

void check_model(const Model& model, const std::string& name) {
  if (model.model_type != kBpe) {
    throw InputError("{}: trainer_spec.model_type is {} ({}): only BPE models are supported", name,
                     model.model_type,
                     model.model_type < 5 ? kModelTypes[model.model_type] : "not known");
  }
  if (model.has_charsmap) {
    throw InputError(
        "{}: normalizer_spec.name is {}: only 'identity' is supported, which does not "
        "change the text",
        name, quote(model.normalizer));
  }
  const struct {
    const char* field;
    bool found, expected;
  } flags[] = {
      {"trainer_spec.treat_whitespace_as_suffix", model.space_as_suffix, false},
      {"normalizer_spec.remove_extra_whitespaces", model.remove_spaces, false},
      {"normalizer_spec.escape_whitespaces", model.escape_spaces, true},
  };
  for (const auto& flag : flags) {
    if (flag.found == flag.expected) continue;
    throw InputError("{}: {} is {}: only {} is supported", name, flag.field, flag.found,
                     flag.expected);
  }
}

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

float ProtobufField::as_float() const {
  return std::bit_cast<float>(static_cast<uint32_t>(integer));
}

bool ProtobufReader::next(ProtobufField& field) {
  if (position_ == message_.size()) return false;
  const uint64_t key = varint();
  field = {};
  field.number = static_cast<uint32_t>(key >> 3);
  field.type = static_cast<ProtobufField::Type>(key & 7);
  if (key >> 32 != 0 || field.number == 0) {
    throw InputError("{}: no field can have the number {}: the file is damaged", where_, key >> 3);
  }
  switch (field.type) {
    case ProtobufField::Type::kVarint:
      field.integer = varint();
      return true;
    case ProtobufField::Type::kFixed64:
      field.integer = fixed(8);
      return true;
    case ProtobufField::Type::kFixed32:
      field.integer = fixed(4);
      return true;
    case ProtobufField::Type::kBytes: {
      const uint64_t given = varint();
      if (given > message_.size() - position_) {
        throw InputError("{}: field {} has {} bytes and {} are left: the file is damaged", where_,
                         field.number, given, message_.size() - position_);
      }
      const auto length = static_cast<size_t>(given);
      field.bytes = message_.substr(position_, length);
      position_ += length;
      return true;
    }
  }
  throw InputError("{}: field {} is of wire type {}: expected 0, 1, 2 or 5", where_, field.number,
                   key & 7);
}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (position_ == message_.size()) {
      throw InputError("{}: ends in the middle of a number: the file is truncated", where_);
    }
    const auto byte = static_cast<uint8_t>(message_[position_++]);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  throw InputError("{}: a number has more than ten bytes: the file is damaged", where_);
}

uint64_t ProtobufReader::fixed(size_t bytes) {
  if (bytes > message_.size() - position_) {
    throw InputError("{}: ends in the middle of a number: the file is truncated", where_);
  }
  uint64_t value = 0;
  for (size_t i = 0; i < bytes; ++i) {
    value |= uint64_t{static_cast<uint8_t>(message_[position_ + i])} << (8 * i);
  }
  position_ += bytes;
  return value;
}

TokenizerSpec read_sentencepiece_model(const std::filesystem::path& file) {
  const TokenizerFile source(file);
  const std::string& name = source.name();
  Model model;
  ProtobufReader reader(source.text(), name);
  for (ProtobufField field; reader.next(field);) {
    if (field.number > kNormalizerSpec) continue;  // self-tests and denormalization
    expect(reader, field, Type::kBytes);
    if (field.number == kPieces) {
      const std::string where = fmt::format("{}, piece {}", name, model.pieces.size());
      SentencePiece piece = read_piece(field.bytes, where);
      check_token(name, model.pieces.size(), piece.text);
      model.pieces.push_back(std::move(piece));
    }
    if (field.number == kTrainerSpec)
      read_trainer_spec(model, field.bytes, name + ", trainer_spec");
    if (field.number == kNormalizerSpec) {
      read_normalizer_spec(model, field.bytes, name + ", normalizer_spec");
    }
  }
  if (model.pieces.empty()) {
    throw InputError("{} has no pieces: it is no model file of SentencePiece", name);
  }
  check_model(model, name);

  TokenizerSpec spec;
  spec.origin = file.string();
  fill_sentence_pieces(spec, model.pieces, true);
  if (!model.byte_fallback) spec.byte_tokens.clear();
  spec.unknown =
      spec.unknown_token == kNoToken ? format::Unknown::kRefuse : format::Unknown::kToken;
  spec.flags = format::kFuseUnknown;
  if (model.dummy_prefix) {
    spec.prefix = format::Prefix::kAlways;
    spec.flags |= format::kDropFirstSpace;
  }
  if (model.bos >= 0) {
    spec.bos = static_cast<TokenId>(model.bos);
    spec.flags |= format::kAddBos;
  }
  if (model.eos >= 0) spec.ends = {static_cast<TokenId>(model.eos)};
  return spec;
}

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
