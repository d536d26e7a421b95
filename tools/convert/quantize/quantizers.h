// SPDX-License-Identifier: Apache-2.0
// Rounds weights to few bits: each to the nearest value, with the scale that loses least; and
// activations, as the runtime does where it multiplies them with such weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arenite/tensor_type.h"
#include "core/weight_types.h"

namespace arenite::convert {

// What weights can be, the largest first.
inline constexpr TensorType kWeightTypes[] = {TensorType::kF32, TensorType::kW8, TensorType::kQ8,
                                              TensorType::kQ4};

// A weight is its value times the scale of its row or, of q4, of its block.
struct QuantizedMatrix {
  TensorType type = TensorType::kQ8;  // kW8, kQ8 or kQ4
  uint32_t rows = 0;
  uint32_t columns = 0;             // of q4 a multiple of kQ4Block
  std::vector<int8_t> values = {};  // [rows, columns]: -128 to 127; of q4 -8 to 7
  std::vector<float> scales = {};   // [rows]; of q4 [rows, columns / kQ4Block], each a bfloat16

  // Rows [first, first + count). REQUIRES: they are there.
  QuantizedMatrix part(uint32_t first, uint32_t count) const;
  // Puts the rows of a matrix of the same type and columns below these.
  void append(const QuantizedMatrix& below);
};

// Scales lie between these, where products of them are still far from the ends of bfloat16.
inline constexpr float kScaleMin = 0x1p-100f;
inline constexpr float kScaleMax = 0x1p100f;

// The values that a type of weights has. A matrix of values -8..7 or -127..127 times a scale.
struct Levels {
  float least = 0.0f;
  float most = 0.0f;
};
constexpr Levels levels_of(TensorType type) {
  const auto most = static_cast<float>((1u << (weight_type(type).bits - 1u)) - 1u);
  // In few bits one more is worth being asymmetrical.
  return weight_type(type).block != 0 ? Levels{-most - 1.0f, most} : Levels{-most, most};
}

// Weights that share a scale: a row, or of q4 a block of it.
constexpr uint32_t weights_per_scale(TensorType type, uint32_t columns) {
  return weight_type(type).block != 0 ? weight_type(type).block : columns;
}

// What the range of scales did to rows, or to blocks of q4.
struct ScaleReport {
  uint64_t zeroed = 0;   // their scale would be below kScaleMin: all values are zero
  uint64_t clamped = 0;  // their scale would be above kScaleMax: large weights are cut off
};

// Whether a matrix can be of a type: of whole blocks, where there are any.
constexpr bool fits(TensorType type, uint32_t columns) {
  return columns % weights_per_scale(type, columns) == 0;
}

// The nearest number that has 8 significant bits, ties to even.
float to_bfloat16(float value);

// The nearest value to weight / scale, ties to even.
int8_t quantize_weight(float weight, float scale, TensorType type);

// Where the first NaN or infinity is.
std::optional<size_t> first_non_finite(std::span<const float> weights);

// Finds the scale of a row or, of q4, of a block: the one of all that are tried whose rounded
// weights w' make sum(importance * (w - w')^2) least. Never does worse than the scales that put the
// largest weight on the last value: max / 127, or of q4 max / -8 and max / 7, rounded to bfloat16.
// Weights that are values times a scale get this scale. Zeros get 1.
class ScaleSearch {
 public:
  // Of as many weights as have one scale, at most.
  ScaleSearch(TensorType type, uint32_t weights_max);

  // REQUIRES: finite weights; `importance` of as many numbers of at least 0.
  float scale_of(std::span<const float> weights, std::span<const double> importance);

  const ScaleReport& report() const { return report_; }

 private:
  void load(std::span<const float> weights, std::span<const double> importance);
  double error_of(float scale) const;
  bool is_exact(float scale) const;
  void try_scale(float scale);
  bool find_exact_scale();
  void improve_exact_scale();
  void search_row();
  void search_block();
  float refitted() const;
  float in_range(double scale);

  TensorType type_;
  Levels levels_;
  ScaleReport report_;

  // Of the weights at hand, divided by the power of two that makes the largest one 0.5 to 1.
  std::vector<float> weights_;     // zeros follow, up to whole lanes
  std::vector<float> importance_;  // 1 on average
  size_t count_ = 0;               // whole lanes
  int exponent_ = 0;               // of the power of two
  float largest_ = 0.0f;           // with its sign
  float best_scale_ = 0.0f;
  double best_error_ = 0.0;
};

// Weights [rows, columns], rounded. `column_weights` say how much an error in each column counts:
// the mean squares of the inputs, where they are known; none: all alike.
// REQUIRES: finite weights; fits(type, columns); type is kW8, kQ8 or kQ4.
QuantizedMatrix quantize(std::span<const float> weights, uint32_t rows, uint32_t columns,
                         TensorType type, std::span<const double> column_weights = {},
                         ScaleReport* report = nullptr);

// The weights that it stands for, [rows, columns].
std::vector<float> dequantize(const QuantizedMatrix& matrix);

// How much of the weights was lost.
struct RoundingNoise {
  double signal = 0.0;  // sum of squares of the weights
  double noise = 0.0;   // of what they lost

  double decibels() const;  // of the signal to the noise; infinity without noise
};
RoundingNoise noise_of(std::span<const float> weights, const QuantizedMatrix& matrix,
                       std::span<const double> column_weights = {});

// Whether activations are rounded before they are multiplied with weights of this type.
constexpr bool rounds_activations(TensorType type) {
  return type == TensorType::kQ8 || type == TensorType::kQ4;
}

// Rounds each row to 256 steps between its least and its largest number, 0 being one of them, as
// QuantizedRows of runtime/ops/linear.h says. Numbers that are not finite make all of the row NaN.
void round_activations(std::span<double> rows, size_t width);

// Keys or values, in rows of so many numbers, as a cache of this type keeps them: in int8 rounded
// to 255 steps between a row's largest magnitude and the same below 0, as Int8Row of
// runtime/ops/kv_cache.h does. Numbers that are not finite make all of the row NaN.
std::vector<double> as_kept(TensorType kv_cache, std::vector<double> rows, size_t width);

}  // namespace arenite::convert
