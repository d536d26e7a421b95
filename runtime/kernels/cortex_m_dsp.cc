// SPDX-License-Identifier: Apache-2.0
// Products of int8 rows for Cortex-M with the DSP extension: SMLAD adds two products of 16 bits by
// 16. Integer sums are exact, and floats are computed as in XNNPACK's scalar kernels, so the
// results have the same bits.
//
// Rows are widened to pairs once for all outputs, into the scratch of the thread; weights are
// widened during the product, as they are read once. A single row is multiplied by the four outputs
// of a panel at once; four rows, whose pairs are interleaved, by one output after the other.
#include "kernels/cortex_m_dsp.h"

#if defined(ARENITE_HAVE_DSP)
#include <cstring>

#include "core/float_bits.h"

namespace arenite {
namespace {

// sums[r] += weights * the next pair of row r, for four rows.
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

// Widens a row to pairs, which are stored `step` pairs apart.
[[gnu::noinline]] void widen(const int8_t* row, size_t columns, size_t step, Pair* to) {
  const auto* from = reinterpret_cast<const uint32_t*>(row);
  for (const uint32_t* const end = from + columns / kGroup; from != end; to += 2 * step) {
    const uint32_t bytes = *from++;
    to[0] = even_bytes(bytes);
    to[step] = odd_bytes(bytes);
  }
}

// A block of one, three or four rows in int8, and the scratch for their pairs.
struct Rows {
  size_t count;
  const int8_t* bytes;
  size_t stride;
  const QuantizedRow* scales;
  Pair* pairs;

  // Widens a single row, or three or four rows, interleaved as four; the last of three is repeated.
  void widen_all(size_t columns) const {
    for (size_t r = 0; r < (count == 1 ? 1 : kLanes); ++r) {
      const size_t row = r < count ? r : count - 1;
      widen(bytes + row * stride, columns, count == 1 ? 1 : kLanes, pairs + r);
    }
  }
};

// Contiguous inputs of an output: kr, or 1 if panels have no padding.
template <typename Panel>
constexpr size_t kInputs = 1;
template <>
constexpr size_t kInputs<Q8Panel> = 8;

const uint32_t* words_of(const Q8Panel& panel) {
  return reinterpret_cast<const uint32_t*>(panel.weights);
}

// c [lanes] = the row times the first `lanes` outputs of a panel. The row's pairs end at `end`.
[[gnu::always_inline]] inline void one_row(const Q8Panel& panel, const Rows& rows, const Pair* end,
                                           float* c, size_t lanes) {
  const QuantizedRow scale = rows.scales[0];
  Sums sums;
  for_first(kLanes, [&](size_t i) ARENITE_INLINE {
    sums.of[i] = correction(panel.head[i], scale.zero_point);
  });
  const uint32_t* weights = words_of(panel);
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

// c = three or four rows times one output of a panel.
[[gnu::always_inline]] inline void four_rows(const Q8Panel& panel, size_t lane, const Rows& rows,
                                             const Pair* end, float* c, size_t c_stride) {
  Sums sums;
  const QuantizedRow* scale = rows.scales;
  for_first(kLanes, [&](size_t r) ARENITE_INLINE {
    sums.of[r] = correction(panel.head[lane], scale[r].zero_point);
  });
  const uint32_t* weights = words_of(panel) + 2 * lane;
  const Pair* pairs = rows.pairs;
  do {
    uint32_t first, second;
    load_two<uint32_t, kInputs<Q8Panel> * kLanes>(weights, first, second);
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

// A block of a q4 panel (packing.h).
struct Q4Block {
  uint32_t weights[kQ4Block / 8][kLanes];
  uint16_t scales[kLanes];  // scales / 16, in bfloat16
};
static_assert(sizeof(Q4Block) == kQ4BlockBytes * kLanes);

struct Q4Panel {
  const float* head;
  const Q4Block* blocks;
  const Q4Block* end_of_blocks;
  const float* bias;

  Q4Panel(const std::byte* at, size_t k)
      : head(reinterpret_cast<const float*>(at)),
        blocks(reinterpret_cast<const Q4Block*>(head + kLanes)),
        end_of_blocks(blocks + k / kQ4Block),
        bias(reinterpret_cast<const float*>(end_of_blocks)) {}
  const std::byte* end() const { return reinterpret_cast<const std::byte*>(bias + kLanes); }
};

// Weights of four bits as pairs, times 4096. Of a word, the low halves of the bytes are inputs 0 to
// 3, the high halves inputs 4 to 7. even_ takes bytes 0 and 2, odd_ bytes 1 and 3.
class Halves {
 public:
  // Keeps the mask in a register. For a constant, compilers would use another shift instruction.
  Halves() { asm("" : "+r"(high_quarters_)); }
  Pair even_low(uint32_t halves) const { return halves << 12 & high_quarters_; }
  Pair odd_low(uint32_t halves) const { return halves << 4 & high_quarters_; }
  Pair even_high(uint32_t halves) const { return halves << 8 & high_quarters_; }
  Pair odd_high(uint32_t halves) const { return halves & high_quarters_; }

 private:
  uint32_t high_quarters_ = 0xF000F000u;
};

// Returns a block's share of an output. All but the product is exact.
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

// Multiplies one row, or three or four, by all panels.
template <typename Panel>
[[gnu::noinline]] void multiply_block(const Rows& rows, size_t columns, size_t k,
                                      const std::byte* w, float* c, size_t c_stride) {
  const size_t padded = (k + kInputs<Panel> - 1) / kInputs<Panel> * kInputs<Panel>;
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

// Two rows are multiplied one after the other. Three rows are padded to four, which takes fewer
// instructions.
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

void dsp_quantize(size_t bytes, const float* x, float inverse_scale, int32_t zero_point,
                  int8_t* y) {
  // Elements are offset by 128 to be unsigned, so that their signs do not carry into the next byte.
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

void dsp_q8_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes,
                 const QuantizedRow (&a_rows)[kRowsMax], std::byte* scratch) {
  gemm<Q8Panel>(rows, columns, k, a, a_stride_bytes, w, c, c_stride_bytes, a_rows, scratch);
}

void dsp_q4_gemm(size_t rows, size_t columns, size_t k, const int8_t* a, size_t a_stride_bytes,
                 const void* w, float* c, size_t c_stride_bytes,
                 const QuantizedRow (&a_rows)[kRowsMax], std::byte* scratch) {
  gemm<Q4Panel>(rows, columns, k, a, a_stride_bytes, w, c, c_stride_bytes, a_rows, scratch);
}

}  // namespace arenite
#endif
