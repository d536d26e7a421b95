// SPDX-License-Identifier: Apache-2.0
// Keeps each value until its last reader has run. The loops follow the textbook definitions.
#include "convert/graph/interpreter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numbers>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>

#include "convert/files/error.h"
#include "convert/graph/row_products.h"
#include "convert/quantize/quantizers.h"

namespace arenite::convert {

// ---- functions of a number ----

namespace {

double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }

}  // namespace

double activate(Activation function, double parameter, double x) {
  switch (function) {
    case Activation::kGeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::numbers::sqrt2));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1.0 + std::exp(-x));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kSigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Activation::kSoftCap:
      return parameter * std::tanh(x / parameter);
    case Activation::kScale:
      return parameter * x;
    case Activation::kLeakyRelu:
      return x < 0.0 ? parameter * x : x;
    case Activation::kElu:
      return x < 0.0 ? parameter * std::expm1(x) : x;
    case Activation::kSoftplus:
      return softplus(x);
    case Activation::kMish:
      return x * std::tanh(softplus(x));
    case Activation::kHardSwish:
      return x * std::clamp(x + 3.0, 0.0, 6.0) / 6.0;
    case Activation::kAtMost:
      return std::min(x, parameter);
    case Activation::kClamp:
      return std::clamp(x, -parameter, parameter);
    case Activation::kExp:
      return std::exp(x);
    case Activation::kSqrt:
      return std::sqrt(x + parameter);
    case Activation::kReciprocal:
      return 1.0 / (x + parameter);
    case Activation::kLog:
      return std::log(x + parameter);
    case Activation::kSin:
      return std::sin(x);
  }
  return x;
}

// ---- functions of a row ----

void softmax(bool is_log, std::span<double> row) {
  const double most = *std::ranges::max_element(row);
  double sum = 0.0;
  for (const double x : row) sum += std::exp(x - most);
  for (double& x : row) x = is_log ? x - most - std::log(sum) : std::exp(x - most) / sum;
}

void normalise(const NormNode& node, double* row) {
  const NormSpec& spec = node.norm;
  const size_t width = spec.gain.size();
  double mean = 0.0;
  if (is_centred(spec.kind)) {
    for (size_t i = 0; i < width; ++i) mean += row[i] / static_cast<double>(width);
  }
  double variance = 0.0;
  for (size_t i = 0; i < width; ++i) {
    variance += (row[i] - mean) * (row[i] - mean) / static_cast<double>(width);
  }
  const double scale = adds_epsilon_to_root(spec.kind) ? 1.0 / (std::sqrt(variance) + spec.epsilon)
                                                       : 1.0 / std::sqrt(variance + spec.epsilon);
  for (size_t i = 0; i < width; ++i) {
    const double gain = spec.gain_plus_one ? 1.0 + spec.gain[i] : spec.gain[i];
    const double bias = spec.bias.empty() ? 0.0 : spec.bias[i];
    row[i] = node.scale * ((row[i] - mean) * scale * gain + bias);
  }
}

