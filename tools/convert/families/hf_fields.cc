// SPDX-License-Identifier: Apache-2.0
// The table of config fields that may be passed over, each with its reason, those that may have one
// value only, and the two ends of a model, which all families store alike.
#include "convert/families/hf_models.h"

#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// Fields that do not change what a model computes, by the reason why not.
constexpr const char* kHarmless[] = {
    // Act in training only: dropout, initial values, losses, schedules.
    "attention_dropout", "attention_dropout_prob", "attention_probs_dropout_prob", "attn_dropout",
    "attn_dropout_prob", "attn_pdrop", "classifier_dropout_prob", "dropout", "drop_path_rate",
    "emb_dropout", "emb_dropout_prob", "embd_dropout", "embd_pdrop", "embedding_dropout",
    "ffn_dropout", "gradient_checkpointing", "hidden_dropout", "hidden_dropout_prob",
    "ignore_index", "init_method_std", "init_std", "initializer_factor", "initializer_range",
    "label_smoothing", "layerdrop", "loss_type", "mlp_dropout", "neftune_noise_alpha",
    "output_router_logits", "resid_dropout", "resid_pdrop", "residual_dropout",
    "router_aux_loss_coef", "use_gradient_checkpointing",
    // Say who saved the file, from what, with which program and for which.
    "_commit_hash", "_from_auto", "_name_or_path", "_num_labels", "architectures", "auto_map",
    "base_model", "finetuning_task", "is_llama_config", "library_name", "license",
    "matryoshka_dimensions", "model_name", "revision", "sentence_transformers",
    "task_specific_params", "transformers.js_config", "transformers_version", "unsloth_fixed",
    "unsloth_version",
    // How numbers are stored; hf_quantized.h understands it.
    "quantization_config",
    // Types of stored numbers, and numbers of stored rows; the tensors say it themselves.
    "_pre_quantization_dtype", "bf16", "dtype", "fp16", "fp32", "pad_vocab_size_multiple",
    "pad_vocab_size_to_multiple_of", "torch_dtype", "use_bf16", "use_bfloat16", "use_fp16",
    "vocab_size_or_config_json_file",
    // What the Python call returns or keeps, and how and where it is computed.
    "_attn_implementation", "_attn_implementation_autoset", "_attn_implementation_internal",
    "_experts_implementation", "_experts_implementation_internal", "_flash_attn_2_enabled",
    "_output_attentions", "_output_hidden_states", "attention_implementation",
    "attn_implementation", "base_model_pp_plan", "base_model_tp_plan", "cache_implementation",
    "flash_attn", "flash_attention", "fused_bias_fc", "fused_dropout_add_ln", "fused_mlp",
    "keys_to_ignore_at_inference", "low_cpu_mem_usage", "output_attentions", "output_hidden_states",
    "output_past", "output_scores", "return_dict", "return_dict_in_generate",
    "tensor_parallel_degree", "torchscript", "use_cache", "use_flash_attention",
    "use_flash_attention_2", "use_flash_attn", "use_fused_rms_norm", "use_fused_rope",
    "use_memory_efficient_attention", "use_sdpa",
    // Defaults for choosing tokens from logits.
    "bad_words_ids", "begin_suppress_tokens", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "early_stopping", "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty", "forced_bos_token_id", "forced_eos_token_id",
    "length_penalty", "max_length", "max_new_tokens", "min_length", "min_p", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "remove_invalid_values",
    "repetition_penalty", "suppress_tokens", "temperature", "top_k", "top_p", "typical_p",
    // About text, not about tokens: the tokenizer's own files say it.
    "add_bos_token", "add_eos_token", "additional_special_tokens", "bos_token", "chat_template",
    "clean_up_tokenization_spaces", "cls_token_id", "eos_token", "mask_token_id", "max_seq_len",
    "max_seq_length", "max_sequence_length", "model_max_length", "pad_token", "pad_token_id",
    "padding_side", "prefix", "sep_token_id", "tokenizer_class", "truncation_side", "unk_token",
    "unk_token_id",
    // Same result in exact arithmetic.
    "pretraining_tp", "reorder_and_upcast_attn"};

constexpr std::pair<const char*, Activation> kActivations[] = {
    {"gelu", Activation::kGeluErf},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"relu", Activation::kRelu},
    {"gelu_python", Activation::kGeluErf},
    {"gelu_python_tanh", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
};

constexpr std::pair<std::string_view, HeadKind> kClassEndings[] = {
    {"ForCausalLM", HeadKind::kCausal},
    {"LMHeadModel", HeadKind::kCausal},
    {"ForMaskedLM", HeadKind::kMasked},
    {"ForSequenceClassification", HeadKind::kSequence},
    {"ForTokenClassification", HeadKind::kTokens},
    {"ForQuestionAnswering", HeadKind::kAnswer},
    {"ForMultipleChoice", HeadKind::kChoice},
    {"ForNextSentencePrediction", HeadKind::kNextSentence},
    {"ForPreTraining", HeadKind::kPreTraining},
    {"DoubleHeadsModel", HeadKind::kDouble},
    {"Model", HeadKind::kNone},
};

