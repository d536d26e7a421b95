// SPDX-License-Identifier: Apache-2.0
// Reads the state dict of any published program, by its row of the table. Sizes follow from shapes.
// Other facts come from options, else from what the training program saved, else they are required
// or assumed.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/families/families.h"
#include "convert/families/hf_models.h"
#include "convert/families/state_dict_answers.h"
#include "convert/families/state_dicts.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

class StateDictReader {
 public:
  StateDictReader(const TensorStore& store, const FoundProgram& found, const ModelOptions& options,
                  StateDictAnswers& answers)
      : store_(store),
        tensors_(store),
        options_(options),
        answers_(answers),
        where_(quote(store.source())),
        found_(found),
        program_(*found.program),
        names_(program_.layer) {}

  TransformerSpec run() {
    find_names();
    if (program_.is_decoder) spec_ = decoder_spec();
    read_sizes();
    answer_all();
    read_model();
    pass_over_buffers();
    finish();
    spec_.account = answers_.account();
    return std::move(spec_);
  }

 private:
  // ---- names and sizes ----

  void find_names() {
    tokens_ = find(program_.tokens);
    if (has_bias(tokens_)) tokens_.clear();  // that would be a linear layer
    types_ = find(program_.types);
    input_ = find(program_.input);
    positions_ = find(program_.positions);
    pooler_ = find(program_.pooler);
    head_ = find(program_.head);
    if (has_tokens() && !input_.empty()) {
      throw InputError("{}: found both {} and {}: expected tokens or features", where_,
                       quote(tokens_), quote(input_));
    }
    if (program_.is_layers_alone) return;
    const auto require = [](std::string& part, const char* path) {
      if (part.empty() && path != nullptr) part = path;  // to be named as missing
    };
    require(tokens_, program_.tokens);
    require(positions_, program_.positions);
    if (program_.is_decoder && !program_.ties_head) require(head_, program_.head);
  }

  std::string find(const char* paths) const { return found_.outside(store_, paths); }
  std::string weight_of(const std::string& part) const { return tensors_.part(part).weight; }
  bool has_bias(const std::string& part) const {
    const std::string bias = tensors_.part(part).bias;
    return !part.empty() && !bias.empty() && tensors_.has(bias);
  }
  Sides shape_of(const std::string& part) const { return tensors_.shape_of(weight_of(part)); }
  bool has_tokens() const { return !tokens_.empty(); }
  std::string in_first(const char* part, uint32_t head = 0) const {
    return fmt::format(fmt::runtime("{}0." + std::string(part)), found_.list, head);
  }

  // Counts the heads whose projections are separate modules.
  uint32_t count_heads() const {
    uint32_t heads = 0;
    while (tensors_.has_part(in_first(names_.query, heads))) ++heads;
    return heads;
  }

  // Reads the model width from the input width of a projection.
  uint32_t read_width() const {
    const std::string part = in_first(names_.fused == nullptr ? names_.query : names_.fused);
    const Sides shape = shape_of(part);
    if (names_.fused == nullptr || shape.columns != uint64_t{3} * shape.rows) return shape.columns;
    throw InputError(
        "{}: {} has shape [{}, {}], as transformers' GPT-2 keeps its layers, whose "
        "config.json says what they compute: put that config.json beside the file",
        where_, quote(weight_of(part)), shape.rows, shape.columns);
  }

  void read_sizes() {
    spec_.architecture = program_.architecture;
    spec_.model_dim = read_width();
    layers_ = found_.count_layers(store_);
    if (layers_ > kLayersMax) {
      throw InputError("{}: {} layers: at most {} are accepted", where_, layers_, kLayersMax);
    }
    spec_.ffn_dim = shape_of(in_first(names_.up)).rows;
    if (has_tokens()) {
      spec_.vocab_size = shape_of(tokens_).rows;
      answers_.check_size({"vocab_size"}, spec_.vocab_size);
    }
    if (!positions_.empty()) {
      spec_.positions_max = shape_of(positions_).rows;
      if (program_.is_decoder) {
        answers_.check_size({"block_size", "context_length"}, spec_.positions_max);
      }
    }
    answers_.check_size({"d_model", "model_dim", "hidden_size", "n_embd", "emb_dim", "dim"},
                        spec_.model_dim);
    answers_.check_size({"d_ff", "dim_feedforward", "ffn_dim"}, spec_.ffn_dim);
    answers_.check_size({"n_layers", "n_layer", "num_layers", "num_hidden_layers"}, layers_);
  }

