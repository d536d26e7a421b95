// SPDX-License-Identifier: Apache-2.0
// Decoders in GGUF files. Each architecture is a family of transformers (hf_decoders.h) under other
// names: a row for each, one table of metadata keys, and one of names of tensors.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/hf_decoders.h"
#include "convert/files/error.h"
#include "convert/gguf/gguf_file.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

struct Architecture {
  const char* name;
  const char* model_type;    // of the family in transformers
  bool is_permuted = false;  // queries and keys are stored for rotation of neighbours
};
constexpr Architecture kArchitectures[] = {
    {"llama", "llama", true},
    {"bloom", "bloom"},
    {"cohere2", "cohere2"},
    {"command-r", "cohere"},
    {"ernie4_5", "ernie4_5"},
    {"exaone4", "exaone4"},
    {"falcon", "falcon"},
    {"gemma", "gemma"},
    {"gemma2", "gemma2"},
    {"gemma3", "gemma3_text"},
    {"glm4", "glm4"},
    {"gpt2", "gpt2"},
    {"gptneox", "gpt_neox"},
    {"granite", "granite", true},
    {"mpt", "mpt"},
    {"nemotron", "nemotron"},
    {"olmo", "olmo", true},
    {"olmo2", "olmo2"},
    {"phi2", "phi"},
    {"phi3", "phi3"},
    {"qwen2", "qwen2"},
    {"qwen3", "qwen3"},
    {"smollm3", "smollm3", true},
    {"stablelm", "stablelm"},
    {"starcoder", "gpt_bigcode"},
    {"starcoder2", "starcoder2"},
};

// The config field of a metadata key; `families` limits it to these, each between spaces.
struct KeyField {
  const char* key;
  const char* field;
  const char* families = nullptr;
};
constexpr KeyField kKeyFields[] = {
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.clamp_kqv", "clip_qkv", " olmo "},
    {"attention.scale", "attention_multiplier", " granite "},
    {"attn_logit_softcapping", "attn_logit_softcapping", " gemma2 gemma3_text "},
    {"embedding_scale", "embedding_multiplier", " granite "},
    {"final_logit_softcapping", "final_logit_softcapping", " gemma2 gemma3_text "},
    {"logit_scale", "logits_scaling", " granite "},
    {"logit_scale", "logit_scale", " cohere cohere2 "},
    {"residual_scale", "residual_multiplier", " granite "},
    {"use_parallel_residual", "use_parallel_residual", " gpt_neox stablelm "},
};

// Replaces the folder's names of tensors. Biases are where the file has them, and what a file fuses
// does not follow from its architecture.
void use_gguf_names(Reading& reading, const ModelTensors& tensors) {
  LayerNames& names = reading.names;
  const auto set = [](const char*& name, const char* own) {
    if (name != nullptr) name = own;
  };
  const bool has_two_norms = tensors.has("blk.0.attn_norm_2.weight");  // the first is the MLP's
  set(names.attention_norm, has_two_norms ? "attn_norm_2" : "attn_norm");
  set(names.mlp_norm, has_two_norms ? "attn_norm" : "ffn_norm");
  set(names.attention_out_norm, "post_attention_norm");
  set(names.mlp_out_norm, "post_ffw_norm");
  set(names.query_norm, "attn_q_norm");
  set(names.key_norm, "attn_k_norm");
  names.fused = tensors.has("blk.0.attn_qkv.weight") ? "attn_qkv" : nullptr;
  names.fused_rows = FusedRows::kBlocks;
  names.query = "attn_q";
  names.key = "attn_k";
  names.value = "attn_v";
  names.output = "attn_output";
  const bool is_gated = names.gate != nullptr || names.has_gate_in_up;
  const bool has_gate = tensors.has("blk.0.ffn_gate.weight");
  names.gate = is_gated && has_gate ? "ffn_gate" : nullptr;
  names.has_gate_in_up = is_gated && !has_gate;
  names.up = "ffn_up";
  names.down = "ffn_down";
  names.keeps_inputs_first = false;
  LayerSettings& settings = reading.settings;
  settings.qkv_bias = settings.output_bias = settings.mlp_bias = Presence::kIfStored;
}

