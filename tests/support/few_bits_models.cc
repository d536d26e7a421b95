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
  ModuleSpec spec;
  spec.name = "module";
  spec.features = 64;
  spec.heads = 3;
  spec.head_dim = 20;
  spec.value_dim = 32;
  spec.output_features = 65;
  return spec;
}

std::vector<EncoderShape> few_bits_encoders() {
  EncoderShape sentences;
  sentences.name = "sentences";
  sentences.embedding_dim = sentences.model_dim = 64;
  sentences.heads = 4;
  sentences.ffn_dim = 96;
  sentences.pooling = SelectKind::kMean;
  sentences.normalize = true;
  EncoderShape sensor = sentences;
  sensor.name = "sensor";
  sensor.vocab_size = sensor.token_types = 0;
  sensor.input_features = 5;
  sensor.norm_first = true;
  sensor.pooling = SelectKind::kMax;
  sensor.normalize = false;
  sensor.classes = 3;
  EncoderShape tagger = sentences;
  tagger.name = "tagger";
  tagger.pooling = SelectKind::kAsAsked;
  tagger.normalize = false;
  tagger.classes = 5;
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
