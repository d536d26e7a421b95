// SPDX-License-Identifier: Apache-2.0
// Float32 weights are only rounded to nearest. Other types are quantized on first use and cached.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <type_traits>
#include <variant>

#include "convert/files/error.h"
#include "convert/graph/node_traits.h"
#include "convert/program/program.h"
#include "convert/program/weights.h"
#include "convert/quantize/quantizers.h"
#include "convert/spec/quantized_weights.h"

namespace arenite::convert {

// ---- types ----

namespace {

constexpr const char* kOutputRule = "output";  // what people call the matrix of the logits
constexpr const char* kEmbeddingRule = "embedding";

// Whether `part` is a sequence of whole dot-separated parts of `name`.
bool has_part(const std::string& name, const std::string& part) {
  const std::string dotted = "." + name + ".";
  return dotted.find("." + part + ".") != std::string::npos;
}

// Returns `wanted`, or the smallest larger type that can store rows of `inputs` elements.
TensorType type_that_fits(TensorType wanted, uint32_t inputs) {
  const auto has_room = [&](TensorType type) {
    return fits(type, inputs) && inputs <= weight_type(type).inputs_max;
  };
  // The enum lists larger types first.
  while (!has_room(wanted)) wanted = static_cast<TensorType>(static_cast<uint32_t>(wanted) - 1);
  return wanted;
}

// Calls take(name, weight, storage, value) for each matrix that may have a type of its own.
template <typename AnyGraph, typename Take>
void for_each_matrix(AnyGraph& graph, const Take& take) {
  for (const ValueId value : graph.order()) {
    const std::string& name = graph.node(value).name;
    if (auto* linear = graph.weights_at(value)) {
      for (auto& part : linear->parts) take(name, part.linear.weight, part.storage, value);
    } else if (auto* embedding = graph.template as<EmbeddingNode>(value);
               embedding && embedding->tokens) {
      take(name, *embedding->tokens, embedding->storage, value);
    }
  }
}

// Finds the role of each matrix in the graph, whatever its author calls it.
class Roles {
 public:
  explicit Roles(const Graph& graph) : graph_(graph), follows_(graph.values(), false) {
    for (const ValueId value : graph.order()) {
      const std::vector<ValueId>& from = graph.node(value).inputs;
      follows_[value] = graph.as<AttentionNode>(value) != nullptr ||
                        std::ranges::any_of(from, [&](ValueId v) { return follows_[v]; });
      if (const auto* embedding = graph.as<EmbeddingNode>(value)) {
        if (embedding->tokens) roles_[value].insert(kEmbeddingRule);
      } else if (graph.as<AttentionNode>(value) != nullptr) {
        constexpr const char* kInputs[] = {"query", "key", "value"};
        const std::vector<ValueId>& inputs = graph.node(value).inputs;
        for (size_t i = 0; inputs.size() > 1 && i < std::size(kInputs); ++i) {
          for (const ValueId linear : sources(inputs[i])) add(linear, {"attention", kInputs[i]});
        }
      } else if (graph.weights_at(value) != nullptr) {
        add_reader(value);
      }
    }
    for (const ValueId linear : sources(graph.output, true)) roles_[linear] = {kOutputRule};
  }

  bool has(ValueId value, const std::string& role) const {
    const auto found = roles_.find(value);
    return found != roles_.end() && found->second.contains(role);
  }

  // Whether the value has a column for every token of the vocabulary.
  bool gives_logits(ValueId value) const {
    return has(value, kOutputRule) &&
           std::ranges::any_of(graph_.inputs, [&](const GraphInput& input) {
             return input.vocab_size != 0 && input.vocab_size == graph_.width(value);
           });
  }

 private:
  void add(ValueId value, std::initializer_list<const char*> roles) {
    if (graph_.weights_at(value) != nullptr) roles_[value].insert(roles.begin(), roles.end());
  }

  // Adds a layer that reads the result of attention, or the hidden columns of an MLP.
  void add_reader(ValueId value) {
    for (const ValueId source : sources(graph_.node(value).inputs[0])) {
      if (graph_.as<AttentionNode>(source) != nullptr) add(value, {"attention"});
      const auto* const product = graph_.as<MultiplyNode>(source);
      const auto* const function = graph_.as<ActivationNode>(source);
      if (product == nullptr && function == nullptr) continue;
      bool is_ffn = false;
      for (const ValueId factor : graph_.node(source).inputs) {
        const bool is_gate = product != nullptr && graph_.as<ActivationNode>(factor) != nullptr;
        const ValueId before = is_gate ? graph_.node(factor).inputs[0] : factor;
        for (const ValueId linear : sources(before)) {
          if (graph_.weights_at(linear) == nullptr) continue;
          add(linear, {"ffn", is_gate ? "gate" : "up"});
          is_ffn = true;
        }
      }
      if (is_ffn) add(value, {"ffn", "down"});
    }
  }

