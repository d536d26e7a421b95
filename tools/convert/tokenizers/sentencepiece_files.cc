// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.model, a protocol buffer, and tokenizer.bin, which llama2.c derives from it.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/text_changes.h"
#include "convert/tokenizers/tokenizer_readers.h"

namespace arenite::convert {
namespace {

// Reads bytes from front to back.
class ByteReader {
 public:
  // `where` describes the bytes in error messages.
  ByteReader(std::string_view bytes, std::string where) : rest_(bytes), where_(std::move(where)) {}

  const std::string& where() const { return where_; }
  bool at_end() const { return rest_.empty(); }

  // Returns the next `length` bytes. Throws InputError if fewer are left; `what` describes them in
  // the message.
  std::string_view text(uint64_t length, std::string_view what) {
    refuse_if(length > rest_.size(),
              "{}: {} has {} bytes and {} are left: the file is truncated or damaged", where_, what,
              length, rest_.size());
    const std::string_view found = rest_.substr(0, static_cast<size_t>(length));
    rest_.remove_prefix(found.size());
    return found;
  }

  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, text(sizeof value, "a number").data(), sizeof value);
    return value;
  }

 private:
  std::string_view rest_;
  std::string where_;
};

// ---- protocol buffers ----

struct ProtobufField {
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t integer = 0;      // of kVarint, kFixed64, kFixed32
  std::string_view bytes{};  // of kBytes: text, or another message
};
using Type = ProtobufField::Type;

uint64_t varint(ByteReader& reader) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = reader.number<uint8_t>();
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  throw InputError("{}: a varint has more than ten bytes: the file is damaged", reader.where());
}

// Reads the next field of a message; false at the end. Throws InputError for malformed bytes.
bool next_field(ByteReader& reader, ProtobufField& field) {
  if (reader.at_end()) return false;
  const uint64_t key = varint(reader);
  field = {static_cast<uint32_t>(key >> 3), static_cast<Type>(key & 7)};
  refuse_if(key >> 32 != 0 || field.number == 0, "{}: found field number {}: the file is damaged",
            reader.where(), key >> 3);
  switch (field.type) {
    case Type::kVarint:
      field.integer = varint(reader);
      return true;
    case Type::kFixed64:
      field.integer = reader.number<uint64_t>();
      return true;
    case Type::kFixed32:
      field.integer = reader.number<uint32_t>();
      return true;
    case Type::kBytes:
      field.bytes = reader.text(varint(reader), fmt::format("field {}", field.number));
      return true;
  }
  throw InputError("{}: field {} is of wire type {}: expected 0, 1, 2 or 5", reader.where(),
                   field.number, key & 7);
}

void expect(const ByteReader& reader, const ProtobufField& field, Type type) {
  if (field.type == type) return;
  throw InputError("{}: field {} is of wire type {}: expected {}", reader.where(), field.number,
                   static_cast<int>(field.type), static_cast<int>(type));
}

// ---- tokenizer.model ----

enum ModelType : uint64_t { kUnigram = 1, kBpe, kWord, kChar };

// Defaults are those of the .proto file.
struct SentencePieceModel {
  std::vector<SentencePiece> pieces;
  uint64_t model_type = kUnigram;
  bool byte_fallback = false;
  bool space_as_suffix = false;
  int32_t bos = 1;
  int32_t eos = 2;
  std::string charsmap;
  bool dummy_prefix = true;
  bool remove_spaces = true;
  bool escape_spaces = true;
};

// Sets a member of the model, or of its last piece.
template <auto kMember>
void set(SentencePieceModel& model, const ProtobufField& field) {
  auto& value = [&]() -> auto& {
    if constexpr (std::is_invocable_v<decltype(kMember), SentencePieceModel&>)
      return model.*kMember;
    else
      return model.pieces.back().*kMember;
  }
  ();
  using Value = std::remove_reference_t<decltype(value)>;
  if constexpr (std::is_same_v<Value, std::string>) {
    value = field.bytes;
  } else if constexpr (std::is_same_v<Value, bool>) {
    value = field.integer != 0;
  } else if constexpr (std::is_same_v<Value, float>) {
    value = std::bit_cast<float>(static_cast<uint32_t>(field.integer));
  } else {
    value = static_cast<Value>(field.integer);
  }
}

// Field numbers of the messages in ModelProto.
constexpr uint32_t kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3;

