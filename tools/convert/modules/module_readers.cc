// SPDX-License-Identifier: Apache-2.0
// The public PyTorch idioms of attention, each in the words of its own parameter names.
#include "convert/modules/module_readers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "convert/files/error.h"
#include "convert/modules/module_masks.h"

namespace arenite::convert {
namespace {

std::string divisors(uint32_t number) {
  std::string text;
  for (uint32_t i = 1; i <= number && i <= 128; ++i) {
    if (number % i == 0) text += fmt::format("{}{}", text.empty() ? "" : ", ", i);
  }
  return text;
}

// The number of heads, which state dicts do not hold.
uint32_t asked_heads(AttentionModule& module, const ModuleTensors& tensors,
                     const ModuleOptions& options, uint32_t width) {
  if (options.heads != 0) return options.heads;
  if (options.written_heads) {
    const auto& [heads, where] = *options.written_heads;
    module.account.given.push_back(fmt::format("number of heads {}, from {}", heads, where));
    return heads;
  }
  throw InputError(
      "{}: the number of heads is not in the checkpoint: pass --heads N (the projections are {} "
      "wide, so N is one of {})",
      tensors.file(), width, divisors(width));
}

uint32_t split(const ModuleTensors& tensors, const Projection& projection, uint32_t heads) {
  if (heads == 0 || projection.outputs % heads != 0) {
    throw InputError("{}: {} gives {} values, which {} heads do not divide: expected one of {}",
                     tensors.file(), quote(projection.name), projection.outputs, heads,
                     divisors(projection.outputs));
  }
  return projection.outputs / heads;
}

void require_width(const ModuleTensors& tensors, const char* what, const Projection& projection,
                   uint32_t found, uint32_t expected) {
  if (found == expected) return;
  throw InputError("{}: {} has {} {}: expected {}", tensors.file(), quote(projection.name), found,
                   what, expected);
}

void set_score_scale(AttentionModule& module, const ModuleOptions& options) {
  module.score_scale =
      options.score_scale.value_or(1.0 / std::sqrt(static_cast<double>(module.head_dim)));
  if (options.score_scale) {
    module.account.given.push_back(fmt::format("--scale {}", *options.score_scale));
  } else {
    module.account.assumed.emplace_back("scores times 1/sqrt(head_dim)");
  }
}

// Splits the projections over the heads and checks that they fit each other and one input.
void finish(AttentionModule& module, const ModuleTensors& tensors, const ModuleOptions& options,
            uint32_t heads) {
  module.heads = heads;
  require_width(tensors, "outputs", module.key, module.key.outputs, module.query.outputs);
  module.head_dim = split(tensors, module.query, heads);
  module.value_dim = split(tensors, module.value, heads);
  module.features = module.query.inputs;
  if (module.separate_inputs) {
    module.features += module.key.inputs + module.value.inputs;
  } else {
    require_width(tensors, "inputs", module.key, module.key.inputs, module.query.inputs);
    require_width(tensors, "inputs", module.value, module.value.inputs, module.query.inputs);
  }
  if (module.output) {
    require_width(tensors, "inputs", *module.output, module.output->inputs, module.value.outputs);
  }
  if (options.heads != 0) module.account.given.push_back(fmt::format("--heads {}", options.heads));
  set_score_scale(module, options);
}

// Rows [begin, begin + outputs) of a fused projection.
Projection rows_of(const Projection& fused, uint32_t begin, uint32_t outputs) {
  Projection part;
  part.name = fused.name;
  part.outputs = outputs;
  part.inputs = fused.inputs;
  const auto weights = fused.weights.begin() + static_cast<ptrdiff_t>(begin) * fused.inputs;
  part.weights.assign(weights, weights + static_cast<ptrdiff_t>(outputs) * fused.inputs);
  if (!fused.bias.empty()) {
    part.bias.assign(fused.bias.begin() + begin, fused.bias.begin() + begin + outputs);
  }
  return part;
}

// The classes of these parameters have one head, if nobody says more.
void assume_one_head(AttentionModule& module, const ModuleOptions& options) {
  if (options.heads == 0) module.account.assumed.emplace_back("one head");
}

AttentionModule read_split(ModuleTensors& tensors, const ModuleOptions& options) {
  AttentionModule module;
  module.query = tensors.linear("W_query");
  module.key = tensors.linear("W_key");
  module.value = tensors.linear("W_value");
  uint32_t heads = options.heads != 0 ? options.heads : 1;
  if (tensors.has("out_proj.weight")) {
    module.architecture = "MultiHeadAttention";
    module.output = tensors.linear("out_proj");
    heads = asked_heads(module, tensors, options, module.query.outputs);
  } else {
    module.architecture = heads == 1 ? "CausalAttention" : "MultiHeadAttention";
    assume_one_head(module, options);
  }
  finish(module, tensors, options, heads);
  read_masks(module, tensors, options, MaskChoice::kCausal, {""});
  return module;
}

// Stacks the heads' projections: the outputs then lie side by side without a concatenation.
void append(Projection& stacked, const Projection& head, const ModuleTensors& tensors) {
  if (stacked.outputs == 0) {
    stacked = head;
    return;
  }
  require_width(tensors, "inputs", head, head.inputs, stacked.inputs);
  if (stacked.bias.empty() != head.bias.empty()) {
    throw InputError("{}: {} and its fellow heads must all have a bias or none", tensors.file(),
                     quote(head.name));
  }
  stacked.outputs += head.outputs;
  stacked.weights.insert(stacked.weights.end(), head.weights.begin(), head.weights.end());
  stacked.bias.insert(stacked.bias.end(), head.bias.begin(), head.bias.end());
}

AttentionModule read_per_head(ModuleTensors& tensors, const ModuleOptions& options) {
  AttentionModule module;
  module.architecture = "MultiHeadAttention, one module per head";
  std::vector<std::string> prefixes;
  while (tensors.has(fmt::format("heads.{}.W_query.weight", prefixes.size()))) {
    const std::string prefix = fmt::format("heads.{}.", prefixes.size());
    const Projection query = tensors.linear(prefix + "W_query");
    const Projection key = tensors.linear(prefix + "W_key");
    const Projection value = tensors.linear(prefix + "W_value");
    if (!prefixes.empty()) {
      const uint32_t heads_so_far = static_cast<uint32_t>(prefixes.size());
      require_width(tensors, "outputs", query, query.outputs, module.query.outputs / heads_so_far);
      require_width(tensors, "outputs", value, value.outputs, module.value.outputs / heads_so_far);
    }
    require_width(tensors, "outputs", key, key.outputs, query.outputs);
    append(module.query, query, tensors);
    append(module.key, key, tensors);
    append(module.value, value, tensors);
    prefixes.push_back(prefix);
  }
  if (prefixes.empty()) tensors.require("heads.0.W_query.weight");
  const uint32_t heads = static_cast<uint32_t>(prefixes.size());
  if (options.heads != 0 && options.heads != heads) {
    throw InputError("{}: the checkpoint has {} heads, --heads says {}", tensors.file(), heads,
                     options.heads);
  }
  finish(module, tensors, options, heads);
  read_masks(module, tensors, options, MaskChoice::kCausal, prefixes);
  return module;
}

AttentionModule read_bert_style(ModuleTensors& tensors, const ModuleOptions& options) {
  AttentionModule module;
  module.architecture = "BERT-style attention";
  module.query = tensors.linear("query");
  module.key = tensors.linear("key");
  module.value = tensors.linear("value");
  module.output = tensors.linear("fc_out");
  finish(module, tensors, options, asked_heads(module, tensors, options, module.query.outputs));
  read_masks(module, tensors, options, MaskChoice::kBidirectional, {""});
  return module;
}

AttentionModule read_linear_qkv(ModuleTensors& tensors, const ModuleOptions& options) {
  AttentionModule module;
  const uint32_t heads = options.heads != 0 ? options.heads : 1;
  module.architecture = heads == 1 ? "SelfAttention" : "MultiHeadSelfAttention";
  assume_one_head(module, options);
  module.query = tensors.linear("linear_q");
  module.key = tensors.linear("linear_k");
  module.value = tensors.linear("linear_v");
  finish(module, tensors, options, heads);
  read_masks(module, tensors, options, MaskChoice::kBidirectional, {""});
  return module;
}

// Hugging Face's Conv1D keeps [inputs, outputs], torch.nn.Linear [outputs, inputs].
Projection transposed(const Projection& projection) {
  Projection result = projection;
  std::swap(result.outputs, result.inputs);
  for (uint32_t o = 0; o < result.outputs; ++o) {
    for (uint32_t i = 0; i < result.inputs; ++i) {
      result.weights[size_t{o} * result.inputs + i] =
          projection.weights[size_t{i} * projection.inputs + o];
    }
  }
  return result;
}

// A projection whose bias has as many values as the matrix has columns, or rows.
Projection conv1d_or_linear(ModuleTensors& tensors, const std::string& name, bool conv1d) {
  if (!conv1d) return tensors.linear(name);
  Projection projection = transposed(tensors.linear(name + ".weight", ""));
  if (const CheckpointTensor* bias = tensors.take(name + ".bias")) {
    projection.bias = weight_values(*bias, tensors.file());
    require_width(tensors, "bias values", projection, static_cast<uint32_t>(projection.bias.size()),
                  projection.outputs);
  }
  return projection;
}

AttentionModule read_gpt(ModuleTensors& tensors, const ModuleOptions& options) {
  const CheckpointTensor& c_attn = tensors.require("c_attn.weight");
  const MatrixShape shape = matrix_shape(c_attn, tensors.file());
  const bool conv1d = uint64_t{shape.columns} == uint64_t{3} * shape.rows;
  if (!conv1d && uint64_t{shape.rows} != uint64_t{3} * shape.columns) {
    throw InputError("{}: {} has shape [{}, {}]: expected [3 C, C], or [C, 3 C] as Conv1D keeps it",
                     tensors.file(), quote(c_attn.name), shape.rows, shape.columns);
  }
  const Projection fused = conv1d_or_linear(tensors, "c_attn", conv1d);
  AttentionModule module;
  module.architecture = "GPT CausalSelfAttention";
  const uint32_t width = fused.inputs;
  module.query = rows_of(fused, 0, width);
  module.key = rows_of(fused, width, width);
  module.value = rows_of(fused, 2 * width, width);
  module.output = conv1d_or_linear(tensors, "c_proj", conv1d);
  tensors.take("masked_bias");  // Hugging Face's fill value for hidden scores
  finish(module, tensors, options, asked_heads(module, tensors, options, width));
  read_masks(module, tensors, options, MaskChoice::kCausal, {""});
  return module;
}

AttentionModule read_torch_mha(ModuleTensors& tensors, const ModuleOptions& options) {
  for (const char* name : {"bias_k", "bias_v"}) {
    if (tensors.has(name)) {
      throw InputError(
          "{}: {} is a key or value that every query sees (add_bias_kv), which is not supported: "
          "expected a module trained without it",
          tensors.file(), quote(tensors.prefix() + name));
    }
  }
  const bool fused = tensors.has("in_proj_weight");
  const std::string bias_name = tensors.has("in_proj_bias") ? "in_proj_bias" : "";
  AttentionModule module;
  module.architecture = "torch.nn.MultiheadAttention";
  if (fused) {
    const Projection all = tensors.linear("in_proj_weight", bias_name);
    if (all.outputs % 3 != 0) {
      throw InputError("{}: {} has {} rows: expected 3 x embed_dim", tensors.file(),
                       quote(all.name), all.outputs);
    }
    const uint32_t width = all.outputs / 3;
    module.query = rows_of(all, 0, width);
    module.key = rows_of(all, width, width);
    module.value = rows_of(all, 2 * width, width);
  } else {
    module.query = tensors.linear("q_proj_weight", "");
    module.key = tensors.linear("k_proj_weight", "");
    module.value = tensors.linear("v_proj_weight", "");
    require_width(tensors, "outputs", module.value, module.value.outputs, module.query.outputs);
    if (!bias_name.empty()) {
      const std::vector<float> bias = weight_values(tensors.require(bias_name), tensors.file());
      const size_t width = module.query.outputs;
      if (bias.size() != 3 * width) {
        throw InputError("{}: {} has {} values: expected {}", tensors.file(), quote(bias_name),
                         bias.size(), 3 * width);
      }
      const auto part = [&](size_t i) {
        return std::vector<float>(bias.begin() + static_cast<ptrdiff_t>(i * width),
                                  bias.begin() + static_cast<ptrdiff_t>((i + 1) * width));
      };
      module.query.bias = part(0);
      module.key.bias = part(1);
      module.value.bias = part(2);
    }
    module.separate_inputs =
        module.key.inputs != module.query.inputs || module.value.inputs != module.query.inputs;
  }
  module.output = tensors.linear("out_proj");
  finish(module, tensors, options, asked_heads(module, tensors, options, module.query.outputs));
  read_masks(module, tensors, options, MaskChoice::kBidirectional, {""});
  return module;
}

AttentionModule read_causal_mean(ModuleTensors& tensors, const ModuleOptions& options) {
  if (options.features == 0) {
    throw InputError(
        "{}: a module of a mask alone has no weights that would tell the width of "
        "its input: pass --features N",
        tensors.file());
  }
  if (options.heads > 1) {
    throw InputError("{}: a module of a mask alone has one head, --heads says {}", tensors.file(),
                     options.heads);
  }
  if (options.score_scale) {
    throw InputError("{}: --scale: a module of a mask alone has no scores: drop the option",
                     tensors.file());
  }
  AttentionModule module;
  module.architecture = "causal mean";
  module.features = options.features;
  module.value_dim = options.features;
  read_masks(module, tensors, options, MaskChoice::kUnsaid, {""});
  return module;
}

constexpr std::array<KnownModule, 8> kModules = {{
    {"CausalAttention, MultiHeadAttention", "W_query W_key W_value [out_proj] [mask]",
     "W_query.weight", read_split},
    {"MultiHeadAttention, one module per head", "heads.N.W_query heads.N.W_key heads.N.W_value",
     "heads.0.W_query.weight", read_per_head},
    {"BERT-style attention", "query key value fc_out", "fc_out.weight", read_bert_style},
    {"SelfAttention, MultiHeadSelfAttention", "linear_q linear_k linear_v", "linear_q.weight",
     read_linear_qkv},
    {"GPT CausalSelfAttention", "c_attn c_proj [bias]", "c_attn.weight", read_gpt},
    {"torch.nn.MultiheadAttention", "in_proj_weight in_proj_bias out_proj", "in_proj_weight",
     read_torch_mha},
    {"torch.nn.MultiheadAttention",
     "q_proj_weight k_proj_weight v_proj_weight in_proj_bias out_proj", "q_proj_weight",
     read_torch_mha},
    {"causal mean", "tril, and nothing else", "tril", read_causal_mean},
}};

}  // namespace

std::span<const KnownModule> known_module_table() { return kModules; }

}  // namespace arenite::convert