  template <typename Body>
  static bool keeps_columns(const Body& body) {
    if constexpr (std::is_same_v<Body, SelectNode>) return body.kind != SelectKind::kTransposed;
    return false;
  }

  // Whether just one operand of a sum or product follows attention, as in a forecast that is scaled
  // back.
  bool has_one_result(ValueId value) const {
    const std::vector<ValueId>& inputs = graph_.node(value).inputs;
    const bool is_pair =
        graph_.as<AddNode>(value) != nullptr || graph_.as<MultiplyNode>(value) != nullptr;
    return is_pair && std::ranges::count_if(inputs, [&](ValueId v) { return follows_[v]; }) == 1;
  }

  // Returns the nodes whose columns are in `value`, possibly permuted or scaled or, with
  // has_functions, after a function such as softmax of logits or after statistics of the input.
  std::set<ValueId> sources(ValueId value, bool has_functions = false) const {
    std::set<ValueId> found, seen;
    std::vector<ValueId> next = {value};
    while (!next.empty()) {
      const ValueId at = next.back();
      next.pop_back();
      if (!seen.insert(at).second) continue;
      const bool is_passed = std::visit(
          [&](const auto& body) {
            using Body = std::decay_t<decltype(body)>;
            const bool is_function =
                std::is_same_v<Body, ActivationNode> || std::is_same_v<Body, RowFunctionNode>;
            const bool is_of_output = is_function || std::is_same_v<Body, SelectNode>;
            return (has_functions && (is_of_output || has_one_result(at))) ||
                   std::is_same_v<Body, NormNode> || std::is_same_v<Body, RotateNode> ||
                   std::is_same_v<Body, PermuteNode> || std::is_same_v<Body, ScaleNode> ||
                   std::is_same_v<Body, SliceNode> || std::is_same_v<Body, ConcatNode> ||
                   keeps_columns(body);
          },
          graph_.node(at).body);
      if (!is_passed) found.insert(at);
      for (const ValueId input : graph_.node(at).inputs) {
        if (is_passed && (follows_[input] || !has_one_result(at))) next.push_back(input);
      }
    }
    return found;
  }

  const Graph& graph_;
  std::vector<bool> follows_;  // attention, of each value
  std::map<ValueId, std::set<std::string>> roles_;
};

// Whether a rule names exactly this matrix, by name or as the model's embedding or output.
bool is_of(const WeightRule& rule, const std::string& name, const WeightRef& weight, ValueId value,
           const Roles& roles) {
  if (rule.name == name || rule.name == weight.name) return true;
  if (rule.name != kOutputRule && rule.name != kEmbeddingRule) return false;
  return roles.has(value, rule.name) &&
         (rule.name == kEmbeddingRule || !rule.is_usual || roles.gives_logits(value));
}

// Calls take(name, storage) for each matrix that a rule matches. Throws InputError if a rule that
// must match does not.
template <typename AnyGraph, typename Take>
void for_each_match(const WeightRule& rule, AnyGraph& graph, const Take& take) {
  const Roles roles(graph);
  bool is_name = false;
  bool is_part = false;
  bool is_role = false;
  std::vector<std::string> names;
  for_each_matrix(
      graph, [&](const std::string& name, const WeightRef& weight, const Storage&, ValueId value) {
        is_name = is_name || is_of(rule, name, weight, value, roles);
        is_part = is_part || has_part(name, rule.name);
        is_role = is_role || roles.has(value, rule.name);
        names.push_back(name);
      });
  if (!is_name && rule.is_usual) return;
  if (!is_name && !is_part && !is_role) {
    throw InputError(
        "--keep: {} is neither the name of a weight matrix, nor a part of one, nor a role: names "
        "are {}; roles are embedding, output, attention, query, key, value, ffn, gate, up, down",
        quote(rule.name), fmt::join(names, ", "));
  }
  for_each_matrix(
      graph, [&](const std::string& name, const WeightRef& weight, auto& storage, ValueId value) {
        const bool fits = is_name   ? is_of(rule, name, weight, value, roles)
                          : is_part ? has_part(name, rule.name)
                                    : roles.has(value, rule.name);
        if (fits) take(name, storage);
      });
}

// Returns the types no larger than that of the checkpoint, largest first.
std::vector<TensorType> types_of(const WeightRef& weight) {
  std::vector types = {weight.load_quantized ? weight.quantized.type : TensorType::kF32};
  for (const TensorType wanted : kIntegerTypes) {
    const TensorType type = type_that_fits(wanted, weight.columns);
    if (weight_type(type).bits < weight_type(types.back()).bits) types.push_back(type);
  }
  return types;
}

}  // namespace

TensorType parse_weight_type(const std::string& text) {
  for (const TensorType type : kWeightTypes) {
    if (text == name(type)) return type;
  }
  throw InputError("unknown type of weights {}: expected f32, w8, q8 or q4", quote(text));
}

std::vector<WeightRule> parse_weight_rules(const std::string& text, TensorType type) {
  if (text == "none") return {};
  if (text.empty()) {
    const TensorType of_ends = use_of(type).of_ends;
    if (of_ends == type) return {};
    return {{kOutputRule, of_ends, true}, {kEmbeddingRule, of_ends, true}};
  }
  std::vector<WeightRule> rules;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    refuse_if(equals == 0 || equals == std::string::npos,
              "--keep: found {}, expected NAME=TYPE,NAME=TYPE... or none", quote(part));
    rules.push_back({part.substr(0, equals), parse_weight_type(part.substr(equals + 1))});
    begin = end + 1;
  }
  return rules;
}

