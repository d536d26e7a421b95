// SPDX-License-Identifier: Apache-2.0
// Linear layers on integer rows. Rows are quantized to 8 bits; their products with 8- or 4-bit
// weights are summed in integers, and an epilogue multiplies the sums by the scales of both.
#include "ops/integer_rows.h"

#if defined(ARENITE_INTEGER_ROWS)
#include <algorithm>

#include "arenite/arena_formula.h"
#include "core/float_bits.h"
#include "core/needs.h"
#include "core/packing.h"
#include "ops/linear.h"

#if !defined(__clang__) && !defined(__x86_64__)
#pragma GCC optimize("O2")  // regardless of the firmware's own level
#endif

namespace arenite::integers {
namespace {

constexpr size_t kNarrowColumns = 4;  // nr: columns of a panel
constexpr uint8_t kRowsAtOnce = 16;   // mr: rows that are multiplied with a panel

// The quantization of a row: element = (number - zero_point) * scale * 2^exponent; scale 0 if not
// finite.
struct Step {
  uint32_t sum : 24;  // of the numbers
  uint32_t zero_point : 8;
  uint16_t scale;  // at least 2^15
  int16_t exponent;
};
static_assert(sizeof(Step) == sizeof(QuantizedRow));

// Quantizes a row [count] to unsigned bytes. The smallest element (or 0) maps to (0, 1], the
// largest (or 0) to 254 steps above, so that no element has to be clamped.
Step quantized(const float* from, uint32_t count, uint8_t* to) {
  const Scan row = scan(from, count);
  if (row.exponent == kNotFinite) return {};
  const int32_t room = row.room();
  int32_t least = 0, most = 0;
  for (uint32_t i = 0; i < count; ++i) {
    least = std::min(least, bits_of(from[i]));
    most = std::max(most, bits_of(from[i]));
  }
  least = shifted_left(mantissa_of(least), room) >> 16;
  most = shifted_left(mantissa_of(most), room) >> 16;
  if (least == most) {
    std::fill_n(to, count, uint8_t{0});
    return {0, 0, 0x8000, -1000};
  }
  constexpr int32_t kShift = 22, kHalf = 1 << (kShift - 1);
  const int32_t per_unit = (254 << kShift) / (most - least);
  const int32_t zero_point = (2 * kHalf - least * per_unit) >> kShift;
  const int32_t offset = zero_point * (2 * kHalf) + kHalf;
  uint32_t sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const int32_t x = shifted_left(mantissa_of(bits_of(from[i])), room) >> 16;
    const int32_t number = (x * per_unit + offset) >> kShift;
    to[i] = static_cast<uint8_t>(number);
    sum += static_cast<uint32_t>(number);
  }
  uint32_t scale = 0x80000000u / static_cast<uint32_t>(per_unit);
  int32_t exponent = static_cast<int32_t>(row.exponent) - room - 151;
  while (scale > 0xFFFF) scale >>= 1, ++exponent;
  return {sum & 0xFFFFFF, static_cast<uint32_t>(zero_point) & 0xFF, static_cast<uint16_t>(scale),
          static_cast<int16_t>(exponent)};
}

// The scale and bias of a column as integers. `right` is how much smaller the exponent of the scale
// is than that of the largest scale; `bias` has 31 bits in the unit of the largest bias.
struct Column {
  uint32_t scale;  // 16 bits
  uint32_t right;
  int32_t bias;
};

// A row while it is multiplied by panels: right shifts of its products and biases, and the place of
// the results of the next panel.
struct PassedRow {
  const uint8_t* numbers;
  uint32_t sum, zero_point, scale;
  int32_t right, right_of_bias;
  float* to;
};

// sums[c] = minus_sums[c] * zero_point + the sum over i < k of a[i] * w[i][c], for the four columns
// of a panel. The weights follow `minus_sums`, which are -sum of the weights of each column.
[[gnu::always_inline]] inline void multiply_row(const PassedRow& row, const uint32_t* minus_sums,
                                                uint32_t k, uint32_t* sums) {
  const uint8_t* a = row.numbers;
  const auto* w = reinterpret_cast<const int8_t*>(minus_sums + kNarrowColumns);
#if defined(ARENITE_THUMB_1)
  // XOR adds 128 to the lower three weights of a word. Then the upper 8, 16, 24 and 32 bits of the
  // word take one instruction each. A sum of their products is too large by 256 times the sum of
  // the next column, and by 128 times the sum of the row, which is subtracted at the end.
  const uint32_t too_much = row.sum << 7;
  register uint32_t sum0 asm("r8") = 0;
  register uint32_t sum1 asm("r9") = 0;
  register uint32_t sum2 asm("r10") = 0;
  register uint32_t sum3 asm("r11") = 0;
  register const uint8_t* const end asm("r12") = a + (k & ~3u);
  register uint32_t word asm("r4");
  register uint32_t word_after asm("r5");
  uint32_t number, product;
  if (k >= 4) {
    // Each iteration processes eight inputs; the first one may process four.
    asm volatile(
        ".syntax unified\n"
        ".macro arenite_multiply_word word, at\n"
        "ldrb %[number], [%[a], #\\at]\n"
        "eors \\word, %[flip]\n"
        "asrs %[product], \\word, #24\n"
        "muls %[product], %[number]\n"
        "add %[sum3], %[product]\n"
        "asrs %[product], \\word, #16\n"
        "muls %[product], %[number]\n"
        "add %[sum2], %[product]\n"
        "asrs %[product], \\word, #8\n"
        "muls %[product], %[number]\n"
        "add %[sum1], %[product]\n"
        "muls \\word, %[number]\n"
        "add %[sum0], \\word\n"
        ".endm\n"
        ".macro arenite_multiply_four at\n"
        ".irp number_of_pair, 0, 2\n"
        "ldmia %[w]!, {%[word], %[word_after]}\n"
        "arenite_multiply_word %[word], (\\at + \\number_of_pair)\n"
        "arenite_multiply_word %[word_after], (\\at + \\number_of_pair + 1)\n"
        ".endr\n"
        ".endm\n"
        "mov %[number], %[end]\nsubs %[number], %[number], %[a]\nlsrs %[number], #3\n"
        "bcc 1f\n"
        "subs %[a], #4\nb 2f\n"
        "1: arenite_multiply_four 0\n"
        "2: arenite_multiply_four 4\n"
        "adds %[a], #8\n"
        "cmp %[a], %[end]\n"
        "bne 1b\n"
        ".purgem arenite_multiply_four\n.purgem arenite_multiply_word\n"
        : [a] "+l"(a), [w] "+l"(w), [number] "=&l"(number), [word] "=&l"(word),
          [word_after] "=&l"(word_after), [product] "=&l"(product), [sum0] "+r"(sum0),
          [sum1] "+r"(sum1), [sum2] "+r"(sum2), [sum3] "+r"(sum3)
        : [flip] "l"(0x00808080), [end] "r"(end)
        : "cc", "memory");
  }
  const uint32_t found0 = sum0, found1 = sum1, found2 = sum2, found3 = sum3;
  sums[0] = minus_sums[0] * row.zero_point + found0 - (found1 << 8) - too_much;
  sums[1] = minus_sums[1] * row.zero_point + found1 - (found2 << 8) - too_much;
  sums[2] = minus_sums[2] * row.zero_point + found2 - (found3 << 8) - too_much;
  sums[3] = minus_sums[3] * row.zero_point + found3;
  for (uint32_t left = k % 4; left != 0; --left, ++a) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kNarrowColumns; ++i, ++w) {
      sums[i] += static_cast<uint32_t>(*a * (*w + (i < 3 ? 128 : 0)));
    }
  }
