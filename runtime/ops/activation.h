// SPDX-License-Identifier: Apache-2.0
// Element-wise functions, alone or times a factor (gated feed-forward layers), and sums.
#pragma once

#include "arenite/parallel.h"
#include "core/matrix.h"
#include "kernels/kernel_set.h"

namespace arenite {

enum class ActivationFunction : uint8_t {
  kRelu,      // max(x, 0)
  kGeluErf,   // x (1 + erf(x / sqrt(2))) / 2
  kGeluTanh,  // x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2
  kSilu,      // x sigmoid(x)
  kSoftCap,   // cap tanh(x / cap)
  kTanh,      // tanh(x)
  kSigmoid,   // 1 / (1 + exp(-x))
};

// target = f(target) (* factor), in place. All [rows, columns]; factor may have no data.
void activation(const KernelSet& kernels, ActivationFunction function, float cap, Matrix target,
                ConstMatrix factor, const ParallelFor& parallel);

// target = target + other.
void add(const KernelSet& kernels, Matrix target, ConstMatrix other, const ParallelFor& parallel);

}  // namespace arenite
