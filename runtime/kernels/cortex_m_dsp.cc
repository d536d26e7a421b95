// SPDX-License-Identifier: Apache-2.0
// Products of rows in int8 for Cortex-M with the DSP extension: SMLAD adds two products of 16 bits
// by 16. Sums in integers are exact and floats are computed as XNNPACK's scalar kernels do, so the
// bits are theirs.
//
// Four bytes k0 k1 k2 k3 become two pairs by one instruction each, (k0, k2) and (k1, k3). Rows are
// widened so once for all outputs, into the thread's scratch; weights, which are read once, on the
// way. A row by itself meets the four outputs of a panel at once; else four rows, whose pairs lie
// side by side, meet one output after the other.
#include "kernels/cortex_m.h"

#if defined(ARENITE_HAVE_DSP)
#include <arm_acle.h>

#include <cstring>

#include "core/float_bits.h"
#include "kernels/integer_attention.h"

#if !defined(__clang__)
// Whatever the rest of a firmware is compiled with; and a scheduler that does not count registers
// makes all pairs first, which takes more than there are.
#pragma GCC optimize("O2", "no-schedule-insns")
#endif

// Of lambdas: registers are few, and calls would put what they share into memory.
#define ARENITE_INLINE __attribute__((always_inline))

namespace arenite {
namespace {

constexpr size_t kLanes = 4;  // outputs of a panel; and rows side by side
constexpr size_t kGroup = 4;  // bytes that become two pairs

using Pair = uint32_t;  // of int16

Pair even_bytes(uint32_t bytes) { return static_cast<Pair>(__sxtb16(bytes)); }
// The rotation is free within the instruction, which compilers do not know.
Pair odd_bytes(uint32_t bytes) {
  Pair pair;
  asm("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(bytes));
  return pair;
}

// The lower halves of two words.
Pair lower_halves(uint32_t first, uint32_t second) {
  Pair pair;
  asm("pkhbt %0, %1, %2, lsl #16" : "=r"(pair) : "r"(first), "r"(second));
  return pair;
}

int32_t dot(Pair a, Pair b, int32_t sum) {
  return __smlad(static_cast<int16x2_t>(a), static_cast<int16x2_t>(b), sum);
}

// Compilers load words one by one, which takes as long as the products do.
template <typename Word, int kStep>
[[gnu::always_inline]] inline void load_two(const Word*& from, uint32_t& first, uint32_t& second) {
  asm("ldrd %0, %1, [%2], %3"
      : "=r"(first), "=r"(second), "+r"(from)
      : "i"(kStep), "m"(*reinterpret_cast<const uint32_t(*)[2]>(from)));
}

struct Sums {
  int32_t of[kLanes];
};

// Adds the products of a pair of weights with those of four rows.
[[gnu::always_inline]] inline void add_rows(Pair weights, const Pair*& rows, Sums& sums) {
  register Pair row0 asm("r4");
  register Pair row1 asm("r5");
  register Pair row2 asm("r6");
  register Pair row3 asm("r8");
  asm("ldm %4!, {%0, %1, %2, %3}"
      : "=r"(row0), "=r"(row1), "=r"(row2), "=r"(row3), "+r"(rows)
      : "m"(*reinterpret_cast<const Pair(*)[kLanes]>(rows)));
  sums.of[0] = dot(weights, row0, sums.of[0]);
  sums.of[1] = dot(weights, row1, sums.of[1]);
  sums.of[2] = dot(weights, row2, sums.of[2]);
  sums.of[3] = dot(weights, row3, sums.of[3]);
}

// A row as pairs, each `step` after the other.
[[gnu::noinline]] void widen(const int8_t* row, size_t columns, size_t step, Pair* to) {
  const auto* from = reinterpret_cast<const uint32_t*>(row);
  for (const uint32_t* const end = from + columns / kGroup; from != end; to += 2 * step) {
    const uint32_t bytes = *from++;
    to[0] = even_bytes(bytes);
    to[step] = odd_bytes(bytes);
  }
}

// Rows in int8, a block of up to four, and what they become.
struct Rows {
  size_t count;
  const int8_t* bytes;
  size_t stride;
  const QuantizedRow* scales;
  Pair* pairs;

  // One row by itself, or four side by side, the last of them several times.
  void widen_all(size_t columns) const {
    for (size_t r = 0; r < (count == 1 ? 1 : kLanes); ++r) {
      const size_t row = r < count ? r : count - 1;
      widen(bytes + row * stride, columns, count == 1 ? 1 : kLanes, pairs + r);
    }
  }
};

// Calls function(0), function(1) ... for the first `count` of four, without a loop.
template <typename Function>
[[gnu::always_inline]] inline void for_first(size_t count, Function function) {
  function(0);
  if (count > 1) function(1);
  if (count > 2) function(2);
  if (count > 3) function(3);
}

// Weights in q8: panels of (packing.h)
struct Q8Panel {
  static constexpr size_t kInputs = 8;  // of an output that follow each other: kr
  const int32_t* head;
  const uint32_t* weights;
  const float* scales;  // and biases

  static size_t padded(size_t k) { return (k + kInputs - 1) / kInputs * kInputs; }
  Q8Panel(const std::byte* at, size_t k)
      : head(reinterpret_cast<const int32_t*>(at)),
        weights(reinterpret_cast<const uint32_t*>(head + kLanes)),
        scales(reinterpret_cast<const float*>(weights + k / sizeof(uint32_t) * kLanes)) {}
  const std::byte* end() const { return reinterpret_cast<const std::byte*>(scales + 2 * kLanes); }
};

// c [lanes] of the first `lanes` outputs. The row's pairs end at `end`.
[[gnu::always_inline]] inline void one_row(const Q8Panel& panel, const Rows& rows, const Pair* end,
                                           float* c, size_t lanes) {
  const QuantizedRow scale = rows.scales[0];
  Sums sums;
  for_first(kLanes, [&](size_t i) ARENITE_INLINE {
    sums.of[i] = correction(panel.head[i], scale.zero_point);
  });
  const uint32_t* weights = panel.weights;
  const Pair* row = rows.pairs;
  do {
    Pair row02, row13, row46, row57;
    load_two<Pair, 8>(row, row02, row13);
    load_two<Pair, 8>(row, row46, row57);
    const auto add = [&](int32_t& sum) ARENITE_INLINE {
      uint32_t first, second;
      load_two<uint32_t, 8>(weights, first, second);
      sum = dot(even_bytes(first), row02, sum);
      sum = dot(odd_bytes(first), row13, sum);
      sum = dot(even_bytes(second), row46, sum);
      sum = dot(odd_bytes(second), row57, sum);
    };
    add(sums.of[0]), add(sums.of[1]), add(sums.of[2]), add(sums.of[3]);
  } while (row != end);
  const float* const scales = panel.scales;
  for_first(lanes, [&](size_t i) ARENITE_INLINE {
    c[i] = static_cast<float>(sums.of[i]) * scale.scale * scales[i] + scales[kLanes + i];
  });
}

// c of three or four rows and of one output.
[[gnu::always_inline]] inline void four_rows(const Q8Panel& panel, size_t lane, const Rows& rows,
                                             const Pair* end, float* c, size_t c_stride) {
  Sums sums;
  const QuantizedRow* scale = rows.scales;
  for_first(kLanes, [&](size_t r) ARENITE_INLINE {
    sums.of[r] = correction(panel.head[lane], scale[r].zero_point);
  });
  const uint32_t* weights = panel.weights + 2 * lane;
  const Pair* pairs = rows.pairs;
  do {
    uint32_t first, second;
    load_two<uint32_t, Q8Panel::kInputs * kLanes>(weights, first, second);
    add_rows(even_bytes(first), pairs, sums);
    add_rows(odd_bytes(first), pairs, sums);
    add_rows(even_bytes(second), pairs, sums);
    add_rows(odd_bytes(second), pairs, sums);
  } while (pairs != end);
  const float of_output = panel.scales[lane];
  const float bias = panel.scales[kLanes + lane];
  for_first(rows.count, [&](size_t r) ARENITE_INLINE {
    *c = static_cast<float>(sums.of[r]) * scale++->scale * of_output + bias;
    c += c_stride;
  });
}

// Weights in q4: panels of (packing.h)
struct Q4Block {
  uint32_t weights[kQ4Block / 8][kLanes];
  uint16_t scales[kLanes];  // 1 / 16 of them, in bfloat16
};
static_assert(sizeof(Q4Block) == kQ4BlockBytes * kLanes);

struct Q4Panel {
  const float* head;
  const Q4Block* blocks;
  const Q4Block* end_of_blocks;
  const float* bias;

  static size_t padded(size_t k) { return k; }
  Q4Panel(const std::byte* at, size_t k)
      : head(reinterpret_cast<const float*>(at)),
        blocks(reinterpret_cast<const Q4Block*>(head + kLanes)),
        end_of_blocks(blocks + k / kQ4Block),
        bias(reinterpret_cast<const float*>(end_of_blocks)) {}
  const std::byte* end() const { return reinterpret_cast<const std::byte*>(bias + kLanes); }
};

// Halves of bytes as pairs, 4096 times what they are: k0 and k2, k1 and k3, and four inputs later.
class Halves {
 public:
  // In a register: with a constant, compilers shift by an instruction of its own.
  Halves() { asm("" : "+r"(high_quarters_)); }
  Pair even_low(uint32_t halves) const { return halves << 12 & high_quarters_; }
  Pair odd_low(uint32_t halves) const { return halves << 4 & high_quarters_; }
  Pair even_high(uint32_t halves) const { return halves << 8 & high_quarters_; }
  Pair odd_high(uint32_t halves) const { return halves & high_quarters_; }

 private:
  uint32_t high_quarters_ = 0xF000F000u;
};

// A block's share of an output. Exact up to the product.
float scaled(int32_t sum, uint32_t scale) {
#if defined(__ARM_FP)
  float units;
  asm("vcvt.f32.s32 %0, %0, #8" : "=t"(units) : "0"(sum));
#else
  const auto units = static_cast<float>(sum >> 8);  // the last 12 bits are 0
#endif
  return units * bit_cast<float>(scale);
}

[[gnu::always_inline]] inline void one_row(const Q4Panel& panel, const Rows& rows, const Pair*,
                                           float* c, size_t lanes) {
  const Halves in;
  float y[kLanes];
  const auto zero_point = static_cast<float>(rows.scales->zero_point);
  for_first(kLanes, [&](size_t i) ARENITE_INLINE { y[i] = panel.head[i] * zero_point; });
  const auto* weights = reinterpret_cast<const uint32_t*>(panel.blocks);
  const auto* const end = reinterpret_cast<const uint32_t*>(panel.end_of_blocks);
  for (const Pair* row = rows.pairs; weights != end;) {
    Sums sums = {};
    const auto add_eight = [&]() ARENITE_INLINE {
      Pair row02, row13, row46, row57;
      load_two<Pair, 8>(row, row02, row13);
      load_two<Pair, 8>(row, row46, row57);
      const auto add = [&](uint32_t halves, int32_t& sum) ARENITE_INLINE {
        sum = dot(in.even_low(halves), row02, sum);
        sum = dot(in.odd_low(halves), row13, sum);
        sum = dot(in.even_high(halves), row46, sum);
        sum = dot(in.odd_high(halves), row57, sum);
      };
      uint32_t first, second;
      load_two<uint32_t, 8>(weights, first, second);
      add(first, sums.of[0]), add(second, sums.of[1]);
      load_two<uint32_t, 8>(weights, first, second);
      add(first, sums.of[2]), add(second, sums.of[3]);
    };
    static_assert(kQ4Block == 4 * 8);
    add_eight(), add_eight(), add_eight(), add_eight();
    uint32_t first, second;  // scales
    load_two<uint32_t, 8>(weights, first, second);
    y[0] += scaled(sums.of[0], first << 16);
    y[1] += scaled(sums.of[1], first & 0xFFFF0000u);
    y[2] += scaled(sums.of[2], second << 16);
    y[3] += scaled(sums.of[3], second & 0xFFFF0000u);
  }
  for_first(lanes,
            [&](size_t i) ARENITE_INLINE { c[i] = y[i] * rows.scales->scale + panel.bias[i]; });
}

[[gnu::always_inline]] inline void four_rows(const Q4Panel& panel, size_t lane, const Rows& rows,
                                             const Pair*, float* c, size_t c_stride) {
  const Halves in;
  float y[kLanes];
  const QuantizedRow* scale = rows.scales;
  for_first(kLanes, [&](size_t r) ARENITE_INLINE {
    y[r] = panel.head[lane] * static_cast<float>(scale[r].zero_point);
  });
  const auto* weights = panel.blocks->weights[0] + lane;
  const auto* const end = panel.end_of_blocks->weights[0] + lane;
  for (const Pair* pairs = rows.pairs; weights != end;) {
    Sums sums = {};
    const auto add_eight = [&]() ARENITE_INLINE {
      const uint32_t halves = *weights;
      weights += kLanes;
      add_rows(in.even_low(halves), pairs, sums);
      add_rows(in.odd_low(halves), pairs, sums);
      add_rows(in.even_high(halves), pairs, sums);
      add_rows(in.odd_high(halves), pairs, sums);
    };
    add_eight(), add_eight(), add_eight(), add_eight();
    const auto* const scales = reinterpret_cast<const uint16_t*>(weights - lane);
    const uint32_t of_output = uint32_t{scales[lane]} << 16;
    weights += kLanes / 2;  // past the scales
    for_first(kLanes, [&](size_t r) ARENITE_INLINE { y[r] += scaled(sums.of[r], of_output); });
  }
  const float bias = panel.bias[lane];
  for_first(rows.count, [&](size_t r) ARENITE_INLINE {
    *c = y[r] * scale++->scale + bias;
    c += c_stride;
  });
}

// Of one row, or of three or four.
template <typename Panel>
[[gnu::noinline]] void multiply_block(const Rows& rows, size_t columns, size_t k,
                                      const std::byte* w, float* c, size_t c_stride) {
  const size_t padded = Panel::padded(k);
  rows.widen_all(padded);
  const Pair* const end = rows.pairs + padded / 2 * (rows.count == 1 ? 1 : kLanes);
  for (size_t column = 0; column < columns; column += kLanes, c += kLanes) {
    const Panel panel(w, padded);
    const size_t lanes = columns - column < kLanes ? columns - column : kLanes;
    if (rows.count == 1) {
      one_row(panel, rows, end, c, lanes);
    } else {
      for (size_t i = 0; i < lanes; ++i) four_rows(panel, i, rows, end, c + i, c_stride);
    }
    w = panel.end();
  }
}

// Two rows are twice one: with three, four side by side take less.
template <typename Panel>
void gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
          const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
          std::byte* scratch) {
  const size_t at_once = rows == 2 ? 1 : rows;
  const size_t c_stride = c_stride_bytes / sizeof(float);
  for (size_t row = 0; row < rows; row += at_once) {
    multiply_block<Panel>({at_once, a + row * a_stride_bytes, a_stride_bytes, a_rows + row,
                           reinterpret_cast<Pair*>(scratch)},
                          columns, k, static_cast<const std::byte*>(w), c + row * c_stride,
                          c_stride);
  }
}

// Attention in integers (kernel_set.h). What is widened above is rounded here: queries, a part of
// their dimensions at a time, and weights of a block of positions.
struct RoundedRows {
  Pair pairs[kLanes * kIntegerBlock / 2];
  Pair* end;
};
static_assert(kIntegerDims == kIntegerBlock && kIntegerRows == kLanes);

// Two pairs of four numbers, as rounded_bits() rounds them.
[[gnu::always_inline]] inline void round_four(const float*& x, float per_unit, Pair& even,
                                              Pair& odd) {
  uint32_t bits[4];
#if defined(__ARM_FP)
  asm("vldm %4!, {s0-s3}\n"
      "vmul.f32 s0, s0, %5\n"
      "vmul.f32 s1, s1, %5\n"
      "vmul.f32 s2, s2, %5\n"
      "vmul.f32 s3, s3, %5\n"
      "vadd.f32 s0, s0, %6\n"
      "vadd.f32 s1, s1, %6\n"
      "vadd.f32 s2, s2, %6\n"
      "vadd.f32 s3, s3, %6\n"
      "vmov %0, %1, s0, s1\n"
      "vmov %2, %3, s2, s3"
      : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3]), "+r"(x)
      : "t"(per_unit), "t"(kRoundingMagic), "m"(*reinterpret_cast<const float(*)[4]>(x))
      : "s0", "s1", "s2", "s3");
#else
  for (size_t i = 0; i < 4; ++i) bits[i] = rounded_bits(x[i], per_unit);
  x += 4;
#endif
  even = lower_halves(bits[0], bits[2]);
  odd = lower_halves(bits[1], bits[3]);
}

