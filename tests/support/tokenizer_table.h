// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a model file by the names of its lists and choices, to change them in place.
#ifndef ARENITE_TESTS_SUPPORT_TOKENIZER_TABLE_H_
#define ARENITE_TESTS_SUPPORT_TOKENIZER_TABLE_H_

#include "format/tokenizer_lists.h"
#include "support/model_surgery.h"

namespace arenite::test {

// The numbers of format::TokenizerChoices.
struct TokenizerNumbers {
  uint32_t kind, pattern, prefix, unknown, flags, bos, unknown_token;
  uint32_t pair_separators, word_characters_max;
};
static_assert(sizeof(TokenizerNumbers) == sizeof(format::TokenizerChoices));

inline void set_choice(ModelSurgery& surgery, uint32_t TokenizerNumbers::*field, uint32_t value) {
  const format::TokenizerChoices* const choices = surgery.model().tokenizer()->choices();
  TokenizerNumbers numbers;
  std::memcpy(&numbers, choices, sizeof(numbers));
  numbers.*field = value;
  surgery.overwrite(choices, numbers);
}

class TokenizerTable {
 public:
  using Numbers = const flatbuffers::Vector<uint32_t>*;

  explicit TokenizerTable(const ModelSurgery& surgery) : table_(*surgery.model().tokenizer()) {}

  const flatbuffers::Vector<uint8_t>* token_bytes() const { return table_.token_bytes(); }
  const flatbuffers::Vector<uint8_t>* special_flags() const { return table_.special_flags(); }
  Numbers ends() const { return list(format::TokenizerList::kEnds); }
  Numbers token_offsets() const { return list(format::TokenizerList::kTokenOffsets); }
  Numbers byte_tokens() const { return list(format::TokenizerList::kByteTokens); }
  Numbers characters() const { return list(format::TokenizerList::kCharacters); }
  Numbers character_tokens() const { return list(format::TokenizerList::kCharacterTokens); }
  Numbers merge_begin() const { return list(format::TokenizerList::kMergeBegin); }
  Numbers merge_rights() const { return list(format::TokenizerList::kMergeRights); }
  Numbers merge_ranks() const { return list(format::TokenizerList::kMergeRanks); }
  Numbers merge_tokens() const { return list(format::TokenizerList::kMergeTokens); }
  Numbers whole_tokens() const { return list(format::TokenizerList::kWholeTokens); }
  Numbers specials() const { return list(format::TokenizerList::kSpecials); }
  Numbers special_order() const { return list(format::TokenizerList::kSpecialOrder); }
  Numbers letters() const { return list(format::TokenizerList::kLetters); }
  Numbers numbers() const { return list(format::TokenizerList::kNumbers); }
  Numbers dropped() const { return list(format::TokenizerList::kDropped); }
  Numbers punctuation() const { return list(format::TokenizerList::kPunctuation); }
  Numbers fold_from() const { return list(format::TokenizerList::kFoldFrom); }
  Numbers fold_to() const { return list(format::TokenizerList::kFoldTo); }
  Numbers fold_sequences() const { return list(format::TokenizerList::kFoldSequences); }

 private:
  Numbers list(format::TokenizerList name) const {
    return table_.lists()->Get(static_cast<uint32_t>(name))->values();
  }

  const format::Tokenizer& table_;
};

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_TOKENIZER_TABLE_H_
