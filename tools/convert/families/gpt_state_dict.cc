// SPDX-License-Identifier: Apache-2.0
// Takes the tensors by the names of their family, and asks for what they do not say.
#include "convert/families/families.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "convert/families/decoder_buffers.h"
#include "convert/families/gpt_families.h"
#include "convert/families/hf_fields.h"
#include "convert/families/state_dict_answers.h"
#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/weight_transforms.h"

namespace arenite::convert {
namespace {

using Size = TrainingFacts::Size;

class GptReader {
 public:
  GptReader(ModelTensors& tensors, TrainingFacts& facts, StateDictAnswers& answers, FoundGpt found)
      : tensors_(tensors),
        facts_(facts),
        answers_(answers),
        names_(*found.family),
        prefix_(std::move(found.prefix)),
        where_(quote(tensors.source())) {}

  DecoderSpec run() {
    const uint32_t layers = read_sizes();
    read_answers();
    spec_.head_dim = even_head_dim(spec_.model_dim, spec_.heads, where_);
    spec_.kv_heads = read_kv_heads();
    check_sizes(spec_, layers, where_);
    spec_.token_embedding =
        tensors_.matrix(full(names_.token_embedding), spec_.vocab_size, spec_.model_dim);
    spec_.position_embedding =
        tensors_.matrix(full(names_.position_embedding), spec_.positions_max, spec_.model_dim);
    for (uint32_t i = 0; i < layers; ++i) read_layer(layer_name(i));
    // Norms that come last leave nothing for a final one to do, but a program may keep it.
    if (spec_.norm_first || tensors_.has(full(names_.final_norm) + "." + names_.gain)) {
      spec_.final_norm = norm(full(names_.final_norm));
    }
    read_output();
    return std::move(spec_);
  }

 private:
  std::string full(const char* name) const { return prefix_ + name; }
  std::string layer_name(uint32_t index) const {
    return fmt::format("{}{}{}.", prefix_, names_.layer, index);
  }
  std::string first_layer(const char* part) const { return layer_name(0) + part; }
  Presence presence_of(const std::string& name) const {
    return tensors_.has(name) ? Presence::kRequired : Presence::kNone;
  }

  uint32_t read_sizes() {
    spec_.architecture = names_.architecture;
    const auto embedding = tensors_.shape_of(full(names_.token_embedding));
    spec_.vocab_size = embedding.rows;
    spec_.model_dim = embedding.columns;
    spec_.positions_max = tensors_.shape_of(full(names_.position_embedding)).rows;
    spec_.ffn_dim = tensors_.shape_of(first_layer(names_.up) + ".weight").rows;
    uint32_t layers = 0;
    while (tensors_.has(layer_name(layers) + names_.mlp_norm + "." + names_.gain)) ++layers;
    norm_bias_ = presence_of(first_layer(names_.attention_norm) + "." + names_.shift);
    bias_ = names_.has_one_bias_switch ? norm_bias_ : Presence::kRequired;
    const char* const query = names_.fused != nullptr ? names_.fused : names_.query;
    query_bias_ = names_.has_one_bias_switch ? bias_ : presence_of(first_layer(query) + ".bias");
    facts_.check(Size::kLayers, layers);
    facts_.check(Size::kModelDim, spec_.model_dim);
    facts_.check(Size::kVocabulary, spec_.vocab_size);
    facts_.check(Size::kPositions, spec_.positions_max);
    return layers;
  }

  void read_answers() {
    spec_.heads = answers_.heads(spec_.model_dim);
    spec_.activation = answers_.activation();
    spec_.norm_first = answers_.norm_first();
    const std::string buffer = causal_buffer(tensors_);
    const BandChoice mask = buffer.empty()
                                ? answers_.mask_of_decoder()
                                : answers_.mask_of_buffer(buffer, BandChoice{.causal = true});
    spec_.causal = mask.causal;
    window_ = mask.window;
    spec_.score_scale = answers_.score_scale();
    epsilon_ = answers_.epsilon();
    const double scale = answers_.embedding_scale_of_decoder(spec_.model_dim);
    if (scale != 1.0) spec_.embedding_scale = scale;
    answers_.require_all(names_.published);
  }

