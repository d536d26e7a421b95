// SPDX-License-Identifier: Apache-2.0
// Takes the tensors of a state dict that is understood, into the spec of a decoder or an encoder.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "convert/families/families.h"
#include "convert/families/part_names.h"
#include "convert/families/reader_parts.h"
#include "convert/families/state_dicts.h"
#include "convert/families/understood.h"
#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

using Size = TrainingFacts::Size;

// What decoders and encoders have alike is read into either.
class StateDictReader {
 public:
  StateDictReader(ModelTensors& tensors, TrainingFacts& facts, StateDictAnswers& answers,
                  Understood understood)
      : tensors_(tensors),
        facts_(facts),
        answers_(answers),
        where_(quote(tensors.source())),
        is_(std::move(understood)) {}

  std::variant<DecoderSpec, EncoderSpec> run() {
    std::variant<DecoderSpec, EncoderSpec> spec;
    if (is_.is_decoder) {
      spec = read_decoder();
    } else {
      spec = read_encoder();
    }
    pass_over_buffers();
    return spec;
  }

 private:
  uint32_t rows_of(const PartNames& part) const { return tensors_.shape_of(part.weight).rows; }

  LinearSpec linear(const PartNames& part, uint32_t outputs, uint32_t inputs) {
    LinearSpec found = {tensors_.matrix(part.weight, outputs, inputs), {}};
    if (!part.bias.empty()) found.bias = tensors_.vector(part.bias, outputs);
    return found;
  }

  LinearSpec linear(const PartNames& part) {
    const auto shape = tensors_.shape_of(part.weight);
    return linear(part, shape.rows, shape.columns);
  }

  NormSpec norm(const PartNames& part, uint32_t features) {
    NormSpec found = {.name = part.weight,
                      .kind = is_.norm_kind,
                      .gain = tensors_.vector(part.weight, features),
                      .bias = {},
                      .epsilon = is_.epsilon};
    if (!part.bias.empty()) found.bias = tensors_.vector(part.bias, features);
    if (!is_.program.has_sample_norm) return found;
    // The deviation of a sample divides by one less; epsilon beside it is twice as much beside the
    // variance, for deviations near 1.
    const double sample = std::sqrt((features - 1.0) / features);
    for (double& gain : found.gain) gain *= sample;
    found.epsilon = 2.0 * is_.epsilon;
    return found;
  }

  // Sizes that nothing is read for yet never get further than this.
  template <typename Spec>
  void set_sizes(Spec& spec) {
    spec.architecture = is_.program.architecture;
    spec.vocab_size = is_.vocab_size;
    spec.model_dim = is_.model_dim;
    spec.heads = is_.heads;
    const PartNames output = is_.layers.in_layer(0, is_.layers.output);
    const uint32_t query_rows = tensors_.shape_of(output.weight).columns;
    spec.head_dim = even_head_dim(query_rows, is_.heads, where_);
    spec.kv_heads = read_kv_heads(query_rows, spec.head_dim);
    facts_.check(Size::kKvHeads, spec.kv_heads);
    spec.ffn_dim = is_.ffn_dim;
    spec.positions_max = is_.positions_max;
    spec.norm_first = is_.norm_first;
    spec.causal = is_.mask.causal;
    spec.score_scale = is_.score_scale;
    spec.activation = is_.activation;
    if (is_.rope_choice != RopeChoice::kNone) spec.rope = read_rotation(spec.head_dim);
  }

  // Variants with fewer keys and values than queries are told by the shape.
  uint32_t read_kv_heads(uint32_t query_rows, uint32_t head_dim) const {
    if (is_.layers.query.size() > 1) return is_.heads;
    const PartNames part =
        is_.layers.in_layer(0, is_.is_fused() ? is_.layers.fused : is_.layers.key[0]);
    uint32_t rows = rows_of(part);
    if (is_.is_fused()) rows = rows > query_rows ? (rows - query_rows) / 2 : 0;
    const uint32_t kv_heads = rows / head_dim;
    if (rows % head_dim == 0 && kv_heads != 0 && is_.heads % kv_heads == 0) return kv_heads;
    throw InputError(
        "{}: {} has {} rows: expected key heads of {}, as the queries have, in a number that "
        "divides the {} heads",
        where_, quote(part.weight), rows_of(part), head_dim, is_.heads);
  }

