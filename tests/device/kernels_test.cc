// SPDX-License-Identifier: Apache-2.0
// Tests the kernels of every set that is compiled in and that this CPU can run.
//
// Operands are multiples of 1/64 below 1, so that products and their sums are exact in float32:
// every order of additions, fused or not, must give the bits of the plain loop here.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"
#include "kernels/kernel_set.h"
#include "support/random.h"

namespace arenite::device {
namespace {

constexpr uint32_t kRowsOfAll = kRowsMax;
constexpr uint32_t kColumnsOfAll = 67;  // two panels of the widest set, and three
constexpr uint32_t kDepthMax = 33;
constexpr uint32_t kLengthMax = 67;
constexpr uint32_t kColumns[] = {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 67};
constexpr uint32_t kDepths[] = {1, 2, 3, 4, 5, 8, 17, 33};
constexpr size_t kReadAhead = kReadAheadBytes / sizeof(float);

constinit float input[kRowsOfAll * kDepthMax + kReadAhead] = {};
constinit float weights[kColumnsOfAll * kDepthMax] = {};
constinit float bias[kColumnsOfAll] = {};
constinit float output[kRowsOfAll * kColumnsOfAll] = {};
alignas(64) constinit float packed[96 * (kDepthMax + 1) + kReadAhead] = {};

constinit const float* pieces[kDepthMax * kRowsOfAll] = {};

constinit float a[kLengthMax + kReadAhead] = {};
constinit float b[kLengthMax + kReadAhead] = {};
constinit float y[kLengthMax + kReadAhead] = {};

void fill(std::span<float> values, uint64_t seed) {
  test::Random random(seed);
  for (float& value : values) {
    value = static_cast<float>(static_cast<int32_t>(random.below(128)) - 64) / 64.0f;
  }
}

bool same_bits(float found, float expected) {
  return std::bit_cast<uint32_t>(found) == std::bit_cast<uint32_t>(expected);
}

// Calls check(kernels) for each kernel set.
template <typename Check>
void for_each_set(Check check) {
  for (uint32_t i = 0; i < kTargets; ++i) {
    const KernelSet* const kernels = kernel_set(static_cast<Target>(i));
    if (kernels == nullptr) continue;
    in_hand("kernels", kernels->name);
    EXPECT(kernels->f32.packing == packing_of(kernels->target, TensorType::kF32));
    check(*kernels);
  }
}

void pack(Packing packing, uint32_t columns, uint32_t depth) {
  std::ranges::fill(packed, 0.0f);
  for (uint32_t n = 0; n < columns; ++n) {
    packed[packed_weight_index(packing, depth, n, kBiasRow)] = bias[n];
    for (uint32_t k = 0; k < depth; ++k) {
      packed[packed_weight_index(packing, depth, n, k)] = weights[n * kDepthMax + k];
    }
  }
}

float product(uint32_t row, uint32_t column, uint32_t depth) {
  float sum = bias[column];
  for (uint32_t k = 0; k < depth; ++k) {
    sum += input[row * depth + k] * weights[column * kDepthMax + k];
  }
  return sum;
}

void expect_products(const KernelSet& kernels, uint32_t rows, uint32_t columns, uint32_t depth) {
  bool exact = true;
  for (uint32_t r = 0; r < kRowsOfAll; ++r) {
    for (uint32_t c = 0; c < kColumnsOfAll; ++c) {
      const float expected = r < rows && c < columns ? product(r, c, depth) : 7.0f;
      exact = exact && output[r * kColumnsOfAll + c] == expected;
    }
  }
  in_hand("kernels", kernels.name, (rows * 100 + columns) * 100 + depth);
  EXPECT(exact);
}

void check_products(const KernelSet& kernels, uint32_t columns, uint32_t depth) {
  const FloatKernels& f32 = kernels.f32;
  pack(f32.packing, columns, depth);
  for (uint32_t rows = 1; rows <= f32.packing.mr; ++rows) {
    std::ranges::fill(output, 7.0f);
    f32.gemm[rows](rows, columns, depth * sizeof(float), input, depth * sizeof(float), packed,
                   output, kColumnsOfAll * sizeof(float));
    expect_products(kernels, rows, columns, depth);
    // Passes the rows through the pointer list, one element per pointer.
    const uint32_t list_rows = kernels.indirect->list_rows[rows];
    for (uint32_t i = 0; i < depth * list_rows; ++i) {
      pieces[i] = input + std::min(i % list_rows, rows - 1) * depth + i / list_rows;
    }
    std::ranges::fill(output, 7.0f);
    kernels.indirect->gemm[rows](rows, columns, depth, sizeof(float), pieces, packed, output,
                                 kColumnsOfAll * sizeof(float));
    expect_products(kernels, rows, columns, depth);
  }
}

// Quantized rows and weights. Scales are powers of two, so all sums are exact.
constexpr uint32_t kWidest = 35;   // two panels of the widest set, and three
constexpr uint32_t kDeepest = 96;  // three blocks of q4
constexpr uint32_t kPadding = 16;  // numbers that kernels read beyond a row
constexpr float kRowScale = 0.5f;
constexpr float kWeightScale = 1.0f / 32;
constinit int8_t few_bits[kWidest * kDeepest] = {};
constinit float row_values[kDeepest] = {};
alignas(64) constinit std::byte packed_bytes[16 * 1024] = {};
alignas(16) constinit int8_t quantized_rows[kRowsOfAll * (kDeepest + kPadding)] = {};
alignas(16) constinit std::byte product_scratch[kRowsOfAll * 2 * kDeepest] = {};

int32_t zero_point(uint32_t row) { return static_cast<int32_t>(row * 37 % 256) - 128; }
// Returns the int8 element of a row.
int32_t row_number(uint32_t row, uint32_t k) {
  return static_cast<int32_t>((row * 61 + k * 101 + k * k) % 256) - 128;
}
// Returns a scale that differs between blocks and between outputs.
float weight_scale(uint32_t column, uint32_t block) {
  return (column + block) % 2 == 0 ? kWeightScale : 2 * kWeightScale;
}

template <typename T>
void put(size_t offset, T value) {
  std::memcpy(packed_bytes + offset, &value, sizeof(T));
}

void pack_few_bits(Packing packing, uint32_t columns, uint32_t depth) {
  const bool is_q4 = packing.type == TensorType::kQ4;
  const size_t bytes_of_panel = static_cast<size_t>(panel_bytes(packing, depth).value());
  std::ranges::fill(packed_bytes, std::byte{});
  for (uint32_t n = 0; n < columns; ++n) {
    const size_t panel = n / packing.nr * bytes_of_panel;
    const uint32_t lane = n % packing.nr;
    int32_t sum = 0;
    float scaled_sum = 0.0f;
    for (uint32_t k = 0; k < depth; ++k) {
      const int32_t weight = few_bits[n * kDeepest + k] >> (is_q4 ? 4 : 0);
      const float scale = weight_scale(n, is_q4 ? k / kQ4Block : 0);
      const PanelPlace place = panel_place(packing, k, lane);
      const uint32_t bits = static_cast<uint32_t>(weight) & (is_q4 ? 0xFu : 0xFFu);
      packed_bytes[panel + place.byte] |=
          static_cast<std::byte>(place.high_half ? bits << 4 : bits);
      const size_t scale_place = panel + panel_scale(packing, depth, k, lane);
      if (is_q4) {
        put(scale_place, static_cast<uint16_t>(std::bit_cast<uint32_t>(scale / 16) >> 16));
      } else {
        put(scale_place, scale);
      }
      sum -= weight;
      scaled_sum -= scale * static_cast<float>(weight);
    }
    if (is_q4) {
      put(panel + lane * sizeof(float), scaled_sum);
    } else {
      put(panel + lane * sizeof(float), sum);
    }
    put(panel + panel_bias(packing, depth, lane), bias[n]);
  }
}

float few_bits_product(TensorType type, uint32_t row, uint32_t column, uint32_t depth) {
  const bool is_q4 = type == TensorType::kQ4;
  float sum = 0.0f;
  for (uint32_t k = 0; k < depth; ++k) {
    const int32_t weight = few_bits[column * kDeepest + k] >> (is_q4 ? 4 : 0);
    sum += static_cast<float>((row_number(row, k) - zero_point(row)) * weight) *
           weight_scale(column, is_q4 ? k / kQ4Block : 0);
  }
  return sum * kRowScale + bias[column];
}

void check_few_bits(const KernelSet& kernels, const QuantizedKernels& of_type, uint32_t columns,
                    uint32_t depth) {
  constexpr uint32_t kStride = kDeepest + kPadding;
  EXPECT(of_type.packing == packing_of(kernels.target, of_type.packing.type));
  pack_few_bits(of_type.packing, columns, depth);
  for (uint32_t rows = 1; rows <= of_type.packing.mr; ++rows) {
    QuantizedRow a_rows[kRowsMax];
    std::ranges::fill(quantized_rows, int8_t{0});
    for (uint32_t r = 0; r < kRowsMax; ++r) {
      const uint32_t row = std::min(r, rows - 1);
      a_rows[r] = {zero_point(row), kRowScale};
      for (uint32_t k = 0; k < depth; ++k) {
        row_values[k] = static_cast<float>(row_number(row, k) - zero_point(row));
      }
      if (r != row) continue;
      of_type.quantize(depth * sizeof(float), row_values, 1.0f, zero_point(row),
                       quantized_rows + r * kStride);
    }
    std::ranges::fill(output, 7.0f);
    of_type.gemm[rows](rows, columns, depth, quantized_rows, kStride, packed_bytes, output,
                       kColumnsOfAll * sizeof(float), a_rows, product_scratch);
    bool exact = true;
    for (uint32_t r = 0; r < kRowsOfAll; ++r) {
      for (uint32_t c = 0; c < kColumnsOfAll; ++c) {
        const float expected =
            r < rows && c < columns ? few_bits_product(of_type.packing.type, r, c, depth) : 7.0f;
        exact = exact && output[r * kColumnsOfAll + c] == expected;
      }
    }
    in_hand("kernels", kernels.name, (rows * 100 + columns) * 100 + depth);
    EXPECT(exact);
  }
}

// Calls kernel(length), then holds y against expected(i).
template <typename Kernel, typename Expected>
void check_rows(const KernelSet& kernels, Kernel kernel, Expected expected) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    std::ranges::fill(y, 7.0f);
    kernel(length * sizeof(float));
    bool exact = true;
    for (uint32_t i = 0; i < std::size(y); ++i) {
      exact = exact && same_bits(y[i], i < length ? expected(i) : 7.0f);
    }
    in_hand("kernels", kernels.name, length);
    EXPECT(exact);
  }
}

