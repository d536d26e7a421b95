// SPDX-License-Identifier: Apache-2.0
// Activations. Those without a kernel in XNNPACK are loops or compositions of its kernels, 256
// elements at a time, so that intermediate results stay in the first-level cache.
#include "ops/row_ops.h"

#include <algorithm>
#include <cstring>

#include "core/needs.h"
#include "ops/rows.h"

namespace arenite {
namespace {

constexpr uint32_t kChunk = 256;

// gate = sigmoid(gate). The AVX-512 kernel gives NaN for inputs beyond 10^14, so inputs are first
// clamped to +-512, where the sigmoid of a float is already 0 or 1. The loop has a constant length,
// for the vectorizer. Not inlined, since compilers would warn about uninitialized elements,
// although saturating kernels never reach the loop.
[[gnu::noinline]] void sigmoid(const KernelSet& kernels, size_t bytes, float (&gate)[kChunk]) {
  constexpr float kMost = 512.0f;
  if (kernels.sigmoid_saturates) return kernels.sigmoid(bytes, gate, gate);
  for (float& value : gate) {
    value = value < -kMost ? -kMost : value;
    value = value > kMost ? kMost : value;
  }
  kernels.sigmoid(bytes, gate, gate);
}

// exp(x) - 1 = tanh(x / 2) (1 + exp(x)) = tanh(x / 2) / sigmoid(-x) loses no digits near 0. Both
// factors share the buffer of one factor of the other functions, so no call takes more stack.
void elu(const KernelSet& kernels, float factor, uint32_t count, const float* x, float* y,
         float (&gate)[kChunk]) {
  constexpr uint32_t kPart = kChunk / 2;
  constexpr float kHalf = 0.5f, kMinus = -1.0f;
  float* const slope = gate + kPart;
  for (uint32_t begin = 0; begin < count; begin += kPart) {
    const uint32_t part = count - begin < kPart ? count - begin : kPart;
    const size_t bytes = part * sizeof(float);
    kernels.scale(bytes, x + begin, &kMinus, gate);
    sigmoid(kernels, bytes, gate);
    kernels.scale(bytes, x + begin, &kHalf, slope);
    kernels.tanh(bytes, slope, slope);
    for (uint32_t i = 0; i < part; ++i) {
      const float value = x[begin + i];
      y[begin + i] = value < 0.0f ? factor * (slope[i] / gate[i]) : value;
    }
  }
}

// Computes the activations that use a sigmoid. A single function shares the code around their
// loops; the branches of activations that are not linked are dropped.
void by_sigmoid(const KernelSet& kernels, Activation function, float parameter, uint32_t count,
                const float* x, float* y) {
  const size_t bytes = count * sizeof(float);
  const bool is_gelu = linked(Need::kGeluTanh) && function == Activation::kGeluTanh;
  const bool is_softplus = linked(Need::kSoftplus) && function == Activation::kSoftplus;
  const bool is_exp = linked(Need::kExp) && function == Activation::kExp;
  float gate[kChunk];
  // The clamp of sigmoid() reads all of `gate`; saturating kernels skip it. Builds with MVE have no
  // other kernels.
  const bool saturates = kMveLinked || kernels.sigmoid_saturates;
  if (!saturates) std::memset(gate, 0, sizeof(gate));
  const bool is_direct = saturates && !is_gelu && !is_softplus && !is_exp;
  if (linked(Need::kElu) && function == Activation::kElu) {
    elu(kernels, parameter, count, x, y, gate);
    return;
  }
  if (is_gelu) {
    // (1 + tanh(u)) / 2 = sigmoid(2 u), so gelu(x) = x sigmoid(a x + b x^3).
    constexpr float kA = 1.5957691216057308f;  // 2 sqrt(2 / pi)
    constexpr float kB = 1.5957691216057308f * 0.044715f;
    kernels.multiply(bytes, x, x, gate);
    kernels.scale(bytes, gate, &kB, gate);
    kernels.add_constant(bytes, gate, &kA, gate);
    kernels.multiply(bytes, gate, x, gate);
  } else if (is_softplus || is_exp) {
    const float part = is_exp ? 0.5f : 1.0f;
    for (uint32_t i = 0; i < count; ++i) gate[i] = part * (x[i] < 0.0f ? x[i] : -x[i]);
  } else if (!is_direct) {
    std::memcpy(gate, x, bytes);
  }
  if (is_direct) {
    kernels.sigmoid(bytes, x, gate);
  } else {
    sigmoid(kernels, bytes, gate);
  }
  if (is_exp) {
    // exp(-|x|) = (s / (1 - s))^2 with s = sigmoid(-|x| / 2). The sigmoid of the whole -|x| would
    // lose digits for large |x| in kernels without denormals.
    for (uint32_t i = 0; i < count; ++i) {
      const float rest = 1.0f - gate[i];
      const float root = x[i] < 0.0f ? gate[i] / rest : rest / gate[i];
      y[i] = root * root;
    }
  } else if (is_softplus) {
    // softplus(x) = max(x, 0) + log(1 + exp(-|x|)). With s = sigmoid(-|x|) and z = s / (2 - s) <=
    // 1/3, the logarithm is 2 atanh(z), whose series has float's precision after seven terms.
    for (uint32_t i = 0; i < count; ++i) {
      const float z = gate[i] / (2.0f - gate[i]);
      y[i] = (x[i] < 0.0f ? 0.0f : x[i]) + 2.0f * z * atanh_series<7>(z);
    }
  } else if (linked(Need::kMish) && function == Activation::kMish) {
    // With s = sigmoid(x) and t = s (2 - s), tanh(log(1 + exp(x))) = t / (2 - t).
    for (uint32_t i = 0; i < count; ++i) {
      const float t = gate[i] * (2.0f - gate[i]);
      y[i] = x[i] * (t / (2.0f - t));
    }
  } else if (linked(Need::kSigmoid) && function == Activation::kSigmoid) {
    std::memcpy(y, gate, bytes);
  } else {
    kernels.multiply(bytes, x, gate, y);
  }
}

// sin(x) = +-sin(r), where r = x - the nearest multiple of pi is exact enough in double precision.
inline float sine(float x) {
  constexpr double kPi = 3.141592653589793, kInverse = 0.3183098861837907;
  constexpr double kRound = 6755399441055744.0;  // 1.5 * 2^52
  constexpr float kMost = 0x1p30f;
  if (!(x > -kMost && x < kMost)) return __builtin_nanf("");
  const double multiple = (double{x} * kInverse + kRound) - kRound;
  const auto rest = static_cast<float>(double{x} - multiple * kPi);
  const float square = rest * rest;
  float series = 1.0f;  // Taylor's series, from its last term
  for (int term = 12; term > 0; term -= 2) {
    series = 1.0f - series * square / static_cast<float>(term * (term + 1));
  }
  const bool is_odd = (static_cast<int32_t>(multiple) & 1) != 0;
  return is_odd ? -rest * series : rest * series;
}

float clamped(float x, float least, float most) {
  const float value = x < least ? least : x;
  return value > most ? most : value;
}

// An activation that is not linked is never called: load refuses its model.
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
    case Activation::kSilu:
    case Activation::kSigmoid:
    case Activation::kElu:
    case Activation::kSoftplus:
    case Activation::kMish:
    case Activation::kExp:
      if constexpr (any_linked(Need::kGeluTanh, Need::kSilu, Need::kSigmoid, Need::kElu,
                               Need::kSoftplus, Need::kMish, Need::kExp)) {
        by_sigmoid(kernels, function, parameter, count, x, y);
      }
      return;
    case Activation::kSoftCap:
      if constexpr (linked(Need::kSoftCap)) soft_cap(kernels, bytes, parameter, x, y);
      return;
    case Activation::kTanh:
      if constexpr (linked(Need::kTanh)) kernels.tanh(bytes, x, y);
      return;
    case Activation::kScale:
      if constexpr (linked(Need::kScale)) kernels.scale(bytes, x, &parameter, y);
      return;
    case Activation::kLeakyRelu:
      if constexpr (!linked(Need::kLeakyRelu)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = x[i] < 0.0f ? parameter * x[i] : x[i];
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
    case Activation::kSqrt:
      if constexpr (!linked(Need::kSqrt)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = __builtin_sqrtf(x[i] + parameter);
      return;
    case Activation::kReciprocal:
      if constexpr (!linked(Need::kReciprocal)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = 1.0f / (x[i] + parameter);
      return;
    case Activation::kLog:
      if constexpr (!linked(Need::kLog)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = logarithm(x[i] + parameter);
      return;
    case Activation::kAtMost:
      if constexpr (!linked(Need::kAtMost)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = x[i] > parameter ? parameter : x[i];
      return;
    case Activation::kSin:
      if constexpr (!linked(Need::kSin)) return;
      for (uint32_t i = 0; i < count; ++i) y[i] = sine(x[i]);
      return;
  }
}

}  // namespace

void activation(const KernelSet& kernels, Activation function, float parameter,
                const ConstMatrix& input, const OtherRows& factor, const Matrix& output,
                const ParallelFor& parallel) {
  const uint32_t chunks = output.columns / kChunk + (output.columns % kChunk != 0 ? 1 : 0);
  // The chunks of all rows form one task list, so that threads can share even a single row.
  auto work = [&](uint32_t index) {
    const uint32_t row = index / chunks;
    const uint32_t column = index % chunks * kChunk;
    const uint32_t left = output.columns - column;
    const uint32_t count = left < kChunk ? left : kChunk;
    const float* const x = input.row(row) + column;
    float* const y = output.row(row) + column;
    apply(kernels, function, parameter, count, x, y);
    if (factor.data == nullptr) return;
    const float* const factors = factor.row(row);
    if (factor.columns == output.columns) {
      return kernels.multiply(count * sizeof(float), y, factors + column, y);
    }
    const uint32_t each = output.columns / factor.columns;
    for (uint32_t begin = column; begin < column + count;) {
      const uint32_t of = begin / each;
      const uint32_t end = std::min(column + count, (of + 1) * each);
      float* const part = y + (begin - column);
      kernels.scale((end - begin) * sizeof(float), part, factors + of, part);
      begin = end;
    }
  };
  const uint32_t longest = chunks == 1 ? output.columns : kChunk;
  for_each_row(parallel, output.rows * chunks, longest * kFunctionWork, work);
}

}  // namespace arenite
