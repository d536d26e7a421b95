// SPDX-License-Identifier: Apache-2.0
// Encoders with int8 rows are read like decoders, and give the results of their dequantized
// weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/families/encoder_fixture.h"
#include "convert/families/quantized_model.h"
#include "convert/spec/quantized_weights.h"
#include "support/byte_string.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;

constexpr const char* kFixture = "bert_sequence";

// Rounds the layers' matrices to int8 by row, in the form of bitsandbytes, and in `floats` to the
// same numbers.
void quantize(QuantizedModel& model, TensorMap& floats) {
  model.quantization() = {{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}};
  for (auto& [name, tensor] : floats) {
    if (tensor.shape.size() != 2 || name.find(".encoder.layer.") == std::string::npos) continue;
    const size_t columns = tensor.shape[1];
    std::string integers;
    std::string largest;
    for (size_t row = 0; row < tensor.shape[0]; ++row) {
      float most = 0.0f;
      for (size_t i = 0; i < columns; ++i) {
        most = std::max(most, std::fabs(tensor.values[row * columns + i]));
      }
      for (size_t i = 0; i < columns; ++i) {
        float& value = tensor.values[row * columns + i];
        const float integer = std::nearbyint(value * 127.0f / most);
        integers += static_cast<char>(integer);
        value = most / 127.0f * integer;
      }
      largest += bytes_of(most);
    }
    model.tensors[name] = {"I8", tensor.shape, integers};
    const std::string layer = name.substr(0, name.rfind('.'));
    model.tensors[layer + ".SCB"] = {"F32", {tensor.shape[0]}, largest};
  }
}

TEST(QuantizedEncoder, EqualsItsDequantizedWeights) {
  QuantizedModel model(convert_fixture("encoders") / kFixture);
  EditedEncoder floats(kFixture);
  quantize(model, floats.tensors);
  const TransformerSpec spec = encoder_at(model.write());
  EXPECT_EQ(run_row(spec, kFixture, 0).values, run_row(floats.open(), kFixture, 0).values);
  for (const LayerSpec& layer : spec.layers) {
    for (const LinearSpec* linear :
         {&layer.query, &layer.key, &layer.value, &layer.output, &layer.up, &layer.down}) {
      EXPECT_TRUE(offers(linear->weight, TensorType::kQ8)) << linear->weight.name;
      EXPECT_FALSE(linear->bias.empty());
    }
  }
  EXPECT_FALSE(offers(*spec.token_embedding, TensorType::kQ8));
  EXPECT_TRUE(convert_model(model.write(), "tiny", {}, {Target::kPortable}).checks[0].ran);
}

}  // namespace
}  // namespace arenite::convert
