// SPDX-License-Identifier: Apache-2.0
// Translates the FlatBuffers accessors of a tokenizer into the spans of a TokenizerView.
#include "format/tokenizer_reader.h"

#include <iterator>

#include "format/schema.h"

namespace arenite::format {
namespace {

// In the order of TokenizerList.
constexpr std::span<const uint32_t> TokenizerView::*kLists[] = {
    &TokenizerView::ends,           &TokenizerView::token_offsets,    &TokenizerView::byte_tokens,
    &TokenizerView::characters,     &TokenizerView::character_tokens, &TokenizerView::merge_begin,
    &TokenizerView::merge_rights,   &TokenizerView::merge_ranks,      &TokenizerView::merge_tokens,
    &TokenizerView::whole_tokens,   &TokenizerView::specials,         &TokenizerView::special_order,
    &TokenizerView::columns,        &TokenizerView::splits,           &TokenizerView::dropped,
    &TokenizerView::punctuation,    &TokenizerView::fold_from,        &TokenizerView::fold_to,
    &TokenizerView::fold_sequences, &TokenizerView::before,           &TokenizerView::after,
    &TokenizerView::steps,          &TokenizerView::scores,           &TokenizerView::charsmap,
    &TokenizerView::graphemes};
static_assert(std::size(kLists) == kTokenizerLists);

// Converts to an enum of 8 bits; larger values become UINT8_MAX, which is no enumerator.
template <typename T>
T choice(uint32_t number) {
  return static_cast<T>(number < UINT8_MAX ? number : UINT8_MAX);
}

}  // namespace

const std::span<const uint32_t>& TokenizerView::list(TokenizerList which) const {
  return this->*kLists[static_cast<uint32_t>(which)];
}

bool has_tokenizer(std::span<const std::byte> file) {
  return GetModel(file.data())->tokenizer() != nullptr;
}

uint32_t tokenizer_lists(std::span<const std::byte> file) {
  return GetModel(file.data())->tokenizer()->lists()->size();
}

TokenizerKind tokenizer_kind(std::span<const std::byte> file) {
  return choice<TokenizerKind>(GetModel(file.data())->tokenizer()->choices()->kind());
}

TokenizerView tokenizer_view(std::span<const std::byte> file) {
  const Tokenizer& table = *GetModel(file.data())->tokenizer();
  const TokenizerChoices& choices = *table.choices();
  TokenizerView view;
  view.kind = choice<TokenizerKind>(choices.kind());
  view.prefix = choice<Prefix>(choices.prefix());
  view.unknown = choice<Unknown>(choices.unknown());
  view.flags = choices.flags();
  view.bos = choices.bos();
  view.unknown_token = choices.unknown_token();
  view.pair_separators = choices.pair_separators();
  view.word_characters_max = choices.word_characters_max();
  const auto& bytes = *table.token_bytes();
  view.token_bytes = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  view.special_flags = {table.special_flags()->data(), table.special_flags()->size()};
  const uint32_t lists = linked(Need::kUnigram) ? tokenizer_lists(file) : kFirstTokenizerLists;
  for (uint32_t i = 0; i < lists; ++i) {
    const auto& values = *table.lists()->Get(i)->values();
    view.*kLists[i] = {values.data(), values.size()};
  }
  return view;
}

}  // namespace arenite::format