namespace {

void rotate_head(const RopeSpec& rope, size_t position, double* head) {
  const size_t half = rope.rotary_dim / 2;
  for (size_t i = 0; i < half; ++i) {
    const double cosine = rope.cosine(position, i), sine = rope.sine(position, i);
    double& first = rope.turns_neighbours ? head[2 * i] : head[i];
    double& second = rope.turns_neighbours ? head[2 * i + 1] : head[i + half];
    const double x = first, y = second;
    first = x * cosine - y * sine;
    second = y * cosine + x * sine;
  }
}

double pooled(SelectKind kind, const Rows& x, size_t width, size_t column) {
  const size_t rows = x.size() / width;
  double sum = 0.0, weighted = 0.0, weights = 0.0, largest = x[column];
  for (size_t t = 0; t < rows; ++t) {
    const double value = x[t * width + column];
    const double weight = static_cast<double>(t + 1);
    sum += value;
    weighted += weight * value;
    weights += weight;
    largest = std::max(largest, value);
  }
  switch (kind) {
    case SelectKind::kFirst:
      return x[column];
    case SelectKind::kMean:
      return sum / static_cast<double>(rows);
    case SelectKind::kMax:
      return largest;
    case SelectKind::kMeanSqrtLength:
      return sum / std::sqrt(static_cast<double>(rows));
    case SelectKind::kWeightedMean:
      return weighted / weights;
    case SelectKind::kSum:
      return sum;
    case SelectKind::kLast:
    case SelectKind::kAsAsked:
    case SelectKind::kTurns:
    case SelectKind::kTransposed:
    case SelectKind::kTaken:
      return x[(rows - 1) * width + column];
  }
  return 0.0;
}

// ---- the graph ----

constexpr double kLengthMin = 1e-12;  // rows shorter than this are divided by it, as PyTorch does

// Adds rows ids[t] of `table`, times `scale`, to x.
void add_rows(Rows& x, const WeightRef& table, std::span<const uint32_t> ids, std::string_view what,
              double scale = 1.0) {
  const size_t width = table.columns;
  table.visit([&](const auto& values) {
    for (size_t t = 0; t < ids.size(); ++t) {
      if (ids[t] >= table.rows) {
        throw InputError("{} {}: expected less than {}, the rows of its table", what, ids[t],
                         table.rows);
      }
      for (size_t i = 0; i < width; ++i) x[t * width + i] += scale * values[ids[t] * width + i];
    }
  });
}

Rows linear(const LinearPart& part, Rows x) {
  const WeightRef& matrix = part.linear.weight;
  const size_t inputs = matrix.columns;
  if (weight_type(part.storage.type).rounds_inputs) round_activations(x, inputs);
  const size_t tokens = x.size() / inputs;
  Rows y(tokens * matrix.rows);
  for (size_t t = 0; t < tokens && !part.linear.bias.empty(); ++t) {
    std::ranges::copy(part.linear.bias, y.begin() + static_cast<ptrdiff_t>(t * matrix.rows));
  }
  matrix.visit([&](const auto& weight) {
    add_row_products(x.data(), tokens, by_outputs(weight.data(), matrix.rows, inputs), y.data());
  });
  for (double& value : y) value *= part.scale;
  return y;
}

class Interpreter {
 public:
  Interpreter(const Graph& graph, std::span<const SequenceInput> inputs)
      : graph_(graph), inputs_(inputs) {
    refuse_if(inputs.size() != graph.inputs.size(), "{} inputs: the model has {}", inputs.size(),
              graph.inputs.size());
    std::vector<uint32_t> tokens;
    for (uint32_t i = 0; i < inputs.size(); ++i) {
      try {
        tokens.push_back(static_cast<uint32_t>(check_input(i)));
      } catch (const InputError& error) {
        if (inputs.size() == 1) throw;
        throw InputError("input {} ({}): {}", i + 1, graph.inputs[i].name, error.what());
      }
    }
    rows_ = graph.all_rows(tokens);
  }

  Evaluation run() {
    std::map<ValueId, size_t> readers_left;
    for (const ValueId value : graph_.order()) {
      for (const ValueId input : graph_.node(value).inputs) ++readers_left[input];
    }
    for (const ValueId value : graph_.order()) {
      values_[value] = is_passed_on(graph_.node(value), readers_left)
                           ? std::move(values_.at(graph_.node(value).inputs[0]))
                           : compute(graph_.node(value));
      for (const ValueId input : graph_.node(value).inputs) {
        if (--readers_left[input] == 0 && !graph_.is_shown(input)) values_.erase(input);
      }
    }
    for (const ValueId value : graph_.hidden_states)
      result_.hidden_states.push_back(values_[value]);
    result_.values = std::move(values_[graph_.output]);
    for (const double value : result_.values) {
      result_.largest_value = std::max(result_.largest_value, std::fabs(value));
    }
    return std::move(result_);
  }

