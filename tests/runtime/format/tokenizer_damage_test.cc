// SPDX-License-Identifier: Apache-2.0
// Model files with a damaged tokenizer are refused or used without harm.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>

#include "format/file_layout.h"
#include "support/guarded_buffer.h"
#include "support/hostile_file.h"
#include "support/hostile_tokenizer.h"
#include "support/random.h"
#include "support/repair.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

// An emulator damages only every nth byte.
#if defined(__x86_64__)
constexpr size_t kTokenizerStride = 1;
#else
constexpr size_t kTokenizerStride = 31;
#endif

convert::TokenizerSpec damaged_pairs() {
  convert::TokenizerSpec spec = byte_spec({"the", "abc"}, {{convert::kLlama3Split}});
  spec.letters = {0xC0, 0xD6, 0x3040, 0x9FFF};
  spec.numbers = {0xB2, 0xB3};
  spec.tokens.push_back("<s>");
  spec.tokens.push_back("<|end|>");
  const auto end = static_cast<TokenId>(spec.tokens.size() - 1);
  spec.specials = {{end - 1, format::kEatsSpaceBefore}, {end, format::kReadAlways}};
  spec.whole_tokens = {97, 98, 256, 257};
  spec.bos = end - 1;
  spec.ends = {end};
  spec.flags = format::kAddBos | format::kAddEnd;
  return spec;
}

convert::TokenizerSpec damaged_pieces() {
  convert::TokenizerSpec spec =
      piece_spec({" the", " t", "he", " ", "t", "h", "e", "a", "b", "ab", "\xC3\xA9"}, false);
  spec.flags |= format::kPrefixEveryPart;
  return spec;
}

convert::TokenizerSpec damaged_characters() {
  convert::TokenizerSpec spec;
  spec.origin = "characters";
  spec.kind = format::TokenizerKind::kCharacters;
  spec.unknown = format::Unknown::kDrop;
  spec.tokens = {"a", "\xC3\xA9", " "};
  spec.characters = {{'a', 0}, {0xE9, 1}, {' ', 2}};
  return spec;
}

convert::TokenizerSpec damaged_words() {
  convert::TokenizerSpec spec = word_spec({"the", "a", "##b", "##bc", "[", "\xE6\x97\xA5"});
  spec.folds[0x1100] = {0x3042, 0x3044, 0x3046};
  return spec;
}

// Changes each byte of the metadata in several ways, with the checksums right again.
void sweep(const convert::TokenizerSpec& spec) {
  const convert::AlignedBytes file = model_with(spec);
  ASSERT_EQ(load_and_run(file.span()), Fate::kRan);
  format::Footer footer;
  std::memcpy(&footer, file.span().last(sizeof(footer)).data(), sizeof(footer));
  const GuardedBuffer memory(file.size(), kModelAlignment);
  uint32_t refused = 0;
  uint32_t used = 0;
  for (size_t i = 0; i < footer.metadata_bytes; i += kTokenizerStride) {
    for (const int mask : {0x01, 0x80, 0xFF, 0x10}) {
      std::memcpy(memory.data(), file.span().data(), file.size());
      memory.data()[i] ^= static_cast<std::byte>(mask);
      repair_checksums(memory.span());
      Diagnostic why;
      const Result<Model> model = Model::load(memory.span(), &why);
      ASSERT_TRUE(model.ok() || why.reason != nullptr) << "byte " << i;
      if (model.ok()) (void)use_tokenizer(*model);
      ++(model.ok() ? used : refused);
    }
  }
  std::cout << refused << " refused, " << used << " used\n";
  EXPECT_GT(refused, 100u / kTokenizerStride);
  EXPECT_GT(used, 0u);
}

TEST(TokenizerDamage, InBytePairsIsRefusedOrHarmless) { sweep(damaged_pairs()); }
TEST(TokenizerDamage, InSentencePiecesIsRefusedOrHarmless) { sweep(damaged_pieces()); }
TEST(TokenizerDamage, InCharactersIsRefusedOrHarmless) { sweep(damaged_characters()); }
TEST(TokenizerDamage, InWordPiecesIsRefusedOrHarmless) { sweep(damaged_words()); }

TEST(TokenizerDamage, InManyBytesIsRefusedOrHarmless) {
  Random random(3);
  for (const convert::TokenizerSpec& spec : {damaged_pairs(), damaged_pieces(), damaged_words()}) {
    const convert::AlignedBytes file = model_with(spec);
    const GuardedBuffer memory(file.size(), kModelAlignment);
    for (size_t round = 0; round < 4000 / kTokenizerStride; ++round) {
      std::memcpy(memory.data(), file.span().data(), file.size());
      for (uint32_t changes = 1 + random.below(4); changes > 0; --changes) {
        const size_t at = random.below(static_cast<uint32_t>(file.size()));
        memory.data()[at] =
            static_cast<std::byte>(random.below(2) == 0 ? random.below(256) : random.below(3));
      }
      repair_checksums(memory.span());
      const Result<Model> model = Model::load(memory.span());
      if (model.ok()) (void)use_tokenizer(*model);
    }
  }
}

}  // namespace
}  // namespace arenite::test
