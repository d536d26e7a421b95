// SPDX-License-Identifier: Apache-2.0
// Weights that a file has in few bits already: taking them over instead of quantizing them again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arenite/tensor_type.h"
#include "convert/quantize/quantizers.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// A matrix as a file has it: each number is an integer times the scale of its group.
struct ScaledIntegers {
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t group = 0;               // columns of a row that share a scale; divides `columns`
  std::vector<int8_t> values = {};  // [rows, columns]
  std::vector<float> scales = {};   // [rows, columns / group], as the file has them
};

// Throws InputError for weights too large for any scale; `rule` is what --keep takes to leave them
// in float32.
void check_scales(const ScaleReport& scales, const std::string& name, const std::string& rule);

// The products, rounded to float32.
std::vector<float> products(const ScaledIntegers& integers);

// Whether `type` can hold integers of so many bits whose scales belong to groups of columns: kQ4
// groups of whole blocks, kQ8 whole rows.
bool can_hold(TensorType type, uint32_t bits, uint32_t columns, uint32_t group);

// The same integers as kQ8 or kQ4, the scales of kQ4 rounded to the nearest bfloat16. Where a scale
// is zero, so are the integers, and the scale is 1. Scales may be negative, as in GGUF's Q4_0.
// Throws InputError, which begins with `where`, for a scale that is not finite or too far from 1
// for what kernels make of it. REQUIRES: can_hold.
QuantizedMatrix keep_integers(ScaledIntegers integers, TensorType type, const std::string& where);

// Whether the file has `weight` as `type` holds it. kW8 and kQ8 hold the same numbers.
bool offers(const WeightRef& weight, TensorType type);

// What the file has, as `type`. Throws InputError. REQUIRES: offers(weight, type).
QuantizedMatrix load_as(const WeightRef& weight, TensorType type);

// What rounding its scales does to a weight, as shares of it, over all that are not zero.
struct ScaleChange {
  double largest = 0.0;
  double root_mean_square = 0.0;
};

// From the numbers of `load` to what `load_quantized` gives. Throws InputError.
// REQUIRES: weight.load_quantized.
ScaleChange change_of_scales(const WeightRef& weight);

}  // namespace arenite::convert