 private:
  // Whether the node returns its input, and no other node needs that input.
  bool is_passed_on(const Node& node, const std::map<ValueId, size_t>& readers_left) const {
    const auto* rows = std::get_if<SelectNode>(&node.body);
    return rows != nullptr && rows->kind == SelectKind::kAsAsked &&
           readers_left.at(node.inputs[0]) == 1 && !graph_.is_shown(node.inputs[0]);
  }

  // Returns the tokens of an input. Throws InputError if it does not fit.
  size_t check_input(uint32_t number) const {
    const GraphInput& expected = graph_.inputs[number];
    const SequenceInput& given = inputs_[number];
    const size_t tokens = expected.vocab_size == 0 ? rows_of_features(number) : given.tokens.size();
    if (expected.vocab_size != 0) {
      refuse_if(!given.features.empty(), "features were given: the model takes token ids");
      for (const uint32_t token : given.tokens) {
        refuse_if(token >= expected.vocab_size,
                  "token {}: expected less than {}, the size of the vocabulary", token,
                  expected.vocab_size);
      }
    }
    if (tokens == 0) throw InputError("no tokens: expected at least one");
    refuse_if(expected.positions_max != 0 && tokens > expected.positions_max,
              "{} tokens: expected at most {}, the positions of the model", tokens,
              expected.positions_max);
    refuse_if(!given.types.empty() && given.types.size() != tokens,
              "{} token types for {} tokens: expected one each", given.types.size(), tokens);
    return tokens;
  }

  size_t rows_of_features(uint32_t number) const {
    const size_t count = inputs_[number].features.size();
    if (count == 0) throw InputError("token ids were given: the model takes features");
    const auto features = std::ranges::find_if(graph_.order(), [&](ValueId value) {
      return graph_.as<FeaturesNode>(value) && graph_.axis(value) == graph_.inputs[number].axis;
    });
    if (features == graph_.order().end()) return 1;  // nobody reads them
    refuse_if(count % graph_.width(*features) != 0, "{} values: expected rows of {} features",
              count, graph_.width(*features));
    return count / graph_.width(*features);
  }

  // Returns the call's data for the input on whose axis the node is.
  const SequenceInput& given(const Node& node) const {
    return inputs_[graph_.axes[node.axis].source];
  }

  const Rows& input(const Node& node, size_t index = 0) { return values_.at(node.inputs[index]); }

  Rows compute(const Node& node) {
    return std::visit([&](const auto& body) { return compute(node, body); }, node.body);
  }

  Rows compute(const Node& node, const FeaturesNode&) {
    const std::span<const float> values = given(node).features;
    return {values.begin(), values.end()};
  }

  Rows compute(const Node& node, const EmbeddingNode& embedding) {
    const uint32_t count = rows_[node.axis];
    Rows x(size_t{count} * node.width, 0.0);
    if (embedding.tokens) {
      add_rows(x, *embedding.tokens, given(node).tokens, "token", embedding.scale);
    }
    if (embedding.positions) {
      std::vector<uint32_t> rows;
      uint32_t next = embedding.position_offset;
      for (size_t t = 0; t < count; ++t) {
        const bool is_padding =
            embedding.padding_id && given(node).tokens[t] == *embedding.padding_id;
        rows.push_back(is_padding ? embedding.position_offset - 1 : next++);
      }
      add_rows(x, *embedding.positions, rows, "position");
    }
    if (embedding.types) {
      const std::span<const uint8_t> types = given(node).types;
      std::vector<uint32_t> rows(types.begin(), types.end());
      rows.resize(count, 0);
      add_rows(x, *embedding.types, rows, "token type");
    }
    return x;
  }

  Rows compute(const Node& node, const LinearNode& node_linear) {
    if (node_linear.parts.size() == 1) return linear(node_linear.parts[0], input(node));
    std::vector<Rows> parts;
    for (const LinearPart& part : node_linear.parts) parts.push_back(linear(part, input(node)));
    return side_by_side(parts, input(node).size() / graph_.width(node.inputs[0]));
  }

