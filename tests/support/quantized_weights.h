// SPDX-License-Identifier: Apache-2.0
// Random quantized weights, packed element by element at the offsets of packing.h, right before
// an inaccessible page; and exact products of quantized rows with them.
#ifndef ARENITE_TESTS_SUPPORT_QUANTIZED_WEIGHTS_H_
#define ARENITE_TESTS_SUPPORT_QUANTIZED_WEIGHTS_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/packing.h"
#include "core/views.h"
#include "kernels/kernel_set.h"
#include "support/guarded_buffer.h"
#include "support/random.h"

namespace arenite::test {

// A sum, and the sum of the magnitudes of what was added: what rounding is measured by.
struct ExactSum {
  double sum = 0.0;
  double magnitude = 0.0;

  void add(double term) {
    sum += term;
    magnitude += std::fabs(term);
  }
};

class QuantizedWeights {
 public:
  // Values over the whole range of the type, scales from 2^-9 to 2^-7, which of q4 are bfloat16.
  QuantizedWeights(TensorType type, Packing packing, uint32_t outputs, uint32_t inputs,
                   uint64_t seed)
      : type_(type),
        packing_(packing),
        outputs_(outputs),
        inputs_(inputs),
        packed_(static_cast<size_t>(packed_weight_bytes(packing, outputs, inputs).value()),
                alignment(packing)) {
    Random random(seed);
    values_.resize(size_t{outputs} * inputs);
    const float limit = type == TensorType::kQ4 ? 7.99f : 127.99f;
    std::vector<float> drawn(values_.size());
    random.fill(drawn, limit);
    std::ranges::transform(drawn, values_.begin(),
                           [](float x) { return static_cast<int8_t>(std::floor(x)); });
    scales_.resize(outputs * scales_per_row());
    random.fill(scales_, 1.0f);
    for (float& scale : scales_) {
      scale = std::bit_cast<float>(std::bit_cast<uint32_t>(0.005f + 0.0029f * scale) & 0xFFFF0000u);
    }
    bias_.resize(outputs);
    random.fill(bias_, 1.0f);
    pack();
  }

  WeightView view() const { return {packed_.data(), type_, packing_, outputs_, inputs_}; }
  const std::byte* data() const { return packed_.data(); }
  double weight(uint32_t output, uint32_t input) const {
    return double{scale(output, input)} * values_[size_t{output} * inputs_ + input];
  }
  float bias(uint32_t output) const { return bias_[output]; }

  // Returns the exact product of an int8 row with an output's weights.
  ExactSum product(const int8_t* numbers, int32_t offset, QuantizedRow row, uint32_t output) const {
    ExactSum sum;
    for (uint32_t i = 0; i < inputs_; ++i) {
      sum.add(double{row.scale} * (numbers[i] - offset - row.zero_point) * weight(output, i));
    }
    sum.add(bias_[output]);
    return sum;
  }
  ExactSum product(const float* numbers, uint32_t output) const {
    ExactSum sum;
    for (uint32_t i = 0; i < inputs_; ++i) sum.add(double{numbers[i]} * weight(output, i));
    sum.add(bias_[output]);
    return sum;
  }

  // Returns the alignment that kernels require: whole vectors, if panels are multiples of vectors.
  static size_t alignment(Packing packing) {
    return std::min(size_t{packing.nr} * sizeof(float), size_t{64});
  }

 private:
  size_t scales_per_row() const { return type_ == TensorType::kQ4 ? inputs_ / kQ4Block : 1; }
  float scale(uint32_t output, uint32_t input) const {
    return scales_[output * scales_per_row() + (type_ == TensorType::kQ4 ? input / kQ4Block : 0)];
  }

  void pack() {
    std::memset(packed_.data(), 0, packed_.size());
    const size_t panel_size = panel_bytes(packing_, inputs_).value();
    for (uint32_t n = 0; n < outputs_; ++n) {
      const uint32_t lane = n % packing_.nr;
      std::byte* const panel = packed_.data() + n / packing_.nr * panel_size;
      float correction = 0.0f;
      int32_t sum = 0;
      for (uint32_t i = 0; i < inputs_; ++i) {
        const int8_t value = values_[size_t{n} * inputs_ + i];
        const PanelPlace place = panel_place(packing_, i, lane);
        const float scale_here = scale(n, i);
        sum -= value;
        if (type_ == TensorType::kQ4) {
          const uint32_t half = (static_cast<uint32_t>(value) & 15u) << (place.high_half ? 4 : 0);
          panel[place.byte] |= static_cast<std::byte>(half);
          correction -= scale_here * static_cast<float>(value);
          put(panel + panel_scale(packing_, inputs_, i, lane),
              static_cast<uint16_t>(std::bit_cast<uint32_t>(scale_here / 16.0f) >> 16));
        } else {
          panel[place.byte] = static_cast<std::byte>(value);
          put(panel + panel_scale(packing_, inputs_, i, lane), scale_here);
        }
      }
      float bias_here = bias_[n];
      if (type_ == TensorType::kQ8) put(panel + lane * sizeof(float), sum);
      if (type_ == TensorType::kQ4) put(panel + lane * sizeof(float), correction);
      if (type_ == TensorType::kW8) bias_here /= scale(n, 0);
      put(panel + panel_bias(packing_, inputs_, lane), bias_here);
    }
  }

  template <typename T>
  static void put(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof(T));
  }

  TensorType type_;
  Packing packing_;
  uint32_t outputs_;
  uint32_t inputs_;
  std::vector<int8_t> values_;
  std::vector<float> scales_;
  std::vector<float> bias_;
  GuardedBuffer packed_;
};

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_QUANTIZED_WEIGHTS_H_
