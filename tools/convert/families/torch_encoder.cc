// SPDX-License-Identifier: Apache-2.0
// Finds the stack of layers first, then what stands around it, and asks for the rest.
#include "convert/families/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/reader_parts.h"
#include "convert/families/state_dicts.h"
#include "convert/files/error.h"
#include "convert/masks/masks.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

constexpr std::string_view kKey = "layers.0.self_attn.in_proj_weight";
constexpr const char* kPublished =
    "torch.nn.TransformerEncoderLayer has --activation relu --norm-last unless it is told another; "
    "the language model of PyTorch's tutorial has --causal --embedding-scale sqrt, too";

// What stands in front of kKey, of each stack of layers.
std::set<std::string> stacks_of(const std::vector<std::string_view>& names) {
  std::set<std::string> stacks;
  for (const std::string_view name : names) {
    if (!name.ends_with(kKey)) continue;
    const std::string_view stack = name.substr(0, name.size() - kKey.size());
    if (stack.empty() || stack.ends_with('.')) stacks.emplace(stack);
  }
  return stacks;
}

std::vector<std::string_view> names_of(const TensorStore& tensors) {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : tensors.tensors()) names.push_back(tensor.name);
  return names;
}

using Size = TrainingFacts::Size;

class TorchReader {
 public:
  TorchReader(ModelTensors& tensors, TrainingFacts& facts, StateDictAnswers& answers,
              std::string stack)
      : tensors_(tensors),
        facts_(facts),
        answers_(answers),
        where_(quote(tensors.source())),
        stack_(std::move(stack)),
        names_(find_torch_names(tensors, stack_)) {}

  EncoderSpec run() {
    read_sizes();
    read_answers();
    set_heads(spec_, spec_.heads, layers_, where_);
    read_layers();
    read_input();
    read_positions();
    read_head();
    return std::move(spec_);
  }

 private:
  std::string layer_name(size_t index) const { return fmt::format("{}layers.{}.", stack_, index); }
  uint32_t rows_of(const std::string& name) const {
    return tensors_.shape_of(name + ".weight").rows;
  }

  void read_sizes() {
    const auto up = tensors_.shape_of(layer_name(0) + "linear1.weight");
    spec_.architecture = "torch.nn.TransformerEncoder";
    spec_.model_dim = up.columns;
    spec_.ffn_dim = up.rows;
    bias_ = tensors_.has(layer_name(0) + "linear1.bias") ? Presence::kRequired : Presence::kNone;
    while (tensors_.has(layer_name(layers_) + "self_attn.in_proj_weight")) ++layers_;
    if (!names_.tokens.empty()) {
      spec_.vocab_size = rows_of(names_.tokens);
      facts_.check(Size::kVocabulary, spec_.vocab_size);
    }
    facts_.check(Size::kModelDim, spec_.model_dim);
    facts_.check(Size::kFfnDim, spec_.ffn_dim);
    facts_.check(Size::kLayers, layers_);
  }

  void read_answers() {
    spec_.heads = answers_.heads(spec_.model_dim);
    spec_.activation = answers_.activation();
    spec_.norm_first = answers_.norm_first();
    const BandChoice mask = read_mask();
    spec_.causal = mask.causal;
    spec_.window = mask.window;
    if (!names_.tokens.empty() || !names_.input.empty()) {
      spec_.embedding_scale = answers_.embedding_scale(spec_.model_dim);
      if (names_.positions.empty()) {
        answers_.assume("no positions are added, since the file has no table of them");
      }
    } else {
      answers_.refuse_embedding_scale("the layers read features as they are");
    }
    pooling_ = read_pooling();
    spec_.score_scale = answers_.score_scale();
    epsilon_ = answers_.epsilon();
    answers_.require_all(kPublished);
  }

  // Models may register their mask as a buffer: then it is what the file says.
  BandChoice read_mask() {
    for (const StoredTensor& tensor : tensors_.stored()) {
      if (!is_mask_buffer(tensor)) continue;
      tensors_.pass_over(tensor.name);
      const MaskBuffer buffer = read_mask_buffer(tensor, where_, 0, std::nullopt);
      const CompiledMask mask =
          compile_mask(buffer.dense, fmt::format("{}: {}", where_, quote(tensor.name)));
      const bool is_all = mask.lookback == kUnlimited && mask.lookahead == kUnlimited;
      if (mask.kind != MaskKind::kBand || !(is_all || mask.lookahead == 0)) {
        throw InputError("{}: mask {} is {}: expected a causal mask, a causal window, or none",
                         where_, quote(tensor.name), mask.describe());
      }
      const uint32_t window = mask.lookback == kUnlimited ? 0 : mask.lookback + 1;
      return answers_.mask_of_buffer(tensor.name, {.causal = !is_all, .window = window});
    }
    return answers_.mask();
  }

  bool is_mask_buffer(const StoredTensor& tensor) const {
    if (tensor.name.starts_with(stack_ + "layers.")) return false;
    const std::string last = tensor.name.substr(tensor.name.rfind('.') + 1);
    return last.ends_with("mask") || last == "tril";
  }

  // A head as wide as the vocabulary gives logits of each token; what another one reads is not to
  // be seen.
  std::optional<PoolingChoice> read_pooling() {
    const auto said = answers_.pooling_if_said();
    if (said) return said;
    if (!names_.pooler.empty()) return PoolingChoice::kPooler;
    if (names_.head.empty()) return std::nullopt;
    if (spec_.vocab_size != 0 && rows_of(names_.head) == spec_.vocab_size) {
      answers_.assume(
          fmt::format("{} reads each token, since it gives {} numbers, as many as there are tokens",
                      quote(names_.head), spec_.vocab_size));
      return PoolingChoice::kNone;
    }
    return answers_.ask_pooling(names_.head);
  }

