// SPDX-License-Identifier: Apache-2.0
// Values live in columns of slots. A slice is some of its input's columns, parts of a concatenation
// are written where the whole lies, and an op that works on each number by itself writes over its
// input where nobody reads that again.
#include "convert/program/program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "convert/passes/passes.h"
#include "convert/program/weights.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

RowOrder inverse(const RowOrder& order) {
  RowOrder inverse(order.size());
  for (uint32_t i = 0; i < order.size(); ++i) inverse[order[i]] = i;
  return inverse;
}

// Says what the runtime has no op for with the ops that it has: scales of scores become scales of
// queries, rotations of neighbours those of halves, and parts of a concatenation that lie elsewhere
// are copied.
void make_representable(Graph& graph) {
  const std::vector<ValueId> order = graph.order();
  for (const ValueId value : order) {
    const std::string name = graph.node(value).name;
    const uint32_t width = graph.width(value);
    if (auto* attention = graph.as<AttentionNode>(value);
        attention != nullptr && attention->head_dim != 0 && attention->scale != 1.0) {
      const ValueId query = graph.node(value).inputs[0];
      const ScaleNode scale = {std::exchange(attention->scale, 1.0)};
      const ValueId scaled =
          graph.insert_before(value, {name + ".scale", scale, {query}, graph.width(query)});
      graph.node(value).inputs[0] = scaled;
    }
    if (auto* rotate = graph.as<RotateNode>(value);
        rotate != nullptr && rotate->rope.turns_neighbours) {
      rotate->rope.turns_neighbours = false;
      const RowOrder halves =
          halves_of_pairs(width / rotate->head_dim, rotate->head_dim, rotate->rope.rotary_dim);
      const ValueId input = graph.node(value).inputs[0];
      const ValueId permuted =
          graph.insert_before(value, {name + ".permute", PermuteNode{halves}, {input}, width});
      graph.node(value).inputs[0] = permuted;
      const ValueId back = graph.insert_after(
          value, {name + ".restore", PermuteNode{inverse(halves)}, {value}, width});
      graph.replace(value, back, back);
    }
    if (graph.as<ConcatNode>(value) != nullptr) {
      // Parts are written in their order: from the first that is copied on, all are.
      bool is_fresh = true;
      ptrdiff_t last = 0;
      for (size_t i = 0; i < graph.node(value).inputs.size(); ++i) {
        const ValueId part = graph.node(value).inputs[i];
        const auto at = std::ranges::find(graph.order(), part) - graph.order().begin();
        is_fresh = is_fresh && at >= std::exchange(last, at) && graph.has_one_reader(part) &&
                   !graph.as<SliceNode>(part) && !graph.as<FeaturesNode>(part) &&
                   !graph.as<ConcatNode>(part);
        if (is_fresh) continue;
        const ValueId copy =
            graph.insert_before(value, {name + ".copy", ScaleNode{1.0}, {part}, graph.width(part)});
        graph.node(value).inputs[i] = copy;
      }
    }
  }
  if (const ValueId output = graph.output; graph.as<SliceNode>(output) != nullptr) {
    const Node copy = {"output.copy", ScaleNode{1.0}, {output}, graph.width(output)};
    graph.output = graph.insert_after(output, copy);
  }
}

using format::ColumnView;

constexpr float kShortestRow = 1e-12f;  // rows that are shorter are divided by this

LinearSpec matrix_of(const RowOrder& order) {
  const uint32_t width = static_cast<uint32_t>(order.size());
  const auto load = [order, width] {
    std::vector<float> values(size_t{width} * width, 0.0f);
    for (size_t row = 0; row < width; ++row) values[row * width + order[row]] = 1.0f;
    return values;
  };
  return {{.name = "permutation", .rows = width, .columns = width, .load = load}, {}};
}

class Lowering {
 public:
  Lowering(Graph graph, const std::string& name) : graph_(with_stored_weights(std::move(graph))) {
    make_representable(graph_);
    program_.name = name;
    program_.architecture = graph_.architecture;
  }

