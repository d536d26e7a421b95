// SPDX-License-Identifier: Apache-2.0
// Rounds weights to int8 or int4 with the scales of least error, and activations as the runtime
// does before it multiplies them by such weights.
//
//   const QuantizedMatrix q8 = quantize(weights, rows, columns, TensorType::kQ8);
//   dequantize(q8);  // values[r, c] * scales[r]
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arenite/tensor_type.h"
#include "core/weight_types.h"

namespace arenite::convert {

// Types of weights, the largest first.
inline constexpr TensorType kWeightTypes[] = {TensorType::kF32, TensorType::kW8, TensorType::kQ8,
                                              TensorType::kQ4};
// The types that can hold integers of other files, and that the converter chooses among.
inline constexpr TensorType kIntegerTypes[] = {TensorType::kQ8, TensorType::kQ4};

// How the converter uses each weight type.
struct TypeUse {
  TensorType integers;  // the type that holds the same values, of kIntegerTypes if quantized
  TensorType smaller;   // proposed where weights take too much; the type itself: none
  TensorType of_ends;   // of output and embedding, unless rules say otherwise
  bool is_compensated;  // rounded by GPTQ
};
inline constexpr TypeUse kTypeUses[kWeightTypeCount] = {
    {TensorType::kF32, TensorType::kQ8, TensorType::kF32, false},
    {TensorType::kQ8, TensorType::kQ4, TensorType::kW8, false},
    {TensorType::kQ8, TensorType::kQ4, TensorType::kQ8, false},
    {TensorType::kQ4, TensorType::kQ4, TensorType::kQ8, true},
};
constexpr const TypeUse& use_of(TensorType type) { return kTypeUses[static_cast<uint32_t>(type)]; }

// Whether scales are per block, each a bfloat16, rather than per row.
constexpr bool has_blocks(TensorType type) { return weight_type(type).block != 0; }

// weight = value * scale of its row, or of its block if the type has blocks.
struct QuantizedMatrix {
  TensorType type = TensorType::kQ8;  // any but kF32
  uint32_t rows = 0;
  uint32_t columns = 0;             // a multiple of the block
  std::vector<int8_t> values = {};  // [rows, columns]: -128 to 127; for q4 -8 to 7
  std::vector<float> scales = {};   // [rows]; or [rows, columns / block], each a bfloat16

  // Returns rows [first, first + count). REQUIRES: they exist.
  QuantizedMatrix part(uint32_t first, uint32_t count) const;
  // Appends the rows of a matrix of the same type and columns.
  void append(const QuantizedMatrix& below);
};

// Limits of scales, so that products of them stay far from the ends of bfloat16.
inline constexpr float kScaleMin = 0x1p-100f;
inline constexpr float kScaleMax = 0x1p100f;

// Range of quantized values: -8..7 for q4, -127..127 for other types.
struct Levels {
  float least = 0.0f;
  float most = 0.0f;
};
constexpr Levels levels_of(TensorType type) {
  const auto most = static_cast<float>((1u << (weight_type(type).bits - 1u)) - 1u);
  // At 4 bits, one more level is worth the asymmetry.
  return has_blocks(type) ? Levels{-most - 1.0f, most} : Levels{-most, most};
}

// Returns how many weights share a scale: a row, or a block for q4.
constexpr uint32_t weights_per_scale(TensorType type, uint32_t columns) {
  return has_blocks(type) ? weight_type(type).block : columns;
}

// Counts the rows, or the blocks for q4, that the limits of scales affect.
struct ScaleReport {
  uint64_t zeroed = 0;   // scale below kScaleMin: all values are zero
  uint64_t clamped = 0;  // scale above kScaleMax: large weights are clamped
};

// Whether a matrix can have this type: its rows are whole blocks, if the type has blocks.
constexpr bool fits(TensorType type, uint32_t columns) {
  return columns % weights_per_scale(type, columns) == 0;
}

// Rounds to 8 significant bits, ties to even.
float to_bfloat16(float value);

// Rounds weight / scale to the nearest value of the type, ties to even.
int8_t quantize_weight(float weight, float scale, TensorType type);

// Returns the index of the first NaN or infinity.
std::optional<size_t> first_non_finite(std::span<const float> weights);

// Finds the scale of a row, or of a block for q4: among all candidates the one whose rounded
// weights w' minimize
//   sum(importance * (w - w')^2)
// The result is never worse than the scales that map the largest weight to the last value: max /
// 127, or for q4 max / -8 and max / 7, rounded to bfloat16. Weights that are exact multiples of a
// scale get that scale. A row of zeros gets scale 1.
class ScaleSearch {
 public:
  // Supports up to `weights_max` weights per scale.
  ScaleSearch(TensorType type, uint32_t weights_max);

  // REQUIRES: finite weights; one `importance` >= 0 for each weight.
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

  bool has_blocks_;
  Levels levels_;
  ScaleReport report_;

  // The current weights, divided by the power of two that makes the largest magnitude 0.5 to 1.
  std::vector<float> weights_;     // padded with zeros to whole lanes
  std::vector<float> importance_;  // normalized to a mean of 1
  size_t count_ = 0;               // padded to whole lanes
  int exponent_ = 0;               // of that power of two
  float largest_ = 0.0f;           // signed
  float best_scale_ = 0.0f;
  double best_error_ = 0.0;
};

// Rounds weights [rows, columns]. `column_weights` [columns] are the importance of errors: the mean
// squares of the inputs if known; empty: all equal. REQUIRES: finite weights; fits(type, columns);
// type is not kF32.
QuantizedMatrix quantize(std::span<const float> weights, uint32_t rows, uint32_t columns,
                         TensorType type, std::span<const double> column_weights = {},
                         ScaleReport* report = nullptr);

// Returns values * scales, [rows, columns].
std::vector<float> dequantize(const QuantizedMatrix& matrix);

// Signal and quantization noise of weights.
struct RoundingNoise {
  double signal = 0.0;  // sum of squares of the weights
  double noise = 0.0;   // sum of squares of the errors

  double decibels() const;  // signal to noise ratio; infinity without noise
};
RoundingNoise noise_of(std::span<const float> weights, const QuantizedMatrix& matrix,
                       std::span<const double> column_weights = {});

// Rounds each row to 256 steps between its minimum and maximum, zero included, as QuantizedRows of
// runtime/ops/linear.h does. A row with an element that is not finite becomes NaN.
void round_activations(std::span<double> rows, size_t width);

// Rounds keys or values, rows of `width` elements, as a cache of this type stores them: for int8 to
// 255 steps between +-(the row's largest magnitude), as Int8Row of runtime/ops/kv_cache.h does. A
// row with an element that is not finite becomes NaN.
std::vector<double> as_cached(TensorType kv_cache, std::vector<double> rows, size_t width);

}  // namespace arenite::convert
