// SPDX-License-Identifier: Apache-2.0
// The fields of sentencepiece_model.proto that decide how text becomes pieces.
#include "convert/tokenizers/sentencepiece_model.h"

#include <string_view>
#include <utility>

#include "convert/files/error.h"
#include "convert/tokenizers/protobuf.h"
#include "convert/tokenizers/sentence_pieces.h"
#include "convert/tokenizers/tokenizer_file.h"

namespace arenite::convert {
namespace {

using Type = ProtobufField::Type;

// ModelProto
constexpr uint32_t kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3;
// SentencePiece
constexpr uint32_t kPieceText = 1, kPieceScore = 2, kPieceType = 3;
// TrainerSpec
constexpr uint32_t kModelType = 3, kSpaceAsSuffix = 24, kByteFallback = 35, kBosId = 41,
                   kEosId = 42;
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
                          field.number == kByteFallback || field.number == kBosId ||
                          field.number == kEosId;
    if (!is_known) continue;  // the rest says how it was trained
    expect(reader, field, Type::kVarint);
    if (field.number == kModelType) model.model_type = field.integer;
    if (field.number == kSpaceAsSuffix) model.space_as_suffix = field.integer != 0;
    if (field.number == kByteFallback) model.byte_fallback = field.integer != 0;
    if (field.number == kBosId) model.bos = static_cast<int32_t>(field.integer);
    if (field.number == kEosId) model.eos = static_cast<int32_t>(field.integer);
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

}  // namespace

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

}  // namespace arenite::convert