#else
  uint32_t sum0 = minus_sums[0] * row.zero_point, sum1 = minus_sums[1] * row.zero_point;
  uint32_t sum2 = minus_sums[2] * row.zero_point, sum3 = minus_sums[3] * row.zero_point;
  for (const uint8_t* const end = a + k; a != end; ++a, w += kNarrowColumns) {
    const int32_t number = *a;
    sum0 += static_cast<uint32_t>(number * w[0]), sum1 += static_cast<uint32_t>(number * w[1]);
    sum2 += static_cast<uint32_t>(number * w[2]), sum3 += static_cast<uint32_t>(number * w[3]);
  }
  sums[0] = sum0, sums[1] = sum1, sums[2] = sum2, sums[3] = sum3;
#endif
}

// Headroom, in bits, of 16 times the sum of a q4 block: files store 1/16 of its scale.
constexpr int32_t kBlockRoom = 10;
constexpr size_t kBlockBytes = kNarrowColumns * kQ4BlockBytes;  // a block of a q4 panel

template <bool kIsQ4>
struct Linear {
  uint32_t inputs;
  const uint8_t* rows;
  size_t row_bytes;
  const Step* steps;
  int32_t left;  // left shift of sums that cannot overflow
  Ends ends;

  uint32_t blocks() const { return inputs / kQ4Block; }
  size_t panel_bytes() const {
    const size_t floats = kNarrowColumns * sizeof(float);
    return kIsQ4 ? 2 * floats + blocks() * kBlockBytes : 3 * floats + kNarrowColumns * inputs;
  }
  // For q8 only; the biases follow.
  const float* scales(const std::byte* panel) const {
    return reinterpret_cast<const float*>(panel + kNarrowColumns * (sizeof(int32_t) + inputs));
  }
  const float* biases(const std::byte* panel) const {
    return reinterpret_cast<const float*>(panel + panel_bytes()) - kNarrowColumns;
  }
  void take_ends(const std::byte* panel, uint32_t columns);
  void sum_blocks(const PassedRow& row, const std::byte* panel, uint32_t* sums) const;
  // Returns the exponent of sums that are shifted left by `left` and multiplied by the row's scale.
  int32_t exponent(const Step& step) const { return step.exponent + 16 - left; }
  void multiply(const ProductPart& part) const;
};

