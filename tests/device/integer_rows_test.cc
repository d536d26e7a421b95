// SPDX-License-Identifier: Apache-2.0
// Ops on rows of integers: near what the functions are, and with the bits that x86-64 gives.
#include "ops/integer_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"
#include "support/random.h"

namespace arenite::device {
namespace {

constexpr uint32_t kRows = 5, kColumns = 48, kHeads = 4, kHeadDim = 12;
constexpr uint32_t kPositions = 21;
constexpr uint32_t kOutputs = 37;
using Rows = float[kPositions * kColumns];

alignas(16) constinit Rows input = {}, other = {}, output = {}, exact = {};
alignas(16) constinit float gains[kColumns] = {}, biases[kColumns] = {};
alignas(16) constinit std::byte memory[16 * 1024] = {}, row_scratch[4096] = {};

Matrix rows_of(Rows& data, uint32_t columns = kColumns, uint32_t rows = kRows) {
  return {data, rows, columns, columns};
}
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

// Within a share of each row's largest number.
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
  integers::add(constant(rows_of(input)), OtherRows(constant(rows_of(other))), rows_of(output), {});
  expect_near("add", 0x1p-20, [&](const float* x, uint32_t i) {
    return double{x[i]} + second[static_cast<size_t>(x - exact) + i];
  });
}

// Weights as they lie in a file: sums, numbers, scales, biases.
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

uint64_t digest_of_rope() {
  test::Random random(8);
  const SequenceRows sequence = {3, 0, kRows, 3};
  for (float& angle : other) angle = random.symmetric(1.0f);
  fill(9, input);
  integers::rope(constant(rows_of(input)), kHeads, other, kHeadDim - 4, {{&sequence, 1}},
                 rows_of(output), {});
  return digest_of(rows_of(output));
}

// All positions at once, or one after the other.
uint64_t digest_of_attention(uint32_t at_once) {
  constexpr uint32_t kKeyHeads = kHeads / 2;
  fill(10, input, 2 * kColumns);
  uint64_t found = kDigestOfNothing;
  for (uint32_t first = 0; first < 10; first += at_once) {
    const SequenceRows sequence = {first, 0, at_once, first};
    const float* const row = input + size_t{first} * 2 * kColumns;
    Attention op;
    op.heads = kHeads;
    op.shape = {kKeyHeads, kHeadDim, kHeadDim};
    op.mask.lookback = 6;
    op.mask.lookahead = 0;
    op.cache_positions = kPositions;
    op.query = {row, at_once, kColumns, 2 * kColumns};
    op.key = {row + kColumns, at_once, kColumns / 2, 2 * kColumns};
    op.value = {row + kColumns + kColumns / 2, at_once, kColumns / 2, 2 * kColumns};
    op.output = rows_of(output, kColumns, at_once);
    op.queries = op.keys = {&sequence, 1};
    op.kv_type = TensorType::kInt8;
    op.cache = memory;
    op.scratch = {nullptr, row_scratch, sizeof(row_scratch)};
    const KernelSet* const kernels = kernel_set(Target::kPortable);
    if (!EXPECT(integers::has_attention(*kernels, op))) return 0;
    integers::attention(*kernels, op, {});
    integers::to_floats(op.output);
    found = digest({output, size_t{at_once} * kColumns}, found);
  }
  return found;
}

void expect_bits(const char* name, uint64_t digest, uint32_t expected) {
  const auto found = static_cast<uint32_t>(digest ^ digest >> 32);
  in_hand(name, "bits", found);
  EXPECT(found == expected);
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
  expect_bits("attention", digest_of_attention(10), 34116180);
  EXPECT(digest_of_attention(1) == digest_of_attention(10));
  fill(11, input);
  integers::activation(Activation::kGeluErf, constant(rows_of(input)), {}, rows_of(output), {});
  integers::add(constant(rows_of(input)), OtherRows(constant(rows_of(output))), rows_of(output),
                {});
  integers::norm({NormKind::kLayer, 1e-5f, gains, biases}, 1, constant(rows_of(output)),
                 rows_of(output), {});
  integers::activation(Activation::kSilu, constant(rows_of(output)),
                       OtherRows(constant(rows_of(input))), rows_of(output), {});
  expect_bits("functions", digest_of(rows_of(output)), 53865412);
}

void rows_with_nan() {
  const float kEnds[] = {std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(), 0x1p127f};
  for (const float end : kEnds) {
    std::ranges::fill(input, 1.0f);
    input[kColumns + 7] = end;
    integers::from_floats(rows_of(input));
    integers::activation(Activation::kRelu, constant(rows_of(input)), {}, rows_of(output), {});
    integers::add(constant(rows_of(output)), OtherRows(constant(rows_of(input))), rows_of(output),
                  {});
    integers::norm({NormKind::kRms, 1e-5f, gains, nullptr}, 1, constant(rows_of(output)),
                   rows_of(output), {});
    integers::to_floats(rows_of(output));
    for (uint32_t i = 0; i < kRows * kColumns; ++i) {
      EXPECT(std::isnan(output[i]) == (i / kColumns == 1));
    }
  }
}

}  // namespace arenite::device
