// SPDX-License-Identifier: Apache-2.0
// Layers in the int8 form of bitsandbytes: weight [outputs, inputs], and SCB [outputs], the largest
// magnitude of each row, for which 127 stands.
#include <cstddef>
#include <string>
#include <vector>

#include "convert/families/quantized_layers.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr const char* kFloat32[] = {"F32"};
constexpr const char* kInt8Types[] = {"I8"};
constexpr const char* kUnsigned8[] = {"U8"};

// Of 4 bits, where these are not used, and of how the int8 layers are run: which activations are
// multiplied in 16 bits, and where.
constexpr const char* kHarmlessOfBitsAndBytes[] = {
    "_load_in_4bit",
    "_load_in_8bit",
    "bnb_4bit_compute_dtype",
    "bnb_4bit_quant_storage",
    "bnb_4bit_quant_type",
    "bnb_4bit_use_double_quant",
    "llm_int8_enable_fp32_cpu_offload",
    "llm_int8_has_fp16_weight",
    "llm_int8_skip_modules",
    "llm_int8_threshold",
    "load_in_8bit",
};

// Layouts of single kernels have other numbers than 0.
void expect_rows(const StoredTensor& format) {
  const std::vector<float> number = format.load();
  if (number.size() == 1 && number[0] == 0.0f) return;
  throw InputError("{} is {}: expected 0, the layout by rows; save the model again with {}",
                   place_of(format), number.empty() ? 0.0f : number[0],
                   "a newer version of bitsandbytes");
}

ScaledIntegers read_layer(const StoredTensor& stored, const StoredTensor& largest, Sides sides) {
  ScaledIntegers integers{.rows = sides.rows, .columns = sides.columns, .group = sides.columns};
  const std::vector<float> values = stored.load();
  integers.values.assign(values.begin(), values.end());
  integers.scales = load_scales(largest);
  for (float& scale : integers.scales) scale /= 127.0f;
  check_zero_scales(integers, largest);
  return integers;
}

}  // namespace

void read_bitsandbytes(ConfigFields& config, QuantizedLayers& layers) {
  for (const char* field : kHarmlessOfBitsAndBytes) config.pass_over(field);
  if (config.flag("load_in_4bit", false)) {
    config.refuse("load_in_4bit",
                  fmt::format("the uneven levels of {} are not supported: {}",
                              config.text("bnb_4bit_quant_type", "fp4"), kConvertOriginal));
  }
  for (const std::string& layer : layers.layers_with("weight", "I8")) {
    const StoredTensor& stored = layers.require(layer, "weight", kInt8Types);
    const Sides sides = sides_of(stored);
    const StoredTensor& largest = layers.require(layer, "SCB", kFloat32);
    expect_shape(largest, {sides.rows});
    if (layers.find(layer, "weight_format") != nullptr) {
      expect_rows(layers.require(layer, "weight_format", kUnsigned8));
    }
    layers.replace(layer, {"weight", "SCB", "weight_format"},
                   {.scheme = "bitsandbytes, int8 by row",
                    .rows = sides.rows,
                    .columns = sides.columns,
                    .bits = 8,
                    .group = sides.columns,
                    .read = [=] { return read_layer(stored, largest, sides); }});
  }
}

}  // namespace arenite::convert
