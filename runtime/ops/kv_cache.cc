// SPDX-License-Identifier: Apache-2.0
// Appends to the packed cache. Values stay rows; keys are transposed into panels as they come. With
// nr = 4 the keys (a0, a1) and (b0, b1) become
//   0 0 0 0 | a0 b0 . . | a1 b1 . .
#include "ops/kv_cache.h"

#if defined(__ARM_FEATURE_MVE) && !defined(__clang__)
#pragma GCC optimize("O2")  // the kernels are so fast that code around them counts
#endif

#include <algorithm>
#include <cstring>

#include "core/float_bits.h"
#include "kernels/integer_attention.h"

namespace arenite {

void KvCache::append(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                     const ConstMatrix& keys, const ConstMatrix& values) {
  const bool has_keys = layout_.shape().head_dim != 0;
  if (for_integers()) return append_for_integers(kernels, kv_head, position, keys, values);
  if (is_int8()) {
    if (has_keys) append_int8_keys(kv_head, position, keys);
    append_int8_values(kv_head, position, values);
    return;
  }
  if (has_keys) append_keys(kernels, kv_head, position, keys);
  append_values(kv_head, position, values);
}

void KvCache::append_keys(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                          const ConstMatrix& keys) {
  const CacheLayout layout = layout_;  // a copy, which the stores below cannot alias
  const uint32_t nr = layout.nr();
  std::byte* const begin = head(kv_head);
  for (uint32_t row = 0; row < keys.rows;) {
    const uint32_t lane = (position + row) % nr;
    const uint32_t left = keys.rows - row;
    const uint32_t lanes = left < nr - lane ? left : nr - lane;
    float* panel = reinterpret_cast<float*>(begin + layout.key_panel(position + row - lane));
    if (lane == 0) std::memset(panel, 0, nr * sizeof(float));
    const float* const from = keys.row(row);
    float* to = panel + nr + lane;
    if (lanes == 1) {
      for (uint32_t i = 0; i < layout.shape().head_dim; ++i, to += nr) *to = from[i];
    } else {
      kernels.transpose(lanes, layout.shape().head_dim, from, keys.stride * sizeof(float), to,
                        nr * sizeof(float));
    }
    row += lanes;
  }
}

void KvCache::append_values(uint32_t kv_head, uint32_t position, const ConstMatrix& values) {
  const CacheLayout layout = layout_;
  const uint32_t nr = layout.nr();
  std::byte* const head_begin = head(kv_head);
  for (uint32_t row = 0; row < values.rows;) {
    const uint32_t page = (position + row) / kPagePositions;
    const uint32_t place = (position + row) % kPagePositions;
    const uint32_t left = values.rows - row;
    const uint32_t rows = left < kPagePositions - place ? left : kPagePositions - place;
    std::byte* panel = head_begin + layout.value_panel(page, 0);
    const size_t panel_bytes = layout.value_panel_bytes(page);
    for (uint32_t column = 0; column < layout.shape().value_dim; column += nr) {
      const uint32_t columns_left = layout.shape().value_dim - column;
      const size_t bytes = (columns_left < nr ? columns_left : nr) * sizeof(float);
      auto* const begin = reinterpret_cast<float*>(panel);
      panel += panel_bytes;
      if (place == 0) std::memset(begin, 0, nr * sizeof(float));
      float* to = begin + (place + 1) * nr;
      for (uint32_t i = 0; i < rows; ++i, to += nr) {
        std::memcpy(to, values.row(row + i) + column, bytes);
      }
    }
    row += rows;
  }
}

float KvCache::key(uint32_t kv_head, uint32_t position, uint32_t dimension) const {
  if (for_integers()) {
    return static_cast<float>(integer_keys(kv_head, position)[dimension]) *
           *integer_key_scales(kv_head, position);
  }
  const uint32_t lane = position % layout_.nr();
  const std::byte* const panel = keys(kv_head, position - lane);
  const std::byte* const number = panel + layout_.key_number(dimension, lane);
  if (!is_int8()) return *reinterpret_cast<const float*>(number);
  const std::byte* const scale = panel + layout_.key_scale(lane);
  return static_cast<float>(*reinterpret_cast<const int8_t*>(number)) *
         *reinterpret_cast<const float*>(scale);
}

// Int8 caches: each key, and the values of each position, have their own scale.

namespace {

constexpr uint32_t kBytesAtOnce = 16;  // a constant length, for the vectorizer

int8_t rounded_byte(float x) { return static_cast<int8_t>(bit_cast<int32_t>(x + kRoundingMagic)); }

// Returns the largest magnitude; not finite if an element is not. Compares bits: those of positive
// floats are ordered like the floats, with infinity and NaN above all, and compilers vectorize the
// maximum of integers but not that of floats.
float largest_magnitude(std::span<const float> row) {
  const auto size_of = [](float x) { return bit_cast<int32_t>(x) & 0x7FFFFFFF; };
  int32_t lanes[kBytesAtOnce] = {};
  size_t begin = 0;
  for (; row.size() - begin >= kBytesAtOnce; begin += kBytesAtOnce) {
    const float* const chunk = row.data() + begin;
    for (size_t i = 0; i < kBytesAtOnce; ++i) lanes[i] = std::max(lanes[i], size_of(chunk[i]));
  }
  int32_t largest = 0;
  for (; begin < row.size(); ++begin) largest = std::max(largest, size_of(row[begin]));
  for (const int32_t lane : lanes) largest = std::max(largest, lane);
  return bit_cast<float>(largest);
}

// Uses the kernel of the set, if any, unless its sum is not finite: this indicates NaN, which the
// extremes may miss, or a mere overflow.
float largest_magnitude(const KernelSet& kernels, std::span<const float> row) {
  if (kernels.row_range == nullptr) return largest_magnitude(row);
  float extremes[2], sum = 0.0f;
  kernels.row_range(row.size_bytes(), row.data(), extremes, &sum);
  if (!is_finite(sum)) return largest_magnitude(row);
  return std::max(-extremes[0], extremes[1]);
}

}  // namespace

Int8Row::Int8Row(std::span<const float> row) : Int8Row(largest_magnitude(row)) {}

Int8Row::Int8Row(const KernelSet& kernels, std::span<const float> row)
    : Int8Row(largest_magnitude(kernels, row)) {}

Int8Row::Int8Row(float largest) : steps_(int8_steps(largest)) {}

RowSteps integer_steps(const KernelSet& kernels, std::span<const float> row) {
  return steps_up_to(largest_magnitude(kernels, row), largest_query_step(row.size()));
}

int8_t Int8Row::number(float x) const { return rounded_byte(x * per_unit()); }

void Int8Row::write(const float* __restrict from, uint32_t count, int8_t* __restrict to) const {
  const float per_unit = steps_.per_unit;
  for (; count >= kBytesAtOnce; count -= kBytesAtOnce, from += kBytesAtOnce, to += kBytesAtOnce) {
    for (uint32_t i = 0; i < kBytesAtOnce; ++i) to[i] = rounded_byte(from[i] * per_unit);
  }
  for (uint32_t i = 0; i < count; ++i) to[i] = rounded_byte(from[i] * per_unit);
}

void KvCache::append_int8_keys(uint32_t kv_head, uint32_t position, const ConstMatrix& keys) {
  const CacheLayout layout = layout_;
  const uint32_t inputs = layout.shape().head_dim;
  const uint32_t nr = layout.nr();
  for (uint32_t row = 0; row < keys.rows; ++row) {
    const uint32_t lane = (position + row) % nr;
    std::byte* const panel = head(kv_head) + layout.key_panel(position + row - lane);
    if (lane == 0) std::fill_n(reinterpret_cast<float*>(panel), nr, 0.0f);
    const float* const key = keys.row(row);
    const Int8Row numbers({key, inputs});
    auto* to = reinterpret_cast<int8_t*>(panel + layout.key_number(0, lane));
    for (uint32_t i = 0; i < inputs; i += kBytesAtOnce) {
      int8_t chunk[kBytesAtOnce];
      const uint32_t count = std::min(inputs - i, kBytesAtOnce);
      numbers.write(key + i, count, chunk);
      for (uint32_t k = 0; k < count; ++k, to += nr) *to = chunk[k];
    }
    *reinterpret_cast<float*>(panel + layout.key_scale(lane)) = numbers.scale();
  }
}

void KvCache::append_int8_values(uint32_t kv_head, uint32_t position, const ConstMatrix& values) {
  const CacheLayout layout = layout_;
  const uint32_t nr = layout.nr();
  std::byte* const head_begin = head(kv_head);
  for (uint32_t row = 0; row < values.rows; ++row) {
    const uint32_t page = (position + row) / kPagePositions;
    const uint32_t place = (position + row) % kPagePositions;
    const float* const value = values.row(row);
    const Int8Row numbers({value, layout.shape().value_dim});
    *reinterpret_cast<float*>(head_begin + layout.value_scale(position + row)) = numbers.scale();
    for (uint32_t panel = 0; panel < layout.value_panels(); ++panel) {
      const uint32_t column = panel * nr;
      const uint32_t columns = std::min(layout.shape().value_dim - column, nr);
      std::byte* const begin = head_begin + layout.value_panel(page, panel);
      if (place == 0) std::fill_n(reinterpret_cast<float*>(begin), nr, 0.0f);
      auto* const to = reinterpret_cast<int8_t*>(begin + layout.value_row(place));
      numbers.write(value + column, columns, to);
    }
    if (place + 1 == kPagePositions) end_int8_values(kv_head, position + row + 1);
  }
}

void KvCache::end_int8_values(uint32_t kv_head, uint32_t positions) {
  const uint32_t last = positions - 1;
  for (uint32_t panel = 0; panel < layout_.value_panels(); ++panel) {
    std::byte* const begin = head(kv_head) + layout_.value_panel(last / kPagePositions, panel);
    std::byte* const ones = begin + layout_.value_row(last % kPagePositions + 1);
    std::fill_n(reinterpret_cast<float*>(ones), layout_.nr(), 1.0f);
  }
}

void KvCache::append_for_integers(const KernelSet& kernels, uint32_t kv_head, uint32_t position,
                                  const ConstMatrix& keys, const ConstMatrix& values) {
  const CacheLayout layout = layout_;
  const QuantizeKernel quantize = kernels.integers->quantize;
  const uint32_t dims = layout.shape().head_dim;
  const uint32_t columns = layout.shape().value_dim;
  std::byte* const begin = head(kv_head);
  auto* const key_scales = reinterpret_cast<float*>(begin + layout.integer_key_scale(0));
  auto* const value_scales = reinterpret_cast<float*>(begin + layout.value_scale(0));
  std::byte* page = nullptr;
  for (uint32_t row = 0; row < values.rows; ++row) {
    const uint32_t place = (position + row) % kPagePositions;
    if (row == 0 || place == 0) {
      page = begin + layout.integer_value((position + row) / kPagePositions, 0);
    }
    const uint32_t index = (position + row) % layout.positions();
    std::byte* to = page + size_t{place - place % kIntegerGroup} * columns + place % kIntegerGroup;
    if (const RoundRowKernel round = kernels.integers->round_row) {
      if (dims != 0) {
        auto* const key = reinterpret_cast<int8_t*>(begin + index * integer_key_bytes(dims));
        key_scales[index] = round(dims, keys.row(row), 1, key);
      }
      auto* const value = reinterpret_cast<int8_t*>(to);
      value_scales[index] = round(columns, values.row(row), kIntegerGroup, value);
      continue;
    }
    if (dims != 0) {
      const Int8Row key(kernels, {keys.row(row), dims});
      quantize(dims * sizeof(float), keys.row(row), key.per_unit(), 0,
               reinterpret_cast<int8_t*>(begin + index * integer_key_bytes(dims)));
      key_scales[index] = key.scale();
    }
    const Int8Row value(kernels, {values.row(row), columns});
    value_scales[index] = value.scale();
    for (uint32_t column = 0; column < columns; column += kBytesAtOnce) {
      int8_t chunk[kBytesAtOnce];
      const uint32_t count = std::min(columns - column, kBytesAtOnce);
      quantize(count * sizeof(float), values.row(row) + column, value.per_unit(), 0, chunk);
      for (uint32_t i = 0; i < count; ++i, to += kIntegerGroup) *to = std::byte(chunk[i]);
    }
  }
}

}  // namespace arenite