std::vector<FreeMatrix> free_matrices(const Graph& graph, const std::vector<WeightRule>& rules) {
  std::set<std::string> said;
  for (const WeightRule& rule : rules) {
    for_each_match(rule, graph,
                   [&](const std::string& name, const Storage&) { said.insert(name); });
  }
  std::vector<FreeMatrix> matrices;
  for_each_matrix(graph,
                  [&](const std::string& name, const WeightRef& weight, const Storage&, ValueId) {
                    if (!said.contains(name)) matrices.push_back({name, types_of(weight)});
                  });
  return matrices;
}

namespace {

// Tolerance for elements that float32 rounded in another order, relative to the largest of a row.
constexpr float kSameNumber = 0x1p-22f;

// Returns the integers and scales whose products are `weight` up to rounding, else nullopt.
std::optional<QuantizedMatrix> integers_of(const WeightRef& weight, TensorType type) {
  if (type_that_fits(type, weight.columns) != type) return std::nullopt;
  const Floats values = weight.load();
  QuantizedMatrix all{.type = type, .rows = 0, .columns = weight.columns};
  for (size_t begin = 0; begin < values.size(); begin += weight.columns) {
    const auto row = std::span(values).subspan(begin, weight.columns);
    const QuantizedMatrix integers = quantize(row, 1, weight.columns, type);
    const std::vector<float> found = dequantize(integers);
    float largest = 0.0f;
    for (const float value : row) largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < row.size(); ++i) {
      if (!(std::fabs(found[i] - row[i]) <= kSameNumber * largest)) return std::nullopt;
    }
    all.append(integers);
  }
  return all;
}

}  // namespace

void find_integers(Graph& graph) {
  for_each_matrix(graph, [](const std::string&, WeightRef& weight, const Storage&, ValueId) {
    if (weight.load_quantized) return;
    for (const TensorType type : kIntegerTypes) {
      std::optional<QuantizedMatrix> integers = integers_of(weight, type);
      if (!integers) continue;
      weight.quantized = {type, fmt::format("int{} of the program", weight_type(type).bits)};
      weight.load_quantized = [kept = std::move(*integers)] { return kept; };
      return;
    }
  });
}

std::vector<TypeFallback> choose_types(Graph& graph, const WeightRules& rules) {
  for_each_matrix(graph,
                  [&](const std::string&, const WeightRef& weight, Storage& storage, ValueId) {
                    const bool keeps = rules.keeps_integers && offers(weight, TensorType::kW8);
                    storage.type = keeps ? TensorType::kW8 : rules.type;
                  });
  for (const WeightRule& rule : rules.keep) {
    for_each_match(rule, graph,
                   [&](const std::string&, Storage& storage) { storage.type = rule.type; });
  }
  std::vector<TypeFallback> fallbacks;
  for_each_matrix(graph,
                  [&](const std::string& name, const WeightRef& weight, Storage& storage, ValueId) {
                    const TensorType wanted = storage.type;
                    storage.type = type_that_fits(wanted, weight.columns);
                    storage.is_taken_over = offers(weight, storage.type);
                    if (storage.type != wanted) {
                      fallbacks.push_back({name, weight.columns, wanted, storage.type});
                    }
                  });
  return fallbacks;
}