void check_sums(const KernelSet& kernels) {
  for (uint32_t length = 1; length <= kLengthMax; ++length) {
    in_hand("kernels", kernels.name, length);
    float expected = 0.5f;
    float least = INFINITY;
    float largest = -INFINITY;
    for (uint32_t i = 0; i < length; ++i) {
      expected += a[i];
      least = std::min(least, a[i]);
      largest = std::max(largest, a[i]);
    }
    float sum = 0.5f;
    kernels.sum(length * sizeof(float), a, &sum);
    EXPECT(sum == expected);
    float extremes[2] = {NAN, NAN};
    kernels.row_extremes(length * sizeof(float), a, extremes);
    EXPECT(extremes[0] == least && extremes[1] == largest);
  }
}

// Real parts lie before imaginary ones.
void check_rotation(const KernelSet& kernels) {
  for (uint32_t pairs = 1; 2 * pairs <= kLengthMax; ++pairs) {
    in_hand("kernels", kernels.name, pairs);
    kernels.rotate(pairs * sizeof(float), a, b, y);
    bool exact = true;
    for (uint32_t i = 0; i < pairs; ++i) {
      const uint32_t j = i + pairs;
      exact = exact && y[i] == a[i] * b[i] - a[j] * b[j] && y[j] == a[i] * b[j] + a[j] * b[i];
    }
    EXPECT(exact);
  }
}

