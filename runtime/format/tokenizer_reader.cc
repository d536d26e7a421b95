// SPDX-License-Identifier: Apache-2.0
// Translates the FlatBuffers accessors of a tokenizer into spans.
#include "format/tokenizer_reader.h"

#include "model_generated.h"

namespace arenite::format {
namespace {

template <typename T>
std::span<const T> list(const flatbuffers::Vector<T>* vector) {
  return {vector->data(), vector->size()};
}

}  // namespace

bool has_tokenizer(std::span<const std::byte> file) {
  return GetModel(file.data())->tokenizer() != nullptr;
}

TokenizerKind tokenizer_kind(std::span<const std::byte> file) {
  return static_cast<TokenizerKind>(GetModel(file.data())->tokenizer()->kind());
}

TokenizerView tokenizer_view(std::span<const std::byte> file) {
  const Tokenizer& table = *GetModel(file.data())->tokenizer();
  TokenizerView view;
  view.kind = static_cast<TokenizerKind>(table.kind());
  view.pattern = static_cast<Pattern>(table.pattern());
  view.prefix = static_cast<Prefix>(table.prefix());
  view.unknown = static_cast<Unknown>(table.unknown());
  view.flags = table.flags();
  view.bos = table.bos();
  view.unknown_token = table.unknown_token();
  view.ends = list(table.ends());
  view.token_offsets = list(table.token_offsets());
  const std::span<const uint8_t> bytes = list(table.token_bytes());
  view.token_bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  view.byte_tokens = list(table.byte_tokens());
  view.characters = list(table.characters());
  view.character_tokens = list(table.character_tokens());
  view.merge_begin = list(table.merge_begin());
  view.merge_rights = list(table.merge_rights());
  view.merge_ranks = list(table.merge_ranks());
  view.merge_tokens = list(table.merge_tokens());
  view.whole_tokens = list(table.whole_tokens());
  view.specials = list(table.specials());
  view.special_flags = list(table.special_flags());
  view.special_order = list(table.special_order());
  view.letters = list(table.letters());
  view.numbers = list(table.numbers());
  view.pair_separators = table.pair_separators();
  view.word_characters_max = table.word_characters_max();
  view.dropped = list(table.dropped());
  view.punctuation = list(table.punctuation());
  view.fold_from = list(table.fold_from());
  view.fold_to = list(table.fold_to());
  view.fold_sequences = list(table.fold_sequences());
  return view;
}

}  // namespace arenite::format
