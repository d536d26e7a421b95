// SPDX-License-Identifier: Apache-2.0
// Translates the FlatBuffers accessors of a tokenizer into spans.
#include "format/tokenizer_reader.h"

#include "model_generated.h"

namespace arenite::format {
namespace {

template <typename T>
std::span<const T> elements(const flatbuffers::Vector<T>* vector) {
  if (vector == nullptr) return {};
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
  view.kind = tokenizer_kind(file);
  view.pattern = static_cast<Pattern>(table.pattern());
  view.prefix = static_cast<Prefix>(table.prefix());
  view.unknown = static_cast<Unknown>(table.unknown());
  view.flags = table.flags();
  view.bos = table.bos();
  view.unknown_token = table.unknown_token();
  view.ends = elements(table.ends());
  view.token_offsets = elements(table.token_offsets());
  view.token_bytes = {reinterpret_cast<const char*>(table.token_bytes()->data()),
                      table.token_bytes()->size()};
  view.byte_tokens = elements(table.byte_tokens());
  view.characters = elements(table.characters());
  view.character_tokens = elements(table.character_tokens());
  view.merge_begin = elements(table.merge_begin());
  view.merge_rights = elements(table.merge_rights());
  view.merge_ranks = elements(table.merge_ranks());
  view.merge_tokens = elements(table.merge_tokens());
  view.whole_tokens = elements(table.whole_tokens());
  view.specials = elements(table.specials());
  view.special_flags = elements(table.special_flags());
  view.special_order = elements(table.special_order());
  view.letters = elements(table.letters());
  view.numbers = elements(table.numbers());
  view.pair_separators = table.pair_separators();
  view.word_characters_max = table.word_characters_max();
  view.dropped = elements(table.dropped());
  view.punctuation = elements(table.punctuation());
  view.fold_from = elements(table.fold_from());
  view.fold_to = elements(table.fold_to());
  view.fold_sequences = elements(table.fold_sequences());
  return view;
}

}  // namespace arenite::format