// ---- elements ----

namespace {

// Loads the author's elements with the fold applied.
std::vector<float> folded_values(const WeightRef& weight, const Fold& fold) {
  return weight.visit([&](const auto& author) {
    std::vector<float> folded(author.size());
    std::ranges::transform(author, folded.begin(),
                           [&](double value) { return static_cast<float>(fold(value)); });
    return folded;
  });
}

void store(WeightRef& weight, const Fold& fold, const Storage& storage) {
  if (storage.is_taken_over && fold.scale != 1.0) {
    throw std::logic_error(
        fmt::format("{} is taken over as it is, and scaled: this is a bug", weight.name));
  }
  if (storage.type == TensorType::kF32) {
    weight.load = [exact = weight, fold] { return folded_values(exact, fold); };
    weight.load_quantized = {};
  } else if (storage.is_taken_over) {
    weight.load_quantized = [exact = weight, type = storage.type] { return load_as(exact, type); };
    weight.load = [quantized = weight.load_quantized] { return dequantize(quantized()); };
  } else {
    weight.load_quantized = [exact = weight, fold, type = storage.type,
                             kept = std::make_shared<std::optional<QuantizedMatrix>>()] {
      if (!*kept) {
        ScaleReport scales;
        *kept = quantize(folded_values(exact, fold), exact.rows, exact.columns, type, {}, &scales);
        check_scales(scales, exact.name, exact.name + "=f32");
      }
      return **kept;
    };
    weight.load = [quantized = weight.load_quantized] { return dequantize(quantized()); };
  }
  weight.load_f64 = {};
}

}  // namespace

Graph with_stored_weights(Graph graph) {
  for_each_weight(graph,
                  Overloaded{[](WeightRef& weight, const Fold& fold, const Storage& storage) {
                               const bool is_stored = !weight.load_f64 && fold.scale == 1.0 &&
                                                      storage.type == TensorType::kF32;
                               if (!is_stored) store(weight, fold, storage);
                             },
                             [](std::vector<double>& vector, const Fold& fold) {
                               for (double& value : vector) value = static_cast<float>(fold(value));
                             }});
  for (const ValueId value : graph.order()) {
    if (auto* linear = graph.weights_at(value)) {
      for (LinearPart& part : linear->parts) part.scale = 1.0;
    } else if (auto* norm = graph.as<NormNode>(value)) {
      norm->scale = 1.0;
      norm->norm.gain_plus_one = false;
    }
  }
  // Tied matrices are quantized once.
  for (const ValueId value : graph.order()) {
    auto* const embedding = graph.as<EmbeddingNode>(value);
    if (embedding == nullptr || !embedding->stored_by) continue;
    const WeightRef& stored = graph.as<LinearNode>(*embedding->stored_by)->parts[0].linear.weight;
    embedding->tokens->load = stored.load;
    embedding->tokens->load_f64 = stored.load_f64;
    embedding->tokens->load_quantized = stored.load_quantized;
  }
  return graph;
}

bool is_rounded(Graph graph) {
  bool is_rounded = graph.kv_cache != TensorType::kF32;
  const auto any_rounded = [](const auto& values, const Fold& fold) {
    return std::ranges::any_of(values, [&](double value) {
      return static_cast<double>(static_cast<float>(fold(value))) != fold(value);
    });
  };
  for_each_weight(
      graph, Overloaded{[&](const WeightRef& weight, const Fold& fold, const Storage& storage) {
                          if (is_rounded || storage.type != TensorType::kF32) {
                            is_rounded = true;
                          } else if (weight.load_f64 || !fold.keeps_floats()) {
                            is_rounded = weight.visit(
                                [&](const auto& values) { return any_rounded(values, fold); });
                          }
                        },
                        [&](const std::vector<double>& vector, const Fold& fold) {
                          is_rounded = is_rounded || any_rounded(vector, fold);
                        }});
  return is_rounded;
}

}  // namespace arenite::convert
