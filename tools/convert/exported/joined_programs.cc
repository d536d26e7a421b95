// SPDX-License-Identifier: Apache-2.0
// Chains two exported programs into one model: the encoder's output replaces an input of the
// decoder. Equal weights are stored once; different weights with the same name are renamed.
//
//   encoder: ids -> [tokens, 64];  decoder: ids, memory [tokens, 64] -> logits
//   joined:  ids, ids -> logits, as two functions of one file
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/exported_model.h"
#include "convert/files/error.h"
#include "convert/graph/node_traits.h"

namespace arenite::convert {

namespace {

// Returns the width of a feature input; 0 for ids and images.
uint32_t width_of_features(const Graph& graph, uint32_t input) {
  for (const ValueId value : graph.order()) {
    const auto* features = graph.as<FeaturesNode>(value);
    const bool is_own = features != nullptr && graph.axis(value) == graph.inputs[input].axis;
    if (is_own && !graph.axes[graph.axis(value)].is_image()) return graph.width(value);
  }
  return 0;
}

uint32_t encoded_input(const Graph& encoder, const Graph& decoder, const std::string& where,
                       const std::string& name) {
  const uint32_t width = encoder.width(encoder.output);
  std::vector<uint32_t> fitting;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < decoder.inputs.size(); ++i) {
    if (width_of_features(decoder, i) != width) continue;
    if (!name.empty() && decoder.inputs[i].name != name) continue;
    fitting.push_back(i);
    names.push_back(decoder.inputs[i].name);
  }
  if (fitting.size() == 1) return fitting[0];
  if (fitting.empty()) {
    throw InputError("{}: found no input{} with {} features, which the first program gives", where,
                     name.empty() ? "" : " " + quote(name), width);
  }
  throw InputError(
      "{}: inputs {} all fit the output of the first program: choose one with --encoded NAME",
      where, fmt::join(names, ", "));
}

// Gives equal weights the same name, and prefixes a decoder weight if the encoder has a different
// weight of that name.
void share_weights(const Graph& encoder, Graph& decoder) {
  std::map<std::string, WeightRef> known;  // by name
  std::map<std::pair<uint32_t, uint32_t>, std::vector<const WeightRef*>> by_shape;
  const auto is_loaded = [](const WeightRef& weight) { return weight.load || weight.load_f64; };
  for_each_weight(encoder, Overloaded{[&](const WeightRef& weight, const Fold&, const Storage&) {
                                        if (is_loaded(weight)) known.emplace(weight.name, weight);
                                      },
                                      [](const auto&, const auto&...) {}});
  for (const auto& [name, weight] : known) {
    by_shape[{weight.rows, weight.columns}].push_back(&weight);
  }
  const auto name_apart = [&](WeightRef& weight) {
    if (!is_loaded(weight)) return;
    const auto fitting = by_shape.find({weight.rows, weight.columns});
    if (fitting != by_shape.end()) {
      const std::vector<double> numbers = weight.exact();
      for (const WeightRef* other : fitting->second) {
        if (other->exact() != numbers) continue;
        weight.name = other->name;
        return;
      }
    }
    if (known.contains(weight.name)) weight.name = "decoder." + weight.name;
  };
  for_each_weight(decoder, Overloaded{[&](WeightRef& weight, const Fold&, const Storage&) {
                                        name_apart(weight);
                                      },
                                      [](auto&, const auto&...) {}});
}

// Limits the encoder's lengths to those that give a row count the decoder accepts.
void fit_lengths(Graph& encoder, const GraphInput& given, const std::string& where) {
  const uint32_t axis = encoder.axis(encoder.output);
  const uint32_t from = encoder.inputs_of(axis);
  refuse_if(std::popcount(from) != 1,
            "{}: the output of the first program has rows of several inputs: expected one", where);
  GraphInput& input = encoder.inputs[static_cast<size_t>(std::countr_zero(from))];
  constexpr uint32_t kTokensMax = 1u << 24;
  uint32_t most = input.positions_max;
  if (given.positions_max != 0) {
    if (most == 0) most = std::min(given.positions_max, kTokensMax);
    while (most < kTokensMax && input.positions_max == 0 &&
           encoder.rows(axis, most + 1) <= given.positions_max) {
      ++most;
    }
    while (most > 0 && encoder.rows(axis, most) > given.positions_max) --most;
  }
  // Find the first two lengths with an accepted row count, up to `most`.
  const uint32_t step = std::max(1u, input.tokens_step), end = most != 0 ? most : kTokensMax;
  const auto next_fitting = [&](uint32_t tokens) {
    while (tokens <= end) {
      const uint32_t rows = encoder.rows(axis, tokens);
      if (rows >= given.tokens_min && format::allowed_length(given, rows) == rows) break;
      tokens += step;
    }
    return tokens;
  };
  const uint32_t least = next_fitting(std::max(1u, input.tokens_min));
  const bool fits = most == 0 ? given.positions_max == 0 : least <= most;
  refuse_if(!fits,
            "{}: its input '{}' takes {} to {} rows, but the first program outputs such a number "
            "at no length: export both for lengths that fit",
            where, given.name, std::max(1u, given.tokens_min), given.positions_max);
  input.positions_max = most;
  if (least > 1) input.tokens_min = least;
  if (most == 0 || least < most) input.tokens_step = next_fitting(least + step) - least;
}

constexpr uint32_t kTakenFlags = kTakesColumnsFirst | kTakesImagesTurned;

}  // namespace