  // ---- facts that tensors do not determine ----

  void answer_all() {
    spec_.heads = program_.has_heads_of_their_own() ? answers_.heads_of_modules(count_heads())
                                                    : answers_.heads(spec_.model_dim);
    spec_.activation = answers_.activation();
    spec_.norm_first = answers_.norm_first();
    if (program_.has_sample_norm) {
      answers_.assume("norms of (x - mean) / (deviation + epsilon), as a_2 and b_2 are called");
    }
    const std::optional<BandChoice> buffer = read_mask_buffers();
    mask_ = buffer ? *buffer : answers_.mask(program_.is_decoder);
    spec_.causal = mask_.causal;
    if (!program_.is_decoder) answer_scale();
    answer_positions();
    if (!program_.is_decoder) pooling_ = read_pooling();
    spec_.score_scale = answers_.score_scale();
    settings_.has_sample_norm = program_.has_sample_norm;
    settings_.epsilon = answers_.epsilon(program_.has_sample_norm ? 1e-6 : 1e-5);
    if (program_.is_decoder) answer_scale();
    answers_.require_all(program_.published);
  }

  // Reads masks that models register as buffers, in each layer or head. They are used if all agree.
  std::optional<BandChoice> read_mask_buffers() {
    std::optional<BandChoice> found;
    for (const StoredTensor& tensor : tensors_.stored()) {
      if (!is_mask_buffer(tensor)) continue;
      tensors_.pass_over(tensor.name);
      const BandChoice band = read_band_buffer(tensor, where_);
      if (!found) {
        found = answers_.mask_of_buffer(tensor.name, band);
      } else if (band != *found) {
        throw InputError("{}: mask {} is {}: expected that of the other layers", where_,
                         quote(tensor.name), describe(band));
      }
    }
    return found;
  }

  void answer_scale() {
    if (program_.is_layers_alone && !has_tokens() && input_.empty()) {
      return answers_.refuse(options_.embedding_scale.has_value(), "--embedding-scale",
                             "the layers read features unscaled");
    }
    spec_.embedding_scale = answers_.embedding_scale(spec_.model_dim, program_.is_layers_alone);
  }

  void answer_positions() {
    if (program_.rope == RopePairs::kNone) {
      answers_.refuse(options_.rope_theta.has_value(), "--rope-theta",
                      "the model has no rotary positions");
      if (positions_.empty() && (has_tokens() || !input_.empty())) {
        answers_.assume("no positions are added, since the file has no table of them");
      }
      return;
    }
    spec_.positions_max = answers_.positions();
    if (find_frequencies() == nullptr) rope_theta_ = answers_.rope_theta();
  }

  // A head as wide as the vocabulary computes the logits of each token; the input of another head
  // is unknown.
  std::optional<PoolingChoice> read_pooling() {
    const auto said = answers_.pooling_if_said();
    if (said) return said;
    if (!pooler_.empty()) return PoolingChoice::kPooler;
    if (head_.empty()) return std::nullopt;
    if (has_tokens() && shape_of(head_).rows == spec_.vocab_size) {
      answers_.assume(fmt::format(
          "{} reads each token, since it outputs {} values, as many as the vocabulary has tokens",
          quote(head_), spec_.vocab_size));
      return PoolingChoice::kNone;
    }
    return answers_.ask_pooling(head_);
  }

  // Returns a buffer of radians per position, or nullptr.
  const StoredTensor* find_frequencies() const {
    for (const StoredTensor& tensor : store_.tensors()) {
      if (tensor.name.ends_with("inv_freq") || tensor.name.ends_with("rope.freqs")) return &tensor;
    }
    return nullptr;
  }

  // ---- tensors ----

  LinearSpec linear(const std::string& part, uint32_t outputs, uint32_t inputs) {
    return tensors_.linear(part, outputs, inputs, Presence::kIfStored);
  }
  NormSpec norm(const std::string& part) {
    return read_norm(tensors_, names_, settings_, part, spec_.model_dim);
  }