// Returns the family's row for files, which have all defaults in the metadata, 1 added to the gains
// of norms, and names of their own.
Family in_gguf(Family family) {
  family.use_own_names = use_gguf_names;
  family.prefix = "";
  family.embedding = "token_embd";
  if (family.positions != nullptr) family.positions = "position_embd";
  if (family.embedding_norm != nullptr) family.embedding_norm = "token_embd_norm";
  family.list = "blk.";
  family.final_norm = "output_norm";
  family.head = "output";
  family.head_bias = Presence::kIfStored;
  family.epsilon_field = "layer_norm_eps";
  family.has_head_fields = true;
  family.kv_heads = family.head_dim = 0;
  family.bos = family.eos = std::nullopt;
  family.gain_plus_one = false;
  return family;
}

// Translates the metadata to the config that a folder would have.
class GgufConfig {
 public:
  GgufConfig(ConfigFields& metadata, ModelTensors& tensors, const Architecture& row)
      : metadata_(metadata),
        tensors_(tensors),
        row_(row),
        family_(in_gguf(*find_family(row.model_type))),
        prefix_(fmt::format("{}.", row.name)) {}

  const Family& family() const { return family_; }

  json run() {
    read_sizes();
    refuse_variants();
    for (const KeyField& field : kKeyFields) {
      const std::string name = fmt::format(" {} ", family_.model_type);
      const bool is_of_family =
          field.families == nullptr ||
          std::string_view(field.families).find(name) != std::string_view::npos;
      if (is_of_family && has(field.key)) config_[field.field] = metadata_.value(key(field.key));
    }
    const bool is_rms = family_.layer->norm == NormKind::kRms;
    constexpr const char* kEpsilons[] = {"attention.layer_norm_epsilon",
                                         "attention.layer_norm_rms_epsilon"};
    config_["layer_norm_eps"] = metadata_.positive(key(kEpsilons[is_rms ? 1 : 0]));
    metadata_.pass_over(key(kEpsilons[is_rms ? 0 : 1]));
    config_["tie_word_embeddings"] = !tensors_.has("output.weight");
    read_windows();
    read_own();
    if (family_.rope || is("falcon")) read_rope();
    return std::move(config_);
  }

 private:
  std::string key(const char* name) const { return prefix_ + name; }
  bool has(const char* name) const { return metadata_.has(key(name)); }
  bool is(std::string_view model_type) const { return model_type == row_.model_type; }
  uint32_t count(const char* name, std::optional<uint32_t> fallback = {}) {
    return metadata_.count(key(name), fallback);
  }

  void read_sizes() {
    width_ = count("embedding_length");
    config_[family_.width.name] = width_;
    config_[family_.ffn.name] = count("feed_forward_length");
    context_ = count("context_length");
    config_[family_.context.name] = context_;
    heads_ = count("attention.head_count");
    config_[family_.heads.name] = heads_;
    layers_ = count("block_count");
    config_[family_.layers.name] = layers_;
    head_dim_ = has("attention.key_length") ? count("attention.key_length")
                                            : even_head_dim(width_, heads_, metadata_.where());
    metadata_.expect(key("attention.value_length"), head_dim_, "keys have another length");
    const uint32_t vocab_size = tensors_.shape_of("token_embd.weight").rows;
    metadata_.expect(
        key("vocab_size"), vocab_size,
        fmt::format("expected {}, the rows of 'token_embd.weight'", vocab_size).c_str());
    config_["vocab_size"] = vocab_size;
  }