  Rows compute(const Node& node, const TopKNode&) {
    const Rows& x = input(node);
    const size_t scores = graph_.width(node.inputs[0]);
    Rows y;
    for (size_t start = 0; start < x.size(); start += scores) {
      std::vector<uint32_t> order(scores);
      std::iota(order.begin(), order.end(), 0u);
      std::ranges::stable_sort(order, std::greater<>(), [&](uint32_t i) { return x[start + i]; });
      order.resize(node.width / 2);
      y.insert(y.end(), order.begin(), order.end());
      for (const uint32_t i : order) y.push_back(x[start + i]);
    }
    return y;
  }

  Rows compute(const Node& node, const ExpertsNode& experts) {
    const LinearPart& part = experts.parts[0];
    const WeightRef& matrix = part.linear.weight;
    const size_t inputs = matrix.columns, outputs = matrix.rows / experts.count;
    const Rows& ids = input(node, 1);
    const size_t shared = graph_.width(node.inputs[0]) == inputs ? graph_.width(node.inputs[1]) : 1;
    Rows x = input(node);
    if (weight_type(part.storage.type).rounds_inputs) round_activations(x, inputs);
    Rows y(ids.size() * outputs);
    matrix.visit([&](const auto& weight) {
      for (size_t i = 0; i < ids.size(); ++i) {
        const size_t row = static_cast<size_t>(ids[i]) * outputs;
        double* const to = y.data() + i * outputs;
        for (size_t o = 0; o < outputs && !part.linear.bias.empty(); ++o) {
          to[o] = part.linear.bias[row + o];
        }
        add_row_products(x.data() + i / shared * inputs, 1,
                         by_outputs(weight.data() + row * inputs, outputs, inputs), to);
      }
    });
    for (double& value : y) value *= part.scale;
    return y;
  }

  static Rows side_by_side(const std::vector<Rows>& parts, size_t rows) {
    Rows y;
    for (size_t row = 0; row < rows; ++row) {
      for (const Rows& part : parts) {
        const size_t width = part.size() / rows;
        const auto begin = part.begin() + static_cast<ptrdiff_t>(row * width);
        y.insert(y.end(), begin, begin + static_cast<ptrdiff_t>(width));
      }
    }
    return y;
  }

  Rows compute(const Node& node, const NormNode& norm) {
    Rows x = input(node);
    for (size_t start = 0; start < x.size(); start += norm.norm.gain.size()) {
      normalise(norm, x.data() + start);
    }
    return x;
  }

  Rows compute(const Node& node, const RowFunctionNode& normalize) {
    Rows x = input(node);
    for (size_t start = 0; start < x.size(); start += node.width) {
      if (is_softmax(normalize.kind)) {
        softmax(normalize.kind == NormKind::kLogSoftmax, std::span(x).subspan(start, node.width));
        continue;
      }
      double squares = 0.0;
      for (size_t i = start; i < start + node.width; ++i) squares += x[i] * x[i];
      const double length = std::max(std::sqrt(squares), kLengthMin);
      for (size_t i = start; i < start + node.width; ++i) x[i] /= length;
    }
    return x;
  }

  Rows compute(const Node& node, const RotateNode& rotate) {
    Rows x = input(node);
    for (size_t start = 0; start < x.size(); start += rotate.head_dim) {
      rotate_head(rotate.rope, start / node.width, x.data() + start);
    }
    return x;
  }

  Rows compute(const Node& node, const PermuteNode& permute) {
    const Rows& x = input(node);
    Rows y(x.size());
    for (size_t start = 0; start < x.size(); start += node.width) {
      for (size_t i = 0; i < node.width; ++i) y[start + i] = x[start + permute.order[i]];
    }
    return y;
  }

  Rows compute(const Node& node, const ScaleNode& scale) {
    return map(input(node), [&](double x) { return scale.factor * x; });
  }

  Rows compute(const Node& node, const ActivationNode& activation) {
    return map(input(node),
               [&](double x) { return activate(activation.activation, activation.parameter, x); });
  }

  template <typename Function>
  static Rows map(Rows x, const Function& function) {
    for (double& value : x) value = function(value);
    return x;
  }

