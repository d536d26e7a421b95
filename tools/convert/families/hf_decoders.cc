// SPDX-License-Identifier: Apache-2.0
// Reads any decoder of transformers by its family's row (hf_gpt_decoders.cc, hf_llama_decoders.cc):
// sizes, fields that all configs share, windows, tensors and the head.
#include "convert/families/hf_decoders.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/spec/mask_buffers.h"

namespace arenite::convert {
namespace {

// Reads the sizes. Returns the number of layers.
uint32_t read_sizes(ConfigFields& config, const Family& family, TransformerSpec& spec) {
  spec.vocab_size = config.count("vocab_size");
  spec.model_dim = read_size(config, family.width);
  SizeField ffn = family.ffn;
  if (ffn.fallback == 0) ffn.fallback = 4 * spec.model_dim;
  spec.ffn_dim = read_size(config, ffn);
  spec.positions_max = read_size(config, family.context);
  spec.heads = spec.kv_heads = read_size(config, family.heads);
  if (family.has_head_fields) {
    const bool as_many = family.kv_heads == 0 || config.is_null("num_key_value_heads");
    spec.kv_heads = config.count("num_key_value_heads", as_many ? spec.heads : family.kv_heads);
  }
  const bool has_head_dim =
      config.has("head_dim") || (family.head_dim != 0 && !config.is_null("head_dim"));
  spec.head_dim = family.has_head_fields && has_head_dim
                      ? config.count("head_dim", family.head_dim)
                      : even_head_dim(spec.model_dim, spec.heads, config.where());
  return read_size(config, family.layers);
}

// Throws InputError if layer_types names a kind other than `expected`, for families whose layers
// all see the same keys.
void expect_layer_types(ConfigFields& config, const char* expected) {
  for (const std::string& type : config.texts("layer_types")) {
    if (type == expected) continue;
    config.refuse("layer_types", fmt::format("expected {} for all layers of this model", expected));
  }
}

// Reads the windows of families in which some layers have one.
std::vector<bool> read_mixed_windows(Reading& reading, uint32_t& window) {
  ConfigFields& config = reading.config;
  const Family& family = reading.family;
  const bool is_pattern = family.windows == Windows::kPattern;
  const bool has_window =
      !config.is_null("sliding_window") && (is_pattern || config.flag("use_sliding_window", false));
  window = has_window ? config.count("sliding_window", 4096) : 0;
  config.pass_over("sliding_window");
  uint32_t pattern = family.window_pattern;
  for (const char* field : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    if (!is_pattern) continue;
    if (!config.has("layer_types")) pattern = config.count(field, pattern);
    config.pass_over(field);
  }
  const uint32_t first = is_pattern ? 0 : config.count("max_window_layers", 28, 0);
  std::vector<bool> windowed;
  for (uint32_t i = 0; i < reading.layers; ++i) {
    windowed.push_back(window != 0 && (is_pattern ? (i + 1) % pattern != 0 : i >= first));
  }
  return windowed_layers(config, std::move(windowed));
}

// Fields that do not change what a decoder computes, grouped by reason.
constexpr const char* kHarmlessOfDecoders[] = {
    // Return values of the Python call.
    "is_decoder",
    // The tensors decide; an unexpected bias is refused.
    "attention_bias", "mlp_bias",
    // First layer with the windows of another field.
    "max_window_layers",
    // Other heads than the language model's; their tensors would be refused.
    "classifier_dropout", "id2label", "label2id", "num_labels", "problem_type",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj"};

// Returns the ids in `field`, else `absent`. A null field means no ids.
std::vector<uint32_t> token_ids(ConfigFields& config, const char* field,
                                const std::optional<uint32_t>& absent) {
  if (config.has(field) || config.is_null(field) || !absent) return config.ids(field);
  return {*absent};
}

// Takes fields without effect on the computation, refuses unsupported settings, and sets bos_id and
// eos_ids. REQUIRES: vocab_size is set.
void take_common_fields(ConfigFields& config, TransformerSpec& spec, const Family& family) {
  pass_over_harmless(config);
  config.pass_over(kHarmlessOfDecoders);
  config.expect("is_encoder_decoder", false, "only decoders are supported");
  config.expect("add_cross_attention", false, "cross-attention is not supported");
  config.expect("tie_encoder_decoder", false, "only decoders are supported");
  config.expect("pruned_heads", nlohmann::json::object(), "pruned heads are not supported");
  config.expect("chunk_size_feed_forward", 0, "chunked feed-forward layers are not supported");
  config.expect("is_causal", true, "only causal decoders are supported");
  const bool may_be = family.may_be_bidirectional;
  spec.causal = !(may_be && config.flag("use_bidirectional_attention", false));
  config.expect("use_bidirectional_attention", !spec.causal, "only causal decoders are supported");

  // An id beyond the vocabulary never occurs; small models keep the ids of larger ones.
  for (const uint32_t id : token_ids(config, "bos_token_id", family.bos)) {
    if (id < spec.vocab_size) spec.bos_id = id;
  }
  for (const uint32_t id : token_ids(config, "eos_token_id", family.eos)) {
    if (id < spec.vocab_size) spec.eos_ids.push_back(id);
  }
}

// Reads the projections between embeddings and layers that differ in width.
void read_projections(Reading& reading, ModelTensors& tensors, const std::string& prefix) {
  TransformerSpec& spec = reading.spec;
  if (reading.embedding_dim == 0 || reading.embedding_dim == spec.model_dim) return;
  const auto read = [&](const char* name, uint32_t outputs, uint32_t inputs) {
    return tensors.linear(prefix + name, outputs, inputs, Presence::kNone);
  };
  spec.input = read(reading.family.input, spec.model_dim, reading.embedding_dim);
  spec.projection = read(reading.family.projection, reading.embedding_dim, spec.model_dim);
}

// Reads the head on the last token, or on each, that gives scores of classes.
void read_classifier(Reading& reading, ModelTensors& tensors, bool is_per_token) {
  TransformerSpec& spec = reading.spec;
  const char* const name = tensors.has("score.weight") ? "score" : "classifier";
  spec.is_decoder = false;
  spec.pooling = is_per_token ? SelectKind::kAsAsked : SelectKind::kLast;
  const uint32_t classes = tensors.shape_of(fmt::format("{}.weight", name)).rows;
  const uint32_t width = spec.projection ? spec.projection->outputs() : spec.model_dim;
  if (spec.projection) spec.head.push_back({.linear = std::exchange(spec.projection, {})});
  spec.head.push_back({.linear = tensors.linear(name, classes, width, Presence::kIfStored)});
  spec.labels = read_labels(reading.config, classes);
  reading.config.expect("num_labels", classes, "the classifier has that number of outputs");
}

// Reads token_embedding and the head: output for an untied model, nothing for a tied one,
// is_headless for a class without a head (HeadKind::kNone), or, if no class is named, for a file
// without head tensors.
void read_embedding_and_head(Reading& reading, ModelTensors& tensors, const std::string& prefix,
                             HeadUse use) {
  ConfigFields& config = reading.config;
  const Family& family = reading.family;
  TransformerSpec& spec = reading.spec;
  const bool is_tied = config.flag("tie_word_embeddings", family.is_tied);
  const std::optional<HeadKind> kind =
      use == HeadUse::kDrop ? HeadKind::kNone : read_head_kind(config);
  if (kind == HeadKind::kDouble) {
    throw InputError(
        "{}: field 'architectures' names a class with two outputs: load the class whose output you "
        "want, such as ...LMHeadModel, and save it",
        config.where());
  }
  const bool is_classifier = kind == HeadKind::kSequence || kind == HeadKind::kTokens;
  if (kind && *kind != HeadKind::kNone && *kind != HeadKind::kCausal && !is_classifier) {
    config.refuse("architectures",
                  "expected a decoder with logits (...ForCausalLM, ...LMHeadModel), with classes "
                  "(...ForSequenceClassification, ...ForTokenClassification), or one without a "
                  "head (...Model)");
  }
  const uint32_t width = spec.projection ? spec.projection->outputs() : spec.model_dim;
  const std::string embedding = fmt::format("{}{}.weight", prefix, family.embedding);
  const std::string head = family.head;
  const std::string matrix = head + ".weight";
  const bool lacks_head = prefix.empty() && !tensors.has(matrix) && !is_tied;
  spec.is_headless = kind ? *kind == HeadKind::kNone : lacks_head;
  spec.token_embedding = is_tied && !spec.is_headless && !is_classifier
                             ? tensors.tied({embedding, matrix}, spec.vocab_size, width)
                             : tensors.matrix(embedding, spec.vocab_size, width);
  if (is_classifier) return read_classifier(reading, tensors, kind == HeadKind::kTokens);
  if (spec.is_headless) {
    if (use == HeadUse::kDrop) tensors.pass_over_all(head + ".");
    return;
  }
  const bool may_lack_bias = prefix.empty() && family.head_bias == Presence::kRequired;
  const std::vector<double> bias = tensors.vector(
      head + ".bias", spec.vocab_size, may_lack_bias ? Presence::kIfStored : family.head_bias);
  if (!is_tied) {
    spec.output = {tensors.matrix(matrix, spec.vocab_size, width), bias};
  } else if (!bias.empty()) {
    spec.output = {*spec.token_embedding, bias};
  }
}

// Skips buffers without weights, by their suffix: the value of masked scores, and frequencies,
// which follow from the config. Throws InputError for a mask that is neither causal nor the window
// of a layer.
void pass_over_buffers(ModelTensors& tensors, const LayerSettings& settings) {
  for (const StoredTensor& tensor : tensors.stored()) {
    const auto ends_in_any = [&](std::initializer_list<const char*> endings) {
      return std::ranges::any_of(endings,
                                 [&](const char* ending) { return tensor.name.ends_with(ending); });
    };
    if (ends_in_any({".attn.bias", ".attention.bias"})) {
      const BandChoice mask = read_band_buffer(tensor, quote(tensor.file), MaskOnes::kVisible);
      const bool is_window = std::ranges::count(settings.windows, mask.window) != 0;
      if (!mask.causal || (mask.window != 0 && !is_window)) {
        throw InputError("{}: mask {} is {}: expected a causal mask", quote(tensor.file),
                         quote(tensor.name), describe(mask));
      }
    } else if (!ends_in_any(
                   {".attn.masked_bias", ".attention.masked_bias", ".rotary_emb.inv_freq"})) {
      continue;
    }
    tensors.pass_over(tensor.name);
  }
}

// Reads the windows of all layers, and returns for each layer whether it has one.
std::vector<bool> read_windows(Reading& reading) {
  ConfigFields& config = reading.config;
  const Family& family = reading.family;
  if (family.windows == Windows::kNone) {
    expect_layer_types(config, "full_attention");
    if (config.has("use_sliding_window") && !config.flag("use_sliding_window")) {
      config.pass_over("sliding_window");
    }
    return std::vector<bool>(reading.layers);
  }
  uint32_t window = 0;
  std::vector<bool> windowed;
  if (family.windows == Windows::kAllLayers) {
    const bool has_window =
        config.has("sliding_window") || (family.window != 0 && !config.is_null("sliding_window"));
    expect_layer_types(config, has_window ? "sliding_attention" : "full_attention");
    if (has_window) window = config.count("sliding_window", family.window);
    windowed.assign(reading.layers, has_window);
  } else {
    windowed = read_mixed_windows(reading, window);
  }
  for (const bool is_windowed : windowed) {
    if (is_windowed && window == 0) {
      config.refuse(
          "layer_types",
          "there are sliding layers, but use_sliding_window and sliding_window give no window");
    }
    reading.settings.windows.push_back(is_windowed ? window : 0);
  }
  return windowed;
}

// ---- any decoder ----

Reading begin_reading(ConfigFields& config, const Family& family, TransformerSpec& spec) {
  Reading reading = {.config = config,
                     .family = family,
                     .spec = spec,
                     .layers = read_sizes(config, family, spec),
                     .settings = {.epsilon = family.epsilon},
                     .names = *family.layer,
                     .final_norm = family.final_norm};
  check_sizes(spec, reading.layers, config.where());
  take_common_fields(config, spec, family);
  LayerSettings& settings = reading.settings;
  if (family.epsilon_field != nullptr) {
    settings.epsilon = config.positive(family.epsilon_field, family.epsilon);
  }
  settings.qkv_bias = stored_if(is_on(config, family.qkv_bias));
  settings.output_bias = stored_if(is_on(config, family.output_bias));
  settings.mlp_bias = stored_if(is_on(config, family.mlp_bias));
  settings.norm_bias = family.norm_bias;
  settings.is_parallel = is_on(config, family.parallel);
  config.expect("use_parallel_residual", settings.is_parallel,
                "whether layers are parallel follows from the model's family");
  for (const char* field : {"use_qk_norm", "qk_norm"}) {
    config.expect(field, family.has_head_norms, "these norms follow from the model's family");
  }
  settings.has_head_norms = family.has_head_norms;
  settings.gain_plus_one = family.gain_plus_one;
  if (family.activation_field != nullptr) {
    spec.squares_activation = config.text(family.activation_field, family.activation) == "relu2";
    spec.activation = spec.squares_activation
                          ? Activation::kRelu
                          : read_activation(config, family.activation_field, family.activation);
  }
  return reading;
}

// Calls `visit` with each family until it returns true.
template <typename Visit>
bool any_family(const Visit& visit) {
  return std::ranges::any_of(gpt_families(), visit) || std::ranges::any_of(llama_families(), visit);
}

}  // namespace

TransformerSpec read_decoder(ConfigFields& config, ModelTensors& tensors, const Family& family,
                             HeadUse use) {
  TransformerSpec spec = decoder_spec();
  spec.architecture = family.model_type;
  Reading reading = begin_reading(config, family, spec);
  reading.windowed = read_windows(reading);
  if (family.local_rope) {
    read_ropes_by_window(config, spec, *family.rope, *family.local_rope);
    for (const bool is_windowed : reading.windowed) {
      reading.settings.rotations.push_back(is_windowed ? Rotation::kLocal : Rotation::kModel);
    }
  } else if (family.rope) {
    spec.rope = read_hf_rope(config, spec, *family.rope);
  }
  if (family.read_own != nullptr) family.read_own(reading);
  if (family.use_own_names != nullptr) family.use_own_names(reading, tensors);
  check_sizes(spec, reading.layers, config.where());  // some say key/value heads themselves

  // Models saved without their head have no prefix.
  const std::string embedding = fmt::format("{}.weight", family.embedding);
  const bool is_bare = tensors.has(embedding) && !tensors.has(family.prefix + embedding);
  const std::string prefix = is_bare ? "" : family.prefix;
  if (family.positions != nullptr) {
    spec.position_embedding =
        tensors.matrix(fmt::format("{}{}.weight", prefix, family.positions),
                       spec.positions_max + spec.position_offset, spec.model_dim);
  }
  read_projections(reading, tensors, prefix);
  read_embedding_and_head(reading, tensors, prefix, use);
  const auto norm = [&](const char* name) {
    return read_norm(tensors, reading.names, reading.settings, prefix + name, spec.model_dim);
  };
  if (family.embedding_norm != nullptr) spec.embedding_norm = norm(family.embedding_norm);
  read_layers(tensors, spec, reading.names, reading.settings, prefix + family.list, reading.layers);
  if (reading.final_norm != nullptr) spec.final_norm = norm(reading.final_norm);
  pass_over_buffers(tensors, reading.settings);
  if (spec.causal) return spec;
  if (!spec.is_headless && spec.is_decoder) {
    config.refuse("use_bidirectional_attention", "expected a class without logits (...Model)");
  }
  spec.is_decoder = spec.is_headless = false;
  return spec;
}

const Family* find_family(std::string_view model_type) {
  const Family* found = nullptr;
  any_family([&](const Family& family) {
    if (family.model_type == model_type) found = &family;
    return found != nullptr;
  });
  return found;
}

bool is_on(ConfigFields& config, const Switch& part) {
  return part.field == nullptr ? part.value : config.flag(part.field, part.value);
}

std::optional<double> read_cap(ConfigFields& config, const char* field,
                               std::optional<double> fallback) {
  if (config.has(field)) return config.positive(field);
  return config.is_null(field) ? std::nullopt : fallback;
}

std::string decoder_types() {
  std::string types;
  any_family([&](const Family& family) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", family.model_type);
    return false;
  });
  return types;
}

bool is_decoder_type(std::string_view model_type) { return find_family(model_type) != nullptr; }

TransformerSpec read_hf_decoder(const Opened& model, HeadUse head_use) {
  ConfigFields config = model.config_fields();
  const Family* const family = find_family(config.text("model_type"));
  if (family == nullptr) {
    config.refuse("model_type", fmt::format("expected a decoder ({}) or an encoder ({})",
                                            decoder_types(), encoder_types()));
  }
  const TensorStore store = with_whole_weights(model);
  ModelTensors tensors(store);
  TransformerSpec spec = read_decoder(config, tensors, *family, head_use);
  note_passed_over(config.finish(), spec);
  pass_over_zero_biases(tensors);
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
