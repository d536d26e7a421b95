// SPDX-License-Identifier: Apache-2.0
// Changes one number of a tokenizer in a model file, by the names of its lists and options.
#ifndef ARENITE_TESTS_RUNTIME_VERIFY_TOKENIZER_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_VERIFY_TOKENIZER_FIXTURE_H_

#include "format/tokenizer_reader.h"
#include "runtime/format/verify_fixture.h"

namespace arenite::test {

using Change = std::function<void(ModelSurgery&)>;

// The numbers of format::TokenizerChoices.
struct TokenizerNumbers {
  uint32_t kind, prefix, unknown, flags, bos, unknown_token;
  uint32_t pair_separators, word_characters_max;
};
static_assert(sizeof(TokenizerNumbers) == sizeof(format::TokenizerChoices));

inline const flatbuffers::Vector<uint32_t>* list_of(const ModelSurgery& surgery,
                                                    format::TokenizerList name) {
  return surgery.model().tokenizer()->lists()->Get(static_cast<uint32_t>(name))->values();
}

// One element of a list becomes `value`.
inline Change put(format::TokenizerList name, uint32_t index, uint32_t value) {
  return [=](ModelSurgery& s) {
    s.overwrite(list_of(s, name)->Data() + index * sizeof(value), value);
  };
}

// A list says that it has `count` elements.
inline Change resize(format::TokenizerList name, uint32_t count) {
  return [=](ModelSurgery& s) { s.set_count(list_of(s, name), count); };
}

inline Change choose(uint32_t TokenizerNumbers::*field, uint32_t value) {
  return [=](ModelSurgery& s) {
    const format::TokenizerChoices* const choices = s.model().tokenizer()->choices();
    TokenizerNumbers numbers;
    std::memcpy(&numbers, choices, sizeof(numbers));
    numbers.*field = value;
    s.overwrite(choices, numbers);
  };
}

inline Change all_of(std::vector<Change> changes) {
  return [=](ModelSurgery& s) {
    for (const Change& change : changes) change(s);
  };
}

inline ModelSurgery changed(ModelSurgery surgery, const Change& change) {
  change(surgery);
  surgery.repair();
  return surgery;
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_VERIFY_TOKENIZER_FIXTURE_H_