  // Applies `function` to each pair of elements; either input may have one row for the whole
  // sequence.
  template <typename Function>
  Rows map_both(const Node& node, const Function& function) {
    const Rows& first = input(node);
    const Rows& second = input(node, 1);
    Rows y(std::max(first.size(), second.size()));
    for (size_t i = 0; i < y.size(); ++i) {
      y[i] = function(first[i % first.size()], second[i % second.size()]);
    }
    return y;
  }

  Rows compute(const Node& node, const AddNode&) { return map_both(node, std::plus<>()); }
  // If the second input is narrower, each of its columns scales an equal share of the first input's
  // columns.
  Rows compute(const Node& node, const MultiplyNode&) {
    const size_t width = graph_.width(node.inputs[0]), factors = graph_.width(node.inputs[1]);
    if (width == factors) return map_both(node, std::multiplies<>());
    Rows y = input(node);
    const Rows& second = input(node, 1);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t row = i / width, of = i % width * factors / width;
      y[i] *= second[(row * factors + of) % second.size()];
    }
    return y;
  }

  // Rows [begin, begin + count) of a head's queries.
  struct Queries {
    size_t head, begin, count;
  };

  // Views the columns of one of `heads` in `x` [tokens, heads * dim] as weights: (row, element), or
  // (element, row) if the product sums over rows.
  static WeightView<double> of_head(const Rows& x, size_t head, size_t heads, size_t dim,
                                    bool is_over_rows) {
    const size_t rows = dim == 0 ? 0 : x.size() / (heads * dim);
    const double* const values = x.data() + head * dim;
    if (is_over_rows) return {values, dim, rows, 1, heads * dim};
    return {values, rows, dim, heads * dim, 1};
  }

  // The attention bias of a query and a key `distance` rows later: dot(row of one of them, table
  // of the distance) + constant. `rows` are those of all queries or keys.
  static double row_term(const RelativeBias& table, const Rows& rows, size_t heads, size_t head,
                         size_t row, size_t distance) {
    const std::span<const double> numbers = table.at(head, table.positions - 1 + distance);
    const double* const own = rows.data() + (row * heads + head) * table.dim;
    return std::inner_product(own, own + table.dim, numbers.begin(), numbers.back());
  }

  // Scores of queries and keys before softmax, [queries, keys]; -infinity where `mask` hides the
  // key.
  Rows scores(const AttentionNode& attention, const Node& node, const DenseMask* mask,
              const Rows& keys, const Queries& of) {
    const size_t dim = attention.head_dim;
    const size_t count = rows_[graph_.axis(value_input(node.inputs))];
    Rows scores(of.count * count, 0.0), magnitudes = scores, query(of.count * dim);
    for (size_t i = 0; i < query.size(); ++i) {
      const size_t row = of.begin + i / dim;
      query[i] = input(node, 0)[(row * attention.heads + of.head) * dim + i % dim];
    }
    const size_t key_head = of.head / (attention.heads / attention.kv_heads);
    const auto multiply = [&](const Rows& all, Rows& products) {
      add_row_products(query.data(), of.count,
                       of_head(all, key_head, attention.kv_heads, dim, false), products.data());
    };
    multiply(keys, scores);
    Rows sizes = keys;
    for (Rows* numbers : {&query, &sizes}) {
      for (double& x : *numbers) x = std::fabs(x);
    }
    multiply(sizes, magnitudes);
    for (size_t i = 0; i < scores.size(); ++i) {
      const size_t row = of.begin + i / count, k = i % count;
      if (mask != nullptr && !mask->at(static_cast<uint32_t>(row), static_cast<uint32_t>(k))) {
        scores[i] = -INFINITY;
        continue;
      }
      scores[i] = whole_score(attention, scores[i], of.head, row, k);
      if (attention.query_terms) {
        scores[i] += row_term(*attention.query_terms, input(node, 3), attention.heads, of.head, row,
                              k - row);
      }
      if (attention.key_terms) {
        scores[i] +=
            row_term(*attention.key_terms, input(node, 4), attention.heads, of.head, k, k - row);
      }
      result_.largest_score = std::max(result_.largest_score, magnitudes[i] * attention.scale);
    }
    return scores;
  }

