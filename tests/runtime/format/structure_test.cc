// SPDX-License-Identifier: Apache-2.0
// The walk over the schema's fields accepts nothing that FlatBuffers' own verifier refuses.
#include <flatbuffers/verifier.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "format/file_layout.h"
#include "format/verify.h"
#include "model_generated.h"
#include "support/random.h"
#include "support/slow_builds.h"
#include "support/tokenizer_model.h"

namespace arenite::format {
namespace {

// Exactly as long as the metadata, so that a sanitizer sees reads beyond it.
std::vector<std::byte> metadata_of(std::span<const std::byte> file) {
  Footer footer;
  std::memcpy(&footer, file.data() + file.size() - sizeof(footer), sizeof(footer));
  const auto metadata = file.first(static_cast<size_t>(footer.metadata_bytes));
  return {metadata.begin(), metadata.end()};
}

bool flatc_accepts(std::span<const std::byte> metadata) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(metadata.data()),
                                 metadata.size());
  return verifier.VerifyBuffer<Model>(nullptr);
}

TEST(Structure, IsCheckedAsFlatBuffersDoes) {
  const auto file = test::model_with(test::word_spec({"a", "cat", "##s", "sat"}));
  const std::vector<std::byte> sound = metadata_of(file.span());
  ASSERT_TRUE(is_well_formed(sound));
  ASSERT_TRUE(flatc_accepts(sound));
  test::Random random(5);
  size_t refused = 0, disputed = 0;
  constexpr size_t kTrials = test::kEmulated ? 8000 : 40000;
  for (size_t trial = 0; trial < kTrials; ++trial) {
    std::vector<std::byte> damaged = sound;
    // Replaces a word by a small number, by one near its value, or by a random one.
    const size_t at = random.below(static_cast<uint32_t>(sound.size() / 4)) * 4;
    uint32_t word = 0;
    std::memcpy(&word, damaged.data() + at, sizeof(word));
    const uint32_t words[] = {random.below(64), word + random.below(9) - 4,
                              static_cast<uint32_t>(random.next())};
    std::memcpy(damaged.data() + at, &words[trial % 3], sizeof(word));
    if (trial % 5 == 0) damaged.resize(sound.size() - random.below(200));
    const bool accepted = is_well_formed(damaged);
    const bool expected = flatc_accepts(damaged);
    ASSERT_TRUE(expected || !accepted) << "at byte " << at << ", trial " << trial;
    refused += accepted ? 0 : 1;
    disputed += accepted != expected ? 1 : 0;
  }
  EXPECT_GT(refused, kTrials / 20);
  // flatc's looks at strings of a list without a look at their offsets, which may be 0.
  EXPECT_LT(disputed, kTrials / 100);
}

}  // namespace
}  // namespace arenite::format