bool near(float found, float expected, float tolerance) {
  return std::abs(found - expected) <= tolerance;
}

// Checks f on the first n points, for every n.
template <typename Value>
void check_function(const KernelSet& kernels, UnaryKernel kernel, float tolerance, Value value) {
  const std::span<const FunctionPoint> points = function_points();
  for (uint32_t length = 1; length <= points.size(); ++length) {
    for (uint32_t i = 0; i < length; ++i) a[i] = points[i].x;
    kernel(length * sizeof(float), a, y);
    bool all_near = true;
    for (uint32_t i = 0; i < length; ++i) {
      const float scale = std::max(1.0f, std::abs(points[i].x));
      all_near = all_near && near(y[i], value(points[i]), tolerance * scale);
    }
    in_hand("kernels", kernels.name, length);
    EXPECT(all_near);
  }
}

void check_exponentials(const KernelSet& kernels, float tolerance) {
  const std::span<const FunctionPoint> points = function_points();
  constexpr float kMax = 0.0f;
  for (uint32_t length = 1; length <= points.size(); ++length) {
    float expected_sum = 0.0f;
    for (uint32_t i = 0; i < length; ++i) {
      a[i] = -std::abs(points[i].x);
      expected_sum += points[i].exp;
    }
    float sum = NAN;
    kernels.exp_sum(length * sizeof(float), a, &kMax, y, &sum);
    bool all_near = near(sum, expected_sum, tolerance * expected_sum * static_cast<float>(length));
    for (uint32_t i = 0; i < length; ++i) {
      all_near = all_near && near(y[i], points[i].exp, tolerance * points[i].exp);
    }
    in_hand("kernels", kernels.name, length);
    EXPECT(all_near);
    a[0] = -INFINITY;
    kernels.exp_sum(length * sizeof(float), a, &kMax, y, &sum);
    EXPECT(same_bits(y[0], 0.0f));
  }
}