constexpr struct {
  uint32_t message, field;
  Type type;
  void (*set)(SentencePieceModel& model, const ProtobufField& field);
} kFields[] = {
    {kPieces, 1, Type::kBytes, set<&SentencePiece::text>},
    {kPieces, 2, Type::kFixed32, set<&SentencePiece::score>},
    {kPieces, 3, Type::kVarint, set<&SentencePiece::type>},
    {kTrainerSpec, 3, Type::kVarint, set<&SentencePieceModel::model_type>},
    {kTrainerSpec, 24, Type::kVarint, set<&SentencePieceModel::space_as_suffix>},
    {kTrainerSpec, 35, Type::kVarint, set<&SentencePieceModel::byte_fallback>},
    {kTrainerSpec, 41, Type::kVarint, set<&SentencePieceModel::bos>},
    {kTrainerSpec, 42, Type::kVarint, set<&SentencePieceModel::eos>},
    {kNormalizerSpec, 2, Type::kBytes, set<&SentencePieceModel::charsmap>},
    {kNormalizerSpec, 3, Type::kVarint, set<&SentencePieceModel::dummy_prefix>},
    {kNormalizerSpec, 4, Type::kVarint, set<&SentencePieceModel::remove_spaces>},
    {kNormalizerSpec, 5, Type::kVarint, set<&SentencePieceModel::escape_spaces>},
};

void read_message(SentencePieceModel& model, uint32_t message, ByteReader reader) {
  for (ProtobufField field; next_field(reader, field);) {
    for (const auto& known : kFields) {
      if (known.message != message || known.field != field.number) continue;
      expect(reader, field, known.type);
      refuse_if(
          known.message == kPieces && known.field == 3 && (field.integer < 1 || field.integer > 6),
          "{}: its type is {}: expected 1 to 6", reader.where(), field.integer);
      known.set(model, field);
    }
  }
}

void check_model(const SentencePieceModel& model, const std::string& name) {
  refuse_if(model.model_type < kUnigram || model.model_type > kChar,
            "{}: trainer_spec.model_type is {}: expected 1 to 4 (unigram, BPE, word or char)", name,
            model.model_type);
  const struct {
    const char* field;
    bool found, expected;
  } flags[] = {
      {"trainer_spec.treat_whitespace_as_suffix", model.space_as_suffix, false},
      {"normalizer_spec.escape_whitespaces", model.escape_spaces, true},
  };
  for (const auto& flag : flags) {
    if (flag.found == flag.expected) continue;
    throw InputError("{}: {} is {}: only {} is supported", name, flag.field, flag.found,
                     flag.expected);
  }
}

// Adds the normalizer's steps. User-defined symbols are found after them; SentencePiece keeps them
// from being changed.
void add_steps(TokenizerSpec& spec, const SentencePieceModel& model, const std::string& name) {
  TextChanges changes;
  if (!model.charsmap.empty()) {
    changes.take_charsmap(model.charsmap, name + ", precompiled_charsmap", true);
  }
  if (model.remove_spaces) {
    changes.steps.push_back({.kind = format::TextStep::kShrink, .least = 2});
    changes.steps.push_back({.kind = format::TextStep::kStrip, .sides = 1 | 2 | 4});
  }
  if (model.model_type == kWord) {  // whose tokens are looked up with spaces
    changes.steps.push_back(
        {.kind = format::TextStep::kReplace, .from = {kSpaceMarkCharacter}, .to = {' '}});
  }
  changes.apply(spec);
  if (changes.steps.empty()) return;
  for (TokenId id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type != PieceType::kUserDefined) continue;
    const std::string& symbol = spec.tokens[id];
    const bool is_kept = std::ranges::all_of(symbol, [&](char c) {
      const auto byte = static_cast<uint8_t>(c);
      return (byte >= ' ' && byte < 0x7F) || (byte >= 0x80 && model.charsmap.empty());
    });
    refuse_if(!is_kept || (model.remove_spaces && symbol.find("  ") != std::string::npos),
              "{}: user-defined symbol {} is one that the normalizer would change: expected "
              "printable ASCII, or the normalizer 'identity' and normalizer_spec."
              "remove_extra_whitespaces false",
              name, quote(symbol));
    if (spec.specials.contains(id)) spec.specials[id] |= format::kNormalized;
  }
}

// All pieces but control symbols are looked up. A user-defined symbol has a score by its length.
void fill_whole_pieces(TokenizerSpec& spec, const SentencePieceModel& model) {
  float least = std::numeric_limits<float>::max();
  float most = std::numeric_limits<float>::min();  // as in SentencePiece: at least about 0
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != PieceType::kNormal) continue;
    least = std::min(least, piece.score);
    most = std::max(most, piece.score);
  }
  for (TokenId id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const bool is_user_defined = piece.type == PieceType::kUserDefined;
    spec.scores.push_back(is_user_defined ? static_cast<float>(piece.text.size()) * most - 0.1
                                          : static_cast<double>(piece.score));
    if (piece.type != PieceType::kNormal && !is_user_defined) continue;
    spec.specials.erase(id);
    spec.whole_tokens.push_back(id);
  }
  spec.characters.clear();
  if (model.model_type == kUnigram) {
    spec.kind = format::TokenizerKind::kUnigram;
    spec.unknown_score = static_cast<double>(least - 10.0f);
  } else {  // words
    spec.kind = format::TokenizerKind::kBytePairs;
    spec.byte_tokens.assign(256, kNoToken);
    spec.splits = {{kSpaceSplit, 0, SplitManner::kWithNext}};
  }
}