// A row as pairs, each `step` after the other; to eight numbers come zeros. Returns their end.
[[gnu::noinline]] Pair* round_row(const float* x, size_t count, float per_unit, size_t step,
                                  Pair* to) {
  const auto add_four = [&](const float*& four) ARENITE_INLINE {
    Pair even, odd;
    round_four(four, per_unit, even, odd);
    to[0] = even;
    to[step] = odd;
    to += 2 * step;
  };
  const Pair* const end = to + (count + 7) / 8 * 4 * step;
  for (; count >= 4; count -= 4) add_four(x);
  for (; to != end; count = 0) {
    float rest[4] = {};
    for (size_t i = 0; i < count; ++i) rest[i] = x[i];
    const float* four = rest;
    add_four(four);
  }
  return to;
}

// One row by itself, or four side by side, the last of them several times.
template <typename PerUnit>
void round_rows(size_t rows, const float* x, size_t stride, size_t count, PerUnit per_unit,
                RoundedRows& rounded) {
  const size_t step = rows == 1 ? 1 : kLanes;
  for (size_t i = 0; i < step; ++i) {
    const size_t r = i < rows ? i : rows - 1;
    rounded.end = round_row(x + r * stride, count, per_unit(r), step, rounded.pairs + i);
  }
  rounded.end -= step - 1;  // of the first row
}