  // Sets the sizes of heads from tensor shapes, and refuses sizes that do not fit.
  void set_heads() {
    const uint32_t query_rows = shape_of(in_first(names_.output)).columns;
    spec_.head_dim = even_head_dim(query_rows, spec_.heads, where_);
    spec_.kv_heads = read_kv_heads(query_rows, spec_.heads, spec_.head_dim);
    answers_.check_size({"n_kv_heads", "n_kv_head", "num_kv_heads", "num_key_value_heads"},
                        spec_.kv_heads);
    if (program_.rope != RopePairs::kNone) spec_.rope = read_rotation(spec_.head_dim);
  }

  // Variants with fewer keys and values than queries are detected by the shape.
  uint32_t read_kv_heads(uint32_t query_rows, uint32_t heads, uint32_t head_dim) const {
    if (program_.has_heads_of_their_own()) return heads;
    const bool is_fused = names_.fused != nullptr;
    const std::string part = in_first(is_fused ? names_.fused : names_.key);
    uint32_t rows = shape_of(part).rows;
    if (is_fused) rows = rows > query_rows ? (rows - query_rows) / 2 : 0;
    const uint32_t kv_heads = rows / head_dim;
    if (rows % head_dim == 0 && kv_heads != 0 && heads % kv_heads == 0) return kv_heads;
    throw InputError(
        "{}: {} has {} rows: expected key heads of {}, as for queries, whose number divides the {} "
        "heads",
        where_, quote(weight_of(part)), shape_of(part).rows, head_dim, heads);
  }

  RopeSpec read_rotation(uint32_t head_dim) {
    if (head_dim % 2 != 0) {
      throw InputError("{}: a head has {} elements: expected an even number, for rotations", where_,
                       head_dim);
    }
    RopeSpec rope = plain_rope(head_dim, rope_theta_, where_);
    rope.turns_neighbours = program_.rope == RopePairs::kNeighbours;
    if (const StoredTensor* stored = find_frequencies()) {
      rope.inverse_frequencies = tensors_.vector(stored->name, head_dim / 2);
    }
    answers_.scale_rope(rope, rope_theta_, spec_.positions_max);
    return rope;
  }

  void read_model() {
    set_heads();
    check_sizes(spec_, layers_, where_);
    read_input();
    read_layers(tensors_, spec_, names_, settings_, found_.list, layers_);
    for (LayerSpec& layer : spec_.layers) layer.window = mask_.window;
    if (const std::string final_norm = find(program_.final_norm); !final_norm.empty()) {
      spec_.final_norm = norm(final_norm);
    } else if (spec_.norm_first && !program_.is_layers_alone) {
      answers_.assume("no norm after the last layer, since the file has none");
    }
    if (!program_.is_decoder) return read_head();
    if (head_.empty()) {
      answers_.assume("the token embedding as output matrix, since there is no 'lm_head'");
      return;
    }
    LinearSpec output = linear(head_, spec_.vocab_size, spec_.model_dim);
    const bool is_tied = output.bias.empty() && output.weight.load && spec_.token_embedding->load &&
                         output.weight.load() == spec_.token_embedding->load();
    if (!is_tied) spec_.output = std::move(output);
  }

  void read_input() {
    if (has_tokens()) {
      spec_.token_embedding =
          tensors_.matrix(weight_of(tokens_), spec_.vocab_size, spec_.model_dim);
      if (!types_.empty()) {
        spec_.token_types = shape_of(types_).rows;
        spec_.type_embedding =
            tensors_.matrix(weight_of(types_), spec_.token_types, spec_.model_dim);
      }
    } else if (!input_.empty()) {
      spec_.input_features = shape_of(input_).columns;
      spec_.input = linear(input_, spec_.model_dim, spec_.input_features);
    } else {
      spec_.input_features = spec_.model_dim;  // straight into the layers
    }
    if (!positions_.empty()) {
      spec_.position_embedding =
          tensors_.matrix(weight_of(positions_), spec_.positions_max, spec_.model_dim);
      fold_single_type(spec_);
    }
    const std::string embedding_norm = find(program_.embedding_norm);
    if (!embedding_norm.empty()) spec_.embedding_norm = norm(embedding_norm);
  }