// ---- tokenizer.bin ----

// llama2.c expects these ids.
constexpr TokenId kUnknownId = 0, kBosId = 1, kEosId = 2, kFirstByteId = 3;
constexpr size_t kFixedTokens = kFirstByteId + 256;

std::vector<SentencePiece> read_pieces(std::string_view bytes, const std::string& name) {
  ByteReader reader(bytes, name);
  const auto longest = reader.number<uint32_t>();
  std::vector<SentencePiece> pieces;
  while (!reader.at_end()) {
    refuse_if(pieces.size() == format::kVocabularyMax,
              "{} has more than {} tokens: a model file holds at most as many", name,
              format::kVocabularyMax);
    SentencePiece piece;
    piece.score = reader.number<float>();
    const auto length = reader.number<uint32_t>();
    refuse_if(length > longest,
              "{}: token {} has {} bytes: expected at most the {} that the file announces", name,
              pieces.size(), length, longest);
    const std::string_view text = reader.text(length, "a token");
    check_token(name, pieces.size(), text);
    piece.text = text;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// Byte tokens must be complete and at the expected ids, or absent.
bool mark_bytes(std::vector<SentencePiece>& pieces, const std::string& name) {
  const bool has_bytes = pieces.size() > kFirstByteId && piece_byte(pieces[kFirstByteId].text) == 0;
  refuse_if(has_bytes && pieces.size() < kFixedTokens,
            "{} has {} tokens: expected at least {}: unknown, begin, end and 256 bytes", name,
            pieces.size(), kFixedTokens);
  for (TokenId id = kFirstByteId; id < pieces.size(); ++id) {
    const bool is_byte = has_bytes && id < kFixedTokens;
    const int expected = is_byte ? static_cast<int>(id - kFirstByteId) : -1;
    if (is_byte) pieces[id].type = PieceType::kByte;
    if (piece_byte(pieces[id].text) == expected) continue;
    const std::string what = is_byte ? fmt::format("the byte {}", expected) : "no byte";
    throw InputError("{}: token {} is {}: expected {}; bytes are tokens {} to {}, or absent", name,
                     id, quote(pieces[id].text), what, kFirstByteId, kFixedTokens - 1);
  }
  return has_bytes;
}

}  // namespace

TokenizerSpec read_sentencepiece_model(const std::filesystem::path& file) {
  const TokenizerFile source(file);
  const std::string& name = source.name();
  SentencePieceModel model;
  ByteReader reader(source.text(), name);
  for (ProtobufField field; next_field(reader, field);) {
    if (field.number > kNormalizerSpec) continue;  // self-tests and denormalization
    expect(reader, field, Type::kBytes);
    std::string where =
        name + (field.number == kTrainerSpec ? ", trainer_spec" : ", normalizer_spec");
    if (field.number == kPieces) {
      where = fmt::format("{}, piece {}", name, model.pieces.size());
      model.pieces.emplace_back();
    }
    read_message(model, field.number, ByteReader(field.bytes, where));
    if (field.number == kPieces) {
      check_token(name, model.pieces.size() - 1, model.pieces.back().text);
    }
  }
  refuse_if(model.pieces.empty(), "{} has no pieces: expected a SentencePiece model file", name);
  check_model(model, name);

  TokenizerSpec spec;
  spec.origin = file.string();
  fill_sentence_pieces(spec, model.pieces, true, model.model_type == kBpe);
  if (!model.byte_fallback) spec.byte_tokens.clear();
  if (model.model_type == kUnigram || model.model_type == kWord) fill_whole_pieces(spec, model);
  add_steps(spec, model, name);
  spec.unknown =
      spec.unknown_token == kNoToken ? format::Unknown::kRefuse : format::Unknown::kToken;
  spec.flags = format::kFuseUnknown;
  if (model.model_type != kBpe) spec.flags |= format::kAsSentencePiece;
  if (model.dummy_prefix) spec.prefix = format::Prefix::kAlways;
  if (model.dummy_prefix || model.remove_spaces) spec.flags |= format::kDropFirstSpace;
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
  refuse_if(pieces.size() < kFirstByteId,
            "{} has {} tokens: expected at least {}: unknown, begin and end", name, pieces.size(),
            kFirstByteId);
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