  RopeSpec read_rotation(uint32_t head_dim) {
    if (head_dim % 2 != 0) {
      throw InputError("{}: --rope {}: a head has {} elements: expected an even number", where_,
                       name(is_.rope_choice), head_dim);
    }
    RopeSpec rope = {.rotary_dim = head_dim,
                     .inverse_frequencies = {},
                     .turns_neighbours = is_.rope_choice == RopeChoice::kPairs};
    if (const StoredTensor* stored = find_frequencies(tensors_)) {
      rope.inverse_frequencies = tensors_.vector(stored->name, head_dim / 2);
      return rope;
    }
    for (uint32_t i = 0; i < head_dim / 2; ++i) {
      rope.inverse_frequencies.push_back(std::pow(is_.rope_theta, -2.0 * i / head_dim));
    }
    return rope;
  }

  template <typename Spec>
  void read_layers(Spec& spec) {
    for (uint32_t i = 0; i < is_.layers.layers; ++i) spec.layers.push_back(read_layer(spec, i));
    if (!is_.outer.final_norm.empty()) {
      spec.final_norm = norm(is_.outer.final_norm, is_.model_dim);
    } else if (is_.norm_first && !is_.program.is_torch) {
      answers_.assume("no norm after the last layer, since the file has none");
    }
  }

  template <typename Spec>
  LayerSpec read_layer(const Spec& spec, uint32_t index) {
    const uint32_t width = spec.heads * spec.head_dim;
    const auto part = [&](const PartNames& names) { return is_.layers.in_layer(index, names); };
    LayerSpec layer;
    layer.window = is_.mask.window;
    layer.attention_norm = norm(part(is_.layers.attention_norm), is_.model_dim);
    if (is_.is_fused()) {
      read_fused(layer, part(is_.layers.fused), width, spec.kv_heads * spec.head_dim);
    } else {
      const uint32_t kv_width = spec.kv_heads * spec.head_dim;
      layer.query = read_projection(is_.layers.query, index, width);
      layer.key = read_projection(is_.layers.key, index, kv_width);
      layer.value = read_projection(is_.layers.value, index, kv_width);
    }
    layer.output = linear(part(is_.layers.output), is_.model_dim, width);
    if (!is_.layers.query_norm.empty()) {
      layer.query_norm = norm(part(is_.layers.query_norm), spec.head_dim);
    }
    if (!is_.layers.key_norm.empty())
      layer.key_norm = norm(part(is_.layers.key_norm), spec.head_dim);
    layer.mlp_norm = norm(part(is_.layers.mlp_norm), is_.model_dim);
    if (!is_.layers.gate.empty())
      layer.gate = linear(part(is_.layers.gate), is_.ffn_dim, is_.model_dim);
    layer.up = linear(part(is_.layers.up), is_.ffn_dim, is_.model_dim);
    layer.down = linear(part(is_.layers.down), is_.model_dim, is_.ffn_dim);
    return layer;
  }

  // One projection, or those of all heads below one another.
  LinearSpec read_projection(const std::vector<PartNames>& parts, uint32_t index, uint32_t rows) {
    std::vector<LinearSpec> heads;
    for (const PartNames& part : parts) {
      const auto each = static_cast<uint32_t>(rows / parts.size());
      heads.push_back(linear(is_.layers.in_layer(index, part), each, is_.model_dim));
    }
    return heads.size() == 1 ? std::move(heads[0]) : stack_rows(std::move(heads));
  }

