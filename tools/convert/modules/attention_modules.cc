// SPDX-License-Identifier: Apache-2.0
// Reads common PyTorch implementations of attention: a table row for each, with its parameter names
// and usual settings, found by its key parameter under any prefix.
#include "convert/modules/attention_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/families.h"
#include "convert/families/state_dicts.h"
#include "convert/files/error.h"
#include "convert/spec/mask_buffers.h"
#include "convert/spec/model_tensors.h"
#include "format/file_layout.h"

namespace arenite::convert {
namespace {

struct KnownModule {
  const char* name;
  const char* parameters;  // for people
  const char* key;         // a parameter that no other module has
  const char* architecture;
  const char* of_one_head = nullptr;  // name without an output projection, if it differs
  // Names without ".weight" and ".bias". {} is the number of a head that is a separate module. A
  // null pointer means that the module lacks the part.
  const char* fused = nullptr;      // the three below one another
  const char* projections[3] = {};  // query, key and value
  const char* bias = nullptr;       // of all three, below one another
  const char* output = nullptr;
  bool may_lack_output = false;
  bool may_have_inputs_first = false;  // as transformers' Conv1D keeps matrices
  MaskChoice usual = MaskChoice::kBidirectional;
};

constexpr KnownModule kModules[] = {
    {.name = "CausalAttention, MultiHeadAttention",
     .parameters = "W_query W_key W_value [out_proj] [mask]",
     .key = "W_query.weight",
     .architecture = "MultiHeadAttention",
     .of_one_head = "CausalAttention",
     .projections = {"W_query", "W_key", "W_value"},
     .output = "out_proj",
     .may_lack_output = true,
     .usual = MaskChoice::kCausal},
    {.name = "MultiHeadAttention, one module per head",
     .parameters = "heads.N.W_query heads.N.W_key heads.N.W_value",
     .key = "heads.0.W_query.weight",
     .architecture = "MultiHeadAttention, one module per head",
     .projections = {"heads.{}.W_query", "heads.{}.W_key", "heads.{}.W_value"},
     .usual = MaskChoice::kCausal},
    {.name = "BERT-style attention",
     .parameters = "query key value fc_out",
     .key = "fc_out.weight",
     .architecture = "BERT-style attention",
     .projections = {"query", "key", "value"},
     .output = "fc_out"},
    {.name = "SelfAttention, MultiHeadSelfAttention",
     .parameters = "linear_q linear_k linear_v",
     .key = "linear_q.weight",
     .architecture = "MultiHeadSelfAttention",
     .of_one_head = "SelfAttention",
     .projections = {"linear_q", "linear_k", "linear_v"}},
    {.name = "GPT CausalSelfAttention",
     .parameters = "c_attn c_proj [bias]",
     .key = "c_attn.weight",
     .architecture = "GPT CausalSelfAttention",
     .fused = "c_attn",
     .output = "c_proj",
     .may_have_inputs_first = true,
     .usual = MaskChoice::kCausal},
    {.name = "torch.nn.MultiheadAttention",
     .parameters = "in_proj_weight in_proj_bias out_proj",
     .key = "in_proj_weight",
     .architecture = "torch.nn.MultiheadAttention",
     .fused = "in_proj",
     .output = "out_proj"},
    {.name = "torch.nn.MultiheadAttention",
     .parameters = "q_proj_weight k_proj_weight v_proj_weight in_proj_bias out_proj",
     .key = "q_proj_weight",
     .architecture = "torch.nn.MultiheadAttention",
     .projections = {"q_proj", "k_proj", "v_proj"},
     .bias = "in_proj_bias",
     .output = "out_proj"},
    {.name = "causal mean",
     .parameters = "tril, and nothing else",
     .key = "tril",
     .architecture = "causal mean"},
};

// ---- finding a module ----

constexpr size_t kNamesListed = 30;

using Candidates = std::map<std::string, const KnownModule*>;  // by prefix

// Whether `prefix` ends in heads.N., so that its parameters belong to one of a module's heads.
bool is_of_a_head(const std::string& prefix) {
  size_t begin = prefix.empty() ? 0 : prefix.size() - 1;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(prefix[begin - 1])) != 0) --begin;
  return begin + 1 < prefix.size() && ends_in(prefix.substr(0, begin), "heads.");
}

