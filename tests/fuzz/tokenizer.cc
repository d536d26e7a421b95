// SPDX-License-Identifier: Apache-2.0
// A fuzz target: a tokenizer's tables with a text and ids. The input is a word of options, the
// metadata of a model file, and the text, whose length is in the word.
#include "arenite/tokenizer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/text_stream.h"
#include "fuzz/choices.h"
#include "fuzz/cpu_limit.h"
#include "fuzz/guarded_region.h"
#include "fuzz/metadata_file.h"
#include "fuzz/require.h"
#include "support/malloc_trap.h"

namespace arenite::test {
namespace {

constexpr size_t kTextBytesMost = 1024;
constexpr size_t kIdsMax = encode_tokens_max(kTextBytesMost);
// Whole tokens may agree in up to 1,024 bytes, each of them compared where a text leads up to it.
constexpr uint64_t kBaseUs = 500000;
constexpr uint64_t kByteUs = 400;

EncodeOptions any_options(Choices& choices) {
  EncodeOptions options;
  options.add_bos_and_end = choices.below(2) == 0;
  options.read_specials = choices.below(2) == 0;
  options.tokens_max = choices.one_in(2) ? choices.below(12) : 0;
  return options;
}

std::string_view guarded(std::string_view text) {
  static GuardedRegion region(kTextBytesMost);
  const std::span<std::byte> memory = region.lend(text.size(), 1);
  std::memcpy(memory.data(), text.data(), text.size());
  return {reinterpret_cast<const char*>(memory.data()), memory.size()};
}

// Reads what a view shows.
void read(std::string_view text) {
  volatile char sink = 0;
  for (const char c : text) sink = c;
  (void)sink;
}

void decode(const Tokenizer& tokenizer, std::span<const TokenId> ids, Choices& choices) {
  TextStream stream(tokenizer, {choices.below(2) == 0, choices.below(2) == 0});
  const std::string_view stops[] = {"ab", "", "the"};
  char space[64];
  require(StopStrings::bytes_needed(stops) <= sizeof(space), "stop strings need little space");
  StopStrings stop(stops, space);
  for (const TokenId id : ids) {
    const TextParts parts = stream.next(id);
    for (const std::string_view part : {parts.head, parts.tail}) {
      const TextParts shown = stop.next(part);
      read(shown.head);
      read(shown.tail);
    }
  }
  read(stream.finish().head);
  read(stop.finish());
}

void check_ids(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  for (const TokenId id : ids) {
    require(id < tokenizer.vocab_size(), "only ids of the vocabulary");
    read(tokenizer.token_bytes(id));
  }
}

void encode(const Tokenizer& tokenizer, std::string_view text, Choices& choices) {
  static GuardedRegion region(kIdsMax * sizeof(TokenId));
  const EncodeOptions options = any_options(choices);
  const size_t ids_max = encode_tokens_max(text.size());
  const std::span<std::byte> memory = region.lend(ids_max * sizeof(TokenId), alignof(TokenId));
  const std::span<TokenId> ids(reinterpret_cast<TokenId*>(memory.data()), ids_max);
  const CpuLimit limit(kBaseUs, kByteUs, text.size());
  Diagnostic why;
  const Result<size_t> count = [&] {
    const NoHeapScope no_heap;
    return tokenizer.encode(text, options, ids, &why);
  }();
  limit.check("encoding takes n log n");
  region.check();
  if (!count.ok()) return require(why.reason != nullptr, "a refusal says why");
  require(*count <= ids_max && (options.tokens_max == 0 || *count <= options.tokens_max),
          "no more ids than promised");
  check_ids(tokenizer, ids.first(*count));
  decode(tokenizer, ids.first(*count), choices);
}

void encode_pair(const Tokenizer& tokenizer, std::string_view text, Choices& choices) {
  static GuardedRegion id_region(kIdsMax * sizeof(TokenId));
  static GuardedRegion type_region(kIdsMax);
  const EncodeOptions options = any_options(choices);
  const size_t ids_max = encode_tokens_max(text.size());
  const std::span<std::byte> memory = id_region.lend(ids_max * sizeof(TokenId), alignof(TokenId));
  const std::span<TokenId> ids(reinterpret_cast<TokenId*>(memory.data()), ids_max);
  const size_t types_max = options.tokens_max == 0 ? ids_max : options.tokens_max;
  const std::span<std::byte> types = type_region.lend(types_max, 1);
  const size_t cut = choices.below(static_cast<uint32_t>(text.size() + 1));
  Diagnostic why;
  const Result<size_t> count =
      tokenizer.encode_pair(text.substr(0, cut), text.substr(cut), options, ids,
                            {reinterpret_cast<uint8_t*>(types.data()), types.size()}, &why);
  id_region.check();
  type_region.check();
  if (!count.ok()) return require(why.reason != nullptr, "a refusal says why");
  require(*count <= types_max, "no more ids than promised");
  check_ids(tokenizer, ids.first(*count));
  const auto is_type = [](std::byte type) { return type <= std::byte{1}; };
  require(std::ranges::all_of(types.first(*count), is_type), "types are 0 and 1");
}

void ask(const Tokenizer& tokenizer, std::string_view text, Choices& choices) {
  const TokenId special = tokenizer.find_special(text);
  require(special == kNoToken || tokenizer.token_bytes(special) == text, "a name is its bytes");
  require(tokenizer.bos() == kNoToken || tokenizer.bos() < tokenizer.vocab_size(), "bos");
  require(tokenizer.end() == kNoToken || tokenizer.is_end(tokenizer.end()), "end");
  std::vector<TokenId> ids;
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t most = std::min(tokenizer.vocab_size(), UINT32_MAX - 3) + 3;
    ids.push_back(choices.one_in(16) ? UINT32_MAX - choices.below(2) : choices.below(most));
    read(tokenizer.token_bytes(ids.back()));
    require(!tokenizer.is_special(ids.back()) || ids.back() < tokenizer.vocab_size(), "special");
  }
  decode(tokenizer, ids, choices);
}

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  uint32_t word;
  if (size <= sizeof(word) || size - sizeof(word) > kMetadataBytesMax) return 0;
  std::memcpy(&word, data, sizeof(word));
  const std::span<const uint8_t> rest(data + sizeof(word), size - sizeof(word));
  const size_t text_bytes = std::min<size_t>(word % kTextBytesMost, rest.size());
  const auto* const text = reinterpret_cast<const char*>(rest.last(text_bytes).data());
  const auto file = make_file(rest.first(rest.size() - text_bytes), word >> 10 & 0xFFu);
  const auto model = arenite::Model::load(file, nullptr, {.checksums = arenite::Checksums::kSkip});
  if (!model.ok()) return 0;
  const auto tokenizer = arenite::Tokenizer::of(*model);
  if (!tokenizer.ok()) return 0;
  Choices choices({}, word >> 18);
  const std::string_view safe = guarded({text, text_bytes});
  encode(*tokenizer, safe, choices);
  encode_pair(*tokenizer, safe, choices);
  ask(*tokenizer, safe, choices);
  return 0;
}