  void read_fused(LayerSpec& layer, const PartNames& part, uint32_t query_rows, uint32_t key_rows) {
    const LinearSpec fused = linear(part, query_rows + 2 * key_rows, is_.model_dim);
    if (!layer_can_be_reordered(query_rows, key_rows)) {
      throw InputError("{}: --fused-order {}: there are fewer keys than queries: expected qkv",
                       where_, is_.fused_order.text());
    }
    const uint32_t block = is_.fused_order.by_head ? query_rows / is_.heads : query_rows;
    const auto rows_of_letter = [&](char letter, uint32_t count) {
      const auto place = static_cast<uint32_t>(is_.fused_order.letters.find(letter));
      if (query_rows != key_rows) {
        return row_range(letter == 'q' ? 0 : query_rows + (place - 1) * key_rows, count);
      }
      RowOrder order;
      for (uint32_t first = 0; first < count; first += block) {
        for (uint32_t i = 0; i < block; ++i) order.push_back(3 * first + place * block + i);
      }
      return order;
    };
    layer.query = select_rows(fused, rows_of_letter('q', query_rows));
    layer.key = select_rows(fused, rows_of_letter('k', key_rows));
    layer.value = select_rows(fused, rows_of_letter('v', key_rows));
  }

  bool layer_can_be_reordered(uint32_t query_rows, uint32_t key_rows) const {
    return query_rows == key_rows ||
           (!is_.fused_order.by_head && is_.fused_order.letters.starts_with("q"));
  }

  DecoderSpec read_decoder() {
    DecoderSpec spec;
    set_sizes(spec);
    check_sizes(spec, is_.layers.layers, where_);
    spec.token_embedding = tensors_.matrix(is_.outer.tokens.weight, is_.vocab_size, is_.model_dim);
    if (!is_.outer.positions.empty()) {
      spec.position_embedding =
          tensors_.matrix(is_.outer.positions, is_.positions_max, is_.model_dim);
    }
    if (is_.embedding_scale != 1.0) spec.embedding_scale = is_.embedding_scale;
    if (!is_.outer.embedding_norm.empty()) {
      spec.embedding_norm = norm(is_.outer.embedding_norm, is_.model_dim);
    }
    read_layers(spec);
    if (is_.outer.head.empty()) {
      answers_.assume("the token embedding as output matrix, since there is no 'lm_head'");
      return spec;
    }
    LinearSpec output = linear(is_.outer.head, is_.vocab_size, is_.model_dim);
    const bool is_tied = output.bias.empty() && output.weight.load &&
                         output.weight.load() == spec.token_embedding.load();
    if (!is_tied) spec.output = std::move(output);
    return spec;
  }

  EncoderSpec read_encoder() {
    EncoderSpec spec;
    set_heads(spec, is_.heads, is_.layers.layers, where_);
    set_sizes(spec);
    spec.embedding_scale = is_.embedding_scale;
    read_layers(spec);
    read_input(spec);
    if (!is_.outer.positions.empty()) {
      spec.position_embedding =
          tensors_.matrix(is_.outer.positions, is_.positions_max, is_.model_dim);
      fold_single_type(spec);
    }
    read_head(spec);
    return spec;
  }

  void read_input(EncoderSpec& spec) {
    if (is_.has_tokens()) {
      spec.token_embedding =
          tensors_.matrix(is_.outer.tokens.weight, is_.vocab_size, is_.model_dim);
      if (!is_.outer.types.empty()) {
        spec.token_types = rows_of(is_.outer.types);
        spec.type_embedding =
            tensors_.matrix(is_.outer.types.weight, spec.token_types, is_.model_dim);
      }
    } else if (!is_.outer.input.empty()) {
      spec.input = linear(is_.outer.input);
      spec.input_features = spec.input->inputs();
    } else {
      spec.input_features = is_.model_dim;  // straight into the layers
    }
    if (!is_.outer.embedding_norm.empty()) {
      spec.embedding_norm = norm(is_.outer.embedding_norm, is_.model_dim);
    }
  }