// Numbers of every size, some of which no vector of Cortex-M holds: of each four the size is about
// the same. Neither NaN nor infinite.
void fill_all_sizes(std::span<float> values, uint64_t seed) {
  test::Random random(seed);
  uint32_t exponent = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i % 4 == 0) exponent = i % 8 == 0 ? random.below(136) : 118 + random.below(16);
    const uint32_t bits = (exponent + random.below(2)) << 23 | random.below(1u << 23);
    values[i] = std::bit_cast<float>(i % 31 == 30 ? 0 : bits | random.below(2) << 31);
  }
}

// Sets of Cortex-M have the bits of plain kernels in functions, too.
void same_functions_as_plain(const KernelSet& kernels) {
  const KernelSet* const plain = kernel_set(Target::kPortable);
  if (plain == nullptr) return;
  constexpr uint32_t kCount = kLengthMax;
  float x[kCount], found[kCount + 1], expected[kCount + 1];
  for (uint32_t round = 0; round < 300; ++round) {
    fill_all_sizes(x, 100 + round);
    const uint32_t length = 1 + round % kCount;
    const size_t bytes = length * sizeof(float);
    const auto same = [&](auto call) {
      std::ranges::fill(found, 7.0f);
      std::ranges::fill(expected, 7.0f);
      call(kernels, found);
      call(*plain, expected);
      in_hand("kernels", kernels.name, round);
      EXPECT(std::memcmp(found, expected, sizeof(found)) == 0);
    };
    same([&](const KernelSet& of, float* to) { of.gelu(bytes, x, to); });
    same([&](const KernelSet& of, float* to) { of.sigmoid(bytes, x, to); });
    same([&](const KernelSet& of, float* to) { of.tanh(bytes, x, to); });
    for (float& number : x) number = -std::abs(number);
    same([&](const KernelSet& of, float* to) {
      constexpr float kMax = 0.0f;
      of.exp_sum(bytes, x, &kMax, to, to + kCount);
    });
    if (kernels.divide == nullptr) continue;
    std::ranges::copy(x, found);
    const float factor = 1.0f / static_cast<float>(1 + round);
    bool same_bits_of_all = kernels.divide(length, factor, found);
    for (uint32_t i = 0; i < length; ++i) {
      same_bits_of_all = same_bits_of_all && same_bits(found[i], x[i] * factor + 0.0f);
    }
    EXPECT(same_bits_of_all);
    x[length / 2] = round % 2 == 0 ? INFINITY : NAN;
    EXPECT(!kernels.divide(length, factor, x));
  }
}

