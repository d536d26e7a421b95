// SPDX-License-Identifier: Apache-2.0
// Tests that the error of storing weights is reported apart from the error of computing with them.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "convert/check/check_session.h"
#include "convert/convert.h"
#include "convert/graph/interpreter.h"
#include "convert/modules/conversion_case.h"
#include "convert/passes/passes.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/random.h"

namespace arenite::test {
namespace {

using convert::Conversion;
using convert::DType;
using convert::Graph;

constexpr uint32_t kWidth = 8;
constexpr const char* kParts[] = {"W_query", "W_key", "W_value", "out_proj"};

// Returns values that float32 cannot represent.
std::vector<double> thirds(const std::vector<double>& values) {
  std::vector<double> rounded = values;
  for (double& value : rounded) value = value / 3.0 + 1e-11;
  return rounded;
}

// Four heads of four, so that the scale of scores, 1/2, rounds nothing.
CheckpointBuilder checkpoint(bool fits_float32) {
  CheckpointBuilder weights;
  for (const char* part : kParts) {
    const bool is_output = part == kParts[3];
    weights.add_linear(part, is_output ? kWidth : 16, is_output ? 16 : kWidth);
    if (fits_float32) continue;
    const std::string name = part;
    const std::vector<uint64_t> shape =
        is_output ? std::vector<uint64_t>{kWidth, 16} : std::vector<uint64_t>{16, kWidth};
    weights.add(name + ".weight", shape, thirds(weights.values(name + ".weight")));
    weights.add(name + ".bias", {shape[0]}, thirds(weights.values(name + ".bias")));
  }
  return weights;
}

// Returns the checkpoint with every value rounded to float32.
CheckpointBuilder rounded(const CheckpointBuilder& weights) {
  CheckpointBuilder rounded;
  for (const char* part : kParts) {
    for (const char* end : {".weight", ".bias"}) {
      const std::string name = std::string(part) + end;
      std::vector<double> values = weights.values(name);
      for (double& value : values) value = static_cast<float>(value);
      const uint64_t rows = part == kParts[3] ? kWidth : 16;
      rounded.add(name,
                  values.size() == rows ? std::vector<uint64_t>{rows}
                                        : std::vector<uint64_t>{rows, values.size() / rows},
                  values);
    }
  }
  return rounded;
}

std::vector<double> outputs(const CheckpointBuilder& weights, uint32_t tokens) {
  AttentionOracle oracle;
  oracle.heads = 4;
  oracle.query = oracle_linear(weights, "W_query", 16, kWidth);
  oracle.key = oracle_linear(weights, "W_key", 16, kWidth);
  oracle.value = oracle_linear(weights, "W_value", 16, kWidth);
  oracle.output = oracle_linear(weights, "out_proj", kWidth, 16);
  oracle.sees = sees_causal;
  return oracle.run(convert::features_to_check(size_t{tokens} * kWidth), tokens);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::fabs(a[i] - b[i]));
  return largest;
}

Conversion converted(const CheckpointBuilder& weights, DType dtype) {
  convert::ModelOptions options;
  options.heads = 4;
  return convert_bytes(weights.safetensors("", dtype), options);
}

TEST(StoringCost, IsTheChangeByRoundingTheSourceWeights) {
  const CheckpointBuilder weights = checkpoint(false);
  const Conversion conversion = converted(weights, DType::kF64);
  const double expected = largest_difference(outputs(weights, conversion.checked_tokens),
                                             outputs(rounded(weights), conversion.checked_tokens));
  ASSERT_GT(expected, 1e-9);
  EXPECT_NEAR(conversion.storing_error, expected, 1e-5 * expected);
}

// Weights that are rounded beforehand give the same file and computing error, and no storing error.
TEST(StoringCost, IsApartFromComputing) {
  const CheckpointBuilder weights = checkpoint(false);
  const Conversion doubles = converted(weights, DType::kF64);
  const Conversion floats = converted(rounded(weights), DType::kF32);
  EXPECT_TRUE(std::ranges::equal(doubles.file.span(), floats.file.span()));
  EXPECT_EQ(floats.storing_error, 0.0);
  ASSERT_TRUE(doubles.computing_error().has_value());
  EXPECT_NEAR(*doubles.computing_error(), *floats.computing_error(), 1e-12);
  EXPECT_GT(*doubles.computing_error(), 0.0);
}

TEST(StoringCost, IsNothingWhereNothingIsRounded) {
  const CheckpointBuilder weights = checkpoint(true);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(converted(weights, dtype).storing_error, 0.0) << name(dtype);
  }
}

