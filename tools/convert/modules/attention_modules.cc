// SPDX-License-Identifier: Apache-2.0
// Looks for the key parameter of each known module, under any prefix.
#include "convert/modules/attention_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>
#include <vector>

#include "convert/families/families.h"
#include "convert/families/state_dicts.h"
#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {
namespace {

constexpr size_t kNamesListed = 30;

using Candidates = std::map<std::string, const KnownModule*>;  // by prefix

// Does `prefix` end in heads.N.? Then its parameters belong to one of the heads of a module.
bool is_of_a_head(const std::string& prefix) {
  size_t begin = prefix.empty() ? 0 : prefix.size() - 1;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(prefix[begin - 1])) != 0) --begin;
  return begin + 1 < prefix.size() && ends_in(prefix.substr(0, begin), "heads.");
}

// Is there one name only, of all in order, that begins with `prefix`?
bool is_alone_under(std::string_view prefix, const std::vector<std::string_view>& sorted_names) {
  const auto first = std::ranges::lower_bound(sorted_names, prefix);
  return first != sorted_names.end() && first->starts_with(prefix) &&
         (first + 1 == sorted_names.end() || !(first + 1)->starts_with(prefix));
}

std::vector<std::string_view> sorted_names_of(const TensorStore& store) {
  std::vector<std::string_view> names;
  for (const StoredTensor& tensor : store.tensors()) names.push_back(tensor.name);
  std::ranges::sort(names);
  return names;
}

// `names` a line each, the first ones of many.
std::string list_names(const std::vector<std::string>& names) {
  std::string listed;
  for (size_t i = 0; i < std::min(names.size(), kNamesListed); ++i) {
    listed += fmt::format("  {}\n", names[i]);
  }
  if (names.size() > kNamesListed) {
    listed += fmt::format("  ... and {} more\n", names.size() - kNamesListed);
  }
  return listed;
}

Candidates find_candidates(const TensorStore& store) {
  const std::vector<std::string_view> sorted_names = sorted_names_of(store);
  Candidates candidates;
  for (const KnownModule& module : known_module_table()) {
    const std::string_view key = module.key;
    for (const StoredTensor& tensor : store.tensors()) {
      if (!ends_in(tensor.name, key)) continue;
      const std::string prefix = tensor.name.substr(0, tensor.name.size() - key.size());
      // heads.N.W_query is one module per head, not N modules; tril may be a mask of anything.
      if (key == "W_query.weight" && is_of_a_head(prefix)) continue;
      if (key == "tril" && (!candidates.empty() || !is_alone_under(prefix, sorted_names))) continue;
      candidates.emplace(prefix, &module);
    }
  }
  return candidates;
}

std::string with_dot(std::string prefix) {
  if (!prefix.empty() && prefix.back() != '.') prefix += '.';
  return prefix;
}

// For people who did not ask for a module.
std::string advice_on_models(const ModelOptions& options) {
  if (options.ask_for_module()) return "";
  return fmt::format("As a whole, this is a model of no published program that is known. {}",
                     kExportAdvice);
}

const Candidates::value_type& choose(const TensorStore& store, const Candidates& candidates,
                                     const ModelOptions& options) {
  if (candidates.empty()) {
    throw InputError(
        "{}: no attention module found, and no model of a published program. The file has:\n{}\n"
        "The modules known are:\n{}The programs known are, by their tensors:\n{}Weights of "
        "transformers need their config.json beside them. {}",
        quote(store.source()), list_tensors(store.tensors()), known_modules(), known_programs(),
        kExportAdvice);
  }
  if (options.module) {
    const auto found = candidates.find(with_dot(*options.module));
    if (found != candidates.end()) return *found;
  } else if (candidates.size() == 1) {
    return *candidates.begin();
  }
  std::vector<std::string> names;
  for (const auto& [prefix, module] : candidates) {
    names.push_back(fmt::format("{} ({})", quote(prefix), module->name));
  }
  throw InputError("{}: {}; choose one with --module PREFIX:\n{}", quote(store.source()),
                   options.module ? fmt::format("there is no module {}", quote(*options.module))
                                  : fmt::format("there are {} modules", candidates.size()),
                   list_names(names) + advice_on_models(options));
}

}  // namespace

AttentionModule read_attention_module(const Opened& model, const ModelOptions& options) {
  const TensorStore& store = model.tensors;
  const Candidates candidates = find_candidates(store);
  const auto& [prefix, known] = choose(store, candidates, options);
  ModelTensors tensors(store, prefix);
  StateDictAnswers answers(model, options, quote(store.source()));
  const AttentionModule module = known->read(tensors, options, answers);
  if (options.features != 0 && options.features != module.features) {
    throw InputError(
        "{}: --features: found {}, and the module's weights are {} wide: drop the "
        "option",
        quote(store.source()), options.features, module.features);
  }

  std::vector<std::string> unknown = tensors.rest();
  if (!options.module) {
    for (const StoredTensor& tensor : store.tensors()) {
      if (!tensor.name.starts_with(prefix)) unknown.push_back(tensor.name);
    }
  }
  if (!unknown.empty()) {
    for (std::string& name : unknown) name = quote(name);
    throw InputError("{}: this is {}, but these tensors are not part of it:\n{}{}",
                     quote(store.source()), module.architecture, list_names(unknown),
                     options.module ? ""
                                    : "To convert one module of a larger checkpoint, pass "
                                      "--module PREFIX.\n" +
                                          advice_on_models(options));
  }
  return module;
}

std::string known_modules() {
  std::string text;
  for (const KnownModule& module : known_module_table()) {
    text += fmt::format("  {:<40} {}\n", module.name, module.parameters);
  }
  return text;
}

}  // namespace arenite::convert
