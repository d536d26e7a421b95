// SPDX-License-Identifier: Apache-2.0
// Loads a sample of all damaged variants, and checks the kinds of damage; `make damage` loads all
// variants.
#include <gtest/gtest.h>

#include <cstring>
#include <iostream>
#include <set>
#include <utility>
#include <vector>

#include "damage/damaged_models.h"
#include "damage/offset_places.h"
#include "damage/sweep.h"
#include "model_generated.h"

namespace arenite::test {
namespace {

// An emulator is slow, so it tests a tenth of the variants.
#if defined(__x86_64__)
constexpr uint64_t kFewer = 1;
#else
constexpr uint64_t kFewer = 10;
#endif

// Strides are primes, so that all byte values and offsets come up.
constexpr uint64_t kStrides[] = {283, 1009, 499, 491, 503, 401};

class EveryDamage : public testing::TestWithParam<size_t> {
 protected:
  DamagedModel model_ = std::move(damaged_models()[GetParam()]);
};
INSTANTIATE_TEST_SUITE_P(Models, EveryDamage, testing::Range(size_t{0}, std::size(kStrides)));

TEST_P(EveryDamage, IsRefusedOrHarmless) {
  Sweep sweep(model_.name, model_.file.span());
  const Variants& variants = sweep.variants();
  for (uint64_t i = 0; i < variants.count(); i += kStrides[GetParam()] * kFewer) sweep.take(i);
  for (size_t i = 0; i <= kDamages; ++i) {
    const FateCounts& counts = sweep.counts()[i];
    std::cout << (i == kRepaired ? "repaired" : kDamageNames[i]) << ": " << counts[0]
              << " refused, " << counts[1] << " too large, " << counts[2] << " ran\n";
  }
  const FateCounts& bytes = sweep.counts()[static_cast<size_t>(Damage::kByte)];
  EXPECT_GT(bytes[0], 150u / kFewer);
  EXPECT_GT(bytes[2], 150u / kFewer);
}

// The first and the last variant of each kind, and those between in steps: each differs from the
// sound file and from the one before, and only where it says.
TEST_P(EveryDamage, DiffersFromTheIntactFileAsDescribed) {
  Variants variants(model_.file.span());
  std::set<std::vector<std::byte>> seen;
  uint64_t made = 0;
  seen.insert({model_.file.span().begin(), model_.file.span().end()});
  for (size_t i = 0; i < kDamages; ++i) {
    const auto kind = static_cast<Damage>(i);
    ASSERT_GT(variants.count(kind), 0u) << kDamageNames[i];
    const uint64_t step = variants.count(kind) / 20 + 1;
    for (uint64_t number = variants.first(kind); number < variants.last(kind); number += step) {
      ASSERT_EQ(variants.kind(number), kind);
      const std::span<std::byte> file = variants.make(number);
      seen.insert({file.begin(), file.end()});
      ++made;
    }
  }
  EXPECT_EQ(seen.size(), made + 1);
}

TEST_P(EveryDamage, GivesAByteEachOtherValue) {
  Variants variants(model_.file.span());
  constexpr size_t kPlace = 100;
  std::set<std::byte> values;
  for (uint64_t more = 0; more < 255; ++more) {
    const std::span<std::byte> file = variants.make(kPlace * 255 + more);
    values.insert(file[kPlace]);
    // No other byte of the metadata.
    EXPECT_EQ(std::memcmp(file.data(), model_.file.span().data(), kPlace), 0);
    EXPECT_EQ(file[kPlace + 1], model_.file.span()[kPlace + 1]);
  }
  EXPECT_EQ(values.size(), 255u);
  EXPECT_FALSE(values.contains(model_.file.span()[kPlace]));
}

TEST_P(EveryDamage, CoversAllOffsets) {
  format::Footer footer;
  std::memcpy(&footer, model_.file.span().last(sizeof(footer)).data(), sizeof(footer));
  const auto metadata = model_.file.span().first(static_cast<size_t>(footer.metadata_bytes));
  const format::Model& model = *format::GetModel(metadata.data());
  // The root; seventeen lists and three texts of the model; and what the lists of texts hold.
  size_t expected = 1 + 20 + model.input_names()->size() + model.function_names()->size() +
                    model.op_names()->size() + model.tensor_names()->size() +
                    model.labels()->size();
  if (model.tokenizer() != nullptr) {
    // The tokenizer, three lists, and of each of its lists the table and the numbers.
    expected += 1 + 3 + 2 * model.tokenizer()->lists()->size();
  }
  const OffsetPlaces places = find_offsets(metadata);
  EXPECT_EQ(places.offsets.size(), expected);
  EXPECT_EQ(std::set(places.offsets.begin(), places.offsets.end()).size(), expected);
  EXPECT_GE(places.fields.size(), 1u);
  EXPECT_GE(places.fields.front().size(), 1u);
}

}  // namespace
}  // namespace arenite::test
