// SPDX-License-Identifier: Apache-2.0
// Tells the GPT families apart by their tensor names.
#include "convert/decoders/gpt_state_dict.h"

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "convert/decoders/decoder_buffers.h"
#include "convert/decoders/hf_fields.h"
#include "convert/error.h"
#include "convert/models/hf_common.h"
#include "convert/models/model_tensors.h"
#include "convert/models/weight_transforms.h"

namespace arenite::convert {
namespace {

constexpr double kEpsilon = 1e-5;  // PyTorch's default, which these programs keep

// How a family names its tensors.
struct Names {
  const char* token_embedding;
  const char* position_embedding;
  const char* layer;  // with the number of the layer to come
  const char* attention_norm;
  const char* mlp_norm;
  const char* fused;  // query, key and value in one; nullptr: three by these names
  const char *query, *key, *value, *attention_output;
  const char *up, *down;
  const char* final_norm;
  const char* output;
};

constexpr Names kLater{"transformer.wte.weight",
                       "transformer.wpe.weight",
                       "transformer.h.",
                       "ln_1",
                       "ln_2",
                       "attn.c_attn",
                       nullptr,
                       nullptr,
                       nullptr,
                       "attn.c_proj",
                       "mlp.c_fc",
                       "mlp.c_proj",
                       "transformer.ln_f",
                       "lm_head"};
constexpr Names kMinGpt2020{"tok_emb.weight", "pos_emb",    "blocks.",  "ln1",        "ln2",
                            nullptr,          "attn.query", "attn.key", "attn.value", "attn.proj",
                            "mlp.0",          "mlp.2",      "ln_f",     "head"};

class GptReader {
 public:
  GptReader(const Checkpoint& checkpoint, ModelTensors& tensors)
      : checkpoint_(checkpoint),
        tensors_(tensors),
        names_(tensors.has(kMinGpt2020.token_embedding) ? kMinGpt2020 : kLater) {}

  DecoderSpec run(uint32_t heads, std::optional<Activation> activation) {
    const uint32_t layers = read_sizes(heads);
    spec_.token_embedding =
        tensors_.matrix(names_.token_embedding, spec_.vocab_size, spec_.model_dim);
    spec_.position_embedding =
        tensors_.matrix(names_.position_embedding, spec_.positions_max, spec_.model_dim);
    for (uint32_t i = 0; i < layers; ++i) read_layer(fmt::format("{}{}.", names_.layer, i));
    spec_.final_norm = tensors_.layer_norm(names_.final_norm, spec_.model_dim, kEpsilon, bias_);
    read_output();
    const bool is_later_min_gpt = spec_.output && names_.fused != nullptr;
    spec_.architecture = spec_.output ? "mingpt" : "nanogpt";
    spec_.activation =
        activation.value_or(is_later_min_gpt ? Activation::kGeluTanh : Activation::kGeluErf);
    return std::move(spec_);
  }

 private:
  std::string first_layer(const char* part) const {
    return fmt::format("{}0.{}", names_.layer, part);
  }

  uint32_t read_sizes(uint32_t heads) {
    const auto embedding = tensors_.shape_of(names_.token_embedding);
    spec_.vocab_size = embedding.rows;
    spec_.model_dim = embedding.columns;
    spec_.positions_max = tensors_.shape_of(names_.position_embedding).rows;
    spec_.ffn_dim = tensors_.shape_of(first_layer(names_.up) + ".weight").rows;
    uint32_t layers = 0;
    while (tensors_.has(fmt::format("{}{}.{}.weight", names_.layer, layers, names_.mlp_norm))) {
      ++layers;
    }
    // nanoGPT can be trained without any bias.
    bias_ = tensors_.has(first_layer(names_.attention_norm) + ".bias") ? Presence::kRequired
                                                                       : Presence::kNone;
    check_argument("n_layer", layers);
    check_argument("n_embd", spec_.model_dim);
    check_argument("vocab_size", spec_.vocab_size);
    check_argument("block_size", spec_.positions_max);
    const uint32_t stored_heads = argument("n_head");
    if (heads == 0 && stored_heads == 0) {
      throw InputError(
          "{}: a state dict does not say how many heads the {} features are divided into: give the "
          "number of heads",
          quote(tensors_.source()), spec_.model_dim);
    }
    if (heads != 0) check_argument("n_head", heads);
    spec_.heads = spec_.kv_heads = heads != 0 ? heads : stored_heads;
    spec_.head_dim = even_head_dim(spec_.model_dim, spec_.heads, quote(tensors_.source()));
    check_sizes(spec_, layers, quote(tensors_.source()));
    return layers;
  }