ExportedModel joined_programs(ExportedModel encoder, const ExportedModel& decoder,
                              const std::string& encoded) {
  const std::string where = quote(decoder.program->source);
  const uint32_t input = encoded_input(encoder.graph, decoder.graph, where, encoded);
  refuse_if(encoder.has_row_of_sequence,
            "{}: the first program gives one row per sequence: expected one per token", where);
  const bool have_features =
      encoder.graph.inputs[0].vocab_size == 0 &&
      std::ranges::count(decoder.graph.inputs, 0u, &GraphInput::vocab_size) > 1;
  refuse_if(encoder.tokens_first != decoder.tokens_first ||
                (have_features &&
                 ((encoder.graph.array_flags ^ decoder.graph.array_flags) & kTakenFlags) != 0),
            "{}: its order of sequences, tokens and features differs from the first program's: "
            "expected one order",
            where);
  const auto hides_pairs = [](const std::string& array) {
    return array.find("_pairs:") != std::string::npos;
  };
  refuse_if(std::ranges::any_of(encoder.graph.arrays, hides_pairs) ||
                std::ranges::any_of(decoder.graph.arrays, hides_pairs),
            "{}: a mask hides pairs of tokens where it is not 0: expected a bool mask of two "
            "programs to be True where a token sees another one",
            where);
  fit_lengths(encoder.graph, decoder.graph.inputs[input], where);
  Graph second = decoder.graph;
  share_weights(encoder.graph, second);
  const uint32_t taken_flags = encoder.graph.array_flags & kTakenFlags;
  ExportedModel joined = decoder;
  joined.unread_inputs = 0;
  joined.parameters += encoder.parameters;
  joined.graph = chained(std::move(encoder.graph), second, input);
  joined.graph.arrays.clear();
  joined.graph.array_flags = decoder.graph.array_flags | taken_flags;
  joined.graph.output_shape = decoder.graph.output_shape;
  joined.length = fmt::format("{}\nthe second program {}", encoder.length, decoder.length);
  joined.largest_difference = std::max(encoder.largest_difference, decoder.largest_difference);
  joined.sound = std::move(encoder.sound);  // of input 0
  joined.largest_value = std::max(encoder.largest_value, decoder.largest_value);
  joined.compared_inputs += encoder.compared_inputs;
  joined.compared_seconds += encoder.compared_seconds;
  joined.account.given.insert(joined.account.given.end(), encoder.account.given.begin(),
                              encoder.account.given.end());
  joined.account.given.push_back(
      fmt::format("input '{}' of the second program is the output of the "
                  "first",
                  decoder.graph.inputs[input].name));
  joined.account.assumed.insert(joined.account.assumed.end(), encoder.account.assumed.begin(),
                                encoder.account.assumed.end());
  refuse_if(functions_of(joined.graph).size() != 2,
            "{}: the output of the first program is not only read as keys and values of attention: "
            "export both as one program",
            where);
  return joined;
}

}  // namespace arenite::convert
