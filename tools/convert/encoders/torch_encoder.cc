// SPDX-License-Identifier: Apache-2.0
// Finds the stack of layers first, then what stands around it.
#include "convert/encoders/torch_encoder.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/encoders/encoder_parts.h"
#include "convert/encoders/torch_facts.h"
#include "convert/error.h"
#include "convert/models/model_tensors.h"
#include "convert/models/weight_transforms.h"

namespace arenite::convert {
namespace {

constexpr double kEpsilon = 1e-5;  // PyTorch's default
constexpr std::string_view kKey = "layers.0.self_attn.in_proj_weight";

// Common names of a model's parts, from the end of what all its tensors' names begin with.
constexpr const char* kTokenNames[] = {"embedding", "embeddings",       "token_embedding",
                                       "tok_emb",   "token_embeddings", "tok_embedding",
                                       "embed",     "embed_tokens",     "token_emb",
                                       "emb",       "word_embedding",   "word_embeddings"};
constexpr const char* kTypeNames[] = {"token_type_embedding", "token_type_embeddings",
                                      "type_embedding", "segment_embedding", "segment_embeddings"};
constexpr const char* kInputNames[] = {"input",       "input_proj",   "input_projection",
                                       "input_layer", "input_linear", "in_proj",
                                       "proj_in",     "embedding",    "embed"};
constexpr const char* kEmbeddingNormNames[] = {"embedding_norm", "embed_norm", "emb_norm",
                                               "embeddings_norm", "input_norm"};
constexpr const char* kPoolerNames[] = {"pooler", "pooler.dense"};
constexpr const char* kClassifierNames[] = {"classifier", "head", "fc", "out"};

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

std::vector<std::string_view> names_of(const Checkpoint& checkpoint) {
  std::vector<std::string_view> names;
  for (const CheckpointTensor& tensor : checkpoint.tensors()) names.push_back(tensor.name);
  return names;
}

// The whole components that all names and `stack` begin with: "model." of "model.encoder.".
std::string common_prefix(const ModelTensors& tensors, std::string stack) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const auto end = std::ranges::mismatch(stack, tensor.name).in1;
    stack.erase(end, stack.end());
  }
  return stack.substr(0, stack.rfind('.') + 1);
}

class TorchReader {
 public:
  TorchReader(ModelTensors& tensors, TorchFacts& facts, const EncoderOptions& options,
              std::string stack)
      : tensors_(tensors),
        facts_(facts),
        options_(options),
        where_(quote(tensors.source())),
        stack_(std::move(stack)),
        root_(common_prefix(tensors, stack_)) {}

  EncoderSpec run() {
    read_sizes();
    read_layers();
    read_input();
    read_positions();
    read_head();
    return std::move(spec_);
  }

 private:
  std::string layer_name(size_t index) const { return fmt::format("{}layers.{}.", stack_, index); }

  // What is said in one place, or in several that agree.
  template <typename Value>
  std::optional<Value> agreed(std::optional<Value> asked, std::optional<Value> found,
                              const char* what) const {
    if (asked && found && *asked != *found) {
      throw InputError(
          "{}: another {} was asked for than the model's config says: leave the "
          "option away",
          where_, what);
    }
    return asked ? asked : found;
  }

