// SPDX-License-Identifier: Apache-2.0
// A row for each program that GPT state dicts come from; its reader takes the tensors by the names
// in the row, and asks for what they do not say.
#include "convert/families/families.h"

#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/families/reader_parts.h"
#include "convert/families/state_dicts.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

// How a program names its tensors. `layer` is followed by the number of the layer and a dot; parts
// of a layer are named without ".weight".
struct GptFamily {
  const char* name;          // for people
  const char* architecture;  // in model files
  const char* published;     // what the program computes as its author published it, as options
  const char* key;           // a tensor of the first layer that no other family has

  const char* token_embedding;
  const char* position_embedding;
  const char* layer;
  const char* attention_norm;
  const char* mlp_norm;
  const char* gain;   // of a norm
  const char* shift;  // of a norm
  const char* fused;  // query, key and value in one; nullptr: three by these names
  const char *query, *key_projection, *value, *attention_output;
  const char *up, *down;
  const char* final_norm;
  const char* output;
  bool has_one_bias_switch;  // all linear layers and norms have a bias, or none has
};

struct FoundGpt {
  const GptFamily* family;
  std::string prefix;  // in front of all its names
};

constexpr GptFamily kFamilies[] = {
    {.name = "nanoGPT and minGPT",
     .architecture = "nanogpt",
     .published = "nanoGPT as published: --activation gelu --norm-first; minGPT: --activation "
                  "gelu_tanh --norm-first",
     .key = "transformer.h.0.attn.c_attn.weight",
     .token_embedding = "transformer.wte.weight",
     .position_embedding = "transformer.wpe.weight",
     .layer = "transformer.h.",
     .attention_norm = "ln_1",
     .mlp_norm = "ln_2",
     .gain = "weight",
     .shift = "bias",
     .fused = "attn.c_attn",
     .query = nullptr,
     .key_projection = nullptr,
     .value = nullptr,
     .attention_output = "attn.c_proj",
     .up = "mlp.c_fc",
     .down = "mlp.c_proj",
     .final_norm = "transformer.ln_f",
     .output = "lm_head",
     .has_one_bias_switch = true},
    {.name = "minGPT of 2020",
     .architecture = "mingpt",
     .published = "minGPT of 2020 as published: --activation gelu --norm-first",
     .key = "blocks.0.attn.query.weight",
     .token_embedding = "tok_emb.weight",
     .position_embedding = "pos_emb",
     .layer = "blocks.",
     .attention_norm = "ln1",
     .mlp_norm = "ln2",
     .gain = "weight",
     .shift = "bias",
     .fused = nullptr,
     .query = "attn.query",
     .key_projection = "attn.key",
     .value = "attn.value",
     .attention_output = "attn.proj",
     .up = "mlp.0",
     .down = "mlp.2",
     .final_norm = "ln_f",
     .output = "head",
     .has_one_bias_switch = true},
    {.name = "GPTModel of 'Build a Large Language Model (From Scratch)'",
     .architecture = "gptmodel",
     .published = "GPTModel of 'Build a Large Language Model (From Scratch)' as published: "
                  "--activation gelu_tanh --norm-first",
     .key = "trf_blocks.0.att.W_query.weight",
     .token_embedding = "tok_emb.weight",
     .position_embedding = "pos_emb.weight",
     .layer = "trf_blocks.",
     .attention_norm = "norm1",
     .mlp_norm = "norm2",
     .gain = "scale",
     .shift = "shift",
     .fused = nullptr,
     .query = "att.W_query",
     .key_projection = "att.W_key",
     .value = "att.W_value",
     .attention_output = "att.out_proj",
     .up = "ff.layers.0",
     .down = "ff.layers.2",
     .final_norm = "final_norm",
     .output = "out_head",
     .has_one_bias_switch = false},
};

// transformers keeps GPT-2's layers as [inputs, outputs].
bool is_of_transformers(const StoredTensor& tensor) {
  return ends_in(tensor.name, "h.0.attn.c_attn.weight") && tensor.shape.size() == 2 &&
         tensor.shape[1] == 3 * tensor.shape[0];
}

// The family whose key is among `tensors`, under any prefix. Throws InputError, which begins with
// `where`: for weights of transformers' GPT-2, which need a config, and, with the families that are
// known, where none fits.
FoundGpt find_gpt_family(const std::vector<StoredTensor>& tensors, const std::string& where) {
  for (const StoredTensor& tensor : tensors) {
    if (is_of_transformers(tensor)) {
      throw InputError(
          "{}: {} has shape {}, as transformers' GPT-2 keeps its layers, whose config.json says "
          "what they compute: put that config.json beside the file",
          where, quote(tensor.name), shape_text(tensor.shape));
    }
    for (const GptFamily& family : kFamilies) {
      if (!ends_in(tensor.name, family.key)) continue;
      const size_t prefix_size = tensor.name.size() - std::string_view(family.key).size();
      return {&family, tensor.name.substr(0, prefix_size)};
    }
  }
  throw InputError(
      "{}: no GPT is known by these names. State dicts of decoders that are known:\n{}Weights of "
      "transformers need their config.json beside them. The file has:\n{}",
      where, known_gpt_families(), list_tensors(tensors));
}

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
      split_fused(layer, fused, width, width);
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

bool is_gpt_state_dict(const TensorStore& tensors) {
  return std::ranges::any_of(tensors.tensors(), [](const StoredTensor& tensor) {
    return tensor.name.ends_with("wte.weight") || tensor.name.ends_with("tok_emb.weight");
  });
}

std::string known_gpt_families() {
  std::string text;
  for (const GptFamily& family : kFamilies) {
    text += fmt::format("  {}: {} {} {} ... {}\n", family.name, family.token_embedding,
                        family.position_embedding, family.key, family.output);
  }
  return text;
}

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