// Numbers in int8 that rows meet: words from one column to the next, and from eight numbers of a
// column to the next eight.
struct Columns {
  const uint32_t* at;
  size_t column, group;
};
constexpr size_t kColumnsAtOnce = 4;
using ColumnSums = int32_t[kColumnsAtOnce][kLanes];

// Sums of products of four rows with each column. A call of its own: more does not fit into
// registers.
[[gnu::noinline]] void multiply_rows(const Columns& columns, size_t count,
                                     const RoundedRows& rounded, ColumnSums& to) {
  const Pair* const end = rounded.end;
  const size_t group = columns.group;
  const uint32_t* column = columns.at;
  for (int32_t* of = to[0]; of != to[count]; of += kLanes, column += columns.column) {
    Sums sums = {};
    const uint32_t* from = column;
    const Pair* pairs = rounded.pairs;
    do {
      const uint32_t first = from[0], second = from[1];
      from += group;
      add_rows(even_bytes(first), pairs, sums);
      add_rows(odd_bytes(first), pairs, sums);
      add_rows(even_bytes(second), pairs, sums);
      add_rows(odd_bytes(second), pairs, sums);
    } while (pairs != end);
    of[0] = sums.of[0], of[1] = sums.of[1], of[2] = sums.of[2], of[3] = sums.of[3];
  }
}