  void read_sizes() {
    const auto up = tensors_.shape_of(layer_name(0) + "linear1.weight");
    spec_.architecture = "torch.nn.TransformerEncoder";
    spec_.model_dim = up.columns;
    spec_.ffn_dim = up.rows;
    bias_ = tensors_.has(layer_name(0) + "linear1.bias") ? Presence::kRequired : Presence::kNone;
    while (tensors_.has(layer_name(layers_) + "self_attn.in_proj_weight")) ++layers_;
    const auto heads = agreed(options_.heads == 0 ? std::nullopt : std::optional(options_.heads),
                              facts_.heads(), "number of heads");
    if (!heads) {
      throw InputError(
          "{}: a state dict does not say how many heads the {} features are divided into: give the "
          "number of heads, with --heads or as 'num_heads' in a config.json beside the file",
          where_, spec_.model_dim);
    }
    set_heads(spec_, *heads, layers_, where_);
    spec_.activation =
        agreed(options_.activation, facts_.activation(), "activation").value_or(Activation::kRelu);
    spec_.norm_first =
        agreed(options_.norm_first, facts_.norm_first(), "place of norms").value_or(false);
    epsilon_ = facts_.norm_epsilon().value_or(kEpsilon);
    facts_.check(TorchFacts::Size::kModelDim, spec_.model_dim);
    facts_.check(TorchFacts::Size::kFfnDim, spec_.ffn_dim);
    facts_.check(TorchFacts::Size::kLayers, layers_);
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
    layer.query = select_rows(fused, row_range(0, width));
    layer.key = select_rows(fused, row_range(width, width));
    layer.value = select_rows(fused, row_range(2 * width, width));
    layer.output = linear("self_attn.out_proj", width, width);
    layer.attention_norm = tensors_.layer_norm(name + "norm1", width, epsilon_, bias_);
    layer.up = linear("linear1", spec_.ffn_dim, width);
    layer.down = linear("linear2", width, spec_.ffn_dim);
    layer.mlp_norm = tensors_.layer_norm(name + "norm2", width, epsilon_, bias_);
    spec_.layers.push_back(std::move(layer));
  }

  // The first of `names` with a weight outside the stack for which `fits`; empty: none.
  template <size_t kNames, typename Fits>
  std::string find(const char* const (&names)[kNames], const Fits& fits) const {
    for (const char* name : names) {
      const std::string full = root_ + name;
      if (tensors_.has(full + ".weight") && fits(full)) return full;
    }
    return {};
  }

  // nn.Embedding has no bias, nn.Linear rarely lacks one.
  void read_input() {
    const auto has_bias = [&](const std::string& name) { return tensors_.has(name + ".bias"); };
    const std::string tokens =
        find(kTokenNames, [&](const std::string& name) { return !has_bias(name); });
    const std::string input = find(kInputNames, has_bias);
    if (!tokens.empty() && !input.empty()) {
      throw InputError("{}: both {} and {} are there: expected tokens or features", where_,
                       quote(tokens), quote(input));
    }
    if (!tokens.empty()) {
      read_tokens(tokens);
    } else if (!input.empty()) {
      spec_.input_features = tensors_.shape_of(input + ".weight").columns;
      spec_.input =
          tensors_.linear(input, spec_.model_dim, spec_.input_features, Presence::kRequired);
    } else {
      spec_.input_features = spec_.model_dim;  // straight into the layers
    }
    const std::string norm = find(kEmbeddingNormNames, [](const std::string&) { return true; });
    if (!norm.empty()) {
      spec_.embedding_norm =
          tensors_.layer_norm(norm, spec_.model_dim, epsilon_, Presence::kIfStored);
    }
  }

  void read_tokens(const std::string& name) {
    spec_.vocab_size = tensors_.shape_of(name + ".weight").rows;
    facts_.check(TorchFacts::Size::kVocabulary, spec_.vocab_size);
    spec_.token_embedding = tensors_.matrix(name + ".weight", spec_.vocab_size, spec_.model_dim);
    const std::string types = find(kTypeNames, [](const std::string&) { return true; });
    if (types.empty()) return;
    spec_.token_types = tensors_.shape_of(types + ".weight").rows;
    spec_.type_embedding = tensors_.matrix(types + ".weight", spec_.token_types, spec_.model_dim);
  }

  bool is_position_table(const StoredTensor& tensor) const {
    if (!tensor.name.starts_with(root_) || !tensor.is_real) return false;
    std::string_view name = std::string_view(tensor.name).substr(root_.size());
    if (name.ends_with(".weight")) name.remove_suffix(7);
    return name.starts_with("position") || name.starts_with("pos_") || name == "pe" ||
           name.ends_with(".pe");
  }