  // Variants with fewer keys and values than queries are told by the shape.
  uint32_t read_kv_heads() const {
    if (names_.fused != nullptr) return spec_.heads;
    const std::string name = first_layer(names_.key_projection) + ".weight";
    const uint32_t width = tensors_.shape_of(name).rows;
    const uint32_t kv_heads = width / spec_.head_dim;
    if (width % spec_.head_dim != 0 || kv_heads == 0 || spec_.heads % kv_heads != 0) {
      throw InputError(
          "{}: {} has {} rows: expected key heads of {}, as the queries have, in a number that "
          "divides the {} heads",
          where_, quote(name), width, spec_.head_dim, spec_.heads);
    }
    return kv_heads;
  }

  NormSpec norm(const std::string& name) {
    const std::string gain = name + "." + names_.gain;
    return {.name = gain,
            .kind = NormKind::kLayer,
            .gain = tensors_.vector(gain, spec_.model_dim),
            .bias = tensors_.vector(name + "." + names_.shift, spec_.model_dim, norm_bias_),
            .epsilon = epsilon_};
  }

  void read_layer(const std::string& name) {
    const uint32_t width = spec_.model_dim;
    const uint32_t kv_width = spec_.kv_heads * spec_.head_dim;
    LayerSpec layer;
    layer.window = window_;
    layer.attention_norm = norm(name + names_.attention_norm);
    if (names_.fused != nullptr) {
      const LinearSpec fused = tensors_.linear(name + names_.fused, 3 * width, width, query_bias_);
      layer.query = select_rows(fused, row_range(0, width));
      layer.key = select_rows(fused, row_range(width, width));
      layer.value = select_rows(fused, row_range(2 * width, width));
    } else {
      layer.query = tensors_.linear(name + names_.query, width, width, query_bias_);
      layer.key = tensors_.linear(name + names_.key_projection, kv_width, width, query_bias_);
      layer.value = tensors_.linear(name + names_.value, kv_width, width, query_bias_);
    }
    layer.output = tensors_.linear(name + names_.attention_output, width, width, bias_);
    layer.mlp_norm = norm(name + names_.mlp_norm);
    layer.up = tensors_.linear(name + names_.up, spec_.ffn_dim, width, bias_);
    layer.down = tensors_.linear(name + names_.down, width, spec_.ffn_dim, bias_);
    spec_.layers.push_back(std::move(layer));
  }

  // nanoGPT ties the head to the embedding and stores it twice, or once.
  void read_output() {
    const std::string name = full(names_.output);
    if (!tensors_.has(name + ".weight") && names_.fused != nullptr) {
      answers_.assume(
          fmt::format("the token embedding as output matrix, since there is no {}", quote(name)));
      return;
    }
    LinearSpec output =
        tensors_.linear(name, spec_.vocab_size, spec_.model_dim, Presence::kIfStored);
    if (output.bias.empty() && output.weight.load &&
        output.weight.load() == spec_.token_embedding.load()) {
      return;
    }
    spec_.output = std::move(output);
  }

  ModelTensors& tensors_;
  TrainingFacts& facts_;
  StateDictAnswers& answers_;
  const GptFamily& names_;
  const std::string prefix_;
  const std::string where_;
  Presence bias_ = Presence::kRequired;
  Presence query_bias_ = Presence::kRequired;
  Presence norm_bias_ = Presence::kRequired;
  uint32_t window_ = 0;
  double epsilon_ = 0.0;
  DecoderSpec spec_;
};

}  // namespace

DecoderSpec read_gpt_state_dict(const Opened& model, const ModelOptions& options) {
  const TensorStore store = model.tensors.unwrapped();
  const std::string where = quote(store.source());
  ModelTensors tensors(store);
  TrainingFacts facts(model);
  StateDictAnswers answers(options, facts, where);
  DecoderSpec spec =
      GptReader(tensors, facts, answers, find_gpt_family(store.tensors(), where)).run();
  pass_over_buffers(tensors);
  tensors.finish();
  spec.account = answers.account();
  return spec;
}

}  // namespace arenite::convert