// Requantization epilogue: to[i] = sum * scale of the column * scale of the row + bias.
[[gnu::always_inline]] inline void end_row(const PassedRow& row, const Column* columns,
                                           const uint32_t* sums, int32_t left, float* to) {
#pragma GCC unroll 4
  for (size_t i = 0; i < kNarrowColumns; ++i) {
    const uint32_t scale = (columns[i].scale * row.scale + 0x8000) >> 16;
    const int32_t product = times(static_cast<int32_t>(sums[i] << left), scale);
    to[i] = with_bits((product >> columns[i].right >> row.right) +
                      (columns[i].bias >> row.right_of_bias));
  }
}

// Multiplies each panel by all rows of the part, so that its scales and biases are decoded once.
template <bool kIsQ4>
void Linear<kIsQ4>::multiply(const ProductPart& part) const {
  PassedRow passed[kRowsAtOnce];
  for (uint32_t r = 0; r < part.rows; ++r) {
    const Step& step = steps[part.row + r];
    const int32_t of_row = exponent(step), result = ends.exponent(of_row);
    passed[r] = {rows + (part.row + r) * row_bytes,
                 step.sum,
                 step.zero_point,
                 step.scale,
                 std::min<int32_t>(result - of_row - 24 - static_cast<int32_t>(ends.scale), 31),
                 std::min<int32_t>(result + 7 - static_cast<int32_t>(ends.bias), 31),
                 part.result + r * part.result_stride};
  }
  const std::byte* panel = part.weight;
  for (uint32_t column = 0; column < part.columns; column += kNarrowColumns) {
    const float* const of_columns = kIsQ4 ? nullptr : scales(panel);
    Column columns[kNarrowColumns];
    for (size_t i = 0; i < kNarrowColumns; ++i) {
      // The sums of q4 already include the scales.
      const uint32_t bits = kIsQ4 ? 0 : bit_cast<uint32_t>(of_columns[i]);
      const uint32_t right = kIsQ4 ? 0 : std::min<uint32_t>(ends.scale - field_of(bits), 31);
      const auto bias = bit_cast<uint32_t>(biases(panel)[i]);
      columns[i] = {kIsQ4 ? 1u << 16 : upper_bits(bits), right,
                    bias_bits(bias) >> std::min<uint32_t>(ends.bias - field_of(bias), 31)};
    }
    const uint32_t lanes = std::min<uint32_t>(part.columns - column, kNarrowColumns);
    for (PassedRow* row = passed; row != passed + part.rows; ++row) {
      uint32_t sums[kNarrowColumns];
      float results[kNarrowColumns];
      if constexpr (kIsQ4) {
        sum_blocks(*row, panel, sums);
      } else {
        multiply_row(*row, reinterpret_cast<const uint32_t*>(panel), inputs, sums);
      }
      end_row(*row, columns, sums, kIsQ4 ? 0 : left, lanes == kNarrowColumns ? row->to : results);
      if (lanes < kNarrowColumns) std::copy_n(results, lanes, row->to);
      row->to += lanes;
    }
    panel += panel_bytes();
  }
}

// Returns the signed four bits of a word from `bit` on.
[[gnu::always_inline]] inline int32_t number_at(uint32_t word, int32_t bit) {
  return static_cast<int32_t>(word << (28 - bit)) >> 28;
}

