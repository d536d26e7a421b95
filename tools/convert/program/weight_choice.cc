// SPDX-License-Identifier: Apache-2.0
#include "convert/program/weight_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "convert/files/error.h"
#include "convert/spec/quantized_weights.h"

namespace arenite::convert {
namespace {

constexpr const char* kOutputRule = "output";  // what people call the matrix of the logits

// Whether all of `part` stands in `name`, from dot to dot.
bool has_part(const std::string& name, const std::string& part) {
  const std::string dotted = "." + name + ".";
  return dotted.find("." + part + ".") != std::string::npos;
}

// What a row of so many inputs can be at most, of a type or the next larger one.
TensorType type_that_fits(TensorType wanted, uint32_t inputs) {
  const auto has_room = [&](TensorType type) {
    return fits(type, inputs) && inputs <= weight_type(type).inputs_max;
  };
  // Each type comes after the next larger one.
  while (!has_room(wanted)) wanted = static_cast<TensorType>(static_cast<uint32_t>(wanted) - 1);
  return wanted;
}

// Calls take(name, weight, storage) for each matrix that may have a type of its own.
template <typename AnyGraph, typename Take>
void for_each_matrix(AnyGraph& graph, const Take& take) {
  for (const ValueId value : graph.order()) {
    const std::string& name = graph.node(value).name;
    if (auto* linear = graph.template as<LinearNode>(value)) {
      for (auto& part : linear->parts) take(name, part.linear.weight, part.storage);
    } else if (auto* embedding = graph.template as<EmbeddingNode>(value);
               embedding && embedding->tokens) {
      take(name, *embedding->tokens, embedding->storage);
    }
  }
}

bool is_of(const WeightRule& rule, const std::string& name, const WeightRef& weight) {
  const bool is_output = rule.name == kOutputRule && name == "logits";
  return is_output || rule.name == name || rule.name == weight.name;
}

// Calls take(name, storage) for each matrix that a rule is about. Throws InputError where it is
// about none and should be.
template <typename AnyGraph, typename Take>
void for_each_match(const WeightRule& rule, AnyGraph& graph, const Take& take) {
  bool is_name = false;
  bool is_part = false;
  for_each_matrix(graph, [&](const std::string& name, const WeightRef& weight, const Storage&) {
    is_name = is_name || is_of(rule, name, weight);
    is_part = is_part || has_part(name, rule.name);
  });
  if (!is_name && rule.is_usual) return;
  if (!is_name && !is_part) {
    std::vector<std::string> names;
    for_each_matrix(graph, [&](const std::string& name, const WeightRef&, const Storage&) {
      names.push_back(name);
    });
    throw InputError(
        "--keep: no matrix of weights has the name {} or that as a part of its name: "
        "there are {}",
        quote(rule.name), fmt::join(names, ", "));
  }
  for_each_matrix(graph, [&](const std::string& name, const WeightRef& weight, auto& storage) {
    if (is_name ? is_of(rule, name, weight) : has_part(name, rule.name)) take(name, storage);
  });
}

// From what the checkpoint has on.
std::vector<TensorType> types_of(const WeightRef& weight) {
  const TensorType first = weight.load_quantized ? weight.quantized.type : TensorType::kF32;
  std::vector<TensorType> types = {first};
  for (const TensorType wanted : {TensorType::kQ8, TensorType::kQ4}) {
    const TensorType type = type_that_fits(wanted, weight.columns);
    const bool is_smaller = types.back() == TensorType::kF32 ||
                            (types.back() != TensorType::kQ4 && type == TensorType::kQ4);
    if (is_smaller) types.push_back(type);
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
    if (type != TensorType::kQ4) return {};
    return {{kOutputRule, TensorType::kQ8, true}, {"embedding", TensorType::kQ8, true}};
  }
  std::vector<WeightRule> rules;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string::npos) {
      throw InputError("--keep: found {}, expected NAME=TYPE,NAME=TYPE... or none", quote(part));
    }
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
  for_each_matrix(graph, [&](const std::string& name, const WeightRef& weight, const Storage&) {
    if (!said.contains(name)) matrices.push_back({name, types_of(weight)});
  });
  return matrices;
}

std::vector<TypeFallback> choose_types(Graph& graph, const WeightRules& rules) {
  for_each_matrix(graph, [&](const std::string&, const WeightRef&, Storage& storage) {
    storage.type = rules.type;
  });
  for (const WeightRule& rule : rules.keep) {
    for_each_match(rule, graph,
                   [&](const std::string&, Storage& storage) { storage.type = rule.type; });
  }
  std::vector<TypeFallback> fallbacks;
  for_each_matrix(graph, [&](const std::string& name, const WeightRef& weight, Storage& storage) {
    const TensorType wanted = storage.type;
    storage.type = type_that_fits(wanted, weight.columns);
    storage.is_taken_over = offers(weight, storage.type);
    if (storage.type != wanted) {
      fallbacks.push_back({name, weight.columns, wanted, storage.type});
    }
  });
  return fallbacks;
}

}  // namespace arenite::convert