// The same of one row, four columns at once: to[i][0].
[[gnu::noinline]] void multiply_row(const Columns& columns, size_t count,
                                    const RoundedRows& rounded, ColumnSums& to) {
  const size_t step = columns.column;
  const size_t next = columns.group - 3 * step;
  const uint32_t* column = columns.at;
  for (int32_t* of = to[0]; of < to[count]; of += kLanes * kLanes, column += kLanes * step) {
    Sums sums = {};
    const uint32_t* from = column;
    const Pair* row = rounded.pairs;
    do {
      Pair row02, row13, row46, row57;
      load_two<Pair, 8>(row, row02, row13);
      load_two<Pair, 8>(row, row46, row57);
      const auto add = [&](int32_t& sum, size_t further) ARENITE_INLINE {
        const uint32_t first = from[0], second = from[1];
        from += further;
        sum = dot(even_bytes(first), row02, sum);
        sum = dot(odd_bytes(first), row13, sum);
        sum = dot(even_bytes(second), row46, sum);
        sum = dot(odd_bytes(second), row57, sum);
      };
      add(sums.of[0], step), add(sums.of[1], step), add(sums.of[2], step), add(sums.of[3], next);
    } while (row != rounded.end);
    for_first(kLanes, [&](size_t i) ARENITE_INLINE { of[i * kLanes] = sums.of[i]; });
  }
}