  Program run() {
    program_.positions_max = graph_.positions_max;
    program_.tokens_min = graph_.tokens_min;
    program_.vocab_size = graph_.vocab_size;
    program_.kv_cache = graph_.kv_cache;
    program_.labels = graph_.labels;
    for (const Mask& mask : graph_.masks) {
      const auto* buffer = std::get_if<BufferMask>(&mask);
      program_.masks.push_back(buffer != nullptr ? tile_mask(*buffer->dense, buffer->origin)
                                                 : std::get<CompiledMask>(mask));
    }
    prepare();
    for (now_ = 0; now_ < graph_.order().size(); ++now_) {
      const ValueId value = graph_.order()[now_];
      const size_t ops_before = program_.ops.size();
      std::visit([&](const auto& body) { emit(value, body); }, graph_.node(value).body);
      const bool is_state = std::ranges::count(graph_.hidden_states, value) != 0;
      if (is_state && program_.ops.size() != ops_before) {
        program_.hidden_states.push_back(
            {static_cast<uint32_t>(program_.ops.size() - 1), view(value)});
      }
    }
    const ColumnView output = view(graph_.output);
    if (!(output == program_.whole(output.slot))) {
      throw std::logic_error("the output is part of a slot: this is a bug");
    }
    program_.output_slot = output.slot;
    place_slots(program_);
    return std::move(program_);
  }

 private:
  // ---- memory ----

  void prepare() {
    last_use_.resize(graph_.values(), 0);
    is_per_output_.resize(graph_.values(), false);
    for (size_t i = 0; i < graph_.order().size(); ++i) {
      const ValueId value = graph_.order()[i];
      const Node& node = graph_.node(value);
      last_use_[value] = i;
      if (graph_.as<SelectNode>(value)) is_per_output_[value] = true;
      uint32_t column = 0;
      for (const ValueId input : node.inputs) {
        last_use_[input] = i;
        if (is_per_output_[input]) is_per_output_[value] = true;
        if (graph_.as<ConcatNode>(value)) {
          wholes_[input] = {value, column};
          column += graph_.width(input);
        }
      }
      // The product of an activation and something else is one op.
      if (graph_.as<MultiplyNode>(value)) {
        const ValueId first = node.inputs[0];
        if (graph_.as<ActivationNode>(first) && graph_.has_one_reader(first)) {
          fused_[first] = value;
          last_use_[graph_.node(first).inputs[0]] = i;
        }
      }
    }
    last_use_[graph_.output] = SIZE_MAX;
  }

  const ColumnView& view(ValueId value) const { return views_.at(value); }

  void place(ValueId value, const ColumnView& view) {
    views_[value] = view;
    occupants_[view.slot].push_back(value);
  }

  ColumnView new_slot(ValueId value) {
    return program_.whole(program_.add_slot(graph_.width(value), is_per_output_[value]));
  }

  // Whether nobody reads the columns of `value` after the present op.
  bool is_free(ValueId value) const {
    const ColumnView& wanted = view(value);
    return std::ranges::all_of(occupants_.at(wanted.slot), [&](ValueId other) {
      const ColumnView& used = view(other);
      const bool overlaps =
          used.column < wanted.column + wanted.width && wanted.column < used.column + used.width;
      return !overlaps || last_use_[other] <= now_;
    });
  }

  // Where the result of a node goes: into the whole that it is part of, over the first of
  // `reusable` that nobody reads again, or into a slot of its own.
  ColumnView result(ValueId value, const std::vector<ValueId>& reusable = {}) {
    ColumnView place_of_result;
    if (const auto whole = wholes_.find(value); whole != wholes_.end()) {
      const auto [concat, column] = whole->second;
      if (!views_.contains(concat)) place(concat, new_slot(concat));
      place_of_result = {view(concat).slot, column, graph_.width(value)};
    } else {
      const auto reused = std::ranges::find_if(reusable, [&](ValueId input) {
        return graph_.width(input) == graph_.width(value) &&
               is_per_output_[input] == is_per_output_[value] && is_free(input) &&
               (value != graph_.output || view(input) == program_.whole(view(input).slot));
      });
      place_of_result = reused == reusable.end() ? new_slot(value) : view(*reused);
    }
    place(value, place_of_result);
    return place_of_result;
  }

  ColumnView input(ValueId value, size_t index = 0) const {
    return view(graph_.node(value).inputs[index]);
  }
  const std::string& name(ValueId value) const { return graph_.node(value).name; }

  uint32_t rows_max() const { return graph_.positions_max + graph_.prefix_rows; }

  // ---- ops ----

  void emit(ValueId value, const FeaturesNode& features) {
    place(value, new_slot(value));
    program_.input_slot = view(value).slot;
    if (features.patches) {
      program_.add_op(name(value), patches_op(view(value), *features.patches));
    }
  }

