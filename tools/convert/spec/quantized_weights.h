// SPDX-License-Identifier: Apache-2.0
// Takes over weights that a file has quantized, instead of quantizing them again.
//
//   if (offers(weight, type)) matrix = load_as(weight, type);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arenite/tensor_type.h"
#include "convert/quantize/quantizers.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// A quantized matrix as stored in a file: element = integer * scale of its group.
struct ScaledIntegers {
  uint32_t rows = 0;
  uint32_t columns = 0;
  uint32_t group = 0;               // columns of a row that share a scale; divides `columns`
  std::vector<int8_t> values = {};  // [rows, columns]
  std::vector<float> scales = {};   // [rows, columns / group], not rounded
};

// Throws InputError if weights are too large for any scale; `rule` is the --keep option that keeps
// them in float32.
void check_scales(const ScaleReport& scales, const std::string& name, const std::string& rule);

// Returns integers * scales, rounded to float32.
std::vector<float> products(const ScaledIntegers& integers);

// Whether one of kIntegerTypes can hold integers of `bits` bits with a scale for each `group` of
// `columns`: groups must be whole blocks, or whole rows if the type has no blocks.
bool can_hold(TensorType type, uint32_t bits, uint32_t columns, uint32_t group);

// Converts to a type with unchanged integers; rounds block scales to bfloat16. A zero scale becomes
// scale 1 with zero integers. Scales may be negative, as in GGUF's Q4_0. Throws InputError that
// begins with `where` for a scale that is not finite, or too large or small for the kernels.
// REQUIRES: can_hold.
QuantizedMatrix keep_integers(ScaledIntegers integers, TensorType type, const std::string& where);

// Whether the file stores `weight` in the form of `type`, or of a type with the same values.
bool offers(const WeightRef& weight, TensorType type);

// Loads the stored form as `type`. Throws InputError. REQUIRES: offers(weight, type).
QuantizedMatrix load_as(const WeightRef& weight, TensorType type);

// Relative change of the nonzero elements when scales are rounded.
struct ScaleChange {
  double largest = 0.0;
  double root_mean_square = 0.0;
};

// Compares `load_quantized` with `load`. Throws InputError. REQUIRES: weight.load_quantized.
ScaleChange change_of_scales(const WeightRef& weight);

}  // namespace arenite::convert
