// SPDX-License-Identifier: Apache-2.0
// The public PyTorch idioms of attention, each in the words of its own parameter names.
#include "convert/modules/attention_modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"

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
uint32_t asked_heads(AttentionModule& module, const ModelTensors& tensors,
                     const ModelOptions& options, StateDictAnswers& answers, uint32_t width) {
  if (options.heads != 0) return options.heads;
  if (const auto heads = answers.heads_if_said()) {
    module.account.given.push_back(answers.account().given.back());
    return *heads;
  }
  throw InputError(
      "{}: the number of heads is not in the checkpoint: pass --heads N (the projections are {} "
      "wide, so N is one of {})",
      quote(tensors.source()), width, divisors(width));
}

uint32_t split(const ModelTensors& tensors, const LinearSpec& projection, uint32_t heads) {
  if (heads == 0 || projection.outputs() % heads != 0) {
    throw InputError("{}: {} gives {} values, which {} heads do not divide: expected one of {}",
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

// Splits the projections over the heads and checks that they fit each other and one input.
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

// The classes of these parameters have one head, if nobody says more.
void assume_one_head(AttentionModule& module, const ModelOptions& options) {
  if (options.heads == 0) module.account.assumed.emplace_back("one head");
}

AttentionModule read_split(ModelTensors& tensors, const ModelOptions& options,
                           StateDictAnswers& answers) {
  AttentionModule module;
  module.query = tensors.linear("W_query");
  module.key = tensors.linear("W_key");
  module.value = tensors.linear("W_value");
  uint32_t heads = options.heads != 0 ? options.heads : 1;
  if (tensors.has("out_proj.weight")) {
    module.architecture = "MultiHeadAttention";
    module.output = tensors.linear("out_proj");
    heads = asked_heads(module, tensors, options, answers, module.query.outputs());
  } else {
    module.architecture = heads == 1 ? "CausalAttention" : "MultiHeadAttention";
    assume_one_head(module, options);
  }
  finish(module, tensors, options, heads);
  read_masks(module, tensors, options, MaskChoice::kCausal, {""});
  return module;
}

// The projections of all heads below one another: their outputs then lie side by side without a
// concatenation.
LinearSpec stacked(std::vector<LinearSpec> heads, const ModelTensors& tensors) {
  for (const LinearSpec& head : heads) {
    require_width(tensors, "inputs", head, head.inputs(), heads[0].inputs());
    require_width(tensors, "outputs", head, head.outputs(), heads[0].outputs());
    if (head.bias.empty() != heads[0].bias.empty()) {
      throw InputError("{}: {} and its fellow heads must all have a bias or none",
                       quote(tensors.source()), quote(head.weight.name));
    }
  }
  return stack_rows(std::move(heads));
}

AttentionModule read_per_head(ModelTensors& tensors, const ModelOptions& options,
                              StateDictAnswers&) {
  AttentionModule module;
  module.architecture = "MultiHeadAttention, one module per head";
  std::vector<std::string> prefixes;
  std::vector<LinearSpec> queries, keys, values;
  do {
    prefixes.push_back(fmt::format("heads.{}.", prefixes.size()));
    queries.push_back(tensors.linear(prefixes.back() + "W_query"));
    keys.push_back(tensors.linear(prefixes.back() + "W_key"));
    values.push_back(tensors.linear(prefixes.back() + "W_value"));
    require_width(tensors, "outputs", keys.back(), keys.back().outputs(), queries[0].outputs());
  } while (tensors.has(fmt::format("heads.{}.W_query.weight", prefixes.size())));
  module.query = stacked(std::move(queries), tensors);
  module.key = stacked(std::move(keys), tensors);
  module.value = stacked(std::move(values), tensors);
  const uint32_t heads = static_cast<uint32_t>(prefixes.size());
  if (options.heads != 0 && options.heads != heads) {
    throw InputError("{}: the checkpoint has {} heads, --heads says {}", quote(tensors.source()),
                     heads, options.heads);
  }
  finish(module, tensors, options, heads);
  read_masks(module, tensors, options, MaskChoice::kCausal, prefixes);
  return module;
}

AttentionModule read_bert_style(ModelTensors& tensors, const ModelOptions& options,
                                StateDictAnswers& answers) {
  AttentionModule module;
  module.architecture = "BERT-style attention";
  module.query = tensors.linear("query");
  module.key = tensors.linear("key");
  module.value = tensors.linear("value");
  module.output = tensors.linear("fc_out");
  finish(module, tensors, options,
         asked_heads(module, tensors, options, answers, module.query.outputs()));
  read_masks(module, tensors, options, MaskChoice::kBidirectional, {""});
  return module;
}

AttentionModule read_linear_qkv(ModelTensors& tensors, const ModelOptions& options,
                                StateDictAnswers&) {
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

AttentionModule read_gpt(ModelTensors& tensors, const ModelOptions& options,
                         StateDictAnswers& answers) {
  const auto [rows, columns] = tensors.shape_of("c_attn.weight");
  // Hugging Face's Conv1D keeps [inputs, outputs], torch.nn.Linear [outputs, inputs].
  const bool conv1d = uint64_t{columns} == uint64_t{3} * rows;
  if (!conv1d && uint64_t{rows} != uint64_t{3} * columns) {
    throw InputError("{}: {} has shape [{}, {}]: expected [3 C, C], or [C, 3 C] as Conv1D keeps it",
                     quote(tensors.source()), quote(tensors.full_name("c_attn.weight")), rows,
                     columns);
  }
  const auto linear = [&](const std::string& name) {
    if (!conv1d) return tensors.linear(name);
    const auto [inputs, outputs] = tensors.shape_of(name + ".weight");
    return tensors.conv1d(name, outputs, inputs, Presence::kIfStored);
  };
  AttentionModule module;
  module.architecture = "GPT CausalSelfAttention";
  const LinearSpec fused = linear("c_attn");
  split_fused(module, fused, fused.outputs() / 3, fused.outputs() / 3);
  module.output = linear("c_proj");
  tensors.pass_over("masked_bias");  // Hugging Face's fill value for hidden scores
  finish(module, tensors, options,
         asked_heads(module, tensors, options, answers, module.query.outputs()));
  read_masks(module, tensors, options, MaskChoice::kCausal, {""});
  return module;
}

AttentionModule read_torch_mha(ModelTensors& tensors, const ModelOptions& options,
                               StateDictAnswers& answers) {
  for (const char* name : {"bias_k", "bias_v"}) {
    if (tensors.has(name)) {
      throw InputError(
          "{}: {} is a key or value that every query sees (add_bias_kv), which is not supported: "
          "expected a module trained without it",
          quote(tensors.source()), quote(tensors.full_name(name)));
    }
  }
  AttentionModule module;
  module.architecture = "torch.nn.MultiheadAttention";
  const auto matrix = [&](const char* name) {
    const auto [rows, columns] = tensors.shape_of(name);
    return LinearSpec{tensors.matrix(name, rows, columns)};
  };
  if (tensors.has("in_proj_weight")) {
    LinearSpec all = matrix("in_proj_weight");
    if (all.outputs() % 3 != 0) {
      throw InputError("{}: {} has {} rows: expected 3 x embed_dim", quote(tensors.source()),
                       quote(all.weight.name), all.outputs());
    }
    all.bias = tensors.vector("in_proj_bias", all.outputs(), Presence::kIfStored);
    split_fused(module, all, all.outputs() / 3, all.outputs() / 3);
  } else {
    module.query = matrix("q_proj_weight");
    module.key = matrix("k_proj_weight");
    module.value = matrix("v_proj_weight");
    const uint32_t width = module.query.outputs();
    require_width(tensors, "outputs", module.value, module.value.outputs(), width);
    const std::vector<double> bias = tensors.vector("in_proj_bias", 3 * width, Presence::kIfStored);
    module.query.bias = select_rows(bias, row_range(0, width));
    module.key.bias = select_rows(bias, row_range(width, width));
    module.value.bias = select_rows(bias, row_range(2 * width, width));
    module.separate_inputs = module.key.inputs() != module.query.inputs() ||
                             module.value.inputs() != module.query.inputs();
  }
  module.output = tensors.linear("out_proj");
  finish(module, tensors, options,
         asked_heads(module, tensors, options, answers, module.query.outputs()));
  read_masks(module, tensors, options, MaskChoice::kBidirectional, {""});
  return module;
}

AttentionModule read_causal_mean(ModelTensors& tensors, const ModelOptions& options,
                                 StateDictAnswers&) {
  if (options.features == 0) {
    throw InputError(
        "{}: a module of a mask alone has no weights that would tell the width of "
        "its input: pass --features N",
        quote(tensors.source()));
  }
  if (options.heads > 1) {
    throw InputError("{}: a module of a mask alone has one head, --heads says {}",
                     quote(tensors.source()), options.heads);
  }
  if (options.score_scale) {
    throw InputError("{}: --scale: a module of a mask alone has no scores: drop the option",
                     quote(tensors.source()));
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
