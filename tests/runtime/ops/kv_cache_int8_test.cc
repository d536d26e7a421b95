// SPDX-License-Identifier: Apache-2.0
// The packed int8 cache: values within half a quantization step; scales, and rows of zeros and
// ones, at the offsets of cache_layout.h, for all chunk sizes.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/kv_cache.h"
#include "support/guarded_buffer.h"
#include "support/kernel_sets.h"
#include "support/random.h"

namespace arenite::test {
namespace {

TEST(Int8Row, RoundsWithinHalfAStep) {
  Random random(3);
  for (const float limit : {1e-34f, 1e-3f, 1.0f, 77.0f, 1e20f, FLT_MAX}) {
    std::vector<float> row(33);
    random.fill(row, limit);
    row[7] = -limit;
    const Int8Row kept(row);
    EXPECT_EQ(kept.number(-limit), -127);
    EXPECT_EQ(kept.number(limit), 127);
    EXPECT_EQ(kept.number(0.0f), 0);
    for (const float number : row) {
      ASSERT_LE(std::abs(double{kept.scale()} * kept.number(number) - double{number}),
                0.5000001 * double{kept.scale()})
          << limit;
    }
  }
}

TEST(Int8Row, RoundsTinyRowsToZeros) {
  for (const float number : {0.0f, -0.0f, 1e-36f, -9.9e-36f, FLT_TRUE_MIN}) {
    const std::vector<float> row(5, number);
    const Int8Row kept(row);
    EXPECT_TRUE(std::isfinite(kept.scale()));
    EXPECT_EQ(kept.number(number), 0);
  }
}

TEST(Int8Row, HasAScaleOfNaNForNonFiniteValues) {
  for (const float bad : {NAN, -NAN, INFINITY, -INFINITY}) {
    for (const size_t at : {0u, 3u, 16u}) {
      std::vector<float> row(17, 0.5f);
      row[at] = bad;
      EXPECT_TRUE(std::isnan(Int8Row(row).scale())) << bad << " at " << at;
    }
  }
}

class Int8Cache : public KernelSetTest {
 protected:
  CacheLayout layout(const CacheShape& shape, uint32_t positions) const {
    return kernels().layout_of_cache(true, shape, positions);
  }

  // Rows that differ in every number, some zeros.
  static std::vector<float> rows(uint32_t count, uint32_t width) {
    std::vector<float> numbers(size_t{count} * width);
    Random(count + width).fill(numbers, 1.0f);
    return numbers;
  }
};
ARENITE_FOR_EACH_KERNEL_SET(Int8Cache);

int8_t int8_at(const std::byte* place) { return static_cast<int8_t>(*place); }
float float_at(const std::byte* place, size_t index) {
  return reinterpret_cast<const float*>(place)[index];
}

TEST_P(Int8Cache, HasEveryNumberInItsPlace) {
  const uint32_t nr = packing().nr;
  for (const CacheShape& shape : {CacheShape{2, 5, 33}, CacheShape{1, 0, 4}, {1, 64, 64}}) {
    for (const uint32_t positions : {1u, 33u, 511u, 512u, 513u, 600u}) {
      const CacheLayout layout = this->layout(shape, positions);
      const bool in_floats = !layout.for_integers();
      const GuardedBuffer memory(layout.bytes(), nr);
      KvCache cache(memory.data(), layout);
      ASSERT_TRUE(cache.is_int8());
      const std::vector<float> keys = rows(positions, shape.head_dim);
      const std::vector<float> values = rows(positions, shape.value_dim);
      for (uint32_t head = 0; head < shape.kv_heads; ++head) {
        for (uint32_t first = 0; first < positions; first += 7) {
          const uint32_t count = std::min(7u, positions - first);
          cache.append(
              kernels(), head, first,
              {keys.data() + size_t{first} * shape.head_dim, count, shape.head_dim, shape.head_dim},
              {values.data() + size_t{first} * shape.value_dim, count, shape.value_dim,
               shape.value_dim});
        }
        if (in_floats) cache.end_int8_values(head, positions);
      }
      ASSERT_TRUE(memory.surroundings_intact());
      for (uint32_t head = 0; head < shape.kv_heads; ++head) {
        for (uint32_t p = 0; p < positions; ++p) {
          const std::span<const float> key(keys.data() + size_t{p} * shape.head_dim,
                                           shape.head_dim);
          const Int8Row kept_key(key);
          for (uint32_t d = 0; d < shape.head_dim; ++d) {
            const std::byte* const panel = cache.keys(head, p - p % nr);
            if (in_floats) {
              ASSERT_EQ(float_at(panel, p % nr), 0.0f) << "the bias";
              ASSERT_EQ(int8_at(panel + (4 + d) * nr + p % nr), kept_key.number(key[d]));
              ASSERT_EQ(float_at(panel + (4 + shape.head_dim) * nr, p % nr), kept_key.scale());
            } else {
              ASSERT_EQ(cache.integer_keys(head, p)[d], kept_key.number(key[d]));
              ASSERT_EQ(*cache.integer_key_scales(head, p), kept_key.scale());
            }
            ASSERT_EQ(cache.key(head, p, d),
                      static_cast<float>(kept_key.number(key[d])) * kept_key.scale());
          }
          const std::span<const float> value(values.data() + size_t{p} * shape.value_dim,
                                             shape.value_dim);
          const Int8Row kept_value(value);
          ASSERT_EQ(cache.value_scales(head, p)[0], kept_value.scale());
          for (uint32_t c = 0; c < shape.value_dim; ++c) {
            if (!in_floats) {
              const uint32_t in_page = p % kPagePositions;
              const std::byte* const page = cache.values(head, p / kPagePositions, 0);
              ASSERT_EQ(int8_at(page + (in_page / 8 * shape.value_dim + c) * 8 + in_page % 8),
                        kept_value.number(value[c]));
              continue;
            }
            const std::byte* const panel = cache.values(head, p / kPagePositions, c / nr);
            ASSERT_EQ(float_at(panel, c % nr), 0.0f) << "the row of zeros";
            ASSERT_EQ(int8_at(panel + (4 + p % kPagePositions) * nr + c % nr),
                      kept_value.number(value[c]));
          }
        }
        // After each page that is full, and after the last position.
        for (uint32_t page = 0; in_floats && page < value_pages(positions); ++page) {
          const uint32_t held = std::min(kPagePositions, positions - page * kPagePositions);
          for (uint32_t panel = 0; panel < cache.layout().value_panels(); ++panel) {
            for (uint32_t lane = 0; lane < nr; ++lane) {
              ASSERT_EQ(float_at(cache.values(head, page, panel) + (4 + held) * nr, lane), 1.0f);
            }
          }
        }
      }
    }
  }
}

TEST_P(Int8Cache, TakesAboutAQuarterOfTheMemory) {
  const CacheShape shape = {12, 64, 64};
  const auto in_int8 = static_cast<double>(layout(shape, 4096).bytes());
  EXPECT_LT(in_int8 / static_cast<double>(CacheLayout(packing(), shape, 4096).bytes()), 0.28);
}

}  // namespace
}  // namespace arenite::test