// sums[c] = the sum over blocks of (sum of a block) * (its scale), in units of the largest scale. A
// byte holds the weights of two inputs. Scales may be negative.
template <bool kIsQ4>
void Linear<kIsQ4>::sum_blocks(const PassedRow& row, const std::byte* panel, uint32_t* sums) const {
  const uint8_t* a = row.numbers;
  const auto zero_point = static_cast<int32_t>(row.zero_point);
  const auto* w = reinterpret_cast<const uint8_t*>(panel + kNarrowColumns * sizeof(float));
  std::fill_n(sums, kNarrowColumns, 0u);
  for (uint32_t block = 0; block < blocks(); ++block) {
    int32_t sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (const uint8_t* const end = a + kQ4Block; a != end; a += 2, w += kNarrowColumns) {
      const int32_t first = a[0] - zero_point, second = a[1] - zero_point;
      const auto word = *reinterpret_cast<const uint32_t*>(w);
      sum0 += first * number_at(word, 0) + second * number_at(word, 4);
      sum1 += first * number_at(word, 8) + second * number_at(word, 12);
      sum2 += first * number_at(word, 16) + second * number_at(word, 20);
      sum3 += first * number_at(word, 24) + second * number_at(word, 28);
    }
    const int32_t all[kNarrowColumns] = {sum0, sum1, sum2, sum3};
    const auto* const scales_of_block = reinterpret_cast<const uint16_t*>(w);
    for (size_t i = 0; i < kNarrowColumns; ++i) {
      const uint32_t bits = uint32_t{scales_of_block[i]} << 16;
      // Padding columns may have any bits.
      const uint32_t right = ends.scale - field_of(bits) + static_cast<uint32_t>(kBlockRoom - left);
      const int32_t product =
          times(all[i] * (16 << kBlockRoom), upper_bits(bits)) >> std::min<uint32_t>(right, 31);
      sums[i] += static_cast<uint32_t>(static_cast<int32_t>(bits) < 0 ? -product : product);
    }
    w += kNarrowColumns * sizeof(uint16_t);
  }
}

template <bool kIsQ4>
void Linear<kIsQ4>::take_ends(const std::byte* panel, uint32_t columns) {
  if (!kIsQ4) return ends.take(scales(panel), biases(panel), columns);
  for (uint32_t block = 0; block < blocks(); ++block) {
    const auto* const upper =
        reinterpret_cast<const uint16_t*>(panel + 4 * sizeof(float) + (block + 1) * kBlockBytes) -
        kNarrowColumns;
    float of_block[kNarrowColumns];
    for (uint32_t i = 0; i < columns; ++i)
      of_block[i] = bit_cast<float>(uint32_t{upper[i]} << 17 >> 1);
    ends.take(of_block, biases(panel), columns);
  }
}

template <bool kIsQ4>
void multiply_all(const ConstMatrix& input, const WeightView& weights, const Matrix& output,
                  const ScratchArea& scratch, const ParallelFor& parallel) {
  const size_t row_bytes =
      static_cast<size_t>(quantized_scratch_bytes(input.columns)) - sizeof(QuantizedRow);
  auto* const rows = reinterpret_cast<uint8_t*>(scratch.rows);
  auto* const steps = reinterpret_cast<Step*>(scratch.rows + input.rows * row_bytes);
  Linear<kIsQ4> op = {input.columns, rows, row_bytes, steps, 0, {}};
  // q4 adds up blocks that use all bits, so their number needs headroom.
  op.left = kIsQ4 ? kBlockRoom - (32 - leading_zeros(op.blocks()))
                  : leading_zeros(input.columns * 0x7F80) - 1;
  for (uint32_t column = 0; column < output.columns; column += kNarrowColumns) {
    op.take_ends(weights.data + column / kNarrowColumns * op.panel_bytes(),
                 std::min<uint32_t>(output.columns - column, kNarrowColumns));
  }
  auto quantize = [&](uint32_t row) {
    steps[row] = quantized(input.row(row), input.columns, rows + row * row_bytes);
  };
  for_each_row(parallel, input.rows, input.columns * kRoundWork, quantize);
  Packing packing = weights.packing;
  packing.mr = kRowsAtOnce;
  const ProductDivision division(packing, output, input.columns, parallel);
  auto multiply = [&](uint32_t task_index, uint32_t) {
    op.multiply(ProductPart(division, weights, output, task_index));
  };
  for_each_task(parallel, division.tasks(), division.task_work(), multiply);
  auto end = [&](uint32_t row) {
    float* const to = output.row(row);
    if (steps[row].scale == 0 || !op.ends.are_finite() || op.ends.has_negative_scales) {
      return fill_with_nan(to, output.columns);
    }
    pack(to, output.columns, op.ends.exponent(op.exponent(steps[row])));
  };
  for_each_row(parallel, output.rows, output.columns * kRoundWork, end);
}

}  // namespace

bool has_linear(const WeightView& weights) {
  const bool is_in_few_bits = (linked(Need::kQ8) && weights.type == TensorType::kQ8) ||
                              (linked(Need::kQ4) && weights.type == TensorType::kQ4);
  return is_in_few_bits && weights.packing.nr == kNarrowColumns && weights.packing.kr == 1;
}

void linear(const ConstMatrix& input, const WeightView& weights, const Matrix& output,
            const ScratchArea& scratch, const ParallelFor& parallel) {
  if constexpr (linked(Need::kQ4)) {
    if (weights.type == TensorType::kQ4) {
      return multiply_all<true>(input, weights, output, scratch, parallel);
    }
  }
  if constexpr (linked(Need::kQ8)) multiply_all<false>(input, weights, output, scratch, parallel);
}

}  // namespace arenite::integers
#endif
