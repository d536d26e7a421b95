// SPDX-License-Identifier: Apache-2.0
// Each value is kept until its last reader has run. Loops are those of a textbook.
#include "convert/graph/interpreter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
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
    case Activation::kClamp:
      return std::clamp(x, -parameter, parameter);
  }
  return x;
}

// ---- functions of a row, by the book ----

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

Rows patches_of(const ImagePatches& cut, std::span<const float> image) {
  Rows rows;
  for (size_t top = 0; top + cut.patch_height <= cut.height; top += cut.patch_height) {
    for (size_t left = 0; left + cut.patch_width <= cut.width; left += cut.patch_width) {
      for (size_t c = 0; c < cut.channels; ++c) {
        for (size_t y = top; y < top + cut.patch_height; ++y) {
          for (size_t x = left; x < left + cut.patch_width; ++x) {
            rows.push_back(image[(c * cut.height + y) * cut.width + x]);
          }
        }
      }
    }
  }
  return rows;
}

namespace {

void rotate_head(const RopeSpec& rope, size_t position, double* head) {
  const size_t half = rope.rotary_dim / 2;
  for (size_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * rope.inverse_frequencies[i];
    double& first = rope.turns_neighbours ? head[2 * i] : head[i];
    double& second = rope.turns_neighbours ? head[2 * i + 1] : head[i + half];
    const double x = rope.magnitude * first;
    const double y = rope.magnitude * second;
    first = x * std::cos(angle) - y * std::sin(angle);
    second = y * std::cos(angle) + x * std::sin(angle);
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
    case SelectKind::kLast:
    case SelectKind::kAsAsked:
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
  if (rounds_activations(part.storage.type)) round_activations(x, inputs);
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
  Interpreter(const Graph& graph, const GraphInput& input) : graph_(graph), input_(input) {
    check_input();
    for (const Mask& mask : graph.masks) {
      masks_.push_back(expand_mask(mask, static_cast<uint32_t>(rows_)));
    }
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
  // Whether the node's result is its input, which nobody else needs.
  bool is_passed_on(const Node& node, const std::map<ValueId, size_t>& readers_left) const {
    const auto* rows = std::get_if<SelectNode>(&node.body);
    return rows != nullptr && rows->kind == SelectKind::kAsAsked &&
           readers_left.at(node.inputs[0]) == 1 && !graph_.is_shown(node.inputs[0]);
  }

  void check_input() {
    if (graph_.vocab_size == 0) {
      if (input_.features.empty())
        throw InputError("token ids were given: the model takes features");
      const ValueId features = graph_.order().front();
      if (const auto& patches = graph_.as<FeaturesNode>(features)->patches) {
        tokens_ = static_cast<size_t>(patches->patches().value());
        refuse_if(input_.features.size() != patches->pixels().value(),
                  "{} values: expected an image of {}", input_.features.size(),
                  patches->pixels().value());
      } else if (input_.features.size() % graph_.width(features) != 0) {
        throw InputError("{} values: expected rows of {} features", input_.features.size(),
                         graph_.width(features));
      }
      if (tokens_ == 0) tokens_ = input_.features.size() / graph_.width(features);
    } else {
      refuse_if(!input_.features.empty(), "features were given: the model takes token ids");
      tokens_ = input_.tokens.size();
      for (const uint32_t token : input_.tokens) {
        refuse_if(token >= graph_.vocab_size,
                  "token {}: expected less than {}, the size of the vocabulary", token,
                  graph_.vocab_size);
      }
    }
    if (tokens_ == 0) throw InputError("no tokens: expected at least one");
    rows_ = graph_.prefix_rows + tokens_;
    refuse_if(graph_.positions_max != 0 && tokens_ > graph_.positions_max,
              "{} tokens: expected at most {}, the positions of the model", tokens_,
              graph_.positions_max);
    refuse_if(!input_.types.empty() && input_.types.size() != tokens_,
              "{} token types for {} tokens: expected one each", input_.types.size(), tokens_);
  }

  const Rows& input(const Node& node, size_t index = 0) { return values_.at(node.inputs[index]); }

  Rows compute(const Node& node) {
    return std::visit([&](const auto& body) { return compute(node, body); }, node.body);
  }

  Rows with_prefix_of_zeros(Rows x, size_t width) const {
    x.insert(x.begin(), graph_.prefix_rows * width, 0.0);
    return x;
  }

  Rows compute(const Node& node, const FeaturesNode& features) {
    if (features.patches) {
      return with_prefix_of_zeros(patches_of(*features.patches, input_.features), node.width);
    }
    return with_prefix_of_zeros({input_.features.begin(), input_.features.end()}, node.width);
  }

  Rows compute(const Node& node, const EmbeddingNode& embedding) {
    Rows x(tokens_ * node.width, 0.0);
    if (embedding.tokens) {
      add_rows(x, *embedding.tokens, input_.tokens, "token", embedding.scale);
    }
    x = with_prefix_of_zeros(std::move(x), node.width);
    if (embedding.positions) {
      std::vector<uint32_t> rows;
      uint32_t next = embedding.position_offset;
      for (size_t t = 0; t < rows_; ++t) {
        const bool is_padding = embedding.padding_id && input_.tokens[t] == *embedding.padding_id;
        rows.push_back(is_padding ? embedding.position_offset - 1 : next++);
      }
      add_rows(x, *embedding.positions, rows, "position");
    }
    if (embedding.types) {
      std::vector<uint32_t> rows(input_.types.begin(), input_.types.end());
      rows.resize(tokens_, 0);
      rows.insert(rows.begin(), graph_.prefix_rows, 0);
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

  Rows compute(const Node& node, const AddNode&) {
    Rows x = input(node);
    for (size_t i = 0; i < x.size(); ++i) x[i] += input(node, 1)[i];
    return x;
  }

  Rows compute(const Node& node, const MultiplyNode&) {
    Rows x = input(node);
    for (size_t i = 0; i < x.size(); ++i) x[i] *= input(node, 1)[i];
    return x;
  }

  // What a query sees of the keys, before softmax; hidden keys have -infinity.
  std::vector<double> scores(const AttentionNode& attention, const Node& node, const Rows& keys,
                             size_t row, size_t head) {
    const size_t key_head = head / (attention.heads / attention.kv_heads);
    std::vector<double> scores(rows_, -INFINITY);
    for (uint32_t k = 0; k < rows_; ++k) {
      if (!masks_[attention.mask].at(static_cast<uint32_t>(row), k)) continue;
      double score = 0.0, magnitude = 0.0;
      for (size_t d = 0, dim = attention.head_dim; d < dim; ++d) {
        const double product = input(node, 0)[(row * attention.heads + head) * dim + d] *
                               keys[(k * attention.kv_heads + key_head) * dim + d];
        score += product;
        magnitude += std::fabs(product);
      }
      scores[k] = whole_score(attention, score, head, row, k);
      result_.largest_score = std::max(result_.largest_score, magnitude * attention.scale);
    }
    return scores;
  }

  Rows compute(const Node& node, const AttentionNode& attention) {
    const size_t dim = attention.value_dim;
    const Rows value = as_kept(graph_.kv_cache, input(node, node.inputs.size() - 1), dim);
    const Rows keys =
        as_kept(graph_.kv_cache, input(node, node.inputs.size() / 2), attention.head_dim);
    Rows context(rows_ * attention.heads * dim, 0.0);
    for (size_t head = 0; head < attention.heads; ++head) {
      const size_t value_head = head / (attention.heads / attention.kv_heads);
      for (size_t row = 0; row < rows_; ++row) {
        std::vector<double> weights = scores(attention, node, keys, row, head);
        const double max = *std::ranges::max_element(weights);
        double sum = 0.0;
        for (double& weight : weights) sum += weight = std::exp(weight - max);
        double* output = context.data() + (row * attention.heads + head) * dim;
        for (size_t k = 0; k < rows_; ++k) {
          if (weights[k] == 0.0) continue;
          const double* from = value.data() + (k * attention.kv_heads + value_head) * dim;
          for (size_t d = 0; d < dim; ++d) output[d] += weights[k] / sum * from[d];
        }
      }
    }
    return context;
  }

  Rows compute(const Node& node, const SelectNode& rows) {
    if (rows.kind == SelectKind::kAsAsked) return input(node);
    const Rows& whole = input(node);
    const Rows x(whole.begin() + static_cast<ptrdiff_t>(rows.first_row * node.width), whole.end());
    Rows y(node.width);
    for (size_t i = 0; i < y.size(); ++i) y[i] = pooled(rows.kind, x, y.size(), i);
    return y;
  }

  Rows compute(const Node& node, const PrefixNode& prefix) {
    Rows x = input(node);
    const std::vector<double> rows = prefix.rows.exact();
    std::ranges::copy(rows, x.begin() + static_cast<ptrdiff_t>(prefix.first_row * node.width));
    return x;
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
  const GraphInput& input_;
  size_t tokens_ = 0;
  size_t rows_ = 0;  // those of the prefix, too
  std::vector<DenseMask> masks_;
  std::map<ValueId, Rows> values_;
  Evaluation result_;
};

}  // namespace

Evaluation evaluate(const Graph& graph, const GraphInput& input) {
  return Interpreter(graph, input).run();
}

}  // namespace arenite::convert
