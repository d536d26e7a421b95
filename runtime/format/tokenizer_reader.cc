// SPDX-License-Identifier: Apache-2.0
// Translates the FlatBuffers accessors of a tokenizer into spans.
#include "format/tokenizer_reader.h"

#include "format/fields.h"
#include "model_generated.h"

namespace arenite::format {

bool has_tokenizer(std::span<const std::byte> file) {
  return field_place(GetModel(file.data()), Model::VT_TOKENIZER) != nullptr;
}

TokenizerKind tokenizer_kind(std::span<const std::byte> file) {
  const uint8_t* const table = field_target(GetModel(file.data()), Model::VT_TOKENIZER);
  return static_cast<TokenizerKind>(byte_field(table, Tokenizer::VT_KIND));
}

TokenizerView tokenizer_view(std::span<const std::byte> file) {
  const uint8_t* const table = field_target(GetModel(file.data()), Model::VT_TOKENIZER);
  TokenizerView view;
  view.kind = tokenizer_kind(file);
  view.pattern = static_cast<Pattern>(byte_field(table, Tokenizer::VT_PATTERN));
  view.prefix = static_cast<Prefix>(byte_field(table, Tokenizer::VT_PREFIX));
  view.unknown = static_cast<Unknown>(byte_field(table, Tokenizer::VT_UNKNOWN));
  view.flags = number_field(table, Tokenizer::VT_FLAGS);
  view.bos = number_field(table, Tokenizer::VT_BOS, kNoToken);
  view.unknown_token = number_field(table, Tokenizer::VT_UNKNOWN_TOKEN, kNoToken);
  view.ends = list_field<uint32_t>(table, Tokenizer::VT_ENDS);
  view.token_offsets = list_field<uint32_t>(table, Tokenizer::VT_TOKEN_OFFSETS);
  const auto bytes = list_field<char>(table, Tokenizer::VT_TOKEN_BYTES);
  view.token_bytes = {bytes.data(), bytes.size()};
  view.byte_tokens = list_field<uint32_t>(table, Tokenizer::VT_BYTE_TOKENS);
  view.characters = list_field<uint32_t>(table, Tokenizer::VT_CHARACTERS);
  view.character_tokens = list_field<uint32_t>(table, Tokenizer::VT_CHARACTER_TOKENS);
  view.merge_begin = list_field<uint32_t>(table, Tokenizer::VT_MERGE_BEGIN);
  view.merge_rights = list_field<uint32_t>(table, Tokenizer::VT_MERGE_RIGHTS);
  view.merge_ranks = list_field<uint32_t>(table, Tokenizer::VT_MERGE_RANKS);
  view.merge_tokens = list_field<uint32_t>(table, Tokenizer::VT_MERGE_TOKENS);
  view.whole_tokens = list_field<uint32_t>(table, Tokenizer::VT_WHOLE_TOKENS);
  view.specials = list_field<uint32_t>(table, Tokenizer::VT_SPECIALS);
  view.special_flags = list_field<uint8_t>(table, Tokenizer::VT_SPECIAL_FLAGS);
  view.special_order = list_field<uint32_t>(table, Tokenizer::VT_SPECIAL_ORDER);
  view.letters = list_field<uint32_t>(table, Tokenizer::VT_LETTERS);
  view.numbers = list_field<uint32_t>(table, Tokenizer::VT_NUMBERS);
  view.pair_separators = number_field(table, Tokenizer::VT_PAIR_SEPARATORS);
  view.word_characters_max = number_field(table, Tokenizer::VT_WORD_CHARACTERS_MAX);
  view.dropped = list_field<uint32_t>(table, Tokenizer::VT_DROPPED);
  view.punctuation = list_field<uint32_t>(table, Tokenizer::VT_PUNCTUATION);
  view.fold_from = list_field<uint32_t>(table, Tokenizer::VT_FOLD_FROM);
  view.fold_to = list_field<uint32_t>(table, Tokenizer::VT_FOLD_TO);
  view.fold_sequences = list_field<uint32_t>(table, Tokenizer::VT_FOLD_SEQUENCES);
  return view;
}

}  // namespace arenite::format
