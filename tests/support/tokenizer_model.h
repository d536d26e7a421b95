// SPDX-License-Identifier: Apache-2.0
// Model files with a tokenizer, and the tokenizer loaded from one, in guarded memory.
#ifndef ARENITE_TESTS_SUPPORT_TOKENIZER_MODEL_H_
#define ARENITE_TESTS_SUPPORT_TOKENIZER_MODEL_H_

#include <string>
#include <string_view>
#include <vector>

#include "arenite/tokenizer.h"
#include "convert/files/memory.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/test_session.h"

namespace arenite::test {

// A small attention model with this tokenizer.
convert::AlignedBytes model_with(convert::TokenizerSpec spec);

class TestTokenizer {
 public:
  explicit TestTokenizer(const convert::TokenizerSpec& spec, Guard guard = Guard::kBehind);

  const Tokenizer* operator->() const { return &tokenizer_; }
  const Tokenizer& operator*() const { return tokenizer_; }

  // Encodes in a guarded span of exactly encode_tokens_max; throws what a failure says.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Encodes without the special tokens around a text.
  std::vector<TokenId> encode_bare(std::string_view text) const;
  std::string decode(const std::vector<TokenId>& ids, const DecodeOptions& options = {}) const;

  // The pieces as text, for messages and comparisons.
  std::vector<std::string> texts(const std::vector<TokenId>& ids) const;

 private:
  TestModel model_;
  Tokenizer tokenizer_;
};

// Puts Python's letters and numbers into the spec, for builds whose converter has none.
void use_python_classes(convert::TokenizerSpec& spec);

// Byte-level BPE: the 256 bytes, then for each word the merges that make it from left to right, in
// the order of the words; ids follow.
convert::TokenizerSpec byte_spec(const std::vector<std::string>& words,
                                 std::vector<convert::SplitStep> splits = {});

// A piece begins with each space, as after a Metaspace.
std::vector<convert::SplitStep> space_splits();

// SentencePiece with <unk>, <s>, </s>, the 256 bytes where asked for, then the pieces with falling
// scores, which are written with spaces.
convert::TokenizerSpec piece_spec(const std::vector<std::string>& pieces, bool byte_fallback);

// WordPiece with [PAD], [UNK], [CLS] and [SEP], then the words. A to Z and É become lower case
// without accents, İ becomes "i" and U+0307, U+0000 and U+0301 vanish, and “ and ” are punctuation.
convert::TokenizerSpec word_spec(const std::vector<std::string>& words);

// Unigram with a step of each kind, two tokens before a text, and <unk>, " ", "a", "b", " a".
convert::TokenizerSpec unigram_spec();

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_TOKENIZER_MODEL_H_