TEST(StoringCost, HasItsShareFromBiasesAlone) {
  CheckpointBuilder weights = checkpoint(true);
  const std::vector<double> bias = thirds(weights.values("out_proj.bias"));
  weights.add("out_proj.bias", {kWidth}, bias);
  double expected = 0.0;
  for (const double value : bias) {
    expected = std::max(expected, std::fabs(static_cast<float>(value) - value));
  }
  const Conversion conversion = converted(weights, DType::kF64);
  EXPECT_NEAR(conversion.storing_error, expected, 1e-12);
  EXPECT_GT(conversion.storing_error, 0.0);
}

// With a head of six elements, 1/sqrt(6) times a float32 is not always a float32.
TEST(StoringCost, CountsFactorsThatPassesFold) {
  const convert::TransformerSpec spec = make_decoder(decoder_named("llama"));
  EXPECT_TRUE(is_rounded(convert::rewrite(build_graph(spec))));
  EXPECT_FALSE(is_rounded(convert::rewrite(build_graph(spec), {"fold-scales"})));
}

// If the storage type already decides, no weight is read.
TEST(StoringCost, IsKnownWithoutReadingFloats) {
  convert::TransformerSpec spec = make_encoder(encoder_named("bert"));  // heads of four
  int loads = 0;
  const auto count = [&](convert::WeightRef& weight) {
    weight.load = [&loads, load = weight.load] {
      ++loads;
      return load();
    };
  };
  for (convert::LayerSpec& layer : spec.layers) {
    for (auto* linear :
         {&layer.query, &layer.key, &layer.value, &layer.output, &layer.up, &layer.down}) {
      count(linear->weight);
    }
  }
  count(*spec.token_embedding);
  const Graph graph = convert::rewrite(build_graph(spec));
  const Graph stored = with_stored_weights(graph);
  EXPECT_FALSE(is_rounded(graph));
  EXPECT_EQ(loads, 0);
}

TEST(StoringCost, CountsGainsAndTables) {
  for (const char* part : {"gain", "table"}) {
    convert::TransformerSpec spec = make_encoder(encoder_named("bert"));
    ASSERT_FALSE(is_rounded(convert::rewrite(build_graph(spec)))) << part;
    if (part == std::string("gain")) {
      spec.layers[0].mlp_norm->gain[1] += 1e-12;
    } else {
      const convert::WeightRef table = *spec.position_embedding;
      spec.position_embedding->load_f64 = [table] {
        std::vector<double> values = table.exact();
        values[3] += 1e-12;
        return values;
      };
    }
    const Graph graph = convert::rewrite(build_graph(spec));
    EXPECT_TRUE(is_rounded(graph)) << part;
    EXPECT_FALSE(is_rounded(with_stored_weights(graph))) << part;
  }
}

TEST(StoringCost, ScalesNoStoredIntegers) {
  Graph graph = build_graph(make_decoder(decoder_named("llama")));
  for (const convert::ValueId value : graph.order()) {
    if (auto* linear = graph.as<convert::LinearNode>(value)) {
      linear->parts[0].storage.is_taken_over = true;
      linear->parts[0].scale = 0.5;
    }
  }
  EXPECT_THROW(with_stored_weights(graph), std::logic_error);
}

}  // namespace
}  // namespace arenite::test
