// SPDX-License-Identifier: Apache-2.0
// Reads the state dict of any published program, by its row: sizes come from shapes; options,
// configs and buffers answer the rest, or it is asked for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/families/families.h"
#include "convert/families/hf_models.h"
#include "convert/families/published_programs.h"
#include "convert/families/state_dicts.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/masks/masks.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

using Size = TrainingFacts::Size;

// The layer that a person would call so: "lm_head" of "lm_head.weight".
std::string layer_name(const PartNames& part) {
  const size_t dot = part.weight.rfind('.');
  return dot == std::string::npos ? part.weight : part.weight.substr(0, dot);
}

// Is `tensor` a mask, or a square of zeros and ones by such a name?
bool is_mask_buffer(const StoredTensor& tensor) {
  const size_t rank = tensor.shape.size();
  const bool is_square =
      rank >= 2 && tensor.shape[rank - 1] == tensor.shape[rank - 2] &&
      std::all_of(tensor.shape.begin(), tensor.shape.end() - 2, [](uint64_t n) { return n == 1; });
  const std::string last = tensor.name.substr(tensor.name.rfind('.') + 1);
  return is_square &&
         (last.find("mask") != std::string::npos || last.starts_with("tri") || last == "bias");
}

class StateDictReader {
 public:
  StateDictReader(const TensorStore& store, const FoundProgram& found, TrainingFacts& facts,
                  StateDictAnswers& answers)
      : store_(store),
        tensors_(store),
        facts_(facts),
        answers_(answers),
        where_(quote(store.source())),
        found_(found),
        program_(*found.program) {}

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
    if (!tokens_.bias.empty()) tokens_ = {};  // that would be a linear layer
    types_ = find(program_.types);
    input_ = find(program_.input);
    positions_ = find(program_.positions);
    pooler_ = find(program_.pooler);
    head_ = find(program_.head);
    if (!tokens_.empty() && !input_.empty()) {
      throw InputError("{}: both {} and {} are there: expected tokens or features", where_,
                       quote(layer_name(tokens_)), quote(layer_name(input_)));
    }
    if (program_.is_layers_alone) return;
    const auto require = [](PartNames& part, const char* path) {
      if (part.empty() && path != nullptr) part = {fmt::format("{}.weight", path)};
    };
    require(tokens_, program_.tokens);
    require(positions_, program_.positions);
    if (program_.is_decoder && !program_.ties_head) require(head_, program_.head);
  }

  PartNames find(const char* paths) const { return found_.outside(store_, paths); }
  PartNames in_layer(size_t index, const char* path) const {
    return found_.in_layer(store_, index, path);
  }
  uint32_t rows_of(const PartNames& part) const { return tensors_.shape_of(part.weight).rows; }
  uint32_t layer_rows(const char* path) const { return rows_of(in_layer(0, path)); }
  bool has_tokens() const { return !tokens_.empty(); }

  // The heads whose projections are modules of their own.
  uint32_t count_heads() const {
    uint32_t heads = 0;
    while (store_.find(in_layer(0, of_head(program_.query, heads).c_str()).weight) != nullptr) {
      ++heads;
    }
    return heads;
  }
  static std::string of_head(const char* path, uint32_t head) {
    return fmt::format(fmt::runtime(path), head);
  }

  // Of the projection whose columns are the width of the model.
  ModelTensors::Shape shape_of_projection() const {
    if (program_.fused == nullptr) {
      return tensors_.shape_of(in_layer(0, of_head(program_.query, 0).c_str()).weight);
    }
    const std::string name = in_layer(0, program_.fused).weight;
    const ModelTensors::Shape shape = tensors_.shape_of(name);
    if (uint64_t{shape.columns} != uint64_t{3} * shape.rows) return shape;
    throw InputError(
        "{}: {} has shape [{}, {}], as transformers' GPT-2 keeps its layers, whose "
        "config.json says what they compute: put that config.json beside the file",
        where_, quote(name), shape.rows, shape.columns);
  }

  void read_sizes() {
    spec_.architecture = program_.architecture;
    spec_.model_dim = shape_of_projection().columns;
    layers_ = found_.count_layers(store_);
    if (layers_ > kLayersMax) {
      throw InputError("{}: {} layers: at most {} are accepted", where_, layers_, kLayersMax);
    }
    spec_.ffn_dim = layer_rows(program_.up);
    if (has_tokens()) {
      spec_.vocab_size = rows_of(tokens_);
      facts_.check(Size::kVocabulary, spec_.vocab_size);
    }
    if (!positions_.empty()) {
      spec_.positions_max = rows_of(positions_);
      if (program_.is_decoder) facts_.check(Size::kPositions, spec_.positions_max);
    }
    facts_.check(Size::kModelDim, spec_.model_dim);
    facts_.check(Size::kFfnDim, spec_.ffn_dim);
    facts_.check(Size::kLayers, layers_);
  }

  // ---- what tensors do not say ----

  void answer_all() {
    spec_.heads = program_.has_heads_of_their_own() ? answers_.heads_of_modules(count_heads())
                                                    : answers_.heads(spec_.model_dim);
    spec_.activation = answers_.activation();
    spec_.norm_first = answers_.norm_first();
    if (program_.has_sample_norm) {
      answers_.assume("norms of (x - mean) / (deviation + epsilon), as a_2 and b_2 are called");
    }
    const std::optional<BandChoice> buffer = read_mask_buffers();
    mask_ = buffer ? *buffer : program_.is_decoder ? answers_.mask_of_decoder() : answers_.mask();
    spec_.causal = mask_.causal;
    if (!program_.is_decoder) spec_.embedding_scale = encoder_scale(spec_.model_dim);
    answer_positions(spec_.positions_max);
    if (!program_.is_decoder) pooling_ = read_pooling(spec_.vocab_size);
    spec_.score_scale = answers_.score_scale();
    epsilon_ = answers_.epsilon(program_.has_sample_norm ? 1e-6 : 1e-5);
    if (program_.is_decoder) {
      spec_.embedding_scale = answers_.embedding_scale_if_said(spec_.model_dim);
    }
    answers_.require_all(program_.published);
  }

  // Models may register their mask as a buffer, in each layer or head: then it is what the file
  // says, if all say the same.
  std::optional<BandChoice> read_mask_buffers() {
    std::optional<BandChoice> found;
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
      const BandChoice band = {.causal = !is_all, .window = window};
      if (!found) {
        found = answers_.mask_of_buffer(tensor.name, band);
      } else if (band != *found) {
        throw InputError("{}: mask {} is {}: expected that of the other layers", where_,
                         quote(tensor.name), mask.describe());
      }
    }
    return found;
  }

  double encoder_scale(uint32_t model_dim) {
    if (!program_.is_layers_alone) return answers_.embedding_scale_if_said(model_dim);
    if (has_tokens() || !input_.empty()) return answers_.embedding_scale(model_dim);
    answers_.refuse_embedding_scale("the layers read features as they are");
    return 1.0;
  }

  void answer_positions(uint32_t& positions_max) {
    if (program_.rope == RopePairs::kNone) {
      answers_.refuse_rope_theta("such a model rotates nothing");
      if (positions_.empty() && (has_tokens() || !input_.empty())) {
        answers_.assume("no positions are added, since the file has no table of them");
      }
      return;
    }
    positions_max = answers_.positions();
    if (find_frequencies() == nullptr) rope_theta_ = answers_.rope_theta();
  }

  // A head as wide as the vocabulary gives logits of each token; what another one reads is not to
  // be seen.
  std::optional<PoolingChoice> read_pooling(uint32_t vocab_size) {
    const auto said = answers_.pooling_if_said();
    if (said) return said;
    if (!pooler_.empty()) return PoolingChoice::kPooler;
    if (head_.empty()) return std::nullopt;
    const std::string head = layer_name(head_);
    if (vocab_size != 0 && rows_of(head_) == vocab_size) {
      answers_.assume(
          fmt::format("{} reads each token, since it gives {} numbers, as many as there are tokens",
                      quote(head), vocab_size));
      return PoolingChoice::kNone;
    }
    return answers_.ask_pooling(head);
  }

  // A buffer of radians per position; nullptr: there is none.
  const StoredTensor* find_frequencies() const {
    for (const StoredTensor& tensor : store_.tensors()) {
      if (tensor.name.ends_with("inv_freq") || tensor.name.ends_with("rope.freqs")) return &tensor;
    }
    return nullptr;
  }

  // ---- tensors ----

  LinearSpec linear(const PartNames& part, uint32_t outputs, uint32_t inputs) {
    LinearSpec found = {tensors_.matrix(part.weight, outputs, inputs), {}};
    if (!part.bias.empty()) found.bias = tensors_.vector(part.bias, outputs);
    return found;
  }

  NormSpec norm(const PartNames& part, uint32_t features) {
    NormSpec found = {.name = part.weight,
                      .kind = program_.norm,
                      .gain = tensors_.vector(part.weight, features),
                      .bias = {},
                      .epsilon = epsilon_};
    if (!part.bias.empty()) found.bias = tensors_.vector(part.bias, features);
    if (!program_.has_sample_norm) return found;
    // The deviation of a sample divides by one less; epsilon beside it is twice as much beside the
    // variance, for deviations near 1.
    const double sample = std::sqrt((features - 1.0) / features);
    for (double& gain : found.gain) gain *= sample;
    found.epsilon = 2.0 * epsilon_;
    return found;
  }

  // Sizes that nothing is read for yet never get further than this.
  void set_heads() {
    const uint32_t query_rows = tensors_.shape_of(in_layer(0, program_.output).weight).columns;
    spec_.head_dim = even_head_dim(query_rows, spec_.heads, where_);
    spec_.kv_heads = read_kv_heads(query_rows, spec_.heads, spec_.head_dim);
    facts_.check(Size::kKvHeads, spec_.kv_heads);
    if (program_.rope != RopePairs::kNone) spec_.rope = read_rotation(spec_.head_dim);
  }

  // Variants with fewer keys and values than queries are told by the shape.
  uint32_t read_kv_heads(uint32_t query_rows, uint32_t heads, uint32_t head_dim) const {
    if (program_.has_heads_of_their_own()) return heads;
    const bool is_fused = program_.fused != nullptr;
    const PartNames part = in_layer(0, is_fused ? program_.fused : program_.key_projection);
    uint32_t rows = rows_of(part);
    if (is_fused) rows = rows > query_rows ? (rows - query_rows) / 2 : 0;
    const uint32_t kv_heads = rows / head_dim;
    if (rows % head_dim == 0 && kv_heads != 0 && heads % kv_heads == 0) return kv_heads;
    throw InputError(
        "{}: {} has {} rows: expected key heads of {}, as the queries have, in a number that "
        "divides the {} heads",
        where_, quote(part.weight), rows_of(part), head_dim, heads);
  }

  RopeSpec read_rotation(uint32_t head_dim) {
    if (head_dim % 2 != 0) {
      throw InputError("{}: a head has {} elements: expected an even number, for rotations", where_,
                       head_dim);
    }
    RopeSpec rope = {.rotary_dim = head_dim,
                     .inverse_frequencies = {},
                     .turns_neighbours = program_.rope == RopePairs::kNeighbours};
    if (const StoredTensor* stored = find_frequencies()) {
      rope.inverse_frequencies = tensors_.vector(stored->name, head_dim / 2);
      return rope;
    }
    for (uint32_t i = 0; i < head_dim / 2; ++i) {
      rope.inverse_frequencies.push_back(std::pow(rope_theta_, -2.0 * i / head_dim));
    }
    return rope;
  }

  void read_layers() {
    for (uint32_t i = 0; i < layers_; ++i) spec_.layers.push_back(read_layer(i));
    const PartNames final_norm = find(program_.final_norm);
    if (!final_norm.empty()) {
      spec_.final_norm = norm(final_norm, spec_.model_dim);
    } else if (spec_.norm_first && !program_.is_layers_alone) {
      answers_.assume("no norm after the last layer, since the file has none");
    }
  }

  LayerSpec read_layer(uint32_t index) {
    const uint32_t query_rows = spec_.heads * spec_.head_dim;
    const uint32_t key_rows = spec_.kv_heads * spec_.head_dim;
    const auto part = [&](const char* path) { return in_layer(index, path); };
    LayerSpec layer;
    layer.window = mask_.window;
    layer.attention_norm = norm(part(program_.attention_norm), spec_.model_dim);
    if (program_.fused != nullptr) {
      split_fused(layer, linear(part(program_.fused), query_rows + 2 * key_rows, spec_.model_dim),
                  query_rows, key_rows);
    } else {
      layer.query = read_projection(index, program_.query, query_rows);
      layer.key = read_projection(index, program_.key_projection, key_rows);
      layer.value = read_projection(index, program_.value, key_rows);
    }
    layer.output = linear(part(program_.output), spec_.model_dim, query_rows);
    layer.mlp_norm = norm(part(program_.mlp_norm), spec_.model_dim);
    if (program_.gate != nullptr) {
      layer.gate = linear(part(program_.gate), spec_.ffn_dim, spec_.model_dim);
    }
    layer.up = linear(part(program_.up), spec_.ffn_dim, spec_.model_dim);
    layer.down = linear(part(program_.down), spec_.model_dim, spec_.ffn_dim);
    return layer;
  }

  // One projection, or those of all heads below one another.
  LinearSpec read_projection(uint32_t index, const char* path, uint32_t rows) {
    if (!program_.has_heads_of_their_own()) {
      return linear(in_layer(index, path), rows, spec_.model_dim);
    }
    std::vector<LinearSpec> heads;
    for (uint32_t i = 0; i < spec_.heads; ++i) {
      const PartNames part = in_layer(index, of_head(path, i).c_str());
      heads.push_back(linear(part, spec_.head_dim, spec_.model_dim));
    }
    return heads.size() == 1 ? std::move(heads[0]) : stack_rows(std::move(heads));
  }

  void read_model() {
    set_heads();
    check_sizes(spec_, layers_, where_);
    read_input();
    read_layers();
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
      spec_.token_embedding = tensors_.matrix(tokens_.weight, spec_.vocab_size, spec_.model_dim);
      if (!types_.empty()) {
        spec_.token_types = rows_of(types_);
        spec_.type_embedding = tensors_.matrix(types_.weight, spec_.token_types, spec_.model_dim);
      }
    } else if (!input_.empty()) {
      const auto shape = tensors_.shape_of(input_.weight);
      spec_.input = linear(input_, spec_.model_dim, shape.columns);
      spec_.input_features = shape.columns;
    } else {
      spec_.input_features = spec_.model_dim;  // straight into the layers
    }
    if (!positions_.empty()) {
      spec_.position_embedding =
          tensors_.matrix(positions_.weight, spec_.positions_max, spec_.model_dim);
      fold_single_type(spec_);
    }
    const PartNames embedding_norm = find(program_.embedding_norm);
    if (!embedding_norm.empty()) spec_.embedding_norm = norm(embedding_norm, spec_.model_dim);
  }

  void read_head() {
    if (pooling_ == PoolingChoice::kMean) spec_.pooling = SelectKind::kMean;
    if (pooling_ == PoolingChoice::kFirst) spec_.pooling = SelectKind::kFirst;
    if (pooling_ == PoolingChoice::kPooler) {
      spec_.pooling = SelectKind::kFirst;
      const PartNames pooler =
          pooler_.empty() ? PartNames{"pooler.weight", "pooler.bias"} : pooler_;
      spec_.head.push_back({linear(pooler, spec_.model_dim, spec_.model_dim), Activation::kTanh});
    }
    if (head_.empty()) return;
    const uint32_t classes = rows_of(head_);
    spec_.head.push_back({linear(head_, classes, spec_.model_dim), std::nullopt});
    facts_.check(Size::kClasses, classes);
    spec_.labels =
        facts_.labels([&](ConfigFields& source) { return read_labels(source, classes); });
  }

  // Those that say nothing more.
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

  // Names that do not fit need not be guessed.
  void finish() {
    try {
      tensors_.finish();
    } catch (const InputError& error) {
      throw InputError("{}\nSome tensors are not those of {}. {}", error.what(), program_.name,
                       kExportAdvice);
    }
  }

  const TensorStore& store_;
  ModelTensors tensors_;
  TrainingFacts& facts_;
  StateDictAnswers& answers_;
  const std::string where_;
  const FoundProgram& found_;
  const PublishedProgram& program_;

  TransformerSpec spec_;
  uint32_t layers_ = 0;
  PartNames tokens_, types_, input_, positions_, pooler_, head_;
  BandChoice mask_;
  double epsilon_ = 0.0;
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
        "{}: {} stacks of layers with attention, such as {} and {}: expected one; decoders that "
        "attend to an encoder are not supported.\n{}",
        where, found.size(), quote(found[0].list), quote(found[1].list), kExportAdvice);
  }
  TrainingFacts facts(model);
  StateDictAnswers answers(options, facts, where);
  return StateDictReader(store, found[0], facts, answers).run();
}

}  // namespace arenite::convert
