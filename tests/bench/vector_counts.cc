// SPDX-License-Identifier: Apache-2.0
// Computes a linear layer of 384 x 384 REPEATS times for count_vectors.py, which counts its
// instructions.
//
// Usage: vector_counts TARGET TYPE ROWS REPEATS; TARGET and TYPE as `arenite convert` names them.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/kernel_set.h"
#include "ops/linear.h"

namespace arenite {
namespace {

constexpr uint32_t kSide = 384;
constexpr uint32_t kRows = 8;

alignas(64) std::byte weights[(kSide + 8) * kSide * sizeof(float)];
alignas(64) float input[kRows * kSide + 16];
alignas(64) float output[kRows * kSide + 16];
alignas(64) std::byte row_scratch[kRows * (kSide + 64)];
alignas(64) std::byte thread_scratch[64 * 1024];

int run(const char* target_name, const char* type_name, uint32_t rows, uint32_t repeats) {
  uint32_t target = 0;
  while (target < kTargets && std::strcmp(name(static_cast<Target>(target)), target_name) != 0) {
    ++target;
  }
  const KernelSet* const kernels = kernel_set(static_cast<Target>(target));
  if (kernels == nullptr) {
    std::fprintf(stderr, "this CPU or build has no kernels for %s\n", target_name);
    return 2;
  }
  TensorType type = TensorType::kF32;
  for (const TensorType other : {TensorType::kW8, TensorType::kQ8, TensorType::kQ4}) {
    if (std::strcmp(name(other), type_name) == 0) type = other;
  }
  std::ranges::fill(weights, std::byte{0x3C});  // 0.0115 as float or bfloat16, 60 as a number
  for (uint32_t i = 0; i < rows * kSide; ++i) input[i] = static_cast<float>(i % 17) / 16.0f - 0.5f;
  const WeightView view = {weights, type, packing_of(kernels->target, type), kSide, kSide};
  for (uint32_t i = 0; i < repeats; ++i) {
    linear(*kernels, {input, rows, kSide, kSide}, view, {output, rows, kSide, kSide},
           {row_scratch, thread_scratch, sizeof(thread_scratch)}, {});
  }
  return 0;
}

}  // namespace
}  // namespace arenite

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return arenite::run(argv[1], argv[2], static_cast<uint32_t>(std::atoi(argv[3])),
                      static_cast<uint32_t>(std::atoi(argv[4])));
}