// Calls function(i) for i below `count`, four at a time.
template <typename Function>
[[gnu::always_inline]] inline void for_each_of(size_t count, Function function) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) function(i), function(i + 1), function(i + 2), function(i + 3);
  for (; i < count; ++i) function(i);
}

// Scores from sums: of the first dimensions, or with the sums of those before; and, where
// dimensions are missing, as integers.
[[gnu::noinline]] void take_sums(const int32_t (*sums)[kLanes], size_t count, bool adds,
                                 bool is_last, const float* scales, float step, float* scores) {
  if (is_last && !adds) {
    for_each_of(count, [&](size_t i) ARENITE_INLINE {
      scores[i] = static_cast<float>((*sums++)[0]) * scales[i] * step;
    });
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    const int32_t before = adds ? bit_cast<int32_t>(scores[i]) : 0;
    const auto sum =
        static_cast<int32_t>(static_cast<uint32_t>(before) + static_cast<uint32_t>(sums[i][0]));
    scores[i] = is_last ? static_cast<float>(sum) * scales[i] * step : bit_cast<float>(sum);
  }
}

// Of one row, or of three or four.
[[gnu::always_inline]] inline void scores_of_block(size_t rows, size_t keys, size_t dims,
                                                   const float* query, size_t query_stride,
                                                   const RowSteps* steps, const int8_t* key,
                                                   const float* key_scales, float* scores,
                                                   size_t stride) {
  const auto multiply = rows == 1 ? multiply_row : multiply_rows;
  RoundedRows rounded;
  ColumnSums sums;
  for (size_t begin = 0; begin < dims; begin += kIntegerDims) {
    const size_t left = dims - begin;
    round_rows(
        rows, query + begin, query_stride, left < kIntegerDims ? left : kIntegerDims,
        [&](size_t r) { return steps[r].per_unit; }, rounded);
    const auto* at = reinterpret_cast<const uint32_t*>(key + begin);
    const size_t words = integer_key_bytes(dims) / sizeof(uint32_t);
    for (size_t i = 0; i < keys; i += kColumnsAtOnce, at += kColumnsAtOnce * words) {
      const size_t count = keys - i < kColumnsAtOnce ? keys - i : kColumnsAtOnce;
      multiply({at, words, 2}, count, rounded, sums);
      for (size_t r = 0; r < rows; ++r) {
        take_sums(reinterpret_cast<const int32_t(*)[kLanes]>(sums[0] + r), count, begin != 0,
                  left <= kIntegerDims, key_scales + i, steps[r].step, scores + r * stride + i);
      }
    }
  }
}