  // The number that a training checkpoint keeps under `name`; 0: none.
  uint32_t argument(const char* name) const {
    const auto found = checkpoint_.metadata().find(fmt::format("model_args.{}", name));
    if (found == checkpoint_.metadata().end()) return 0;
    uint32_t value = 0;
    const char* end = found->second.data() + found->second.size();
    const auto parsed = std::from_chars(found->second.data(), end, value);
    if (parsed.ec != std::errc() || parsed.ptr != end || value == 0 || value > kSideMax) {
      throw InputError("{}: model_args.{} is {}: expected a number from 1 to {}",
                       quote(tensors_.source()), name, quote(found->second), kSideMax);
    }
    return value;
  }

  void check_argument(const char* name, uint32_t expected) const {
    const uint32_t found = argument(name);
    if (found != 0 && found != expected) {
      throw InputError("{}: model_args.{} is {}: expected {}, as the tensors or the options say",
                       quote(tensors_.source()), name, found, expected);
    }
  }

  LinearSpec linear(const std::string& name, uint32_t outputs, uint32_t inputs) {
    return tensors_.linear(name, outputs, inputs, bias_);
  }

  void read_layer(const std::string& name) {
    const uint32_t width = spec_.model_dim;
    LayerSpec layer;
    layer.attention_norm =
        tensors_.layer_norm(name + names_.attention_norm, width, kEpsilon, bias_);
    if (names_.fused != nullptr) {
      const LinearSpec fused = linear(name + names_.fused, 3 * width, width);
      layer.query = select_rows(fused, row_range(0, width));
      layer.key = select_rows(fused, row_range(width, width));
      layer.value = select_rows(fused, row_range(2 * width, width));
    } else {
      layer.query = linear(name + names_.query, width, width);
      layer.key = linear(name + names_.key, width, width);
      layer.value = linear(name + names_.value, width, width);
    }
    layer.output = linear(name + names_.attention_output, width, width);
    layer.mlp_norm = tensors_.layer_norm(name + names_.mlp_norm, width, kEpsilon, bias_);
    layer.up = linear(name + names_.up, spec_.ffn_dim, width);
    layer.down = linear(name + names_.down, width, spec_.ffn_dim);
    spec_.layers.push_back(std::move(layer));
  }

  // nanoGPT ties the head to the embedding and stores it twice, or once.
  void read_output() {
    const std::string weight = std::string(names_.output) + ".weight";
    if (!tensors_.has(weight) && names_.fused != nullptr) return;
    LinearSpec output =
        tensors_.linear(names_.output, spec_.vocab_size, spec_.model_dim, Presence::kNone);
    if (output.weight.load && output.weight.load() == spec_.token_embedding.load()) return;
    spec_.output = std::move(output);
  }

  const Checkpoint& checkpoint_;
  ModelTensors& tensors_;
  const Names& names_;
  Presence bias_ = Presence::kRequired;
  DecoderSpec spec_;
};

}  // namespace

DecoderSpec read_gpt_state_dict(const std::shared_ptr<const Checkpoint>& checkpoint, uint32_t heads,
                                std::optional<Activation> activation) {
  TensorStore store(checkpoint->file_name());
  store.add(checkpoint, wrapper_of(*checkpoint));
  ModelTensors tensors(store);
  if (!tensors.has(kLater.token_embedding) && !tensors.has(kMinGpt2020.token_embedding)) {
    throw InputError(
        "{}: neither '{}' nor '{}' is there: expected a state dict of nanoGPT or minGPT; weights "
        "of transformers need their config.json beside them; the file has:\n{}",
        quote(tensors.source()), kLater.token_embedding, kMinGpt2020.token_embedding,
        list_tensors(store.tensors()));
  }
  DecoderSpec spec = GptReader(*checkpoint, tensors).run(heads, activation);
  pass_over_buffers(tensors);
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