  void read_positions() {
    for (const StoredTensor& tensor : tensors_.stored()) {
      // A second one stays behind, to be refused as a tensor without a place.
      if (spec_.position_embedding || !is_position_table(tensor)) continue;
      spec_.positions_max = tensors_.shape_of(tensor.name).rows;
      spec_.position_embedding = tensors_.matrix(tensor.name, spec_.positions_max, spec_.model_dim);
    }
    pass_over_position_ids(tensors_, root_ + "position_ids");
    if (spec_.position_embedding) fold_single_type(spec_);
  }

  void read_head() {
    const auto any = [](const std::string&) { return true; };
    const std::string pooler = find(kPoolerNames, any);
    const std::string classifier = find(kClassifierNames, any);
    auto pooling = agreed(options_.pooling, facts_.pooling(), "pooling");
    if (!pooling && !pooler.empty()) pooling = PoolingChoice::kPooler;
    if (!pooling && !classifier.empty()) {
      throw InputError(
          "{}: a state dict does not say what {} reads: give --pooling mean, first or none, or "
          "'pooling' in a config.json beside the file",
          where_, quote(classifier));
    }
    if (pooling == PoolingChoice::kMean) spec_.pooling = Pooling::kMean;
    if (pooling == PoolingChoice::kFirst) spec_.pooling = Pooling::kFirst;
    if (pooling == PoolingChoice::kPooler) {
      spec_.pooling = Pooling::kFirst;
      add_step(pooler.empty() ? root_ + "pooler" : pooler, spec_.model_dim, Activation::kTanh);
    }
    if (classifier.empty()) return;
    const uint32_t classes = tensors_.shape_of(classifier + ".weight").rows;
    add_step(classifier, classes, std::nullopt);
    facts_.check(TorchFacts::Size::kClasses, classes);
    spec_.labels = facts_.labels(classes);
  }

  void add_step(const std::string& name, uint32_t outputs, std::optional<Activation> activation) {
    spec_.head.push_back(
        {tensors_.linear(name, outputs, spec_.model_dim, Presence::kIfStored), activation});
  }

  ModelTensors& tensors_;
  TorchFacts& facts_;
  const EncoderOptions& options_;
  const std::string where_;
  const std::string stack_;  // what stands in front of "layers.0."
  const std::string root_;   // what stands in front of all names
  uint32_t layers_ = 0;
  Presence bias_ = Presence::kRequired;  // of all layers; PyTorch has one switch for them
  double epsilon_ = kEpsilon;
  EncoderSpec spec_;
};

}  // namespace

bool holds_torch_encoder(const Checkpoint& checkpoint) {
  const std::vector<std::string_view> names = names_of(checkpoint);
  return std::ranges::any_of(stacks_of(names), [&](const std::string& stack) {
    return std::ranges::any_of(names, [&](std::string_view name) {
      return !name.starts_with(stack + "layers.0.") && !name.starts_with(stack + "norm.");
    });
  });
}

EncoderSpec read_torch_encoder(const std::shared_ptr<const Checkpoint>& checkpoint,
                               const std::filesystem::path& config, const EncoderOptions& options) {
  const std::string_view wrapper = wrapper_of(*checkpoint);
  std::vector<std::string_view> names = names_of(*checkpoint);
  for (std::string_view& name : names) name.remove_prefix(wrapper.size());
  const std::set<std::string> stacks = stacks_of(names);
  if (stacks.size() != 1) {
    throw InputError(
        "{}: {} stacks of layers with {}: expected one torch.nn.TransformerEncoder; decoders that "
        "attend to an encoder are not supported",
        quote(checkpoint->file_name()), stacks.size(), quote(kKey));
  }
  TensorStore store(checkpoint->file_name());
  store.add(checkpoint, wrapper);
  ModelTensors tensors(store);
  TorchFacts facts(*checkpoint, config);
  EncoderSpec spec = TorchReader(tensors, facts, options, *stacks.begin()).run();
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