// Products of weights and scales, and what they are rounded by.
[[gnu::noinline]] RowSteps steps_of_weights(float* weights, const float* scales, size_t count) {
#if defined(ARENITE_HAVE_NUMERIC_MAXMIN)
  float largest = 0.0f, all = 0.0f;
  const auto meet = [&](float weight) ARENITE_INLINE {
    largest = __builtin_fmaxf(largest, weight);
    all += weight;  // finite, as scales are at most a 127th of a float
  };
  for (; scales != nullptr && count >= 4; count -= 4) {
    register float w0 asm("s0");
    register float w1 asm("s1");
    register float w2 asm("s2");
    register float w3 asm("s3");
    asm volatile(
        "vldm %4, {s0-s3}\n"
        "vldm %5!, {s4-s7}\n"
        "vmul.f32 s0, s0, s4\n"
        "vmul.f32 s1, s1, s5\n"
        "vmul.f32 s2, s2, s6\n"
        "vmul.f32 s3, s3, s7\n"
        "vstm %4!, {s0-s3}"
        : "=t"(w0), "=t"(w1), "=t"(w2), "=t"(w3), "+r"(weights), "+r"(scales)
        :
        : "s4", "s5", "s6", "s7", "memory");
    meet(w0), meet(w1), meet(w2), meet(w3);
  }
  for (size_t i = 0; i < count; ++i) {
    if (scales != nullptr) weights[i] *= scales[i];
    meet(weights[i]);
  }
  return steps_up_to(is_finite(all) ? largest : all, kLargestWeightStep);
#else
  uint32_t largest = 0;  // the bits of numbers that are not negative are ordered as they are
  for (size_t i = 0; i < count; ++i) {
    if (scales != nullptr) weights[i] *= scales[i];
    const auto bits = bit_cast<uint32_t>(weights[i]);
    largest = bits > largest ? bits : largest;
  }
  return steps_up_to(bit_cast<float>(largest), kLargestWeightStep);
#endif
}