  void refuse_variants() {
    metadata_.expect(key("expert_count"), 0u, "mixtures of experts are not supported");
    metadata_.expect(key("expert_used_count"), 0u, "mixtures of experts are not supported");
    metadata_.expect(key("attention.causal"), true, "only causal decoders are supported");
    metadata_.expect("split.count", 1u, "give the model as one file; gguf-split --merge makes it");
    for (const char* origin :
         {"split.no", "split.tensors.count", "quantize.imatrix.file", "quantize.imatrix.dataset",
          "quantize.imatrix.entries_count", "quantize.imatrix.chunks_count"}) {
      metadata_.pass_over(origin);
    }
    metadata_.pass_over(key("tensor_data_layout"));  // says nothing that the names do not
  }

  // Files without a window have none, except that two architectures always have one.
  void read_windows() {
    if (family_.windows != Windows::kAllLayers && family_.windows != Windows::kPattern) return;
    constexpr const char* kWindow = "attention.sliding_window";
    constexpr const char* kPattern = "attention.sliding_window_pattern";
    const bool must_be_there = is("gemma2") || is("cohere2");
    const uint32_t window = must_be_there ? count(kWindow) : metadata_.count(key(kWindow), 0, 0);
    config_["sliding_window"] = window == 0 ? json(nullptr) : json(window);
    const json pattern = metadata_.value(key(kPattern));
    if (pattern.is_number()) config_["sliding_window_pattern"] = pattern;
    if (!pattern.is_array()) return;
    json& types = config_["layer_types"] = json::array();
    for (const json& is_windowed : pattern) {
      types.push_back(is_windowed == true ? "sliding_attention" : "full_attention");
    }
  }

  void read_own() {
    if (is("granite")) {
      config_.emplace("attention_multiplier", 1.0 / std::sqrt(double{1} * head_dim_));
    } else if (is("gemma2") || is("gemma3_text")) {
      // The largest model of each is the only one whose scores have another scale.
      const bool is_27b = layers_ == (is("gemma2") ? 46 : 62);
      config_["query_pre_attn_scalar"] = is_27b ? width_ / heads_ : head_dim_;
    } else if (is("falcon")) {
      config_["new_decoder_architecture"] = true;
      config_["num_kv_heads"] = count("attention.head_count_kv", heads_);
      config_["num_ln_in_parallel_attn"] = tensors_.has("blk.0.attn_norm_2.weight") ? 2u : 1u;
    } else if (is("mpt")) {
      const uint32_t kv_heads = count("attention.head_count_kv", heads_);
      const double bias_max = metadata_.has(key("attention.max_alibi_bias"))
                                  ? metadata_.positive(key("attention.max_alibi_bias"))
                                  : 8.0;
      config_["attn_config"] = {{"alibi", true},
                                {"alibi_bias_max", bias_max},
                                {"attn_type", "grouped_query_attention"},
                                {"clip_qkv", metadata_.value(key("attention.clamp_kqv"))},
                                {"kv_n_heads", kv_heads}};
    }
  }

  void read_rope() {
    const uint32_t rotary_dim = count("rope.dimension_count", head_dim_);
    const bool is_whole = row_.is_permuted || family_.local_rope || !family_.rope;
    if (rotary_dim > head_dim_ || rotary_dim % 2 != 0 || (is_whole && rotary_dim != head_dim_)) {
      metadata_.refuse(key("rope.dimension_count"),
                       fmt::format("expected an even number, {} {}",
                                   is_whole ? "namely" : "at most", head_dim_));
    }
    if (family_.rope) {
      family_.rope->rotary_dim = rotary_dim;
      family_.rope->partial_factor[0] = family_.rope->partial_factor[1] = nullptr;
      family_.rope->turns_neighbours |= row_.is_permuted;
    }
    json rope = scaling(rotary_dim);
    rope["rope_theta"] = metadata_.positive(key("rope.freq_base"), 10000.0);
    if (family_.local_rope) {
      const double local = metadata_.positive(key("rope.freq_base_swa"), 10000.0);
      rope = {{"full_attention", rope}, {"sliding_attention", {{"rope_theta", local}}}};
    }
    config_["rope_parameters"] = rope;
  }

