// SPDX-License-Identifier: Apache-2.0
// Texts that lead into every part of the encoder.
#include "support/hostile_tokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "arenite/tokenizer.h"
#include "support/guarded_buffer.h"

namespace arenite::test {
namespace {

constexpr std::string_view kTexts[] = {
    "",
    "a",
    "the abc's 12345  x\n\n y'LL \t<s><|end|>cab",
    " \xE2\x96\x81 \xC3\xA9\xE6\x97\xA5\xF0\x9F\x99\x82\xFF\xE6\x97 <|end|> \xC2",
    "aaaaaaaaaaaaaaaabababababcabcabcabc",
};

void require(bool condition) {
  if (!condition) std::abort();
}

void encode_and_decode(const Tokenizer& tokenizer, std::string_view text,
                       const EncodeOptions& options) {
  const size_t tokens_max = encode_tokens_max(text.size());
  const GuardedBuffer memory(tokens_max * sizeof(TokenId), alignof(TokenId));
  const GuardedBuffer text_memory(text.size());
  std::memcpy(text_memory.data(), text.data(), text.size());
  const std::string_view guarded(reinterpret_cast<const char*>(text_memory.data()), text.size());
  const std::span<TokenId> out(reinterpret_cast<TokenId*>(memory.data()), tokens_max);
  Diagnostic why;
  const Result<size_t> count = tokenizer.encode(guarded, options, out, &why);
  if (!count.ok()) {
    require(count.status() == Status::kInvalidArgument && why.reason != nullptr);
    return;
  }
  require(*count <= tokens_max && memory.surroundings_intact());
  TextStream stream(tokenizer, {.keep_specials = options.read_specials});
  for (size_t i = 0; i < *count; ++i) {
    require(out[i] < tokenizer.vocab_size());
    (void)stream.next(out[i]);
  }
  (void)stream.finish();
}

}  // namespace

bool use_tokenizer(const Model& model) {
  const Result<Tokenizer> tokenizer = Tokenizer::of(model);
  if (!tokenizer.ok()) return false;
  for (const std::string_view text : kTexts) {
    encode_and_decode(*tokenizer, text, {});
    encode_and_decode(*tokenizer, text, {.add_bos_and_end = false, .read_specials = true});
  }
  const uint32_t ids = std::min(tokenizer->vocab_size(), 2000u);
  TextStream stream(*tokenizer);
  for (TokenId id = 0; id <= ids; ++id) {
    (void)stream.next(id);
    (void)tokenizer->find_special(tokenizer->token_bytes(id));
    require(!tokenizer->is_special(id) || id < tokenizer->vocab_size());
  }
  require(tokenizer->bos() == kNoToken || tokenizer->bos() < tokenizer->vocab_size());
  require(tokenizer->end() == kNoToken || tokenizer->is_end(tokenizer->end()));
  return true;
}

}  // namespace arenite::test