  void read_head() {
    if (pooling_ == PoolingChoice::kMean) spec_.pooling = SelectKind::kMean;
    if (pooling_ == PoolingChoice::kFirst) spec_.pooling = SelectKind::kFirst;
    if (pooling_ == PoolingChoice::kPooler) {
      spec_.pooling = SelectKind::kFirst;
      const Presence bias = pooler_.empty() ? Presence::kRequired : Presence::kIfStored;
      spec_.head.push_back({tensors_.linear(pooler_.empty() ? "pooler" : pooler_, spec_.model_dim,
                                            spec_.model_dim, bias),
                            Activation::kTanh});
    }
    if (head_.empty()) return;
    const uint32_t classes = shape_of(head_).rows;
    spec_.head.push_back({linear(head_, classes, spec_.model_dim), std::nullopt});
    answers_.check_size({"num_labels", "num_classes", "n_classes"}, classes);
    spec_.labels =
        answers_.labels([&](ConfigFields& source) { return read_labels(source, classes); });
  }

  // Skips buffers that carry no further facts.
  void pass_over_buffers() {
    const StoredTensor* const frequencies =
        program_.rope == RopePairs::kNone ? nullptr : find_frequencies();
    for (const StoredTensor& tensor : tensors_.stored()) {
      if (tensor.name.ends_with("position_ids")) pass_over_position_ids(tensors_, tensor.name);
      if (tensor.name.ends_with("masked_bias")) tensors_.pass_over(tensor.name);
      if (frequencies == nullptr || !tensor.name.ends_with("inv_freq")) continue;
      if (tensor.load() == frequencies->load()) tensors_.pass_over(tensor.name);
    }
  }

  // Throws InputError if tensors are missing or left over.
  void finish() {
    try {
      tensors_.finish();
    } catch (const InputError& error) {
      throw InputError("{}\nSome tensors do not belong to {}. {}", error.what(), program_.name,
                       kExportAdvice);
    }
  }

  const TensorStore& store_;
  ModelTensors tensors_;
  const ModelOptions& options_;
  StateDictAnswers& answers_;
  const std::string where_;
  const FoundProgram& found_;
  const PublishedProgram& program_;
  const LayerNames& names_;

  TransformerSpec spec_;
  uint32_t layers_ = 0;
  std::string tokens_, types_, input_, positions_, pooler_, head_;  // may be empty
  BandChoice mask_;
  LayerSettings settings_ = {.qkv_bias = Presence::kIfStored,
                             .output_bias = Presence::kIfStored,
                             .mlp_bias = Presence::kIfStored,
                             .norm_bias = Presence::kIfStored,
                             .windows = {}};
  double rope_theta_ = 0.0;
  std::optional<PoolingChoice> pooling_;
};

}  // namespace

bool is_state_dict(const TensorStore& tensors) {
  const TensorStore store = tensors.unwrapped();
  const std::vector<FoundProgram> found = find_programs(store);
  if (found.empty()) return false;
  // A single layer alone is a module.
  return found.size() > 1 || std::ranges::any_of(store.tensors(), [&](const StoredTensor& tensor) {
           return !tensor.name.starts_with(found[0].list + "0.");
         });
}

TransformerSpec read_state_dict(const Opened& model, const ModelOptions& options) {
  const TensorStore store = model.tensors.unwrapped();
  const std::string where = quote(store.source());
  const std::vector<FoundProgram> found = find_programs(store);
  if (found.size() != 1) {
    throw InputError(
        "{}: {} stacks of layers with attention, such as {} and {}: expected one; if they are "
        "separate models, choose one with --state-dict KEY; decoders that attend to an encoder are "
        "not supported.\n{}",
        where, found.size(), quote(found[0].list), quote(found[1].list), kExportAdvice);
  }
  StateDictAnswers answers(model, options, where);
  TensorStore kept(store.source());
  for (const StoredTensor& tensor : store.tensors()) {
    if (!found[0].is_beside(tensor)) {
      kept.add(tensor);
    } else {
      answers.assume(fmt::format("{} belongs to training, not to the model", quote(tensor.name)));
    }
  }
  return StateDictReader(kept, found[0], options, answers).run();
}

std::optional<uint32_t> written_heads(const Opened& model, Account& account) {
  const ModelOptions nothing;
  StateDictAnswers answers(model, nothing, quote(model.tensors.source()));
  const auto heads = answers.heads_if_said();
  if (heads) account.given.push_back(answers.account().given.back());
  return heads;
}

}  // namespace arenite::convert