// Whether exactly one of the sorted names begins with `prefix`.
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

// Lists `names`, one per line; of many, only the first ones.
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
  for (const KnownModule& module : kModules) {
    const std::string_view key = module.key;
    for (const StoredTensor& tensor : store.tensors()) {
      if (!ends_in(tensor.name, key)) continue;
      const std::string prefix = tensor.name.substr(0, tensor.name.size() - key.size());
      // heads.N.W_query is one module per head, not N modules. A buffer named tril may be a mask of
      // anything.
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

// Returns advice about whole models, unless the user asked for a module.
std::string advice_on_models(const ModelOptions& options) {
  if (options.has_module_options()) return "";
  return fmt::format("The checkpoint as a whole is not a known published model. {}", kExportAdvice);
}

const Candidates::value_type& choose(const TensorStore& store, const Candidates& candidates,
                                     const ModelOptions& options) {
  if (candidates.empty()) {
    throw InputError(
        "{}: no attention module found, and no published model. The file has:\n{}\nKnown "
        "modules:\n{}Known published programs, by their tensors:\n{}Weights of transformers need "
        "their config.json next to them. {}",
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

// ---- masks ----

const char* const kBufferNames[] = {"mask", "bias", "tril", "causal_mask", "attn_mask"};

CompiledMask chosen_mask(MaskChoice choice, const ModelOptions& options, uint32_t positions) {
  switch (choice) {
    case MaskChoice::kUnsaid:
    case MaskChoice::kBidirectional:
      return band_mask(kUnlimited, kUnlimited, positions);
    case MaskChoice::kCausal:
      return band_mask(kUnlimited, 0, positions);
    case MaskChoice::kWindow:
      break;
  }
  return band_mask(options.window - 1, 0, positions);
}

struct FoundMask {
  Mask mask;
  std::string origin;
};

std::optional<FoundMask> read_buffer(ModelTensors& tensors, const std::string& head_prefix,
                                     const ModelOptions& options) {
  for (const char* name : kBufferNames) {
    const StoredTensor* tensor = tensors.buffer(head_prefix + name);
    if (tensor == nullptr) continue;
    MaskBuffer buffer =
        read_mask_buffer(*tensor, quote(tensors.source()), options.context, options.mask_ones);
    const uint32_t positions = buffer.dense.positions;
    const std::string origin = fmt::format("{}: {}", quote(tensors.source()), quote(tensor->name));
    if (options.mask != MaskChoice::kUnsaid &&
        !(expand_mask(chosen_mask(options.mask, options, positions).view(), positions) ==
          buffer.dense)) {
      throw InputError(
          "{}: the checkpoint's own mask {} is not the one of {}: found {} ({}); drop "
          "the option to use it",
          quote(tensors.source()), quote(tensor->name), option_text(options.mask, options.window),
          compile_mask(buffer.dense, origin).describe(), buffer.meaning);
    }
    return FoundMask{BufferMask{std::make_shared<DenseMask>(std::move(buffer.dense)), origin},
                     fmt::format("from buffer {}, where {}", quote(tensor->name), buffer.meaning)};
  }
  return std::nullopt;
}

// Sets positions_max, masks, mask_origins and head_masks from the checkpoint's buffers, else from
// options, else from `usual`, the module's known mask. `heads` are the prefixes of heads that are
// separate modules. Throws InputError if a buffer contradicts an option.
void read_masks(AttentionModule& module, ModelTensors& tensors, const ModelOptions& options,
                MaskChoice usual, std::vector<std::string> heads) {
  if (heads.empty()) heads.emplace_back();  // one buffer that all share
  std::vector<FoundMask> found;
  for (const std::string& prefix : heads) {
    if (auto mask = read_buffer(tensors, prefix, options)) found.push_back(std::move(*mask));
  }
  if (!found.empty() && found.size() != heads.size()) {
    throw InputError("{}: {} of {} heads have a mask buffer: expected all or none",
                     quote(tensors.source()), found.size(), heads.size());
  }
  if (found.empty()) {
    const bool said = options.mask != MaskChoice::kUnsaid;
    found.push_back({chosen_mask(said ? options.mask : usual, options, options.context),
                     said ? "as " + option_text(options.mask, options.window) + " asks"
                          : "as usual for this module; there is no buffer"});
    std::vector<std::string>& account = said ? module.account.given : module.account.assumed;
    account.push_back(
        said ? option_text(options.mask, options.window)
             : fmt::format("{} mask, as usual for this module", describe(found[0].mask)));
  }
  module.positions_max = positions_of(found[0].mask);
  for (uint32_t head = 0; head < module.heads; ++head) {
    const FoundMask& of_head = found[found.size() == 1 ? 0 : head];
    if (positions_of(of_head.mask) != module.positions_max) {
      throw InputError(
          "{}: the masks of the heads differ in size: {} and {} positions; pass "
          "--context N to use the first N of each",
          quote(tensors.source()), module.positions_max, positions_of(of_head.mask));
    }
    const auto known = std::find(module.masks.begin(), module.masks.end(), of_head.mask);
    module.head_masks.push_back(static_cast<uint32_t>(known - module.masks.begin()));
    if (known != module.masks.end()) continue;
    if (module.masks.size() == format::kMasksMax) {
      throw InputError("{}: its heads have different masks: at most {} are supported",
                       quote(tensors.source()), format::kMasksMax);
    }
    module.masks.push_back(of_head.mask);
    module.mask_origins.push_back(of_head.origin);
  }
}

// ---- projections ----

std::string divisors(uint32_t number) {
  std::string text;
  for (uint32_t i = 1; i <= number && i <= 128; ++i) {
    if (number % i == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  }
  return text;
}

// Returns the number of heads, which state dicts do not contain.
uint32_t required_heads(AttentionModule& module, const ModelTensors& tensors,
                        const ModelOptions& options, const Opened& model) {
  if (options.heads != 0) return options.heads;
  if (const auto heads = written_heads(model, module.account)) return *heads;
  const uint32_t width = module.query.outputs();
  throw InputError(
      "{}: the number of heads is not in the checkpoint: pass --heads N (the projections are {} "
      "wide, so N is one of {})",
      quote(tensors.source()), width, divisors(width));
}

uint32_t split(const ModelTensors& tensors, const LinearSpec& projection, uint32_t heads) {
  if (heads == 0 || projection.outputs() % heads != 0) {
    throw InputError("{}: {} outputs {} values, which {} heads do not divide: expected one of {}",
                     quote(tensors.source()), quote(projection.weight.name), projection.outputs(),
                     heads, divisors(projection.outputs()));
  }
  return projection.outputs() / heads;
}

void require_width(const ModelTensors& tensors, const char* what, const LinearSpec& projection,
                   uint32_t found, uint32_t expected) {
  if (found == expected) return;
  throw InputError("{}: {} has {} {}: expected {}", quote(tensors.source()),
                   quote(projection.weight.name), found, what, expected);
}

void set_score_scale(AttentionModule& module, const ModelOptions& options) {
  module.score_scale =
      options.score_scale.value_or(1.0 / std::sqrt(static_cast<double>(module.head_dim)));
  if (options.score_scale) {
    module.account.given.push_back(fmt::format("--scale {}", *options.score_scale));
  } else {
    module.account.assumed.emplace_back("scores times 1/sqrt(head_dim)");
  }
}

// Splits the projections into heads, and checks that they fit each other and one input.
void finish(AttentionModule& module, const ModelTensors& tensors, const ModelOptions& options,
            uint32_t heads) {
  module.heads = heads;
  require_width(tensors, "outputs", module.key, module.key.outputs(), module.query.outputs());
  module.head_dim = split(tensors, module.query, heads);
  module.value_dim = split(tensors, module.value, heads);
  module.features = module.query.inputs();
  if (module.separate_inputs) {
    module.features += module.key.inputs() + module.value.inputs();
  } else {
    require_width(tensors, "inputs", module.key, module.key.inputs(), module.query.inputs());
    require_width(tensors, "inputs", module.value, module.value.inputs(), module.query.inputs());
  }
  if (module.output) {
    require_width(tensors, "inputs", *module.output, module.output->inputs(),
                  module.value.outputs());
  }
  if (options.heads != 0) module.account.given.push_back(fmt::format("--heads {}", options.heads));
  set_score_scale(module, options);
}

// Stacks the projections of all heads along the outputs, so that no concatenation is needed.
LinearSpec stacked(std::vector<LinearSpec> heads, const ModelTensors& tensors) {
  for (const LinearSpec& head : heads) {
    require_width(tensors, "inputs", head, head.inputs(), heads[0].inputs());
    require_width(tensors, "outputs", head, head.outputs(), heads[0].outputs());
    if (head.bias.empty() != heads[0].bias.empty()) {
      throw InputError(
          "{}: {} differs from the other heads: expected a bias in all heads or in none",
          quote(tensors.source()), quote(head.weight.name));
    }
  }
  return stack_rows(std::move(heads));
}

// Reads query, key and value. Returns the prefixes of heads that are separate modules.
std::vector<std::string> read_projections(AttentionModule& module, ModelTensors& tensors,
                                          const KnownModule& known) {
  LinearSpec* const parts[] = {&module.query, &module.key, &module.value};
  const char* const query = known.projections[0];
  const bool is_by_heads = std::string_view(query).find("{}") != std::string_view::npos;
  const auto of_head = [](const char* name, size_t head) {
    return fmt::format(fmt::runtime(name), head);
  };
  std::vector<std::string> prefixes;
  while (is_by_heads && (prefixes.empty() || tensors.has_part(of_head(query, prefixes.size())))) {
    prefixes.push_back(fmt::format("heads.{}.", prefixes.size()));
  }
  for (size_t i = 0; i < std::size(parts); ++i) {
    std::vector<LinearSpec> heads;
    for (size_t head = 0; head < std::max<size_t>(prefixes.size(), 1); ++head) {
      heads.push_back(tensors.linear(of_head(known.projections[i], head)));
    }
    *parts[i] = is_by_heads ? stacked(std::move(heads), tensors) : std::move(heads[0]);
  }
  return prefixes;
}

// Reads a fused matrix of three projections, [3 C, C], or [C, 3 C] as Conv1D stores it.
void read_fused(AttentionModule& module, ModelTensors& tensors, const KnownModule& known) {
  const std::string name = tensors.part(known.fused).weight;
  const auto [rows, columns] = tensors.shape_of(name);
  const bool has_inputs_first =
      known.may_have_inputs_first && uint64_t{columns} == uint64_t{3} * rows;
  if (!has_inputs_first &&
      (known.may_have_inputs_first ? uint64_t{rows} != uint64_t{3} * columns : rows % 3 != 0)) {
    throw InputError("{}: {} has shape [{}, {}], and {} rows: expected 3 x embed_dim, [3 C, C]{}",
                     quote(tensors.source()), quote(tensors.full_name(name)), rows, columns, rows,
                     known.may_have_inputs_first ? ", or [C, 3 C] as Conv1D stores it" : "");
  }
  const auto linear = [&](const char* part) {
    if (!has_inputs_first) return tensors.linear(part);
    const auto [inputs, outputs] = tensors.shape_of(tensors.part(part).weight);
    return tensors.conv1d(part, outputs, inputs, Presence::kIfStored);
  };
  const LinearSpec fused = linear(known.fused);
  split_fused(module, fused, fused.outputs() / 3, fused.outputs() / 3);
  module.output = linear(known.output);
  tensors.pass_over("masked_bias");  // of transformers' GPT-2: what hidden scores are set to
}

// Reads a bias that all three projections share; they may then have different inputs.
void read_shared_bias(AttentionModule& module, ModelTensors& tensors, const char* name) {
  const uint32_t width = module.query.outputs();
  require_width(tensors, "outputs", module.value, module.value.outputs(), width);
  const std::vector<double> bias = tensors.vector(name, 3 * width, Presence::kIfStored);
  module.query.bias = select_rows(bias, row_range(0, width));
  module.key.bias = select_rows(bias, row_range(width, width));
  module.value.bias = select_rows(bias, row_range(2 * width, width));
  module.separate_inputs = module.key.inputs() != module.query.inputs() ||
                           module.value.inputs() != module.query.inputs();
}

// Reads a module with a mask but no projections: it returns the mean of the visible rows.
AttentionModule read_causal_mean(ModelTensors& tensors, const ModelOptions& options) {
  if (options.features == 0) {
    throw InputError(
        "{}: a module with only a mask does not define its input width: pass --features N",
        quote(tensors.source()));
  }
  if (options.heads > 1) {
    throw InputError("{}: a module with only a mask has one head, but --heads is {}",
                     quote(tensors.source()), options.heads);
  }
  if (options.score_scale) {
    throw InputError("{}: --scale: a module with only a mask has no scores: drop the option",
                     quote(tensors.source()));
  }
  AttentionModule module;
  module.architecture = "causal mean";
  module.features = options.features;
  module.value_dim = options.features;
  read_masks(module, tensors, options, MaskChoice::kUnsaid, {});
  return module;
}

AttentionModule read_module(const KnownModule& known, ModelTensors& tensors,
                            const ModelOptions& options, const Opened& model) {
  const bool has_projections = known.fused != nullptr || known.projections[0] != nullptr;
  if (!has_projections) return read_causal_mean(tensors, options);
  for (const char* name : {"bias_k", "bias_v"}) {
    if (!tensors.has(name)) continue;
    throw InputError(
        "{}: {} is a key or value that every query sees (add_bias_kv), which is not supported in a "
        "state dict: export the module with torch.export, and convert that",
        quote(tensors.source()), quote(tensors.full_name(name)));
  }
  AttentionModule module;
  module.architecture = known.architecture;
  std::vector<std::string> prefixes;
  if (known.fused != nullptr) {
    read_fused(module, tensors, known);
  } else {
    prefixes = read_projections(module, tensors, known);
    const bool lacks_output =
        known.output == nullptr || (known.may_lack_output && !tensors.has_part(known.output));
    if (!lacks_output) module.output = tensors.linear(known.output);
    if (known.bias != nullptr) read_shared_bias(module, tensors, known.bias);
  }
  uint32_t heads = options.heads != 0 ? options.heads : 1;
  if (!prefixes.empty()) {
    heads = static_cast<uint32_t>(prefixes.size());
    if (options.heads != 0 && options.heads != heads) {
      throw InputError("{}: the checkpoint has {} heads, but --heads is {}",
                       quote(tensors.source()), heads, options.heads);
    }
  } else if (module.output) {
    heads = required_heads(module, tensors, options, model);
  } else {
    if (options.heads == 0) module.account.assumed.emplace_back("one head");
    if (heads == 1) module.architecture = known.of_one_head;
  }
  finish(module, tensors, options, heads);
  read_masks(module, tensors, options, known.usual, std::move(prefixes));
  return module;
}

}  // namespace

AttentionModule read_attention_module(const Opened& model, const ModelOptions& options) {
  const TensorStore& store = model.tensors;
  const Candidates candidates = find_candidates(store);
  const auto& [prefix, known] = choose(store, candidates, options);
  ModelTensors tensors(store, prefix);
  const AttentionModule module = read_module(*known, tensors, options, model);
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
  for (const KnownModule& module : kModules) {
    text += fmt::format("  {:<40} {}\n", module.name, module.parameters);
  }
  return text;
}

}  // namespace arenite::convert
