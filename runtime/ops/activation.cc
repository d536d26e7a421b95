// SPDX-License-Identifier: Apache-2.0
// Functions that XNNPACK lacks are made of those that it has, a few hundred numbers at a time: the
// intermediate results stay in the first-level cache.
#include "ops/row_ops.h"

#include <cstring>

#include "core/needs.h"
#include "ops/rows.h"

namespace arenite {
namespace {

constexpr uint32_t kChunk = 256;

// gate = sigmoid(gate). The kernel for AVX-512 makes numbers beyond 10^14 not a number; this is far
// beyond where every float's sigmoid is 0 or 1. Of constant length, for the vectorizer.
void sigmoid(const KernelSet& kernels, size_t bytes, float (&gate)[kChunk]) {
  constexpr float kMost = 512.0f;
  for (float& value : gate) {
    value = value < -kMost ? -kMost : value;
    value = value > kMost ? kMost : value;
  }
  kernels.sigmoid(bytes, gate, gate);
}

// y = sigmoid(x), or y = x * sigmoid(x).
void sigmoid_or_silu(const KernelSet& kernels, size_t bytes, bool is_silu, const float* x,
                     float* y) {
  float gate[kChunk] = {};
  std::memcpy(gate, x, bytes);
  sigmoid(kernels, bytes, gate);
  if (is_silu) {
    kernels.multiply(bytes, x, gate, y);
  } else {
    std::memcpy(y, gate, bytes);
  }
}

// (1 + tanh(u)) / 2 = sigmoid(2 u), so gelu(x) = x sigmoid(a x + b x^3).
void gelu_tanh(const KernelSet& kernels, size_t bytes, const float* x, float* y) {
  constexpr float kA = 1.5957691216057308f;  // 2 sqrt(2 / pi)
  constexpr float kB = 1.5957691216057308f * 0.044715f;
  float gate[kChunk] = {};
  kernels.multiply(bytes, x, x, gate);
  kernels.scale(bytes, gate, &kB, gate);
  kernels.add_constant(bytes, gate, &kA, gate);
  kernels.multiply(bytes, gate, x, gate);
  sigmoid(kernels, bytes, gate);
  kernels.multiply(bytes, x, gate, y);
}

// exp(x) - 1 = tanh(x / 2) (1 + exp(x)) = tanh(x / 2) / sigmoid(-x), which loses no digits near 0.
void elu(const KernelSet& kernels, size_t bytes, float factor, const float* x, float* y) {
  constexpr float kHalf = 0.5f, kMinus = -1.0f;
  float slope[kChunk] = {}, gate[kChunk] = {};
  const size_t count = bytes / sizeof(float);
  kernels.scale(bytes, x, &kHalf, slope);
  kernels.tanh(bytes, slope, slope);
  kernels.scale(bytes, x, &kMinus, gate);
  sigmoid(kernels, bytes, gate);
  for (size_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? factor * (slope[i] / gate[i]) : x[i];
}

// max(x, 0) + log(1 + exp(-|x|)); with s = sigmoid(-|x|) and z = s / (2 - s), which is at most 1/3,
// the logarithm is 2 atanh(z), whose series has float's precision after seven terms.
void softplus(const KernelSet& kernels, size_t bytes, const float* x, float* y) {
  float gate[kChunk] = {};
  const size_t count = bytes / sizeof(float);
  for (size_t i = 0; i < count; ++i) gate[i] = x[i] < 0.0f ? x[i] : -x[i];
  sigmoid(kernels, bytes, gate);
  for (size_t i = 0; i < count; ++i) {
    const float z = gate[i] / (2.0f - gate[i]);
    y[i] = (x[i] < 0.0f ? 0.0f : x[i]) + 2.0f * z * atanh_series<7>(z);
  }
}

// With s = sigmoid(x) and t = s (2 - s), tanh(log(1 + exp(x))) = t / (2 - t).
void mish(const KernelSet& kernels, size_t bytes, const float* x, float* y) {
  float gate[kChunk] = {};
  const size_t count = bytes / sizeof(float);
  std::memcpy(gate, x, bytes);
  sigmoid(kernels, bytes, gate);
  for (size_t i = 0; i < count; ++i) {
    const float t = gate[i] * (2.0f - gate[i]);
    y[i] = x[i] * (t / (2.0f - t));
  }
}

float clamped(float x, float least, float most) {
  const float value = x < least ? least : x;
  return value > most ? most : value;
}

// A function that is not linked is never called: load refuses the model.
void apply(const KernelSet& kernels, Activation function, float parameter, uint32_t count,
           const float* x, float* y) {
  const size_t bytes = count * sizeof(float);
  switch (function) {
    case Activation::kRelu:
      for (uint32_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? 0.0f : x[i];
      return;
    case Activation::kGeluErf:
      if constexpr (linked(Need::kGeluErf)) kernels.gelu(bytes, x, y);
      return;
    case Activation::kGeluTanh:
      if constexpr (linked(Need::kGeluTanh)) gelu_tanh(kernels, bytes, x, y);
      return;
    case Activation::kSilu:
      if constexpr (linked(Need::kSilu)) sigmoid_or_silu(kernels, bytes, true, x, y);
      return;
    case Activation::kSoftCap:
      if constexpr (linked(Need::kSoftCap)) soft_cap(kernels, bytes, parameter, x, y);
      return;
    case Activation::kTanh:
      if constexpr (linked(Need::kTanh)) kernels.tanh(bytes, x, y);
      return;
    case Activation::kSigmoid:
      if constexpr (linked(Need::kSigmoid)) sigmoid_or_silu(kernels, bytes, false, x, y);
      return;
    case Activation::kScale:
      if constexpr (linked(Need::kScale)) kernels.scale(bytes, x, &parameter, y);
      return;
    case Activation::kLeakyRelu:
      if constexpr (!linked(Need::kLeakyRelu)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? parameter * x[i] : x[i];
      return;
    case Activation::kElu:
      if constexpr (linked(Need::kElu)) elu(kernels, bytes, parameter, x, y);
      return;
    case Activation::kSoftplus:
      if constexpr (linked(Need::kSoftplus)) softplus(kernels, bytes, x, y);
      return;
    case Activation::kMish:
      if constexpr (linked(Need::kMish)) mish(kernels, bytes, x, y);
      return;
    case Activation::kHardSwish:
      if constexpr (!linked(Need::kHardSwish)) return;
      for (uint32_t i = 0; i < count; ++i) {
        y[i] = x[i] * (clamped(x[i] + 3.0f, 0.0f, 6.0f) * (1.0f / 6.0f));
      }
      return;
    case Activation::kClamp:
      if constexpr (!linked(Need::kClamp)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = clamped(x[i], -parameter, parameter);
      return;
  }
}

}  // namespace

void activation(const KernelSet& kernels, Activation function, float parameter,
                const ConstMatrix& input, const ConstMatrix& factor, const Matrix& output,
                const ParallelFor& parallel) {
  const uint32_t chunks = output.columns / kChunk + (output.columns % kChunk != 0 ? 1 : 0);
  // Chunks of all rows are one list, so that a single row is shared by the threads too.
  auto work = [&](uint32_t index) {
    const uint32_t row = index / chunks;
    const uint32_t column = index % chunks * kChunk;
    const uint32_t left = output.columns - column;
    const uint32_t count = left < kChunk ? left : kChunk;
    const float* const x = input.row(row) + column;
    float* const y = output.row(row) + column;
    apply(kernels, function, parameter, count, x, y);
    if (factor.data != nullptr) {
      kernels.multiply(count * sizeof(float), y, factor.row(row) + column, y);
    }
  };
  for_each_row(parallel, output.rows * chunks, work);
}

}  // namespace arenite