  // Returns the fields of the scaling. Factors of frequencies, where a file has them, are
  // longrope's for texts up to the trained context.
  json scaling(uint32_t rotary_dim) {
    const std::string type = metadata_.text(key("rope.scaling.type"), "none");
    const double factor = metadata_.positive(key("rope.scaling.factor"), 1.0);
    constexpr const char* kOriginal = "rope.scaling.original_context_length";
    const uint32_t original = count(kOriginal, context_);
    metadata_.pass_over(key("rope.scaling.finetuned"));
    const bool is_long = tensors_.has("rope_factors_short.weight");
    const char* const name = is_long ? "rope_factors_short.weight" : "rope_freqs.weight";
    const std::vector<double> factors = tensors_.vector(name, rotary_dim / 2, Presence::kIfStored);
    const bool is_scaled_here = type == "linear" || type == "yarn";
    const bool is_plain = type == "none" || (type == "longrope" && is_long);
    if (!is_plain && (!is_scaled_here || !factors.empty())) {
      metadata_.refuse(key("rope.scaling.type"),
                       "expected none, linear or yarn, or factors of frequencies beside longrope");
    }
    json fields = {{"rope_type", is_scaled_here ? type : "default"}};
    if (is_scaled_here) fields["factor"] = factor;
    if (type == "yarn") {
      fields["original_max_position_embeddings"] = original;
      for (const char* beta : {"beta_fast", "beta_slow"}) {
        const std::string yarn = fmt::format("{}rope.scaling.yarn_{}", prefix_, beta);
        if (metadata_.has(yarn)) fields[beta] = metadata_.positive(yarn);
      }
    }
    if (!is_long) metadata_.expect(key("rope.scaling.attn_factor"), 1.0, "it has no long factors");
    if (factors.empty()) return fields;
    for (size_t i = 0; i < factors.size(); ++i) {
      if (factors[i] > 0.0 && std::isnormal(static_cast<float>(factors[i]))) continue;
      throw InputError("{}: '{}' has the value {} at index {}: expected more than 0",
                       quote(tensors_.source()), name, factors[i], i);
    }
    tensors_.pass_over("rope_factors_long.weight");
    return {
        {"rope_type", "longrope"},
        {"short_factor", factors},
        {"attention_factor", is_long ? metadata_.positive(key("rope.scaling.attn_factor")) : 1.0},
        {"original_max_position_embeddings", is_long ? original : context_}};
  }

  ConfigFields& metadata_;
  ModelTensors& tensors_;
  const Architecture& row_;
  Family family_;
  const std::string prefix_;  // of the architecture's keys: "llama."
  json config_ = json::object();
  uint32_t width_ = 0, context_ = 0, heads_ = 0, layers_ = 0, head_dim_ = 0;
};

}  // namespace

std::string gguf_architectures() {
  std::string names;
  for (const Architecture& row : kArchitectures) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", row.name);
  }
  return names;
}

TransformerSpec read_gguf_decoder(const GgufFile& file, const TensorStore& store) {
  ConfigFields metadata = gguf_fields(file);
  const std::string name = metadata.text("general.architecture");
  const auto* const row = std::ranges::find_if(
      kArchitectures, [&](const Architecture& known) { return name == known.name; });
  if (row == std::end(kArchitectures)) {
    metadata.refuse("general.architecture", "expected " + gguf_architectures());
  }
  ModelTensors tensors(store);
  GgufConfig translation(metadata, tensors, *row);
  ConfigFields config(translation.run(), metadata.where());
  TransformerSpec spec = read_decoder(config, tensors, translation.family(), HeadUse::kKeep);
  spec.architecture = row->name;
  config.finish();
  note_passed_over(metadata.finish(), spec);
  tensors.finish();

  const GgufTokenizer tokenizer = read_gguf_tokenizer(file);
  if (tokenizer.bos_id && *tokenizer.bos_id < spec.vocab_size) spec.bos_id = tokenizer.bos_id;
  if (tokenizer.eos_id && *tokenizer.eos_id < spec.vocab_size) {
    spec.eos_ids.push_back(*tokenizer.eos_id);
  }
  return spec;
}

}  // namespace arenite::convert