// Attention in integers, with room for every size of the test.
constexpr uint32_t kDimsMax = 130;
constexpr uint32_t kKeysMax = 9;
constexpr uint32_t kBlockMax = kIntegerBlock;
constexpr uint32_t kValuesMax = 17;
constexpr uint32_t kDimsOf[] = {1, 3, 4, 8, 13, 16, 64, 65, kDimsMax};
constexpr uint32_t kKeysOf[] = {1, 3, 4, kKeysMax};
constexpr uint32_t kValuesOf[] = {1, 3, 4, 7, 16, kValuesMax};
constexpr uint32_t kPositionsOf[] = {1, 4, 7, 8, 25, kBlockMax};
constexpr uint32_t kIntegerStride = kDimsMax + 6;
constinit float integer_rows[4 * kIntegerStride] = {};
constinit float integer_scales[kIntegerBlock] = {};
alignas(16) constinit std::byte integer_cache[12 * (kDimsMax + 24) + 16] = {};
static_assert(sizeof(integer_cache) >= kBlockMax * (kValuesMax + 3));

void fill_integers(uint64_t seed) {
  test::Random random(seed);
  for (std::byte& number : integer_cache) number = static_cast<std::byte>(random.below(256));
  for (float& number : integer_rows) number = random.symmetric(3.0f);
  for (float& number : integer_scales) number = std::abs(random.symmetric(0.1f));
}

// Checks the kernels that quantize whole rows, if the set has them.
void check_rounded_rows(const IntegerAttention& of) {
  for (uint32_t count = 1; count <= kDimsMax; count += 1 + count / 3) {
    for (const float last : {0.0f, 5.0f, -1e-36f, INFINITY, -NAN}) {
      float row[kDimsMax];
      std::ranges::transform(integer_rows, integer_rows + kDimsMax, row,
                             [&](float x) { return last == -1e-36f ? last : x; });
      row[count - 1] = last;
      float largest = 0.0f;
      for (uint32_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(row[i]));
      if (!(last - last == 0.0f)) largest = NAN;
      const bool is_zero = largest < 1e-35f;
      for (const uint32_t apart : {1u, 8u}) {
        int8_t rounded[8 * kDimsMax] = {};
        const float scale = of.round_row(count, row, apart, rounded);
        in_hand("kernels", "rounded rows", count);
        EXPECT(is_zero ? scale == 1.0f : largest / 127.0f == scale || scale != scale);
        EXPECT((scale != scale) == (largest != largest));
        for (uint32_t i = 0; i < count && scale == scale; ++i) {
          const long expected = is_zero ? 0 : std::lrint(row[i] * (127.0f / largest));
          EXPECT(rounded[i * apart] == expected);
        }
      }
      const RowSteps steps = of.query_steps(count, row);
      EXPECT(is_zero ? steps.per_unit == 0.0f && steps.step == 1.0f
                     : (steps.step != steps.step) == (largest != largest));
    }
  }
}

// Calls of two kernels, which must give the same bits.
template <typename Call>
void same_as_plain(const KernelSet& kernels, uint32_t size, Call call) {
  static constinit float expected[4 * 32] = {};
  std::ranges::fill(output, 7.0f);
  std::ranges::fill(expected, 7.0f);
  call(*kernels.integers, output);
  call(*kernel_set(Target::kPortable)->integers, expected);
  in_hand("kernels", kernels.name, size);
  EXPECT(std::memcmp(output, expected, sizeof(expected)) == 0);
}

