// SPDX-License-Identifier: Apache-2.0
// Compares products of the simd128 set with those of the scalar one, bit for bit at sizes around
// their tiles, and prints how many times as fast they are at the sizes of models/home-intent.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "kernels/microkernels.h"
#include "support/random.h"

namespace arenite {
namespace {

constexpr size_t kSideMax = 160;
constexpr size_t kRowsAll = 4;
constexpr size_t kPieces = 3;
constexpr double kLeastRatio = 4.0;  // the geometric mean

alignas(64) std::byte weights[(kSideMax + 8) * (kSideMax * sizeof(float) + 48)];
alignas(64) float input[kRowsAll * kSideMax + 16];
alignas(64) int8_t quantized[kRowsAll * kSideMax + 64];
float found[kRowsAll * kSideMax], expected[kRowsAll * kSideMax];

float number(test::Random& random) {
  return static_cast<float>(random.below(2001)) / 1000.0f - 1.0f;
}

// Fills weights with numbers that are ordinary in each type: floats, or bytes and their scales.
void fill(Packing packing, uint32_t columns, uint32_t inputs, test::Random& random) {
  const size_t bytes = panel_bytes(packing, inputs).value();
  for (size_t i = 0; i + sizeof(float) <= sizeof(weights); i += sizeof(float)) {
    const float value = number(random);
    std::memcpy(weights + i, &value, sizeof(value));
  }
  if (packing.type == TensorType::kF32) return;
  for (uint32_t n = 0; n < columns; ++n) {
    std::byte* const panel = weights + n / packing.nr * bytes;
    for (uint32_t k = 0; k < inputs; ++k) {
      panel[panel_place(packing, k, n % packing.nr).byte] = std::byte(random.below(256));
      const float scale = number(random);
      std::byte* const to = panel + panel_scale(packing, inputs, k, n % packing.nr);
      if (packing.type == TensorType::kQ4) {
        std::memcpy(to, reinterpret_cast<const std::byte*>(&scale) + 2, 2);
      } else {
        std::memcpy(to, &scale, sizeof(scale));
      }
    }
  }
}

struct Product {
  TensorType type;
  bool is_indirect;
  size_t rows, columns, inputs;

  void run(const KernelSet& set, float* output) const {
    const size_t stride = kSideMax * sizeof(float);
    if (is_indirect) {
      const size_t read = set.indirect->list_rows[rows];
      const float* list[kPieces * kRowsAll] = {};
      for (size_t i = 0; i < kPieces * read; ++i) {
        list[i] = input + std::min(i % read, rows - 1) * kSideMax + i / read;
      }
      set.indirect->gemm[rows](rows, columns, kPieces, inputs * sizeof(float), list, weights,
                               output, stride);
    } else if (type == TensorType::kF32 || type == TensorType::kW8) {
      set.of_cache(type == TensorType::kW8)
          .gemm[rows](rows, columns, inputs * sizeof(float), input, stride, weights, output,
                      stride);
    } else {
      QuantizedRow of_rows[kRowsMax];
      for (size_t r = 0; r < kRowsMax; ++r) {
        const size_t row = std::min(r, rows - 1);
        of_rows[r] = {static_cast<int32_t>(row * 31) - 40, 0.01f * static_cast<float>(row + 1)};
      }
      set.quantized(type).gemm[rows](rows, columns, inputs, quantized, kSideMax, weights, output,
                                     stride, of_rows, nullptr);
    }
  }
};

bool same_bits(const Product& product) {
  std::ranges::fill(found, 7.0f);
  std::ranges::fill(expected, 7.0f);
  product.run(kSimd128Set, found);
  product.run(kScalarSet, expected);
  if (std::memcmp(found, expected, sizeof(found)) == 0) return true;
  std::printf("other bits: %s%s, %zu x %zu x %zu\n", name(product.type),
              product.is_indirect ? " in pieces" : "", product.rows, product.columns,
              product.inputs);
  return false;
}

// Returns how many millions of products each set computes in a second: the most of many short tries
// in turns, since other programs take time, too.
struct Speeds {
  float simd128 = 0.0f, scalar = 0.0f;
};
Speeds speeds_of(const Product& product) {
  const auto one_try = [&](const KernelSet& set) {
    using Clock = std::chrono::steady_clock;
    constexpr uint32_t kRuns = 50;
    const auto begin = Clock::now();
    for (uint32_t run = 0; run < kRuns; ++run) product.run(set, found);
    const std::chrono::duration<float, std::micro> taken = Clock::now() - begin;
    return static_cast<float>(kRuns * product.rows * product.columns * product.inputs) /
           taken.count();
  };
  Speeds best;
  for (uint32_t i = 0; i < 200; ++i) {
    best.simd128 = std::max(best.simd128, one_try(kSimd128Set));
    best.scalar = std::max(best.scalar, one_try(kScalarSet));
  }
  return best;
}

int run() {
  test::Random random(1);
  for (float& value : input) value = number(random);
  for (int8_t& value : quantized) value = static_cast<int8_t>(random.below(256));
  bool passed = true;
  uint32_t compared = 0;
  uint32_t timed = 0;
  double logarithms = 0.0;
  for (const TensorType type :
       {TensorType::kF32, TensorType::kW8, TensorType::kQ8, TensorType::kQ4}) {
    const Packing packing = packing_of(Target::kPortable, type);
    for (size_t inputs = 1; inputs <= 64; ++inputs) {
      if (type == TensorType::kQ4 && inputs % kQ4Block != 0) continue;
      fill(packing, 19, static_cast<uint32_t>(inputs), random);
      for (size_t rows = 1; rows <= kRowsAll; ++rows) {
        for (size_t columns = 1; columns <= 19; ++columns) {
          for (const bool is_indirect : {false, true}) {
            if (is_indirect && (type != TensorType::kF32 || inputs > 20)) continue;
            passed = same_bits({type, is_indirect, rows, columns, inputs}) && passed;
            ++compared;
          }
        }
      }
    }
    for (const size_t rows : {size_t{1}, kRowsAll}) {
      fill(packing, kSideMax, 64, random);
      const Product product = {type, false, rows, kSideMax, 64};
      const auto [simd128, scalar] = speeds_of(product);
      std::printf("%s, %zu x 64 x 160: simd128 %.0f, scalar %.0f million products a second: %.1f\n",
                  name(type), rows, static_cast<double>(simd128), static_cast<double>(scalar),
                  static_cast<double>(simd128 / scalar));
      logarithms += std::log(static_cast<double>(simd128 / scalar));
      ++timed;
    }
  }
  const double mean = std::exp(logarithms / timed);
  std::printf("%u products have the bits of the scalar set; simd128 is %.1f times as fast\n",
              compared, mean);
  return passed && mean >= kLeastRatio ? 0 : 1;
}

}  // namespace
}  // namespace arenite

int main() { return arenite::run(); }