// Of one row, or of three or four.
[[gnu::always_inline]] inline void values_of_block(size_t rows, size_t columns, size_t positions,
                                                   float* weights, size_t weights_stride,
                                                   const float* scales, const std::byte* values,
                                                   float* output, size_t stride, bool adds) {
  RowSteps steps[kLanes];
  for (size_t r = 0; r < rows; ++r) {
    steps[r] = steps_of_weights(weights + r * weights_stride, scales, positions);
  }
  RoundedRows rounded;
  round_rows(
      rows, weights, weights_stride, positions, [&](size_t r) { return steps[r].per_unit; },
      rounded);
  const auto multiply = rows == 1 ? multiply_row : multiply_rows;
  constexpr size_t kGroupWords = kIntegerGroup / sizeof(uint32_t);
  const auto* at = reinterpret_cast<const uint32_t*>(values);
  ColumnSums sums;
  for (size_t i = 0; i < columns; i += kColumnsAtOnce, at += kColumnsAtOnce * kGroupWords) {
    const size_t count = columns - i < kColumnsAtOnce ? columns - i : kColumnsAtOnce;
    multiply({at, kGroupWords, columns * kGroupWords}, count, rounded, sums);
    for (size_t r = 0; r < rows; ++r) {
      const int32_t* sum = sums[0] + r;
      float* const y = output + r * stride + i;
      const float step = steps[r].step;
      const auto of_block = [&]() ARENITE_INLINE {
        const float product = static_cast<float>(*sum) * step;
        sum += kLanes;
        return product;
      };
      if (adds) {
        for_each_of(count, [&](size_t k) ARENITE_INLINE { y[k] += of_block(); });
      } else {
        for_each_of(count, [&](size_t k) ARENITE_INLINE { y[k] = of_block(); });
      }
    }
  }
}

}  // namespace

#if defined(ARENITE_HAVE_NUMERIC_MAXMIN)
namespace {

template <bool kSums>
[[gnu::always_inline]] inline void find_range(size_t bytes, const float* x, float* extremes,
                                              float& sum) {
  float least = *x, most = *x, all = sum;
  const auto meet = [&](float number) ARENITE_INLINE {
    least = __builtin_fminf(least, number);
    most = __builtin_fmaxf(most, number);
    if (kSums) all += number;
  };
  size_t count = bytes / sizeof(float);
  for (; count >= 8; count -= 8, x += 8) {
    register float x0 asm("s0");
    register float x1 asm("s1");
    register float x2 asm("s2");
    register float x3 asm("s3");
    register float x4 asm("s4");
    register float x5 asm("s5");
    register float x6 asm("s6");
    register float x7 asm("s7");
    asm("vldm %8, {s0-s7}"
        : "=t"(x0), "=t"(x1), "=t"(x2), "=t"(x3), "=t"(x4), "=t"(x5), "=t"(x6), "=t"(x7)
        : "r"(x), "m"(*reinterpret_cast<const float(*)[8]>(x)));
    meet(x0), meet(x1), meet(x2), meet(x3), meet(x4), meet(x5), meet(x6), meet(x7);
  }
  for (size_t i = 0; i < count; ++i) meet(x[i]);
  extremes[0] = least;
  extremes[1] = most;
  sum = all;
}

}  // namespace

void dsp_row_extremes(size_t bytes, const float* x, float* extremes) {
  float unused = 0.0f;
  find_range<false>(bytes, x, extremes, unused);
}

void dsp_row_range(size_t bytes, const float* x, float* extremes, float* sum) {
  find_range<true>(bytes, x, extremes, *sum);
}
#endif