void check_integers(const KernelSet& kernels, uint32_t rows) {
  constexpr size_t kStride = kIntegerStride * sizeof(float);
  constexpr size_t kOutputStride = 32 * sizeof(float);
  float key_scales[12];
  for (uint32_t key = 0; key < 12; ++key) key_scales[key] = 0.5f + static_cast<float>(key) / 7.0f;
  for (const uint32_t dims : kDimsOf) {
    const RowSteps steps[4] = {{9000.0f, 0.01f}, {10900.0f, 2.0f}, {0.0f, NAN}, {77.0f, 1e-30f}};
    for (const uint32_t keys : kKeysOf) {
      same_as_plain(kernels, dims * 100 + keys, [&](const IntegerAttention& of, float* to) {
        of.scores(rows, keys, dims, integer_rows, kStride, steps,
                  reinterpret_cast<const int8_t*>(integer_cache), key_scales, to, kOutputStride);
      });
    }
  }
  for (float& number : integer_rows) number = std::abs(number) * 1e-3f;
  std::fill_n(integer_rows + kIntegerStride, 40, 0.0f);
  for (const uint32_t columns : kValuesOf) {
    for (const uint32_t positions : kPositionsOf) {
      same_as_plain(kernels, columns * 100 + positions, [&](const IntegerAttention& of, float* to) {
        for (const bool adds : {false, true}) {
          of.values(rows, columns, positions, integer_rows, kStride, nullptr, integer_cache, to,
                    kOutputStride, adds);
          float scaled[std::size(integer_rows)];
          std::ranges::copy(integer_rows, scaled);
          of.values(rows, columns, positions, scaled, kStride, integer_scales, integer_cache, to,
                    kOutputStride, true);
        }
      });
    }
  }
  int8_t rounded[kDimsMax] = {};
  kernels.integers->quantize(kDimsMax * sizeof(float), integer_rows, 42000.0f, 0, rounded);
  for (uint32_t i = 0; i < kDimsMax; ++i) {
    EXPECT(rounded[i] == std::lrint(integer_rows[i] * 42000.0f));
  }
  if (kernels.integers->round_row != nullptr) check_rounded_rows(*kernels.integers);
}

}  // namespace

// The mode that start-up code and toolchains may set for all of a program: flush to zero, denormals
// as zero, another rounding.
void ieee_floats() {
  struct Row {
    const char* name;
    float a, b;
    bool adds;
    float expected;
  };
  constexpr float kLeast = 0x1p-149f, kNormal = 0x1p-126f;
  constexpr Row kRows[] = {
      {"denormal product, found the bits", kNormal, 0.5f, false, 0x1p-127f},
      {"denormal factor, found the bits", 0x1p-127f, 2.0f, false, kNormal},
      {"denormal sum, found the bits", kNormal, kLeast - kNormal, true, kLeast},
      {"tie to even, found the bits", 1.0f, 0x1p-24f, true, 1.0f},
      {"nearest below, found the bits", 1.0f, 0x1p-25f, true, 1.0f},
      {"nearest above, found the bits", 1.0f, 0x1.8p-24f, true, 0x1.000002p0f},
      {"nearest of negatives, found the bits", -1.0f, -0x1.8p-24f, true, -0x1.000002p0f}};
  for (const Row& row : kRows) {
    const volatile float a = row.a, b = row.b;
    const volatile float found = row.adds ? a + b : a * b;
    const float value = found;
    in_hand("floats", row.name, std::bit_cast<uint32_t>(value));
    EXPECT(std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(row.expected));
  }
}

void exact_integers() {
  for_each_set([](const KernelSet& kernels) {
    if (kernels.integers == nullptr || kernel_set(Target::kPortable) == nullptr) return;
    for (uint32_t rows = 1; rows <= 4; ++rows) {
      fill_integers(rows);
      check_integers(kernels, rows);
    }
    // Weights that no set may round otherwise, the smallest included.
    for (uint32_t i = 0; i < kDimsMax; ++i) {
      integer_rows[i] = -static_cast<float>(i * i) / 170.0f;
    }
    for (uint32_t length = 1; length <= kDimsMax; ++length) {
      float found[2][kDimsMax + 4] = {};
      float sums[2] = {};
      const float range[2] = {integer_rows[length - 1], 0.0f};
      kernels.integers->exp_sum(length * sizeof(float), integer_rows, range, found[0], sums);
      kernel_set(Target::kPortable)
          ->integers->exp_sum(length * sizeof(float), integer_rows, range, found[1], sums + 1);
      in_hand("kernels", kernels.name, length);
      EXPECT(same_bits(sums[0], sums[1]));
      EXPECT(std::memcmp(found[0], found[1], sizeof(found[0])) == 0);
    }
  });
}