  void emit(ValueId value, const EmbeddingNode& embedding) {
    EmbeddingParts parts;
    if (embedding.stored_by) {
      parts.tokens = tied_[*embedding.stored_by] = program_.add_matrix(
          embedding.tokens->name, graph_.as<LinearNode>(*embedding.stored_by)->parts);
    } else if (embedding.tokens) {
      parts.tokens =
          program_.add_table(*embedding.tokens, graph_.vocab_size, embedding.storage.type);
    }
    parts.scale = static_cast<float>(embedding.scale);
    if (embedding.positions) {
      parts.positions =
          program_.add_table(*embedding.positions, rows_max() + embedding.position_offset);
      parts.position_offset = embedding.position_offset;
      parts.padding_id = embedding.padding_id.value_or(format::kAbsent);
    }
    if (embedding.types) parts.types = program_.add_table(*embedding.types, graph_.token_types);
    program_.add_op(name(value), embedding_op(result(value), parts));
  }

  void emit(ValueId value, const LinearNode& linear) {
    const ColumnView from = input(value);
    const auto tied = tied_.find(value);
    const uint32_t matrix =
        tied != tied_.end() ? tied->second : program_.add_matrix(name(value), linear.parts);
    program_.add_op(name(value), linear_op(from, result(value), matrix));
  }

  void emit(ValueId value, const NormNode& norm) {
    const ColumnView from = input(value);
    program_.add_norm(name(value), norm, from, result(value, graph_.node(value).inputs));
  }

  void emit(ValueId value, const RowFunctionNode& normalize) {
    const ColumnView from = input(value);
    const NormParts parts = {.kind = normalize.kind, .epsilon = kShortestRow};
    program_.add_op(name(value), norm_op(from, result(value, graph_.node(value).inputs), parts));
  }

  // Of each position the cosines, then the sines, times the magnitude of what is turned by them.
  uint32_t angles_of(const RopeSpec& rope) {
    const auto known = std::ranges::find(angles_, rope, &std::pair<RopeSpec, uint32_t>::first);
    if (known != angles_.end()) return known->second;
    ProgramTensor tensor = {
        .name = angles_.empty() ? "angles" : "angles." + std::to_string(angles_.size()),
        .outputs = rows_max(),
        .inputs = rope.rotary_dim,
        .layout = format::Layout::kPlain};
    tensor.load = [rope, positions = rows_max()] {
      std::vector<float> values;
      values.reserve(size_t{positions} * rope.rotary_dim);
      for (uint32_t p = 0; p < positions; ++p) {
        for (const double f : rope.inverse_frequencies) {
          values.push_back(static_cast<float>(rope.magnitude * std::cos(p * f)));
        }
        for (const double f : rope.inverse_frequencies) {
          values.push_back(static_cast<float>(rope.magnitude * std::sin(p * f)));
        }
      }
      return values;
    };
    angles_.emplace_back(rope, program_.add_tensor(std::move(tensor)));
    return angles_.back().second;
  }

  uint32_t tensor_of(const TermTable& table) {
    const auto known = std::ranges::find(tables_, table, &std::pair<TermTable, uint32_t>::first);
    if (known != tables_.end()) return known->second;
    std::string name = table.by == ScoreTerms::kSlopes ? "slopes" : "terms";
    if (!tables_.empty()) name += "." + std::to_string(tables_.size());
    tables_.emplace_back(table,
                         program_.add_tensor({.name = std::move(name),
                                              .outputs = table.rows(),
                                              .inputs = table.columns(),
                                              .weights = {table.values.begin(), table.values.end()},
                                              .layout = format::Layout::kPlain}));
    return tables_.back().second;
  }

  void emit(ValueId value, const RotateNode& rotate) {
    const ColumnView from = input(value);
    program_.add_rope(name(value), from, result(value, graph_.node(value).inputs),
                      graph_.width(value) / rotate.head_dim, angles_of(rotate.rope));
  }

  void emit(ValueId value, const PermuteNode& permute) {
    const ColumnView from = input(value);
    const uint32_t matrix = program_.add_matrix(name(value), {{matrix_of(permute.order)}});
    program_.add_op(name(value), linear_op(from, result(value), matrix));
  }

  void add_function(ValueId value, Activation function, double parameter) {
    const ColumnView from = input(value);
    program_.add_op(name(value), activation_op(function, static_cast<float>(parameter), from, {},
                                               result(value, graph_.node(value).inputs)));
  }

  void emit(ValueId value, const ScaleNode& scale) {
    add_function(value, Activation::kScale, scale.factor);
  }

  void emit(ValueId value, const ActivationNode& activation) {
    if (fused_.contains(value)) return;
    add_function(value, activation.activation, activation.parameter);
  }

