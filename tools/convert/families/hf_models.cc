// SPDX-License-Identifier: Apache-2.0
// The table of config fields that may be passed over, each with its reason, those that may have one
// value only, the two ends of a model, which all families store alike, and buffers beside weights.
#include "convert/families/hf_models.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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
    // How numbers are stored; with_whole_weights understands it.
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

// Masks are to be checked; the others can be computed from the config.
struct Buffer {
  std::string_view suffix;
  enum Kind { kOnesShow, kOnesHide, kOther } kind;
};
constexpr Buffer kBuffers[] = {
    {".attn.bias", Buffer::kOnesShow},           // GPT-2 and nanoGPT
    {".attn.mask", Buffer::kOnesShow},           // minGPT
    {".att.mask", Buffer::kOnesHide},            // GPTModel
    {".attention.bias", Buffer::kOnesShow},      // GPT-NeoX
    {".attn.masked_bias", Buffer::kOther},       // GPT-2: what masked scores are set to
    {".attention.masked_bias", Buffer::kOther},  // GPT-NeoX
    {".rotary_emb.inv_freq", Buffer::kOther},    // Llama and GPT-NeoX
};

// Throws InputError unless `tensor` is [1, 1, n, n] with `shown` exactly where key <= query, and
// the other one of 0 and 1 elsewhere.
void check_causal(const StoredTensor& tensor, float shown) {
  const size_t rank = tensor.shape.size();
  const uint64_t side = rank == 0 ? 0 : tensor.shape[rank - 1];
  const bool is_square = rank >= 2 && tensor.shape[rank - 2] == side &&
                         std::all_of(tensor.shape.begin(), tensor.shape.end() - 2,
                                     [](uint64_t extent) { return extent == 1; });
  if (!is_square) {
    throw InputError("{}: mask {} has shape {}: expected [1, 1, n, n]", quote(tensor.file),
                     quote(tensor.name), shape_text(tensor.shape));
  }
  const std::vector<float> values = tensor.load();
  for (size_t i = 0; i < values.size(); ++i) {
    const float expected = i % side <= i / side ? shown : 1.0f - shown;
    if (values[i] == expected) continue;
    throw InputError(
        "{}: mask {} is {} for query {} and key {}: expected a causal mask, {} for keys up to the "
        "query and {} for later ones; decoders with other masks are not read",
        quote(tensor.file), quote(tensor.name), values[i], i / side, i % side, shown, 1.0f - shown);
  }
}

const Buffer* buffer_of(const StoredTensor& tensor) {
  for (const Buffer& buffer : kBuffers) {
    if (tensor.name.ends_with(buffer.suffix)) return &buffer;
  }
  return nullptr;
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

void set_heads(TransformerSpec& spec, uint32_t heads, size_t layers, const std::string& where) {
  if (layers == 0 || layers > kLayersMax) {
    throw InputError("{}: {} layers: expected 1 to {}", where, layers, kLayersMax);
  }
  spec.heads = spec.kv_heads = heads;
  spec.head_dim = even_head_dim(spec.model_dim, heads, where);
}

void fold_single_type(TransformerSpec& spec) {
  if (spec.token_types != 1) return;
  const auto add = [](auto values, const auto& row) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += row[i % row.size()];
    return values;
  };
  const WeightRef positions = *spec.position_embedding;
  const WeightRef type = *spec.type_embedding;
  spec.position_embedding->quantized = {};
  spec.position_embedding->load_quantized = {};
  spec.position_embedding->load = [=] { return add(positions.load(), type.load()); };
  if (positions.load_f64 || type.load_f64) {
    spec.position_embedding->load_f64 = [=] { return add(positions.exact(), type.exact()); };
  }
  spec.type_embedding.reset();
  spec.token_types = 0;
}

void pass_over_position_ids(ModelTensors& tensors, const std::string& name) {
  for (const StoredTensor& tensor : tensors.stored()) {
    if (tensor.name != name) continue;
    const std::vector<float> ids = tensor.load();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == static_cast<float>(i)) continue;
      throw InputError("{}: {} is {} at index {}: expected positions counted from 0",
                       quote(tensor.file), quote(name), ids[i], i);
    }
    tensors.pass_over(name);
  }
}

void check_pooling(std::optional<PoolingChoice> asked, PoolingChoice found,
                   const std::string& where) {
  if (!asked || *asked == found) return;
  throw InputError("{}: pooling {} was asked for, but the model has {}: drop the option", where,
                   quote(name(*asked)), quote(name(found)));
}

std::vector<std::string> read_labels(ConfigFields& config, uint32_t classes) {
  std::vector<std::string> labels;
  std::optional<ConfigFields> fields = config.object("id2label");
  if (!fields) return labels;
  if (fields->size() != classes) {
    config.refuse("id2label", fmt::format("it names {} labels, but the classifier has {} classes",
                                          fields->size(), classes));
  }
  for (uint32_t i = 0; i < classes; ++i) {
    const std::string key = fmt::format("{}", i);
    if (!fields->has(key)) {
      config.refuse("id2label", fmt::format("class {} of 0 to {} is missing", i, classes - 1));
    }
    labels.push_back(fields->text(key));
  }
  return labels;
}

void pass_over_buffers(ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const Buffer* buffer = buffer_of(tensor);
    if (buffer == nullptr) continue;
    if (buffer->kind != Buffer::kOther) {
      check_causal(tensor, buffer->kind == Buffer::kOnesShow ? 1.0f : 0.0f);
    }
    tensors.pass_over(tensor.name);
  }
}

}  // namespace arenite::convert