  void read_layers() {
    for (uint32_t i = 0; i < layers_; ++i) read_layer(layer_name(i));
    if (tensors_.has(stack_ + "norm.weight")) {
      spec_.final_norm = tensors_.layer_norm(stack_ + "norm", spec_.model_dim, epsilon_, bias_);
    }
  }

  void read_layer(const std::string& name) {
    const uint32_t width = spec_.model_dim;
    const auto linear = [&](const char* part, uint32_t outputs, uint32_t inputs) {
      return tensors_.linear(name + part, outputs, inputs, bias_);
    };
    const LinearSpec fused{tensors_.matrix(name + "self_attn.in_proj_weight", 3 * width, width),
                           tensors_.vector(name + "self_attn.in_proj_bias", 3 * width, bias_)};
    EncoderLayerSpec layer;
    split_fused(layer, fused, width, width);
    layer.output = linear("self_attn.out_proj", width, width);
    layer.attention_norm = tensors_.layer_norm(name + "norm1", width, epsilon_, bias_);
    layer.up = linear("linear1", spec_.ffn_dim, width);
    layer.down = linear("linear2", width, spec_.ffn_dim);
    layer.mlp_norm = tensors_.layer_norm(name + "norm2", width, epsilon_, bias_);
    spec_.layers.push_back(std::move(layer));
  }

  void read_input() {
    if (!names_.tokens.empty()) {
      read_tokens();
    } else if (!names_.input.empty()) {
      spec_.input_features = tensors_.shape_of(names_.input + ".weight").columns;
      spec_.input =
          tensors_.linear(names_.input, spec_.model_dim, spec_.input_features, Presence::kRequired);
    } else {
      spec_.input_features = spec_.model_dim;  // straight into the layers
    }
    if (!names_.norm.empty()) {
      spec_.embedding_norm =
          tensors_.layer_norm(names_.norm, spec_.model_dim, epsilon_, Presence::kIfStored);
    }
  }

  void read_tokens() {
    spec_.token_embedding =
        tensors_.matrix(names_.tokens + ".weight", spec_.vocab_size, spec_.model_dim);
    if (names_.types.empty()) return;
    spec_.token_types = rows_of(names_.types);
    spec_.type_embedding =
        tensors_.matrix(names_.types + ".weight", spec_.token_types, spec_.model_dim);
  }

  void read_positions() {
    for (const StoredTensor& tensor : tensors_.stored()) {
      if (tensor.name.ends_with("position_ids")) pass_over_position_ids(tensors_, tensor.name);
    }
    if (names_.positions.empty()) return;
    spec_.positions_max = tensors_.shape_of(names_.positions).rows;
    spec_.position_embedding =
        tensors_.matrix(names_.positions, spec_.positions_max, spec_.model_dim);
    fold_single_type(spec_);
  }

  void read_head() {
    if (pooling_ == PoolingChoice::kMean) spec_.pooling = SelectKind::kMean;
    if (pooling_ == PoolingChoice::kFirst) spec_.pooling = SelectKind::kFirst;
    if (pooling_ == PoolingChoice::kPooler) {
      spec_.pooling = SelectKind::kFirst;
      add_step(names_.pooler.empty() ? "pooler" : names_.pooler, spec_.model_dim,
               Activation::kTanh);
    }
    if (names_.head.empty()) return;
    const uint32_t classes = rows_of(names_.head);
    add_step(names_.head, classes, std::nullopt);
    facts_.check(Size::kClasses, classes);
    spec_.labels =
        facts_.labels([&](ConfigFields& source) { return read_labels(source, classes); });
  }

  void add_step(const std::string& name, uint32_t outputs, std::optional<Activation> activation) {
    spec_.head.push_back(
        {tensors_.linear(name, outputs, spec_.model_dim, Presence::kIfStored), activation});
  }

  ModelTensors& tensors_;
  TrainingFacts& facts_;
  StateDictAnswers& answers_;
  const std::string where_;
  const std::string stack_;  // what stands in front of "layers.0."
  const TorchNames names_;
  uint32_t layers_ = 0;
  Presence bias_ = Presence::kRequired;  // of all layers; PyTorch has one switch for them
  double epsilon_ = 0.0;
  std::optional<PoolingChoice> pooling_;
  EncoderSpec spec_;
};

}  // namespace

bool is_torch_encoder(const TensorStore& tensors) {
  const std::vector<std::string_view> names = names_of(tensors);
  return std::ranges::any_of(stacks_of(names), [&](const std::string& stack) {
    return std::ranges::any_of(names, [&](std::string_view name) {
      return !name.starts_with(stack + "layers.0.") && !name.starts_with(stack + "norm.");
    });
  });
}

EncoderSpec read_torch_encoder(const Opened& model, const ModelOptions& options) {
  const TensorStore store = model.tensors.unwrapped();
  const std::string where = quote(store.source());
  const std::set<std::string> stacks = stacks_of(names_of(store));
  if (stacks.size() != 1) {
    throw InputError(
        "{}: {} stacks of layers with {}: expected one torch.nn.TransformerEncoder; decoders that "
        "attend to an encoder are not supported",
        where, stacks.size(), quote(kKey));
  }
  ModelTensors tensors(store);
  TrainingFacts facts(model);
  StateDictAnswers answers(options, facts, where);
  EncoderSpec spec = TorchReader(tensors, facts, answers, *stacks.begin()).run();
  tensors.finish();
  spec.account = answers.account();
  return spec;
}

}  // namespace arenite::convert
