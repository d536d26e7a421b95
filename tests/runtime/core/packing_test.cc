// SPDX-License-Identifier: Apache-2.0
// Packed weights: every element has its own offset, and the elements and padding fill the packed
// bytes.
#include "core/packing.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/cache_layout.h"

namespace arenite {
namespace {

// All targets, whatever this machine runs: the converter packs for all of them.
std::vector<Packing> all_packings() {
  std::vector<Packing> packings;
  for (uint32_t i = 0; i < kTargets; ++i) {
    packings.push_back(packing_of(static_cast<Target>(i), TensorType::kF32));
  }
  return packings;
}

TEST(Packing, IsDefinedForEveryTarget) {
  for (const Packing& packing : all_packings()) {
    EXPECT_NE(packing.nr, 0);
    EXPECT_NE(packing.mr, 0);
  }
  EXPECT_EQ(packing_of(static_cast<Target>(kTargets), TensorType::kF32), Packing{});
}

TEST(Packing, IsOfTheTypesThatAreSupported) {
  for (uint32_t type = 0; type <= kTensorTypes; ++type) {
    const TensorType of = static_cast<TensorType>(type);
    EXPECT_EQ(packing_of(Target::kX86_64_v3, of) != Packing{}, holds_weights(of) || holds_cache(of))
        << name(of);
  }
  EXPECT_STREQ(name(TensorType::kF32), "f32");
  EXPECT_STREQ(name(TensorType::kQ4), "q4");
  EXPECT_STREQ(name(static_cast<TensorType>(kTensorTypes)), "unknown");
}

TEST(PackedWeights, GiveEveryElementAPlaceOfItsOwn) {
  for (const Packing& packing : all_packings()) {
    const uint32_t nr = packing.nr;
    for (const uint32_t outputs : {1u, nr - 1, nr, nr + 1, 2 * nr + 3}) {
      for (const uint32_t inputs : {1u, 2u, 7u, 33u}) {
        const Checked bytes = packed_weight_bytes(packing, outputs, inputs);
        ASSERT_TRUE(bytes.ok());
        ASSERT_EQ(bytes.value() % sizeof(float), 0u);
        std::vector<int> taken(static_cast<size_t>(bytes.value() / sizeof(float)), 0);
        const auto place = [&](uint32_t output, uint32_t input) {
          return static_cast<size_t>(packed_weight_index(packing, inputs, output, input));
        };
        for (uint32_t output = 0; output < outputs; ++output) {
          ++taken.at(place(output, kBiasRow));
          for (uint32_t input = 0; input < inputs; ++input) {
            ++taken.at(place(output, input));
          }
        }
        uint64_t used = 0;
        for (const int count : taken) {
          ASSERT_LE(count, 1);
          used += static_cast<uint64_t>(count);
        }
        EXPECT_EQ(used, uint64_t{outputs} * (inputs + 1));
        // The remaining bytes are the padding of the last panel.
        EXPECT_EQ(taken.size() - used, (div_up(outputs, nr) * nr - outputs) * (inputs + 1));
      }
    }
  }
}

TEST(PackedWeights, LieInPanelsThatBeginWithTheirBias) {
  const Packing packing = {TensorType::kF32, 4, 1, 4};
  EXPECT_EQ(packed_weight_index(packing, 10, 0, kBiasRow), 0u);
  EXPECT_EQ(packed_weight_index(packing, 10, 3, kBiasRow), 3u);
  EXPECT_EQ(packed_weight_index(packing, 10, 0, 0), 4u);
  EXPECT_EQ(packed_weight_index(packing, 10, 2, 9), 42u);
  EXPECT_EQ(packed_weight_index(packing, 10, 4, kBiasRow), 44u);
  EXPECT_EQ(packed_weight_index(packing, 10, 5, 1), 53u);
}

TEST(PackedWeights, ReportSizesThatOverflow) {
  for (const Packing& packing : all_packings()) {
    const bool is_addressable = SIZE_MAX > UINT32_MAX;
    EXPECT_EQ(packed_weight_bytes(packing, 1u << 20, 1u << 20).ok(), is_addressable);
    EXPECT_FALSE(packed_weight_bytes(packing, UINT32_MAX, UINT32_MAX).ok());
    EXPECT_EQ(packed_weight_bytes(packing, UINT32_MAX, 1).ok(), is_addressable);
    EXPECT_EQ(packed_weight_bytes(packing, 1, UINT32_MAX).ok(), is_addressable);
  }
}

std::vector<Packing> cache_packings() {
  std::vector<Packing> packings;
  for (uint32_t target = 0; target < kTargets; ++target) {
    for (const TensorType type : {TensorType::kF32, TensorType::kInt8}) {
      packings.push_back(packing_of(static_cast<Target>(target), type));
    }
  }
  return packings;
}

// Parts of a cache in the order in which they lie there, each where the one before ends.
TEST(CacheLayout, FillsACacheWithPanelsAndPages) {
  for (const Packing& packing : cache_packings()) {
    for (const CacheShape& shape : {CacheShape{2, 5, 33}, CacheShape{1, 0, 4}}) {
      for (const uint32_t positions : {1u, 33u, 512u, 513u, 1500u}) {
        const CacheLayout layout(packing, shape, positions);
        EXPECT_EQ(layout.positions(), div_up(positions, packing.nr) * packing.nr);
        size_t end = 0;
        for (uint32_t at = 0; at < layout.positions() && shape.head_dim != 0; at += packing.nr) {
          ASSERT_EQ(layout.key_panel(at), end);
          ASSERT_EQ(layout.key_panel(at + layout.positions()), end) << "a ring";
          end += panel_bytes(packing, shape.head_dim).value();
        }
        if (layout.is_int8()) {
          ASSERT_EQ(layout.value_scale(0), end);
          ASSERT_EQ(layout.value_scale(layout.positions() + 1), end + sizeof(float)) << "a ring";
          end += layout.positions() * sizeof(float);
        }
        for (uint32_t page = 0; page < layout.pages(); ++page) {
          for (uint32_t panel = 0; panel < layout.value_panels(); ++panel) {
            ASSERT_EQ(layout.value_panel(page, panel), end);
            ASSERT_EQ(layout.value_panel(page + layout.pages(), panel), end) << "a ring";
            end += panel_bytes(packing, layout.page_positions(page)).value();
          }
        }
        EXPECT_EQ(layout.head_bytes(), end);
        EXPECT_EQ(layout.bytes(), end * shape.kv_heads);
        const Checked bytes =
            Checked(layout.positions() / packing.nr) * cache_bytes_per_panel(packing, shape) +
            Checked(layout.pages()) * cache_bytes_per_page(packing, shape);
        EXPECT_EQ(layout.bytes(), bytes.value()) << "the arena formula";
      }
    }
  }
}

TEST(CacheBytes, CountKeysOnlyWhereThereAreAny) {
  const Packing packing = {TensorType::kF32, 8, 1, 4};
  // Per panel: 8 positions of 5 + 1 key rows and of 2 * 8 value columns, for 3 heads.
  EXPECT_EQ(cache_bytes_per_panel(packing, {3, 5, 9}).value(), 3u * (6 + 16) * 8 * 4);
  EXPECT_EQ(cache_bytes_per_panel(packing, {3, 0, 9}).value(), 3u * 16 * 8 * 4);
  EXPECT_EQ(cache_bytes_per_page(packing, {3, 5, 9}).value(), 3u * 16 * 4);
  // 8 positions of 5 numbers, a bias and a scale each, the scale of its values, and 2 * 8 of these.
  const Packing int8 = {TensorType::kW8, 8, 1, 4};
  EXPECT_EQ(cache_bytes_per_panel(int8, {3, 5, 9}).value(), 3u * (5 + 8 + 4 + 16) * 8);
  EXPECT_EQ(cache_bytes_per_panel(int8, {3, 0, 9}).value(), 3u * (4 + 16) * 8);
  EXPECT_EQ(cache_bytes_per_page(int8, {3, 5, 9}).value(), 3u * 16 * 8);
}

TEST(CacheBytes, ReportSizesThatOverflow) {
  for (const Packing& packing : all_packings()) {
    const CacheShape huge = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    EXPECT_FALSE(cache_bytes_per_panel(packing, huge).ok());
    EXPECT_FALSE(cache_bytes_per_page(packing, huge).ok());
  }
}

TEST(CacheGeometry, CountsStartedPanelsAndPages) {
  const Packing packing = {TensorType::kF32, 8, 1, 4};
  EXPECT_EQ(panels_of(packing, 0), 0u);
  EXPECT_EQ(panels_of(packing, 8), 1u);
  EXPECT_EQ(panels_of(packing, 9), 2u);
  EXPECT_EQ(value_pages(0), 0u);
  EXPECT_EQ(value_pages(512), 1u);
  EXPECT_EQ(value_pages(513), 2u);
}

}  // namespace
}  // namespace arenite
