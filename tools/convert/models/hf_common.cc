// SPDX-License-Identifier: Apache-2.0
// The table of config fields that may be passed over, each with its reason.
#include "convert/models/hf_common.h"

#include <utility>

#include "convert/error.h"

namespace arenite::convert {
namespace {

// Fields that do not change what a model computes, by the reason why not.
constexpr const char* kHarmless[] = {
    // Act in training only: dropout, initial values.
    "attention_dropout",
    "attn_pdrop",
    "embd_pdrop",
    "gradient_checkpointing",
    "hidden_dropout",
    "initializer_range",
    "resid_pdrop",
    // Say who saved the file, from what and with which program.
    "_name_or_path",
    "architectures",
    "finetuning_task",
    "task_specific_params",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    // Types of stored numbers; the tensors say it themselves.
    "dtype",
    "torch_dtype",
    "use_bfloat16",
    // What the Python call returns or keeps, and how it is computed.
    "_attn_implementation",
    "_attn_implementation_autoset",
    "attn_implementation",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "return_dict",
    "torchscript",
    "use_cache",
    // Defaults for choosing tokens from logits.
    "begin_suppress_tokens",
    "do_sample",
    "max_length",
    "max_new_tokens",
    "min_length",
    "num_beams",
    "repetition_penalty",
    "suppress_tokens",
    "temperature",
    "top_k",
    "top_p",
    // About text, not about tokens.
    "pad_token_id",
    "prefix",
    "sep_token_id",
    "tokenizer_class",
    "unk_token_id",
    // Same result in exact arithmetic.
    "pretraining_tp",
    "reorder_and_upcast_attn",
};

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"gelu", Activation::kGeluErf},       {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh}, {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
    {"relu", Activation::kRelu},
};

}  // namespace

void pass_over_harmless(ConfigFields& config) {
  for (const char* field : kHarmless) config.pass_over(field);
}

Activation read_activation(ConfigFields& config, const std::string& field,
                           const std::string& fallback) {
  const std::string name = config.text(field, fallback);
  std::string known;
  for (const auto& [known_name, activation] : kActivations) {
    if (name == known_name) return activation;
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", known_name);
  }
  config.refuse(field, "expected one of " + known);
}

uint32_t even_head_dim(uint32_t model_dim, uint32_t heads, const std::string& where) {
  if (model_dim % heads != 0) {
    throw InputError("{}: {} heads do not divide a width of {}", where, heads, model_dim);
  }
  return model_dim / heads;
}

}  // namespace arenite::convert