  Rows compute(const Node& node, const AttentionNode& attention) {
    constexpr size_t kAtOnce = 256;  // rows of scores
    const size_t dim = attention.value_dim;
    const Rows value =
        as_cached(graph_.kv_cache, input(node, node.inputs.size() == 1 ? 0 : 2), dim);
    const Rows keys = as_cached(graph_.kv_cache, input(node, node.inputs.size() == 1 ? 0 : 1),
                                attention.head_dim);
    const size_t rows = rows_[node.axis];
    const bool sees_all =
        graph_.axis(value_input(node.inputs)) != node.axis;  // keys of another axis
    const DenseMask* const mask = sees_all ? nullptr : &mask_of(attention.mask, node);
    Rows context(rows * attention.heads * dim, 0.0);
    for (size_t i = 0; i < attention.heads * rows;) {
      const Queries of = {i / rows, i % rows, std::min(kAtOnce, rows - i % rows)};
      i += of.count;
      Rows weights = scores(attention, node, mask, keys, of);
      const double sink = attention.sinks.empty() ? -INFINITY : attention.sinks[of.head];
      const size_t count = weights.size() / of.count;
      for (size_t row = 0; row < of.count; ++row) {
        const std::span<double> own = std::span(weights).subspan(row * count, count);
        const double max = std::max(sink, *std::ranges::max_element(own));
        double sum = std::exp(sink - max);
        for (double& weight : own) sum += weight = std::exp(weight - max);
        for (double& weight : own) weight /= sum;
      }
      Rows made(of.count * dim, 0.0);
      const size_t value_head = of.head / (attention.heads / attention.kv_heads);
      add_row_products(weights.data(), of.count,
                       of_head(value, value_head, attention.kv_heads, dim, true), made.data());
      for (size_t row = 0; row < of.count; ++row) {
        double* const output =
            context.data() + ((of.begin + row) * attention.heads + of.head) * dim;
        std::copy_n(made.data() + row * dim, dim, output);
      }
    }
    return context;
  }

  const DenseMask& mask_of(uint32_t mask, const Node& node) {
    const auto [known, is_new] = masks_.try_emplace({mask, node.axis}, 0);
    if (!is_new) return known->second;
    DenseMask& dense = known->second = expand_mask(graph_.masks[mask], rows_[node.axis]);
    if (!is_of_pairs(graph_.masks[mask]) || given(node).pairs.empty()) return dense;
    for (size_t i = 0; i < dense.visible.size(); ++i) {
      if (given(node).pairs[i] == 0) dense.visible[i] = false;
    }
    return dense;
  }

  Rows compute(const Node& node, const SelectNode& select) {
    const Rows& x = input(node);
    Rows y(size_t{rows_[node.axis]} * node.width);
    if (select.kind == SelectKind::kTransposed) {
      const size_t columns = graph_.width(node.inputs[0]);
      for (size_t i = 0; i < y.size(); ++i) y[i] = x[i % node.width * columns + i / node.width];
      return y;
    }
    for (size_t i = 0; select.kind == SelectKind::kTaken && i < y.size(); ++i) {
      y[i] = x[select.taken[i / node.width] * node.width + i % node.width];
    }
    if (select.kind == SelectKind::kTaken) return y;
    if (graph_.axes[node.axis].kind == AxisKind::kOne) {
      for (size_t i = 0; i < y.size(); ++i) y[i] = pooled(select.kind, x, y.size(), i);
      return y;
    }
    const size_t begin = select.kind == SelectKind::kFirst ? 0 : x.size() - y.size();
    std::copy_n(x.begin() + static_cast<ptrdiff_t>(begin), y.size(), y.begin());
    return y;
  }

  Rows compute(const Node& node, const JoinNode&) {
    Rows x = input(node);
    x.insert(x.end(), input(node, 1).begin(), input(node, 1).end());
    return x;
  }

