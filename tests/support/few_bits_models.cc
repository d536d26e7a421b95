// SPDX-License-Identifier: Apache-2.0
#include "support/few_bits_models.h"

#include <utility>

#include "convert/families/families.h"
#include "convert/modules/attention_modules.h"
#include "convert/passes/passes.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"

namespace arenite::test {
namespace {

constexpr TensorType kTypes[] = {TensorType::kW8, TensorType::kQ8, TensorType::kQ4};

// Sums of at most 96 products in a few layers, on values near 1. Where rows are rounded to int8,
// the last bit of a number may decide between two steps, each a 256th of what the row spans.
double tolerance_of(TensorType type) { return type == TensorType::kW8 ? 300 * 64 * 0x1p-24 : 0.05; }

FewBitsModel with_weights(TensorType type, const std::string& name, convert::Graph graph) {
  choose_types(graph, {type});
  return {.name = name + " in " + arenite::name(type),
          .graph = convert::rewrite(std::move(graph)),
          .tolerance = tolerance_of(type)};
}

}  // namespace

convert::Program FewBitsModel::program() const { return convert::lower(graph, name); }

ModuleSpec few_bits_module() {
  return {.name = "module",
          .features = 64,
          .heads = 3,
          .head_dim = 20,
          .value_dim = 32,
          .output_features = 65};
}

std::vector<EncoderShape> few_bits_encoders() {
  const EncoderShape tagger = {.name = "tagger",
                               .embedding_dim = 64,
                               .model_dim = 64,
                               .heads = 4,
                               .ffn_dim = 96,
                               .classes = 5};
  EncoderShape sentences = tagger;
  sentences.name = "sentences";
  sentences.pooling = SelectKind::kMean;
  sentences.classes = 0;
  sentences.normalize = true;
  EncoderShape sensor = tagger;
  sensor.name = "sensor";
  sensor.vocab_size = sensor.token_types = 0;
  sensor.input_features = 5;
  sensor.norm_first = true;
  sensor.pooling = SelectKind::kMax;
  sensor.classes = 3;
  return {sentences, sensor, tagger};
}

std::vector<FewBitsModel> few_bits_modules() {
  std::vector<FewBitsModel> models;
  for (const TensorType type : kTypes) {
    const convert::AttentionModule module = make_module(few_bits_module());
    FewBitsModel& model =
        models.emplace_back(with_weights(type, "module", convert::build_graph(module)));
    model.features = module.features;
  }
  return models;
}

std::vector<FewBitsModel> few_bits_encoder_models() {
  std::vector<FewBitsModel> models;
  for (const TensorType type : kTypes) {
    for (const EncoderShape& shape : few_bits_encoders()) {
      FewBitsModel& model = models.emplace_back(
          with_weights(type, shape.name, convert::build_graph(make_encoder(shape))));
      model.vocab_size = shape.vocab_size;
      model.features = shape.input_features;
    }
  }
  return models;
}

}  // namespace arenite::test