// Fields that do not change what a decoder computes, by the reason why not.
constexpr const char* kHarmlessOfDecoders[] = {
    // What the Python call returns.
    "is_decoder",
    // The tensors say it themselves: a bias that nobody asked for is refused.
    "attention_bias", "mlp_bias",
    // Says from which layer on the windows are that another field asks for.
    "max_window_layers",
    // Of heads other than the language model's, whose tensors would be refused.
    "classifier_dropout", "id2label", "label2id", "num_labels", "problem_type",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj"};

// The ids that `field` names. null says that there are none, which is not the same as its absence.
std::vector<uint32_t> token_ids(ConfigFields& config, const char* field,
                                const std::optional<uint32_t>& absent) {
  if (config.has(field) || config.is_null(field) || !absent) return config.ids(field);
  return {*absent};
}

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

void take_common_fields(ConfigFields& config, TransformerSpec& spec, const TokenDefaults& tokens) {
  pass_over_harmless(config);
  for (const char* field : kHarmlessOfDecoders) config.pass_over(field);
  config.expect("is_encoder_decoder", false, "only decoders are read");
  config.expect("add_cross_attention", false, "attention over another sequence is not supported");
  config.expect("tie_encoder_decoder", false, "only decoders are read");
  config.expect("pruned_heads", nlohmann::json::object(), "pruned heads are not supported");
  config.expect("chunk_size_feed_forward", 0, "the feed-forward layer is not cut into chunks");
  config.expect("is_causal", true, "only causal decoders are read");
  config.expect("use_bidirectional_attention", false, "only causal decoders are read");

  // An id beyond the vocabulary never comes up; small models keep those of larger ones.
  for (const uint32_t id : token_ids(config, "bos_token_id", tokens.bos)) {
    if (id < spec.vocab_size) spec.bos_id = id;
  }
  for (const uint32_t id : token_ids(config, "eos_token_id", tokens.eos)) {
    if (id < spec.vocab_size) spec.eos_ids.push_back(id);
  }
}

uint32_t read_size(ConfigFields& config, const char* name, const char* alias,
                   std::optional<uint32_t> fallback) {
  if (!config.has(name) && config.has(alias)) return config.count(alias);
  const uint32_t size = config.count(name, fallback);
  config.expect(alias, size, "it is another name for the same size");
  return size;
}

std::string prefix_of(const ModelTensors& tensors, const std::string& prefix,
                      const std::string& embedding) {
  return tensors.has(embedding) && !tensors.has(prefix + embedding) ? "" : prefix;
}

std::optional<HeadKind> read_head_kind(ConfigFields& config) {
  const std::vector<std::string> architectures = config.texts("architectures");
  if (architectures.empty()) return std::nullopt;
  if (architectures.size() > 1) config.refuse("architectures", "expected one name");
  const std::string_view name = architectures[0];
  std::string known;
  for (const auto& [ending, kind] : kClassEndings) {
    // A class for a purpose may be called ...ForRewardModel.
    const bool is_of_this = kind != HeadKind::kNone || name.find("For") == std::string_view::npos;
    if (name.ends_with(ending) && is_of_this) return kind;
    known += fmt::format("{}...{}", known.empty() ? "" : ", ", ending);
  }
  config.refuse("architectures", "what this class gives out is not known: expected " + known);
}

void read_embedding_and_head(ConfigFields& config, ModelTensors& tensors, TransformerSpec& spec,
                             const HeadNames& names, bool is_tied, Presence head_bias) {
  const std::optional<HeadKind> kind = read_head_kind(config);
  if (kind == HeadKind::kDouble) {
    throw InputError(
        "{}: field 'architectures' names a class of two results: load it as the class whose result "
        "you want, such as ...LMHeadModel, and save that",
        config.where());
  }
  if (kind && *kind != HeadKind::kNone && *kind != HeadKind::kCausal) {
    config.refuse("architectures",
                  "of decoders, only heads that give logits are read (...ForCausalLM, "
                  "...LMHeadModel), and models without a head (...Model)");
  }
  const std::string embedding = names.prefix + names.embedding;
  const std::string head = names.head + ".weight";
  const bool lacks_head = names.prefix.empty() && !tensors.has(head) && !is_tied;
  spec.is_headless = kind ? *kind == HeadKind::kNone : lacks_head;
  spec.token_embedding =
      is_tied && !spec.is_headless
          ? tensors.tied_embedding(embedding, head, spec.vocab_size, spec.model_dim)
          : tensors.matrix(embedding, spec.vocab_size, spec.model_dim);
  if (spec.is_headless) return;
  const bool may_lack_bias = names.prefix.empty() && head_bias == Presence::kRequired;
  const std::vector<double> bias = tensors.vector(names.head + ".bias", spec.vocab_size,
                                                  may_lack_bias ? Presence::kIfStored : head_bias);
  if (!is_tied) {
    spec.output = {tensors.matrix(head, spec.vocab_size, spec.model_dim), bias};
  } else if (!bias.empty()) {
    spec.output = {*spec.token_embedding, bias};
  }
}

}  // namespace arenite::convert