void exact_products() {
  for_each_set([](const KernelSet& kernels) {
    fill(input, 1);
    fill(weights, 2);
    fill(bias, 3);
    for (const uint32_t columns : kColumns) {
      for (const uint32_t depth : kDepths) check_products(kernels, columns, depth);
    }
  });
}

void exact_products_in_few_bits() {
  for_each_set([](const KernelSet& kernels) {
    fill(bias, 3);
    for (size_t i = 0; i < std::size(few_bits); ++i) {
      few_bits[i] = static_cast<int8_t>(static_cast<int32_t>(i * i * 7 + i * 29) % 256 - 128);
    }
    constexpr uint32_t kWidths[] = {1, 3, 4, 5, 17, kWidest};
    constexpr uint32_t kOddDepths[] = {1, 7, 8, 33};
    for (const uint32_t columns : kWidths) {
      for (const uint32_t depth : kOddDepths) {
        check_few_bits(kernels, *kernels.q8, columns, depth);
      }
      check_few_bits(kernels, *kernels.q8, columns, kDeepest);
      check_few_bits(kernels, *kernels.q4, columns, kQ4Block);
      check_few_bits(kernels, *kernels.q4, columns, kDeepest);
    }
  });
}

void exact_row_kernels() {
  for_each_set([](const KernelSet& kernels) {
    fill(a, 4);
    fill(b, 5);
    constexpr float kFactor = 1.0f / 3.0f;
    check_rows(
        kernels, [&](size_t bytes) { kernels.add(bytes, a, b, y); },
        [](uint32_t i) { return a[i] + b[i]; });
    check_rows(
        kernels, [&](size_t bytes) { kernels.multiply(bytes, a, b, y); },
        [](uint32_t i) { return a[i] * b[i]; });
    check_rows(
        kernels, [&](size_t bytes) { kernels.add_constant(bytes, a, &kFactor, y); },
        [](uint32_t i) { return a[i] + kFactor; });
    check_rows(
        kernels, [&](size_t bytes) { kernels.scale(bytes, a, &kFactor, y); },
        [](uint32_t i) { return a[i] * kFactor; });
    check_sums(kernels);
    check_rotation(kernels);
    const bool is_cortex_m =
        kernels.target == Target::kCortexMDsp || kernels.target == Target::kCortexMMve;
    if (is_cortex_m) same_functions_as_plain(kernels);
  });
}

void near_functions() {
  for_each_set([](const KernelSet& kernels) {
    constexpr float kTolerance = 16 * 0x1p-24f;  // as the ordinary tests have it
    check_exponentials(kernels, kTolerance);
    check_function(kernels, kernels.gelu, kTolerance, [](const auto& point) { return point.gelu; });
    check_function(kernels, kernels.sigmoid, kTolerance,
                   [](const auto& point) { return point.sigmoid; });
    check_function(kernels, kernels.tanh, kTolerance, [](const auto& point) { return point.tanh; });
  });
}

void transposition() {
  for_each_set([](const KernelSet& kernels) {
    fill(input, 6);
    for (uint32_t rows = 1; rows <= 13; ++rows) {
      for (uint32_t columns = 1; columns <= 13; ++columns) {
        std::ranges::fill(output, 7.0f);
        kernels.transpose(rows, columns, input, 13 * sizeof(float), output, 14 * sizeof(float));
        bool exact = true;
        for (uint32_t r = 0; r < 14; ++r) {
          for (uint32_t c = 0; c < 13; ++c) {
            const float expected = r < rows && c < columns ? input[r * 13 + c] : 7.0f;
            exact = exact && output[c * 14 + r] == expected;
          }
        }
        in_hand("kernels", kernels.name, rows * 100 + columns);
        EXPECT(exact);
      }
    }
  });
}

}  // namespace arenite::device
