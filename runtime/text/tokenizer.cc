// SPDX-License-Identifier: Apache-2.0
// Implements the public class Tokenizer on top of the tables in the model file (TokenizerView).
#include "arenite/tokenizer.h"

#include "core/message.h"
#include "format/tokenizer_reader.h"
#include "text/encoder.h"
#include "text/special_finder.h"

namespace arenite {
namespace {

[[gnu::noinline]] Result<size_t> encode_texts(std::span<const std::byte> file,
                                              const text::Texts& texts,
                                              const EncodeOptions& options,
                                              std::span<TokenId> out_ids,
                                              std::span<uint8_t> out_types, Diagnostic* why) {
  clear(why);
  if (file.empty()) {
    return refuse(why, Status::kInvalidArgument, "the tokenizer belongs to no model");
  }
  return text::encode_framed(format::tokenizer_view(file), texts, options, out_ids, out_types, why);
}

}  // namespace

Result<Tokenizer> Tokenizer::of(const Model& model, Diagnostic* why) {
  clear(why);
  if (model.file().empty()) {
    return refuse(why, Status::kInvalidArgument, "the model was not loaded");
  }
  if (!format::has_tokenizer(model.file())) {
    return refuse(why, Status::kUnsupported, "the file has no tokenizer: convert it with one",
                  "tokenizer");
  }
  Tokenizer tokenizer;
  tokenizer.file_ = model.file();
  return tokenizer;
}

uint32_t Tokenizer::vocab_size() const { return format::tokenizer_view(file_).vocab_size(); }

TokenId Tokenizer::bos() const { return format::tokenizer_view(file_).bos; }

TokenId Tokenizer::end() const {
  const std::span<const TokenId> ends = format::tokenizer_view(file_).ends;
  return ends.empty() ? kNoToken : ends.front();
}

bool Tokenizer::is_end(TokenId id) const {
  for (const TokenId end : format::tokenizer_view(file_).ends) {
    if (end == id) return true;
  }
  return false;
}

bool Tokenizer::is_special(TokenId id) const {
  const format::TokenizerView view = format::tokenizer_view(file_);
  const uint32_t index = text::special_index(view, id);
  return index < view.specials.size() && (view.special_flags[index] & format::kIsText) == 0;
}

TokenId Tokenizer::find_special(std::string_view name) const {
  const format::TokenizerView view = format::tokenizer_view(file_);
  const uint32_t index = text::special_index(view, name);
  return index < view.specials.size() ? view.specials[index] : kNoToken;
}

bool Tokenizer::expects_nfc() const {
  return format::tokenizer_view(file_).has(format::kExpectsNfc);
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  const format::TokenizerView view = format::tokenizer_view(file_);
  return id < view.vocab_size() ? view.bytes(id) : "";
}

Result<size_t> Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                                 std::span<TokenId> out, Diagnostic* why) const {
  return encode_texts(file_, {.first = text}, options, out, {}, why);
}

Result<size_t> Tokenizer::encode_pair(std::string_view text, std::string_view second,
                                      const EncodeOptions& options, std::span<TokenId> out_ids,
                                      std::span<uint8_t> out_types, Diagnostic* why) const {
  return encode_texts(file_, {text, second, true}, options, out_ids, out_types, why);
}

}  // namespace arenite