void dsp_integer_exp_sum(size_t bytes, const float* x, const float* max, float* y, float* sum) {
  const float largest = *max;
  const auto weight = [](float below) ARENITE_INLINE {
    return below < kLeastExponent ? 0.0f : integer_exp(below);
  };
  float even = 0.0f, odd = 0.0f;
  size_t count = bytes / sizeof(float);
#if defined(ARENITE_HAVE_NUMERIC_MAXMIN)
  for (; count >= 4; count -= 4, x += 4, y += 4) {
    const float x0 = x[0] - largest, x1 = x[1] - largest;
    const float x2 = x[2] - largest, x3 = x[3] - largest;
    float y0 = integer_exp(x0), y1 = integer_exp(x1), y2 = integer_exp(x2), y3 = integer_exp(x3);
    const float least = __builtin_fminf(__builtin_fminf(x0, x1), __builtin_fminf(x2, x3));
    if (least < kLeastExponent) [[unlikely]] {
      y0 = weight(x0), y1 = weight(x1), y2 = weight(x2), y3 = weight(x3);
    }
    even += y0, odd += y1;
    even += y2, odd += y3;
    y[0] = y0, y[1] = y1, y[2] = y2, y[3] = y3;
  }
#endif
  for (; count >= 2; count -= 2, x += 2, y += 2) {
    const float y0 = weight(x[0] - largest), y1 = weight(x[1] - largest);
    even += y0, odd += y1;
    y[0] = y0, y[1] = y1;
  }
  even += odd;
  if (count != 0) even += * y = weight(*x - largest);
  *sum = even;
}

void dsp_quantize(size_t bytes, const float* x, float inverse_scale, int32_t zero_point,
                  int8_t* y) {
  // As unsigned numbers, 128 more, which take no sign into the byte above.
  const auto zero = static_cast<uint32_t>(zero_point + 128);
  const auto zeros = static_cast<int16x2_t>(zero | zero << 16);
  const auto rounded = [&](Pair pair) ARENITE_INLINE {
    return static_cast<uint32_t>(__usat16(__qadd16(static_cast<int16x2_t>(pair), zeros), 8));
  };
  constexpr uint32_t kSigns = 0x80808080u;
  size_t count = bytes / sizeof(float);
  for (; count >= 4; count -= 4, y += 4) {
    Pair even, odd;
    round_four(x, inverse_scale, even, odd);
    const uint32_t four = (rounded(even) | rounded(odd) << 8) ^ kSigns;
    std::memcpy(y, &four, sizeof(four));
  }
  for (size_t i = 0; i < count; ++i) {
    y[i] =
        static_cast<int8_t>(rounded(lower_halves(rounded_bits(x[i], inverse_scale), 0)) ^ kSigns);
  }
}

void dsp_integer_scores(size_t rows, size_t keys, size_t dims, const float* query,
                        size_t query_stride_bytes, const RowSteps* query_rows, const int8_t* key,
                        const float* key_scales, float* scores, size_t scores_stride_bytes) {
  const size_t query_stride = query_stride_bytes / sizeof(float);
  const size_t stride = scores_stride_bytes / sizeof(float);
  const size_t at_once = rows == 2 ? 1 : rows;
  for (size_t row = 0; row < rows; row += at_once) {
    scores_of_block(at_once, keys, dims, query + row * query_stride, query_stride, query_rows + row,
                    key, key_scales, scores + row * stride, stride);
  }
}

void dsp_integer_values(size_t rows, size_t columns, size_t positions, float* weights,
                        size_t weights_stride_bytes, const float* scales, const std::byte* values,
                        float* output, size_t output_stride_bytes, bool adds) {
  const size_t weights_stride = weights_stride_bytes / sizeof(float);
  const size_t stride = output_stride_bytes / sizeof(float);
  const size_t at_once = rows == 2 ? 1 : rows;
  for (size_t row = 0; row < rows; row += at_once) {
    values_of_block(at_once, columns, positions, weights + row * weights_stride, weights_stride,
                    scales, values, output + row * stride, stride, adds);
  }
}

void dsp_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte* scratch) {
  gemm<Q8Panel>(rows, columns, k, a, a_stride_bytes, w, c, c_stride_bytes, a_rows, scratch);
}

void dsp_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes, const QuantizedRow* a_rows,
                 std::byte* scratch) {
  gemm<Q4Panel>(rows, columns, k, a, a_stride_bytes, w, c, c_stride_bytes, a_rows, scratch);
}

}  // namespace arenite
#endif
