// SPDX-License-Identifier: Apache-2.0
// Turns text into the tokens of a model, and tokens back into text, with the tables of its file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/model.h"
#include "arenite/status.h"
#include "arenite/token.h"

namespace arenite {

struct EncodeOptions {
  // Puts the begin and end tokens around the text that the model was trained with; a model that
  // knows none gets none. Switch it off for text that continues other text.
  bool add_bos_and_end = true;
  // Reads the names of special tokens, such as "<|end|>", as these tokens. Only for text that you
  // wrote yourself: whoever wrote it decides where a conversation's parts begin and end.
  bool read_specials = false;
  // The most tokens that may come out, those around the text included; 0: as many as there are.
  // The last tokens of a longer text are left out. Of a pair the longer text loses tokens until
  // both are equally long, then both do.
  size_t tokens_max = 0;
};

// Longest text that can be encoded at once.
inline constexpr size_t kTextBytesMax = size_t{1} << 29;

// The number of ids that a span must hold for encode to work in it, however the text looks: five
// for each byte, of both texts of a pair, and eight.
constexpr size_t encode_tokens_max(size_t text_bytes) { return 5 * text_bytes + 8; }

// A view of the tokenizer in a model file. Copies nothing; cheap to make and to copy.
class Tokenizer {
 public:
  // None yet: encode refuses, and no other member may be called.
  Tokenizer() = default;

  // The bytes of the model must outlive it. Fails with kUnsupported if the file has no tokenizer.
  static Result<Tokenizer> of(const Model& model, Diagnostic* why = nullptr);

  uint32_t vocab_size() const;        // ids are below it
  TokenId bos() const;                // begins a text; kNoToken if there is none
  TokenId end() const;                // ends a text; kNoToken if there is none
  bool is_end(TokenId id) const;      // some models have several tokens that end a text
  bool is_special(TokenId id) const;  // has a name, and stands for no text
  TokenId find_special(std::string_view name) const;  // kNoToken if no special token is named so
  // Trained on text in Unicode's normalization form C (NFC). Encoding does not normalize: other
  // text gives other tokens than in training. Where this is true and text may come in other forms,
  // with accents as characters of their own, an application normalizes it first (utf8proc, ICU), as
  // the program arenite does.
  bool expects_nfc() const;

  // What a token stands for: bytes of UTF-8, not always whole characters; for a special token its
  // name, and for one of WordPiece that goes on within a word "##" and more. A view of the model's
  // bytes. Empty for an id that is not below vocab_size().
  std::string_view token_bytes(TokenId id) const;

  // Writes the tokens of `text` to the front of `out` and returns how many there are. The rest of
  // `out` is work space. Any bytes are text: what is no UTF-8 becomes the tokens of its bytes, if
  // the vocabulary has them, or U+FFFD for WordPiece. Takes time in n log n for n bytes, whatever
  // they are; of a Unigram model, n times what its longest token has.
  // A tokenizer that normalizes may make a text longer, such as one of ligatures, and then refuses
  // a span that is too small for that (field "out" in `why`): 16 times as many ids are enough.
  // Fails with kInvalidArgument if `out` holds less than encode_tokens_max(text.size()) ids, if
  // the text is too long, if tokens_max is less than the tokens around a text, or if the
  // vocabulary has no token for a character, or for a word of WordPiece, and no token for unknown
  // ones; `why` then says which byte (index) and which code point (found), or where the word
  // begins.
  Result<size_t> encode(std::string_view text, const EncodeOptions& options, std::span<TokenId> out,
                        Diagnostic* why = nullptr) const;

  // The same for two texts that belong together, such as a question and an answer, with what goes
  // around and between them: [CLS] text [SEP] second [SEP] for BERT, <s> text </s></s> second </s>
  // for RoBERTa; with add_bos_and_end switched off, one after the other. `out_types`, unless it
  // is empty, gets the type of each token, 1 from the second text on if the model was trained so,
  // else 0.
  // Fails as encode does, for spans of less than encode_tokens_max(text.size() + second.size()),
  // types only where options.tokens_max is 0, else of less than that; and with kUnsupported if the
  // tokenizer does not say what goes between two texts.
  Result<size_t> encode_pair(std::string_view text, std::string_view second,
                             const EncodeOptions& options, std::span<TokenId> out_ids,
                             std::span<uint8_t> out_types, Diagnostic* why = nullptr) const;

 private:
  std::span<const std::byte> file_;
  friend class TextStream;
};

struct DecodeOptions {
  bool keep_specials = false;  // give out the names of special tokens, too
  // The tokens go on where others ended, such as a prompt's. Some models put a space before each
  // text, which decoding then leaves out; here it is one between words, and stays.
  bool is_continuation = false;
};

}  // namespace arenite