  void emit(ValueId value, const MultiplyNode&) {
    const std::vector<ValueId>& inputs = graph_.node(value).inputs;
    const auto* activation = graph_.as<ActivationNode>(inputs[0]);
    const bool is_fused = fused_.contains(inputs[0]) && fused_.at(inputs[0]) == value;
    const ValueId first = is_fused ? graph_.node(inputs[0]).inputs[0] : inputs[0];
    const ColumnView from = view(first);
    const Activation function = is_fused ? activation->activation : Activation::kScale;
    const double parameter = is_fused ? activation->parameter : 1.0;
    // Over itself only where it is read once.
    const bool is_read_twice = view(first) == view(inputs[1]);
    const ColumnView to =
        result(value, is_read_twice ? std::vector<ValueId>{} : std::vector<ValueId>{first});
    program_.add_op(name(value), activation_op(function, static_cast<float>(parameter), from,
                                               view(inputs[1]), to));
  }

  void emit(ValueId value, const AddNode&) {
    ColumnView first = input(value, 0);
    ColumnView second = input(value, 1);
    const ColumnView sum =
        result(value, first == second ? std::vector<ValueId>{} : graph_.node(value).inputs);
    if (sum == second) std::swap(first, second);  // what is written over comes first
    program_.add_op(name(value), sum_op(first, second, sum));
  }

  void emit(ValueId value, const AttentionNode& attention) {
    const std::vector<ValueId>& inputs = graph_.node(value).inputs;
    const CompiledMask& mask = program_.masks[attention.mask];
    const bool is_window =
        mask.kind == MaskKind::kBand && mask.lookahead == 0 && mask.positions == 0;
    const auto [cache, is_new] = caches_.emplace(attention.cache, 0);
    if (is_new) {
      cache->second =
          program_.add_cache({attention.kv_heads, attention.head_dim, attention.value_dim},
                             is_window ? mask.lookback : kUnlimited);
    }
    AttentionParts parts;
    if (inputs.size() == 3) {
      parts.query = view(inputs[0]);
      parts.key = view(inputs[1]);
    }
    parts.value = view(inputs.back());
    parts.output = result(value);
    parts.heads = attention.heads;
    parts.cache = cache->second;
    parts.mask = attention.mask;
    if (!attention.slopes.empty()) {
      parts.terms = tensor_of({ScoreTerms::kSlopes, attention.heads, 0, attention.slopes});
    } else if (attention.terms) {
      parts.terms = tensor_of(*attention.terms);
      parts.terms_by = attention.terms->by;
    }
    parts.score_cap = static_cast<float>(attention.score_cap);
    program_.add_op(name(value), attention_op(parts));
  }

  void emit(ValueId value, const SelectNode& rows) {
    const ColumnView from = input(value);
    program_.add_op(name(value), select_op(from, result(value), rows.kind, rows.first_row));
  }

  void emit(ValueId value, const PrefixNode& prefix) {
    const ColumnView from = input(value);
    const uint32_t tensor = program_.add_table(prefix.rows, prefix.rows.rows);
    const ColumnView to = result(value, graph_.node(value).inputs);
    program_.add_op(name(value), prefix_op(from, to, tensor, prefix.first_row));
  }

  void emit(ValueId value, const SliceNode& slice) {
    const ColumnView whole = input(value);
    place(value, {whole.slot, whole.column + slice.begin, graph_.width(value)});
  }

  void emit(ValueId, const ConcatNode&) {}  // its parts are there

  Graph graph_;
  Program program_;
  size_t now_ = 0;  // place in the graph's order
  std::vector<size_t> last_use_;
  std::vector<bool> is_per_output_;
  std::map<ValueId, ColumnView> views_;
  std::map<uint32_t, std::vector<ValueId>> occupants_;      // of each slot
  std::map<ValueId, std::pair<ValueId, uint32_t>> wholes_;  // concatenation and column
  std::map<ValueId, ValueId> fused_;                        // activation and product
  std::map<ValueId, uint32_t> tied_;                        // linear layer and tensor
  std::map<uint32_t, uint32_t> caches_;                     // of the graph, of the program
  std::vector<std::pair<TermTable, uint32_t>> tables_;      // of terms, and their tensors
  std::vector<std::pair<RopeSpec, uint32_t>> angles_;       // and their tensors
};

}  // namespace

Program lower(Graph graph, const std::string& name) {
  return Lowering(std::move(graph), name).run();
}

Program compile(Graph graph, const std::string& name,
                const std::vector<std::string>& without_passes) {
  return lower(rewrite(std::move(graph), without_passes), name);
}

}  // namespace arenite::convert