  // Calls see(row of the result, row of the window, row of the input) for all rows inside the
  // sequence.
  template <typename See>
  void for_each_seen(const Node& node, const Windows& windows, const See& see) {
    const auto width = static_cast<int64_t>(windows.width);
    const auto rows = static_cast<int64_t>(input(node).size() / graph_.width(node.inputs[0]));
    const auto at = [](const WindowAxis& window, int64_t to, int64_t k) {
      return to * window.stride + k * window.dilation - window.before;
    };
    const int64_t per_line = windows.per_line(), columns = windows.columns.kernel;
    for (int64_t to = 0; to < rows_[node.axis]; ++to) {
      for (int64_t k = 0; k < windows.kernel(); ++k) {
        const int64_t line = at(windows.lines, to / per_line, k / columns);
        const int64_t column = at(windows.columns, to % per_line, k % columns);
        if (line < 0 || line >= rows / width || column < 0 || column >= width) continue;
        see(static_cast<size_t>(to), static_cast<size_t>(k),
            static_cast<size_t>(line * width + column));
      }
    }
  }

  Rows compute(const Node& node, const WindowsNode& windows) {
    const Rows& x = input(node);
    const size_t width = graph_.width(node.inputs[0]);
    Rows y(size_t{rows_[node.axis]} * node.width, 0.0);
    for_each_seen(node, windows.windows, [&](size_t to, size_t k, size_t from) {
      std::copy_n(x.begin() + static_cast<ptrdiff_t>(from * width), width,
                  y.begin() + static_cast<ptrdiff_t>(to * node.width + k * width));
    });
    return y;
  }

  Rows compute(const Node& node, const DepthwiseNode& depthwise) {
    const Rows& x = input(node);
    const size_t width = node.width;
    Rows y(size_t{rows_[node.axis]} * width, 0.0);
    for (size_t i = 0; i < y.size() && !depthwise.bias.empty(); ++i) {
      y[i] = depthwise.bias[i % width];
    }
    depthwise.kernel.visit([&](const auto& kernel) {
      for_each_seen(node, depthwise.windows, [&](size_t to, size_t k, size_t from) {
        for (size_t c = 0; c < width; ++c) {
          y[to * width + c] += kernel[k * width + c] * x[from * width + c];
        }
      });
    });
    return y;
  }

  Rows compute(const Node& node, const MaxPoolNode& pool) {
    const Rows& x = input(node);
    const size_t width = node.width;
    Rows y(size_t{rows_[node.axis]} * width, 0.0);
    std::vector<bool> is_seen(rows_[node.axis], false);
    for_each_seen(node, pool.windows, [&](size_t to, size_t, size_t from) {
      for (size_t c = 0; c < width; ++c) {
        double& largest = y[to * width + c];
        largest = is_seen[to] ? std::max(largest, x[from * width + c]) : x[from * width + c];
      }
      is_seen[to] = true;
    });
    return y;
  }

  Rows compute(const Node& node, const SliceNode& slice) {
    const Rows& x = input(node);
    const size_t width = graph_.width(node.inputs[0]);
    Rows y;
    for (size_t start = slice.begin; start < x.size(); start += width) {
      const auto begin = x.begin() + static_cast<ptrdiff_t>(start);
      y.insert(y.end(), begin, begin + static_cast<ptrdiff_t>(node.width));
    }
    return y;
  }

  Rows compute(const Node& node, const ConcatNode&) {
    std::vector<Rows> parts;
    for (size_t i = 0; i < node.inputs.size(); ++i) parts.push_back(input(node, i));
    return side_by_side(parts, parts[0].size() / graph_.width(node.inputs[0]));
  }

  const Graph& graph_;
  std::span<const SequenceInput> inputs_;
  AxisRows rows_;
  std::map<std::pair<uint32_t, uint32_t>, DenseMask> masks_;  // by number and axis
  std::map<ValueId, Rows> values_;
  Evaluation result_;
};

}  // namespace

Evaluation evaluate(const Graph& graph, std::span<const SequenceInput> inputs) {
  return Interpreter(graph, inputs).run();
}

}  // namespace arenite::convert
