// SPDX-License-Identifier: Apache-2.0
// The texts reach every part of the encoder.
#include "support/hostile_tokenizer.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "arenite/text_stream.h"
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
    "The A\xC3\x89 \xC4\xB0 [CLS] \xE1\x84\x80\xED\x95\x9C\xE6\x97\xA5\xE2\x80\x9C abc##b",
};

// Guarded memory for values of several counts, one after the other: a mapping for each would take
// longer than what is done in it.
template <typename T>
class Room {
 public:
  explicit Room(size_t count_max) : memory_(count_max * sizeof(T), alignof(T)) {}

  // Values that end at the guard page; before them all bytes are 0xFF.
  std::span<T> last(size_t count) {
    memory_.refill();
    before_ = memory_.span().first(memory_.size() - count * sizeof(T));
    return {reinterpret_cast<T*>(before_.data() + before_.size()), count};
  }

  bool surroundings_intact() const {
    return memory_.surroundings_intact() &&
           std::ranges::all_of(before_, [](std::byte byte) { return byte == std::byte{0xFF}; });
  }

 private:
  GuardedBuffer memory_;
  std::span<std::byte> before_;
};

constexpr size_t kTextBytesMax = 2 * std::ranges::max(kTexts, {}, &std::string_view::size).size();

struct Rooms {
  Room<char> text{kTextBytesMax};
  Room<TokenId> ids{encode_tokens_max(kTextBytesMax)};
  Room<uint8_t> types{kTextBytesMax};
};

void encode_and_decode(const Tokenizer& tokenizer, std::string_view text,
                       const EncodeOptions& options, Rooms& rooms) {
  const size_t tokens_max = encode_tokens_max(text.size());
  const std::span<char> copy = rooms.text.last(text.size());
  std::ranges::copy(text, copy.begin());
  const std::string_view guarded(copy.data(), copy.size());
  const std::span<TokenId> out = rooms.ids.last(tokens_max);
  Diagnostic why;
  const Result<size_t> count = tokenizer.encode(guarded, options, out, &why);
  if (!count.ok()) {
    require(count.status() == Status::kInvalidArgument && why.reason != nullptr);
    return;
  }
  require(*count <= tokens_max && rooms.ids.surroundings_intact());
  TextStream stream(tokenizer, {.keep_specials = options.read_specials});
  for (size_t i = 0; i < *count; ++i) {
    require(out[i] < tokenizer.vocab_size());
    (void)stream.next(out[i]);
  }
  (void)stream.finish();
}

void encode_pair(const Tokenizer& tokenizer, std::string_view text, std::string_view second,
                 Rooms& rooms) {
  constexpr size_t kTokensMax = 9;
  const size_t ids_max = encode_tokens_max(text.size() + second.size());
  const std::span<TokenId> ids = rooms.ids.last(ids_max);
  const std::span<uint8_t> types = rooms.types.last(kTokensMax);
  Diagnostic why;
  (void)tokenizer.encode_pair(text, second, {.read_specials = true}, ids, {}, &why);
  const Result<size_t> count =
      tokenizer.encode_pair(text, second, {.tokens_max = kTokensMax}, ids, types, &why);
  require(rooms.ids.surroundings_intact() && rooms.types.surroundings_intact());
  if (!count.ok()) {
    require(why.reason != nullptr);
    return;
  }
  require(*count <= kTokensMax);
  for (size_t i = 0; i < *count; ++i) require(ids[i] < tokenizer.vocab_size() && types[i] <= 1);
}

}  // namespace

bool use_tokenizer(const Model& model) {
  const Result<Tokenizer> tokenizer = Tokenizer::of(model);
  if (!tokenizer.ok()) return false;
  Rooms rooms;
  for (const std::string_view text : kTexts) {
    encode_and_decode(*tokenizer, text, {}, rooms);
    encode_and_decode(*tokenizer, text, {.add_bos_and_end = false, .read_specials = true}, rooms);
    encode_pair(*tokenizer, text, kTexts[2], rooms);
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
