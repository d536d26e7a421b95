// SPDX-License-Identifier: Apache-2.0
// Converts text to tokens with the tokenizer of a model file, and returns the text of tokens:
//
//     const Result<Tokenizer> tokenizer = Tokenizer::of(model);
//     std::vector<TokenId> ids(encode_tokens_max(text.size()));
//     const Result<size_t> count = tokenizer->encode(text, {}, ids);  // ids[0, *count)
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/model.h"
#include "arenite/status.h"
#include "arenite/token.h"

namespace arenite {

// Options of Tokenizer::encode and Tokenizer::encode_pair.
struct EncodeOptions {
  // Adds the begin and end tokens that the model was trained with, if it has any. Disable for text
  // that continues other text.
  bool add_bos_and_end = true;
  // Reads the names of special tokens, e.g. "<|end|>", as these tokens. Enable only for trusted
  // text: special tokens decide where the parts of a conversation begin and end.
  bool read_specials = false;
  // The most tokens to return, including those around the text; 0: no limit. Longer texts are cut
  // off at the end. In a pair, the longer text is cut until both are equally long, then both are
  // cut.
  size_t tokens_max = 0;
};

// Longest text that can be encoded at once, in bytes; for a pair, both texts together.
inline constexpr size_t kTextBytesMax = size_t{1} << 29;

// Returns the size of span that encode needs, whatever the text is: five ids per byte, of both
// texts of a pair, and eight.
constexpr size_t encode_tokens_max(size_t text_bytes) { return 5 * text_bytes + 8; }

// A view of the tokenizer in a model file. Copies nothing; cheap to make and to copy. Any number of
// threads may use one.
class Tokenizer {
 public:
  // Holds no tokenizer: encode fails, and no other member may be called.
  Tokenizer() = default;

  // Makes a view. The bytes of the model must outlive it. Fails with kUnsupported if the file has
  // no tokenizer, and with kInvalidArgument if `model` holds no model.
  static Result<Tokenizer> of(const Model& model, Diagnostic* why = nullptr);

  uint32_t vocab_size() const;                        // ids are less than this
  TokenId bos() const;                                // begins a text; kNoToken if there is none
  TokenId end() const;                                // ends a text; kNoToken if there is none
  bool is_end(TokenId id) const;                      // models may have several end tokens
  bool is_special(TokenId id) const;                  // has a name, and adds no text
  TokenId find_special(std::string_view name) const;  // kNoToken if no special token is named so
  // Returns whether the model was trained on text in Unicode normalization form C (NFC). Encoding
  // does not normalize, and text in another form, e.g. with combining accents, yields other tokens
  // than in training. An application normalizes such text first (utf8proc, ICU), as the program
  // arenite does.
  bool expects_nfc() const;

  // Returns the bytes of a token: UTF-8, not always whole characters; the name of a special token;
  // for WordPiece "##" and the bytes if the token continues a word. A view of the model's bytes;
  // empty for ids outside the vocabulary.
  std::string_view token_bytes(TokenId id) const;

  // Writes the tokens of `text` to the front of `out` and returns their number. The rest of `out`
  // is work space. Any bytes are accepted: bytes that are not UTF-8 become byte tokens, if the
  // vocabulary has them, or U+FFFD for WordPiece. Takes O(n log n) time for n bytes of any content;
  // for Unigram O(n m), where m is the length of the longest token. Normalization may make a text
  // longer, e.g. by expanding ligatures. If `out` is then too small, the call fails with field
  // "out" in `why`; 16 times as many ids suffice. Fails with kInvalidArgument if `out` holds less
  // than encode_tokens_max(text.size()) ids, if the text is too long, if tokens_max is less than
  // the number of tokens around a text, or if the vocabulary has neither a token for a character
  // (WordPiece: a word) nor an unknown token. In the last case `why` has the byte where it begins
  // (index) and, for a character, the code point (found).
  Result<size_t> encode(std::string_view text, const EncodeOptions& options, std::span<TokenId> out,
                        Diagnostic* why = nullptr) const;

  // Encodes a pair of texts, e.g. a question and an answer, with the model's tokens around and
  // between them: [CLS] text [SEP] second [SEP] for BERT, <s> text </s></s> second </s> for
  // RoBERTa. Without add_bos_and_end the texts are concatenated. `out_types`, unless empty, gets
  // the type of each token: 1 from the second text on if the model was trained with types, else 0.
  // Fails as encode does, with encode_tokens_max(text.size() + second.size()) as the minimum of
  // both spans; if options.tokens_max is not 0, that is the minimum of `out_types`. Fails with
  // kUnsupported if the tokenizer does not define the tokens between two texts.
  Result<size_t> encode_pair(std::string_view text, std::string_view second,
                             const EncodeOptions& options, std::span<TokenId> out_ids,
                             std::span<uint8_t> out_types, Diagnostic* why = nullptr) const;

 private:
  std::span<const std::byte> file_;
  friend class TextStream;
};

// Options of TextStream, which turns tokens into text.
struct DecodeOptions {
  bool keep_specials = false;  // also return the names of special tokens
  // The tokens continue others, e.g. those of a prompt. Some models put a space before each text,
  // which decoding removes at the start of a text; in a continuation the space stays, as it
  // separates words.
  bool is_continuation = false;
};

}  // namespace arenite
