// SPDX-License-Identifier: Apache-2.0
// The packed cache: every element is at the offset of cache_layout.h, for all chunk sizes.
#include "ops/kv_cache.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "support/compare.h"
#include "support/guarded_buffer.h"
#include "support/kernel_sets.h"
#include "support/packed_weights.h"
#include "support/random.h"

namespace arenite::test {
namespace {

constexpr uint32_t kRowGap = 3;  // floats between the rows that are appended

struct CacheCase {
  CacheShape shape;
  uint32_t positions;
};

std::vector<CacheCase> cases() {
  std::vector<CacheCase> list;
  for (const CacheShape& shape : {CacheShape{1, 1, 1}, CacheShape{2, 8, 5}, CacheShape{3, 9, 33},
                                  CacheShape{2, 0, 8}, CacheShape{1, 64, 64}}) {
    for (const uint32_t positions : {1u, 7u, 32u, 33u, 255u, 511u, 512u, 513u, 600u}) {
      list.push_back({shape, positions});
    }
  }
  return list;
}

// Keys and values of all heads, [positions, kv_heads, dim], and the rows of one head of them.
struct Tokens {
  CacheCase size;
  std::vector<float> keys, values;

  explicit Tokens(const CacheCase& size_in)
      : size(size_in),
        keys(size.positions * key_stride()),
        values(size.positions * value_stride()) {
    Random(1).fill(keys, 1.0f);
    Random(2).fill(values, 1.0f);
  }
  size_t key_stride() const { return size_t{size.shape.kv_heads} * size.shape.head_dim + kRowGap; }
  size_t value_stride() const {
    return size_t{size.shape.kv_heads} * size.shape.value_dim + kRowGap;
  }
  ConstMatrix key_rows(uint32_t head, uint32_t first, uint32_t rows) const {
    return {keys.data() + first * key_stride() + size_t{head} * size.shape.head_dim, rows,
            size.shape.head_dim, key_stride()};
  }
  ConstMatrix value_rows(uint32_t head, uint32_t first, uint32_t rows) const {
    return {values.data() + first * value_stride() + size_t{head} * size.shape.value_dim, rows,
            size.shape.value_dim, value_stride()};
  }
};

std::byte* bytes_of(const GuardedFloats& data) { return reinterpret_cast<std::byte*>(data.data()); }

const float* floats_at(const std::byte* place) { return reinterpret_cast<const float*>(place); }

class KvCacheOf : public KernelSetTest {
 protected:
  GuardedFloats memory(const CacheCase& size) const {
    return GuardedFloats(CacheLayout(packing(), size.shape, size.positions).bytes() / sizeof(float),
                         0, weight_alignment(packing()));
  }
  // Appends all tokens, `chunk` at a time, heads in turn.
  void fill(const GuardedFloats& data, const CacheCase& size, uint32_t chunk) const {
    const Tokens tokens(size);
    KvCache cache(bytes_of(data), CacheLayout(packing(), size.shape, size.positions));
    for (uint32_t first = 0; first < size.positions; first += chunk) {
      const uint32_t rows = std::min(chunk, size.positions - first);
      for (uint32_t head = 0; head < size.shape.kv_heads; ++head) {
        cache.append(kernels(), head, first, tokens.key_rows(head, first, rows),
                     tokens.value_rows(head, first, rows));
      }
    }
    EXPECT_TRUE(data.surroundings_intact());
  }
};
ARENITE_FOR_EACH_KERNEL_SET(KvCacheOf);

TEST_P(KvCacheOf, HoldsTheSameBytesInAnyChunks) {
  for (const CacheCase& size : cases()) {
    const GuardedFloats whole = memory(size);
    fill(whole, size, size.positions);
    for (const uint32_t chunk : {1u, 3u, 8u, 100u}) {
      const GuardedFloats chunked = memory(size);
      fill(chunked, size, chunk);
      // Compares bytes, because elements that were never written are NaN and equal nothing.
      ASSERT_EQ(std::memcmp(chunked.data(), whole.data(), whole.size() * sizeof(float)), 0)
          << "chunks of " << chunk << " of " << size.positions;
    }
  }
}

TEST_P(KvCacheOf, KeepsKeysInPanelsOfPositions) {
  const uint32_t nr = packing().nr;
  for (const CacheCase& size : cases()) {
    if (size.shape.head_dim == 0) continue;
    const GuardedFloats data = memory(size);
    fill(data, size, 5);
    const Tokens tokens(size);
    const KvCache cache(bytes_of(data), CacheLayout(packing(), size.shape, size.positions));
    for (uint32_t head = 0; head < size.shape.kv_heads; ++head) {
      for (uint32_t position = 0; position < size.positions; ++position) {
        const float* const panel = floats_at(cache.keys(head, position - position % nr));
        ASSERT_EQ(panel[position % nr], 0.0f);  // the bias row
        for (uint32_t d = 0; d < size.shape.head_dim; ++d) {
          ASSERT_EQ(panel[(d + 1) * nr + position % nr],
                    tokens.key_rows(head, position, 1).row(0)[d])
              << "head " << head << " position " << position << " dimension " << d;
        }
      }
    }
  }
}

TEST_P(KvCacheOf, KeepsValuesInPagesOfPanelsOfColumns) {
  const uint32_t nr = packing().nr;
  for (const CacheCase& size : cases()) {
    const GuardedFloats data = memory(size);
    fill(data, size, 5);
    const Tokens tokens(size);
    const KvCache cache(bytes_of(data), CacheLayout(packing(), size.shape, size.positions));
    ASSERT_EQ(cache.layout().value_panels(), div_up(size.shape.value_dim, nr));
    for (uint32_t head = 0; head < size.shape.kv_heads; ++head) {
      for (uint32_t position = 0; position < size.positions; ++position) {
        for (uint32_t column = 0; column < size.shape.value_dim; ++column) {
          const float* const panel =
              floats_at(cache.values(head, position / kPagePositions, column / nr)) + column % nr;
          ASSERT_EQ(panel[0], 0.0f);  // the page's row of zeros
          ASSERT_EQ(panel[(position % kPagePositions + 1) * nr],
                    tokens.value_rows(head, position, 1).row(0)[column])
              << "head " << head << " position " << position << " column " << column;
        }
      }
    }
  }
}

// Walks the layout as packing.h describes it, part by part: what comes next begins where the last
// part ended, and the last part ends with the memory.
TEST_P(KvCacheOf, LeavesNoHolesBetweenItsParts) {
  const uint32_t nr = packing().nr;
  for (const CacheCase& size : cases()) {
    const GuardedFloats data = memory(size);
    const KvCache cache(bytes_of(data), CacheLayout(packing(), size.shape, size.positions));
    const uint32_t rows = div_up(size.positions, nr) * nr;
    const float* next = data.data();
    for (uint32_t head = 0; head < size.shape.kv_heads; ++head) {
      for (uint32_t position = 0; position < rows && size.shape.head_dim != 0; position += nr) {
        ASSERT_EQ(floats_at(cache.keys(head, position)), next);
        next += (size.shape.head_dim + 1) * nr;
      }
      uint32_t rows_left = rows;
      for (uint32_t page = 0; page < value_pages(size.positions); ++page) {
        const uint32_t page_rows = std::min(rows_left, kPagePositions);
        ASSERT_EQ(cache.layout().page_positions(page), page_rows);
        for (uint32_t panel = 0; panel < cache.layout().value_panels(); ++panel) {
          ASSERT_EQ(floats_at(cache.values(head, page, panel)), next);
          next += (page_rows + 1) * nr;
        }
        rows_left -= page_rows;
      }
      ASSERT_EQ(rows_left, 0u);
    }
    ASSERT_EQ(next, data.data() + data.size());
  }
}

// Session::create writes no cache, as that would take longer than all else; zero rows are written
// on first use.
TEST_P(KvCacheOf, WritesZeroRowsWhereAPanelBegins) {
  const uint32_t nr = packing().nr;
  const CacheCase size = {{1, 9, 33}, 600};
  const Tokens tokens(size);
  const GuardedFloats data = memory(size);
  KvCache cache(bytes_of(data), CacheLayout(packing(), size.shape, size.positions));
  cache.append(kernels(), 0, 0, tokens.key_rows(0, 0, 1), tokens.value_rows(0, 0, 1));
  size_t written = 0;
  for (const float value : data.span()) written += std::isnan(value) ? 0 : 1;
  EXPECT_EQ(written, nr + 9 + cache.layout().value_panels() * nr + 33);
  for (uint32_t lane = 0; lane < nr; ++lane) {
    EXPECT_EQ(floats_at(cache.keys(0, 0))[lane], 0.0f);
    EXPECT_EQ(floats_at(cache.values(0, 0, 0))[lane], 0.0f);
  }
}

TEST_P(KvCacheOf, OverwritesRewoundPositions) {
  const CacheCase size = {{2, 9, 33}, 300};
  const GuardedFloats straight = memory(size);
  fill(straight, size, 300);
  const GuardedFloats rewound = memory(size);
  fill(rewound, size, 300);
  const Tokens tokens(size);
  std::vector<float> other(300 * std::max(tokens.key_stride(), tokens.value_stride()), 7.0f);
  KvCache cache(bytes_of(rewound), CacheLayout(packing(), size.shape, size.positions));
  cache.append(kernels(), 1, 250, {other.data(), 50, 9, 9}, {other.data(), 50, 33, 33});
  cache.append(kernels(), 1, 250, tokens.key_rows(1, 250, 50), tokens.value_rows(1, 250, 50));
  EXPECT_EQ(std::memcmp(rewound.data(), straight.data(), straight.size() * sizeof(float)), 0);
}

// Positions beyond the ring overwrite the oldest; the others stay in place.
TEST_P(KvCacheOf, HoldsTheLastPositionsInARing) {
  const uint32_t nr = packing().nr;
  constexpr uint32_t kRing = 2 * kPagePositions;
  const CacheCase ring = {{2, 9, 33}, kRing};
  const Tokens tokens({ring.shape, kRing + 700});
  const GuardedFloats data = memory(ring);
  KvCache cache(bytes_of(data), CacheLayout(packing(), ring.shape, kRing));
  for (uint32_t first = 0; first < tokens.size.positions; first += 100) {
    const uint32_t rows = std::min(100u, tokens.size.positions - first);
    for (uint32_t head = 0; head < ring.shape.kv_heads; ++head) {
      cache.append(kernels(), head, first, tokens.key_rows(head, first, rows),
                   tokens.value_rows(head, first, rows));
    }
  }
  EXPECT_TRUE(data.surroundings_intact());
  for (uint32_t head = 0; head < ring.shape.kv_heads; ++head) {
    for (uint32_t position = 700; position < tokens.size.positions; ++position) {
      const uint32_t lane = position % nr;
      const float* const keys = floats_at(cache.keys(head, position - lane));
      ASSERT_EQ(keys[lane], 0.0f);
      ASSERT_EQ(keys[9 * nr + lane], tokens.key_rows(head, position, 1).row(0)[8]) << position;
      const float* const values =
          floats_at(cache.values(head, position / kPagePositions, 32 / nr)) + 32 % nr;
      ASSERT_EQ(values[0], 0.0f);
      ASSERT_EQ(values[(position % kPagePositions + 1) * nr],
                tokens.value_rows(head, position, 1).row(0)[32])
          << position;
      ASSERT_EQ(cache.positions_in_a_row(position - lane), kRing - (position - lane) % kRing);
    }
  }
}

}  // namespace
}  // namespace arenite::test
