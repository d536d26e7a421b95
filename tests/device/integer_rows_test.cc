// SPDX-License-Identifier: Apache-2.0
// Ops on integer rows: close to the exact functions, and bit for bit the results of x86-64.
#include "ops/integer_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"
#include "sound/frames.h"
#include "support/random.h"

namespace arenite::device {
namespace {

constexpr uint32_t kRows = 5, kColumns = 48, kHeads = 4, kHeadDim = 12;
constexpr uint32_t kPositions = 21;
constexpr uint32_t kOutputs = 37;
constexpr uint32_t kPointsOfSound = 128, kQ4Inputs = 96;
using Rows = float[kPositions * kColumns];

alignas(16) constinit Rows input = {}, other = {}, output = {}, exact = {};
alignas(16) constinit float gains[kColumns] = {}, biases[kColumns] = {};
alignas(16) constinit std::byte memory[16 * 1024] = {}, row_scratch[4096] = {};

Matrix rows_of(Rows& data, uint32_t columns = kColumns, uint32_t rows = kRows) {
  return {data, rows, columns, columns};
}
const KernelSet& kernels() { return *kernel_set(Target::kPortable); }
ConstMatrix constant(const Matrix& rows) {
  return {rows.data, rows.rows, rows.columns, rows.stride};
}

// Rows of several sizes, as integers; `exact` are the floats that these stand for.
void fill(uint64_t seed, Rows& rows, uint32_t columns = kColumns) {
  test::Random random(seed);
  for (uint32_t i = 0; i < std::size(input); ++i) {
    const float size = std::ldexp(3.0f, static_cast<int>(i / columns % 5) * 4 - 8);
    rows[i] = random.symmetric(size);
  }
  std::ranges::copy(rows, exact);
  integers::from_floats(rows_of(rows, columns, kPositions * kColumns / columns));
}

uint64_t digest_of(const Matrix& rows) {
  integers::to_floats(rows);
  return digest({rows.data, size_t{rows.rows} * rows.stride});
}

void expect_bits(const char* name, uint64_t digest, uint32_t expected) {
  const auto found = static_cast<uint32_t>(digest ^ digest >> 32);
  in_hand(name, "bits", found);
  EXPECT(found == expected);
}

// Checks errors relative to each row's largest element.
template <typename Function>
void expect_near(const char* name, double tolerance, Function function) {
  integers::to_floats(rows_of(output));
  for (uint32_t row = 0; row < kRows; ++row) {
    const float* const x = exact + row * kColumns;
    double largest = 0, error = 0;
    for (uint32_t i = 0; i < kColumns; ++i) {
      const double expected = function(x, i);
      largest = std::max(largest, std::abs(expected));
      error = std::max(error, std::abs(output[row * kColumns + i] - expected));
    }
    in_hand(name, "row", row);
    EXPECT(error <= tolerance * largest);
  }
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_erf(double x) { return x * (1 - std::erf(-x * std::sqrt(0.5))) / 2; }
double gelu_tanh(double x) {
  return x * sigmoid(2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x));
}
double silu(double x) { return x * sigmoid(x); }

void near_activations() {
  struct {
    const char* name;
    Activation kind;
    double (*function)(double);
  } constexpr kAll[] = {{"gelu_erf", Activation::kGeluErf, gelu_erf},
                        {"gelu_tanh", Activation::kGeluTanh, gelu_tanh},
                        {"silu", Activation::kSilu, silu},
                        {"sigmoid", Activation::kSigmoid, sigmoid}};
  for (const auto& one : kAll) {
    fill(1, input);
    integers::activation(one.kind, constant(rows_of(input)), {}, rows_of(output), {});
    expect_near(one.name, 0x1p-14, [&](const float* x, uint32_t i) { return one.function(x[i]); });
  }
  fill(4, other);
  float second[kRows * kColumns];
  std::copy_n(exact, std::size(second), second);
  fill(1, input);
  ConstMatrix factors = constant(rows_of(other));
  factors.columns = 2;
  integers::activation(Activation::kSilu, constant(rows_of(input)), OtherRows(factors),
                       rows_of(output), {});
  expect_near("shared factors", 0x1p-13, [&](const float* x, uint32_t i) {
    return silu(x[i]) * second[static_cast<size_t>(x - exact) + i / (kColumns / 2)];
  });
}

void near_norms() {
  test::Random random(2);
  for (uint32_t i = 0; i < kColumns; ++i) {
    gains[i] = random.symmetric(2.0f);
    biases[i] = random.symmetric(0.5f);
  }
  for (const bool is_layer : {false, true}) {
    fill(3, input);
    const NormWeights weights = {is_layer ? NormKind::kLayer : NormKind::kRms, 1e-5f, gains,
                                 is_layer ? biases : nullptr};
    integers::norm(weights, 1, constant(rows_of(input)), rows_of(output), {});
    expect_near(is_layer ? "layer" : "rms", 0x1p-13, [&](const float* x, uint32_t i) {
      double mean = 0, squares = 0;
      for (uint32_t k = 0; k < kColumns && is_layer; ++k) mean += x[k] / double{kColumns};
      for (uint32_t k = 0; k < kColumns; ++k) squares += (x[k] - mean) * (x[k] - mean) / kColumns;
      const double y = (x[i] - mean) / std::sqrt(squares + double{1e-5f}) * gains[i];
      return is_layer ? y + biases[i] : y;
    });
  }
}

void near_sums() {
  fill(4, other);
  float second[kRows * kColumns];
  std::copy_n(exact, std::size(second), second);
  fill(5, input);
  integers::add(kernels(), constant(rows_of(input)), OtherRows(constant(rows_of(other))),
                rows_of(output), {});
  expect_near("add", 0x1p-20, [&](const float* x, uint32_t i) {
    return double{x[i]} + second[static_cast<size_t>(x - exact) + i];
  });
}

// Weights as they lie in a file: sums, integers, scales, biases.
uint64_t digest_of_linear(uint32_t inputs) {
  test::Random random(6);
  static_assert((kOutputs + 3) / 4 * (4 * (kColumns + 12)) <= sizeof(memory));
  for (uint32_t panel = 0; panel < (kOutputs + 3) / 4; ++panel) {
    std::byte* const begin = memory + panel * 4 * (inputs + 12);
    int32_t sums[4] = {};
    for (uint32_t i = 0; i < 4 * inputs; ++i) {
      const auto number = static_cast<int8_t>(random.below(256));
      begin[16 + i] = static_cast<std::byte>(number);
      sums[i % 4] -= number;
    }
    std::copy_n(sums, 4, reinterpret_cast<int32_t*>(begin));
    auto* const floats = reinterpret_cast<float*>(begin + 16 + 4 * inputs);
    for (uint32_t i = 0; i < 4; ++i) {
      floats[i] = 0.001f + std::abs(random.symmetric(0.01f));
      floats[4 + i] = random.symmetric(1.0f);
    }
  }
  fill(7, input);
  const WeightView weights = {memory, TensorType::kQ8,
                              packing_of(Target::kPortable, TensorType::kQ8), kOutputs, inputs};
  integers::linear({input, kRows, inputs, kColumns}, weights, rows_of(output, kOutputs),
                   {row_scratch, nullptr, 0}, {});
  return digest_of(rows_of(output, kOutputs));
}

// Fills `memory` with q4 weights in a file's layout and `weights` with their dequantized values. A
// panel has bytes that nothing reads, then blocks of weights with their scales, then biases.
WeightView weights_in_q4(uint32_t inputs, double (*weights)[kQ4Inputs]) {
  test::Random random(14);
  const size_t panel_bytes = 32 + inputs / kQ4Block * 72;
  for (uint32_t output_row = 0; output_row < kOutputs; ++output_row) {
    std::byte* const panel = memory + output_row / 4 * panel_bytes;
    const uint32_t lane = output_row % 4;
    for (uint32_t i = 0; i < inputs; ++i) {
      std::byte* const block = panel + 16 + i / kQ4Block * 72;
      const uint32_t size = (output_row + i / kQ4Block) % 5;
      const float scale = std::ldexp(size == 1 ? -4.0f : 4.0f, -static_cast<int>(size));
      const auto number = static_cast<int32_t>(random.below(16)) - 8;
      weights[output_row][i] = 16.0 * number * double{scale};
      std::byte& pair = block[i % kQ4Block / 2 * 4 + lane];
      const auto half = static_cast<std::byte>(number & 15);
      pair = i % 2 == 0 ? half : pair | half << 4;
      reinterpret_cast<uint16_t*>(block + 64)[lane] =
          static_cast<uint16_t>(std::bit_cast<uint32_t>(scale) >> 16);
    }
    biases[output_row] = random.symmetric(2000.0f);
    reinterpret_cast<float*>(panel + panel_bytes - 16)[lane] = biases[output_row];
  }
  return {memory, TensorType::kQ4, packing_of(Target::kPortable, TensorType::kQ4), kOutputs,
          inputs};
}

// From -127 to 127. Out of line: inlined, gcc 12 converts it by vcvtne.f32.u32, which the assembler
// does not take for an M55.
[[gnu::noinline]] float whole_number(test::Random& random) {
  return static_cast<float>(random.below(255)) - 127.0f;
}

// The inputs are integers from -127 to 127, which int8 rows represent exactly.
void near_linear_in_q4(uint32_t inputs) {
  static constinit double weights[kOutputs][kQ4Inputs] = {};
  const WeightView view = weights_in_q4(inputs, weights);
  test::Random random(15);
  for (uint32_t i = 0; i < kRows * inputs; ++i) {
    exact[i] = i % inputs == 0 ? 127.0f : whole_number(random);
    if (i % inputs == 1) exact[i] = -127.0f;
    input[i] = exact[i];
  }
  integers::from_floats(rows_of(input, inputs));
  integers::linear({input, kRows, inputs, inputs}, view, rows_of(output, kOutputs),
                   {row_scratch, nullptr, 0}, {});
  integers::to_floats(rows_of(output, kOutputs));
  for (uint32_t row = 0; row < kRows; ++row) {
    double largest = 0, error = 0;
    for (uint32_t i = 0; i < kOutputs; ++i) {
      double sum = biases[i];
      for (uint32_t k = 0; k < inputs; ++k) sum += weights[i][k] * exact[row * inputs + k];
      largest = std::max(largest, std::abs(sum));
      error = std::max(error, std::abs(output[row * kOutputs + i] - sum));
    }
    in_hand("linear", "q4", inputs);
    EXPECT(error <= 0x1p-14 * largest);
  }
  expect_bits("linear in q4", digest({output, kRows * kOutputs}),
              inputs == kQ4Inputs ? 4106358996 : 1945525472);
}

uint64_t digest_of_rope() {
  test::Random random(8);
  const SequenceRows sequence = {3, 0, kRows, 3};
  for (float& angle : other) angle = random.symmetric(1.0f);
  fill(9, input);
  integers::rope(kernels(), constant(rows_of(input)), kHeads, other, kHeadDim - 4, {{&sequence, 1}},
                 rows_of(output), {});
  return digest_of(rows_of(output));
}

constexpr uint32_t kKeyHeads = kHeads / 2, kLookback = 6;
constexpr float kSlopes[kHeads] = {0.25f, -0.0625f, 1.5f, 900.0f};

// Computes positions [first, first + count). A row of `input` holds a query, then a key and a
// value.
void attend(uint32_t first, uint32_t count, const float* slopes) {
  const SequenceRows sequence = {first, 0, count, first};
  const float* const row = input + size_t{first} * 2 * kColumns;
  Attention op;
  op.heads = kHeads;
  op.shape = {kKeyHeads, kHeadDim, kHeadDim};
  op.mask.lookback = kLookback;
  op.mask.lookahead = 0;
  op.slopes = slopes;
  op.cache_positions = kPositions;
  op.query = {row, count, kColumns, 2 * kColumns};
  op.key = {row + kColumns, count, kColumns / 2, 2 * kColumns};
  op.value = {row + kColumns + kColumns / 2, count, kColumns / 2, 2 * kColumns};
  op.output = rows_of(output, kColumns, count);
  op.queries = op.keys = {&sequence, 1};
  op.kv_type = TensorType::kInt8;
  op.cache = memory;
  op.scratch = {nullptr, row_scratch, sizeof(row_scratch)};
  if (EXPECT(integers::has_attention(kernels(), op))) integers::attention(kernels(), op, {});
  integers::to_floats(op.output);
}

// Computes all positions at once, or one after the other.
uint64_t digest_of_attention(uint32_t at_once, const float* slopes) {
  fill(10, input, 2 * kColumns);
  uint64_t found = kDigestOfNothing;
  for (uint32_t first = 0; first < 10; first += at_once) {
    attend(first, at_once, slopes);
    found = digest({output, size_t{at_once} * kColumns}, found);
  }
  return found;
}

// Keys and values are whole numbers up to 127, which int8 holds as they are.
void near_attention(const float* slopes) {
  test::Random random(12);
  for (uint32_t i = 0; i < 10 * 2 * kColumns; ++i) {
    const uint32_t column = i % (2 * kColumns);
    input[i] = column < kColumns        ? random.symmetric(1.0f / 64)
               : column % kHeadDim == 0 ? 127.0f
                                        : whole_number(random);
  }
  std::ranges::copy(input, exact);
  integers::from_floats({input, 10, kColumns, 2 * kColumns});
  integers::from_floats({input + kColumns, 10, kColumns, 2 * kColumns});
  attend(0, 10, slopes);
  for (uint32_t row = 0; row < 10; ++row) {
    double error = 0;
    for (uint32_t column = 0; column < kColumns; ++column) {
      const uint32_t head = column / kHeadDim, of_key = kColumns + head / 2 * kHeadDim;
      const float* const query = exact + row * 2 * kColumns + head * kHeadDim;
      double sum = 0, weights = 0;
      for (uint32_t key = row < kLookback ? 0 : row - kLookback; key <= row; ++key) {
        const float* const at = exact + key * 2 * kColumns + of_key;
        double score = 0;
        for (uint32_t i = 0; i < kHeadDim; ++i) score += double{query[i]} * at[i];
        if (slopes != nullptr) score -= double{slopes[head]} * (row - key);
        const double weight = std::exp(score);
        weights += weight;
        sum += weight * at[kColumns / 2 + column % kHeadDim];
      }
      error = std::max(error, std::abs(output[row * kColumns + column] - sum / weights));
    }
    in_hand("attention", "row", row);
    EXPECT(error <= 127 * 0x1p-13);
  }
}

// A window, roots of both transforms, and the energies of all frequencies.
void near_spectrum(uint32_t points) {
  const SoundNumbers numbers = {.window = points - 3, .points = points};
  const double turn = std::acos(-1.0) * 2 / points;
  double roots[2 * kPointsOfSound];
  for (uint32_t i = 0; i < points; ++i) {
    roots[2 * i] = std::cos(turn * i);
    roots[2 * i + 1] = -std::sin(turn * i);
  }
  std::copy_n(roots, 2 * (points / 4 + 1), other + numbers.window + points);
  for (uint32_t i = 0; i < points / 2; ++i) {
    std::copy_n(roots + 4 * i, 2, other + numbers.window + 2 * i);
  }
  test::Random random(points);
  for (uint32_t i = 0; i < numbers.window; ++i) {
    other[i] = 0.25f + std::abs(random.symmetric(0.75f));
    input[i] = random.symmetric(0.3f) * (i % 3 == 0 ? 0x1p-9f : 1.0f);
    exact[i] = other[i] * input[i];
  }
  for (uint32_t i = numbers.window; i < points; ++i) input[i] = exact[i] = 0.0f;
  const float* const power = sound::integers::spectrum({&numbers, {}, other}, input, output);
  double largest = 0, error = 0;
  for (uint32_t k = 0; k <= points / 2; ++k) {
    double re = 0, im = 0;
    for (uint32_t i = 0; i < points; ++i) {
      re += exact[i] * roots[i * k % points * 2];
      im += exact[i] * roots[i * k % points * 2 + 1];
    }
    const double amplitude = std::sqrt(re * re + im * im);
    largest = std::max(largest, amplitude);
    error = std::max(error, std::abs(std::sqrt(double{power[k]}) - amplitude));
  }
  in_hand("spectrum", "points", points);
  EXPECT(error <= 0x1p-13 * largest);
  expect_bits("spectrum", digest({power, points / 2 + 1}), points == 120 ? 621498455 : 2237696883);
}

void near_energies() {
  test::Random random(13);
  double sum = 0, magnitudes = 0;
  for (uint32_t i = 0; i < kColumns; ++i) {
    input[i] = std::ldexp(1.0f + std::abs(random.symmetric(1.0f)), -static_cast<int>(i % 9) * 3);
    other[i] = i % 5 == 0 ? 0.0f : random.symmetric(2.0f);
    sum += double{input[i]} * other[i];
    magnitudes += std::abs(double{input[i]} * other[i]);
    const double energy = std::ldexp(double{input[i]}, static_cast<int>(i) * 4 - 90);
    const float found = sound::integers::logarithm(static_cast<float>(energy));
    EXPECT(std::abs(found - std::log(energy)) <= 0x1p-14);
  }
  EXPECT(std::abs(sound::integers::sum(other, input, kColumns) - sum) <= 0x1p-13 * magnitudes);
  EXPECT(sound::integers::sum(other, input, 1) == 0.0f);
  input[3] = std::numeric_limits<float>::infinity();
  EXPECT(std::isnan(sound::integers::sum(other, input, kColumns)));
  for (const float x : {0.0f, -1.0f, input[3], std::nanf("")}) {
    EXPECT(std::isnan(sound::integers::logarithm(x)));
  }
}

}  // namespace

void rows_of_integers() {
  near_activations();
  near_norms();
  near_sums();
  expect_bits("linear", digest_of_linear(kColumns), 1897261019);
  expect_bits("linear, 47 inputs", digest_of_linear(47), 3085749290);
  expect_bits("linear, 41 inputs", digest_of_linear(41), 3361556376);
  expect_bits("linear, 3 inputs", digest_of_linear(3), 3373017017);
  expect_bits("rope", digest_of_rope(), 2468895668);
  expect_bits("attention", digest_of_attention(10, nullptr), 34116180);
  expect_bits("slopes", digest_of_attention(10, kSlopes), 1121359741);
  for (const float* const slopes : {static_cast<const float*>(nullptr), kSlopes}) {
    EXPECT(digest_of_attention(1, slopes) == digest_of_attention(10, slopes));
    near_attention(slopes);
  }
  // Not finite, or larger than any model has.
  for (const float large : {2048.0f, -std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const float slopes[kHeads] = {0.25f, large, 0.0f, 2047.0f};
    attend(0, 10, slopes);
    for (uint32_t i = 0; i < kColumns; ++i) {
      EXPECT(std::isnan(output[9 * kColumns + i]) == (i / kHeadDim == 1));
    }
  }
  fill(11, input);
  integers::activation(Activation::kGeluErf, constant(rows_of(input)), {}, rows_of(output), {});
  integers::add(kernels(), constant(rows_of(input)), OtherRows(constant(rows_of(output))),
                rows_of(output), {});
  integers::norm({NormKind::kLayer, 1e-5f, gains, biases}, 1, constant(rows_of(output)),
                 rows_of(output), {});
  integers::activation(Activation::kSilu, constant(rows_of(output)),
                       OtherRows(constant(rows_of(input))), rows_of(output), {});
  expect_bits("functions", digest_of(rows_of(output)), 53865412);
  near_linear_in_q4(kQ4Block);
  near_linear_in_q4(kQ4Inputs);
}

void sound_of_integers() {
  near_spectrum(120);  // of radix 4, 3 and 5
  near_spectrum(kPointsOfSound);
  near_energies();
}

void rows_with_nan() {
  const float kEnds[] = {std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(), 0x1p127f};
  for (const float end : kEnds) {
    std::ranges::fill(input, 1.0f);
    input[kColumns + 7] = end;
    integers::from_floats(rows_of(input));
    integers::activation(Activation::kRelu, constant(rows_of(input)), {}, rows_of(output), {});
    integers::add(kernels(), constant(rows_of(output)), OtherRows(constant(rows_of(input))),
                  rows_of(output), {});
    integers::norm({NormKind::kRms, 1e-5f, gains, nullptr}, 1, constant(rows_of(output)),
                   rows_of(output), {});
    integers::to_floats(rows_of(output));
    for (uint32_t i = 0; i < kRows * kColumns; ++i) {
      EXPECT(std::isnan(output[i]) == (i / kColumns == 1));
    }
  }
}

}  // namespace arenite::device