  void read_head(EncoderSpec& spec) {
    if (is_.pooling == PoolingChoice::kMean) spec.pooling = SelectKind::kMean;
    if (is_.pooling == PoolingChoice::kFirst) spec.pooling = SelectKind::kFirst;
    if (is_.pooling == PoolingChoice::kPooler) {
      spec.pooling = SelectKind::kFirst;
      const PartNames pooler =
          is_.outer.pooler.empty() ? PartNames{"pooler.weight", "pooler.bias"} : is_.outer.pooler;
      spec.head.push_back({linear(pooler, is_.model_dim, is_.model_dim), Activation::kTanh});
    }
    if (is_.outer.head.empty()) return;
    const uint32_t classes = rows_of(is_.outer.head);
    spec.head.push_back({linear(is_.outer.head, classes, is_.model_dim), std::nullopt});
    facts_.check(Size::kClasses, classes);
    spec.labels = facts_.labels([&](ConfigFields& source) { return read_labels(source, classes); });
  }

  // Those that say nothing more.
  void pass_over_buffers() {
    const StoredTensor* const frequencies =
        is_.rope_choice == RopeChoice::kNone ? nullptr : find_frequencies(tensors_);
    for (const StoredTensor& tensor : tensors_.stored()) {
      if (tensor.name.ends_with("position_ids")) pass_over_position_ids(tensors_, tensor.name);
      if (tensor.name.ends_with("masked_bias")) tensors_.pass_over(tensor.name);
      if (frequencies == nullptr || !tensor.name.ends_with("inv_freq")) continue;
      if (tensor.load() == frequencies->load()) tensors_.pass_over(tensor.name);
    }
  }

  ModelTensors& tensors_;
  TrainingFacts& facts_;
  StateDictAnswers& answers_;
  const std::string where_;
  const Understood is_;
};

// Names that do not fit need not be guessed.
template <typename Action>
auto with_advice(const Action& action) {
  try {
    return action();
  } catch (const InputError& error) {
    throw InputError("{}\n{}", error.what(), kExportAdvice);
  }
}

}  // namespace

bool is_state_dict(const TensorStore& tensors) {
  const TensorStore store = tensors.unwrapped();
  const std::vector<std::string> lists = find_layer_lists(store);
  if (lists.empty()) return false;
  // A single layer alone is a module.
  return lists.size() > 1 || std::ranges::any_of(store.tensors(), [&](const StoredTensor& tensor) {
           return !tensor.name.starts_with(lists[0] + "0.");
         });
}

std::variant<DecoderSpec, EncoderSpec> read_state_dict(const Opened& model,
                                                       const ModelOptions& options) {
  const TensorStore store = model.tensors.unwrapped();
  const std::string where = quote(store.source());
  const std::vector<std::string> lists = find_layer_lists(store);
  if (lists.size() != 1) {
    throw InputError(
        "{}: {} stacks of layers with attention, such as {} and {}: expected one; decoders that "
        "attend to an encoder are not supported.\n{}",
        where, lists.size(), quote(lists[0]), quote(lists[1]), kExportAdvice);
  }
  ModelTensors tensors(store);
  TrainingFacts facts(model);
  StateDictAnswers answers(options, facts, where);
  LayerNames layers = with_advice([&] { return find_layer_names(store, lists[0]); });
  OuterNames outer = with_advice([&] { return find_outer_names(store, layers); });
  Understood understood = understand(tensors, facts, answers, std::move(layers), std::move(outer));
  std::variant<DecoderSpec, EncoderSpec> spec =
      StateDictReader(tensors, facts, answers, std::move(understood)).run();
  with_advice([&] { tensors.finish(); });
  std::visit([&](auto& read) { read.account = answers.account(); }, spec);
  return spec;
}

}  // namespace arenite::convert
