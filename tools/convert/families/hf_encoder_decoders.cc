// SPDX-License-Identifier: Apache-2.0
// Encoder-decoders of transformers: a row for each family. BART's relatives differ in their
// positions and in where their norms are; T5's have biases by distance instead of positions;
// Whisper's encoder reads mel bands through two convolutions.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// The encoder or the decoder of a family.
struct Stack {
  const char* name;  // of its tensors, after the family's prefix
  const LayerNames* layer;
  const LayerNames* cross;  // attention to the encoder; null in the encoder
  SizeField layers, heads, ffn, context;
};

struct EncoderDecoderFamily;

// A stack that is being read.
struct StackReading {
  ConfigFields& config;
  ModelTensors& tensors;
  const EncoderDecoderFamily& family;
  StackSpec& spec;
  LayerNames names;
  std::string prefix;  // of its tensors
  bool is_decoder = false;
};

enum class Positions {
  kNone,
  kLearned,
  kSinusoids,    // computed unless stored
  kFromPadding,  // sinusoids, counted from the padding token on
};

struct EncoderDecoderFamily {
  const char* model_type;
  Stack encoder, decoder;
  const char* prefix = "model.";  // missing in models saved without their head
  const char* list = "layers.";
  const char* head = "lm_head";
  const char* embedding_norm = nullptr;
  const char* final_norm = nullptr;  // a family with norms first has one
  bool shares_embedding = true;
  Positions positions = Positions::kLearned;
  uint32_t position_offset = 0;

  uint32_t vocab_size = 50265;
  uint32_t width = 1024;
  const char* activation = "gelu";  // null: before_layers sets it
  const char* epsilon_field = nullptr;
  double epsilon = 1e-5;
  Presence biases = Presence::kRequired;
  bool may_scale_embedding = true;
  bool has_logits_bias = true;
  bool has_biases_by_layer = false;   // by distance; else all layers have those of the first
  bool scales_logits = true;          // of T5's relatives, if the embedding is tied
  bool decoder_norms_tokens = false;  // unscaled ones, before positions are added
  // Read the family's own config fields and tensors, of each stack.
  void (*before_layers)(StackReading& reading) = nullptr;
  void (*after_layers)(StackReading& reading) = nullptr;
};

// ---- BART and its relatives ----

constexpr LayerNames kBartCross = {.attention_norm = "encoder_attn_layer_norm",
                                   .query = "encoder_attn.q_proj",
                                   .key = "encoder_attn.k_proj",
                                   .value = "encoder_attn.v_proj",
                                   .output = "encoder_attn.out_proj",
                                   .up = nullptr,
                                   .down = nullptr};

constexpr Stack bart_encoder(uint32_t layers, uint32_t heads, uint32_t ffn, uint32_t context) {
  return {.name = "encoder.",
          .layer = &kBartLayer,
          .cross = nullptr,
          .layers = {"encoder_layers", layers},
          .heads = {"encoder_attention_heads", heads},
          .ffn = {"encoder_ffn_dim", ffn},
          .context = {"max_position_embeddings", context}};
}
constexpr Stack bart_decoder(uint32_t layers, uint32_t heads, uint32_t ffn, uint32_t context) {
  return {.name = "decoder.",
          .layer = &kBartLayer,
          .cross = &kBartCross,
          .layers = {"decoder_layers", layers},
          .heads = {"decoder_attention_heads", heads},
          .ffn = {"decoder_ffn_dim", ffn},
          .context = {"max_position_embeddings", context}};
}

// ---- T5: norms without means, and no biases of layers ----

constexpr LayerNames t5_layer(const char* mlp_norm, const char* up, const char* down) {
  return {.attention_norm = "layer.0.layer_norm",
          .mlp_norm = mlp_norm,
          .query = "layer.0.SelfAttention.q",
          .key = "layer.0.SelfAttention.k",
          .value = "layer.0.SelfAttention.v",
          .output = "layer.0.SelfAttention.o",
          .up = up,
          .down = down,
          .norm = NormKind::kRms};
}
constexpr LayerNames kT5Cross = {.attention_norm = "layer.1.layer_norm",
                                 .query = "layer.1.EncDecAttention.q",
                                 .key = "layer.1.EncDecAttention.k",
                                 .value = "layer.1.EncDecAttention.v",
                                 .output = "layer.1.EncDecAttention.o",
                                 .up = nullptr,
                                 .down = nullptr,
                                 .norm = NormKind::kRms};
constexpr LayerNames kT5Encoder =
    t5_layer("layer.1.layer_norm", "layer.1.DenseReluDense.wi", "layer.1.DenseReluDense.wo");
constexpr LayerNames kT5Decoder =
    t5_layer("layer.2.layer_norm", "layer.2.DenseReluDense.wi", "layer.2.DenseReluDense.wo");

// Reads the MLP's form, "relu" or "gated-gelu", which is GELU's tanh form.
void read_t5(StackReading& reading) {
  ConfigFields& config = reading.config;
  StackSpec& spec = reading.spec;
  const std::string_view gate = "gated-";
  std::string form = config.text(
      "feed_forward_proj", std::string(reading.family.model_type) == "t5" ? "relu" : "gated-gelu");
  const bool is_gated = form.starts_with(gate);
  if (is_gated) {
    form = form.substr(gate.size()) == "gelu" ? "gelu_new" : form.substr(gate.size());
    reading.names.gate =
        reading.is_decoder ? "layer.2.DenseReluDense.wi_0" : "layer.1.DenseReluDense.wi_0";
    reading.names.up =
        reading.is_decoder ? "layer.2.DenseReluDense.wi_1" : "layer.1.DenseReluDense.wi_1";
  }
  ConfigFields own({{"feed_forward_proj", form}}, config.where());
  spec.activation = read_activation(own, "feed_forward_proj", form);
  config.expect("is_gated_act", is_gated, "it follows from feed_forward_proj");
  config.expect("dense_act_fn", form, "it follows from feed_forward_proj");
  spec.score_scale = 1.0;
  spec.head_dim = config.count("d_kv", 64);
  const bool is_scaled =
      reading.family.scales_logits && !config.equals("tie_word_embeddings", false);
  if (config.flag("scale_decoder_outputs", is_scaled) && reading.is_decoder) {
    spec.logits_scale = 1.0 / std::sqrt(static_cast<double>(spec.model_dim));
  }
}

void read_t5_biases(StackReading& reading) {
  ConfigFields& config = reading.config;
  StackSpec& spec = reading.spec;
  const DistanceRanges ranges = {.rows = config.count("relative_attention_num_buckets", 32, 4),
                                 .farthest = config.count("relative_attention_max_distance", 128),
                                 .causal = reading.is_decoder};
  if (ranges.rows % 4 != 0 || ranges.farthest <= ranges.rows / 2) {
    config.refuse("relative_attention_num_buckets",
                  "expected a multiple of 4, at most twice relative_attention_max_distance");
  }
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    const std::string layer = fmt::format("{}block.{}.layer.", reading.prefix, i);
    // Older files have them between encoder and decoder, too, where they are unused.
    reading.tensors.pass_over(layer + "1.EncDecAttention.relative_attention_bias.weight");
    if (i != 0 && !reading.family.has_biases_by_layer) continue;
    std::vector<double> bias = read_score_bias(
        reading.tensors, layer + "0.SelfAttention.relative_attention_bias.weight", spec, ranges);
    if (reading.family.has_biases_by_layer) {
      spec.layer_biases.push_back(std::move(bias));
    } else {
      spec.score_bias = std::move(bias);
    }
  }
}

constexpr EncoderDecoderFamily t5_family(const char* model_type, uint32_t vocab_size, uint32_t ffn,
                                         uint32_t layers, uint32_t heads, bool has_biases_by_layer,
                                         bool scales_logits) {
  return {.model_type = model_type,
          .encoder = {.name = "encoder.",
                      .layer = &kT5Encoder,
                      .cross = nullptr,
                      .layers = {"num_layers", layers},
                      .heads = {"num_heads", heads},
                      .ffn = {"d_ff", ffn},
                      .context = {"n_positions", 512}},
          .decoder = {.name = "decoder.",
                      .layer = &kT5Decoder,
                      .cross = &kT5Cross,
                      .layers = {"num_decoder_layers"},
                      .heads = {"num_heads", heads},
                      .ffn = {"d_ff", ffn},
                      .context = {"n_positions", 512}},
          .prefix = "",
          .list = "block.",
          .final_norm = "final_layer_norm",
          .positions = Positions::kNone,
          .vocab_size = vocab_size,
          .width = 512,
          .activation = nullptr,
          .epsilon_field = "layer_norm_epsilon",
          .epsilon = 1e-6,
          .biases = Presence::kNone,
          .may_scale_embedding = false,
          .has_logits_bias = false,
          .has_biases_by_layer = has_biases_by_layer,
          .scales_logits = scales_logits,
          .before_layers = read_t5,
          .after_layers = read_t5_biases};
}

// ---- Whisper ----

constexpr LayerNames without_key_bias(LayerNames names) {
  names.lacks_key_bias = true;
  return names;
}
constexpr LayerNames kWhisper = without_key_bias(kBartLayer);
constexpr LayerNames kWhisperCross = without_key_bias(kBartCross);

// Two convolutions, the second of which halves the frames. Sounds have one length.
void read_whisper(StackReading& reading) {
  StackSpec& spec = reading.spec;
  reading.config.pass_over({"apply_spec_augment", "classifier_proj_size", "mask_feature_length",
                            "mask_feature_min_masks", "mask_feature_prob", "mask_time_length",
                            "mask_time_min_masks", "mask_time_prob", "median_filter_width",
                            "use_weighted_layer_sum"});
  reading.config.expect("scale_embedding", false, "transformers scales no embedding of Whisper");
  const uint32_t bands = reading.config.count("num_mel_bins", 80);
  if (reading.is_decoder) return;
  spec.input_name = "input_features";
  spec.input_features = bands;
  const auto read = [&](const char* name, uint32_t inputs, uint32_t stride) {
    spec.convolutions.push_back(
        {{.lines = {.kernel = 3, .stride = stride, .before = 1, .after = 1}, .columns = {}},
         reading.tensors.convolution(reading.prefix + name, spec.model_dim, inputs, {3},
                                     Presence::kRequired)});
  };
  read("conv1", bands, 1);
  read("conv2", spec.model_dim, 2);
  spec.positions_min = spec.positions_max = 2 * spec.positions_max;
}

constexpr EncoderDecoderFamily kEncoderDecoders[] = {
    t5_family("t5", 32128, 2048, 6, 8, false, true),
    t5_family("mt5", 250112, 1024, 8, 6, false, false),
    t5_family("umt5", 250112, 1024, 8, 6, true, true),
    {.model_type = "bart",
     .encoder = bart_encoder(12, 16, 4096, 1024),
     .decoder = bart_decoder(12, 16, 4096, 1024),
     .embedding_norm = "layernorm_embedding",
     .position_offset = 2},
    {.model_type = "mbart",
     .encoder = bart_encoder(12, 16, 4096, 1024),
     .decoder = bart_decoder(12, 16, 4096, 1024),
     .embedding_norm = "layernorm_embedding",
     .final_norm = "layer_norm",
     .position_offset = 2},
    {.model_type = "marian",
     .encoder = bart_encoder(12, 16, 4096, 1024),
     .decoder = bart_decoder(12, 16, 4096, 1024),
     .positions = Positions::kSinusoids,
     .vocab_size = 58101},
    {.model_type = "pegasus",
     .encoder = bart_encoder(12, 16, 4096, 1024),
     .decoder = bart_decoder(12, 16, 4096, 1024),
     .final_norm = "layer_norm",
     .positions = Positions::kSinusoids},
    {.model_type = "m2m_100",
     .encoder = bart_encoder(12, 16, 4096, 1024),
     .decoder = bart_decoder(12, 16, 4096, 1024),
     .final_norm = "layer_norm",
     .positions = Positions::kFromPadding,
     .vocab_size = 128112,
     .activation = "relu",
     .has_logits_bias = false},
    {.model_type = "blenderbot",
     .encoder = bart_encoder(2, 32, 10240, 128),
     .decoder = bart_decoder(24, 32, 10240, 128),
     .final_norm = "layer_norm",
     .vocab_size = 8008,
     .width = 2560},
    {.model_type = "blenderbot-small",
     .encoder = bart_encoder(8, 16, 2048, 512),
     .decoder = bart_decoder(8, 16, 2048, 512),
     .embedding_norm = "layernorm_embedding",
     .width = 512,
     .decoder_norms_tokens = true},
    {.model_type = "whisper",
     .encoder = {.name = "encoder.",
                 .layer = &kWhisper,
                 .cross = nullptr,
                 .layers = {"encoder_layers", 4},
                 .heads = {"encoder_attention_heads", 6},
                 .ffn = {"encoder_ffn_dim", 1536},
                 .context = {"max_source_positions", 1500}},
     .decoder = {.name = "decoder.",
                 .layer = &kWhisper,
                 .cross = &kWhisperCross,
                 .layers = {"decoder_layers", 4},
                 .heads = {"decoder_attention_heads", 6},
                 .ffn = {"decoder_ffn_dim", 1536},
                 .context = {"max_target_positions", 448}},
     .head = "proj_out",
     .final_norm = "layer_norm",
     .shares_embedding = false,
     .vocab_size = 51865,
     .width = 384,
     .may_scale_embedding = false,
     .has_logits_bias = false,
     .before_layers = read_whisper},
};

const EncoderDecoderFamily* encoder_decoder_family(std::string_view model_type) {
  const auto* const found = std::ranges::find_if(
      kEncoderDecoders,
      [&](const EncoderDecoderFamily& family) { return family.model_type == model_type; });
  return found == std::end(kEncoderDecoders) ? nullptr : found;
}

// Fields that change nothing, grouped by reason.
constexpr const char* kHarmlessOfEncoderDecoders[] = {
    // Act in training only.
    "classif_dropout", "classifier_dropout", "decoder_layerdrop", "dropout_rate",
    "encoder_layerdrop",
    // Older fields: transformers computes the same whatever they say.
    "add_bias_logits", "add_final_layer_norm", "do_blenderbot_90_layernorm", "extra_layer_norm",
    "extra_pos_embeddings", "force_bos_token_to_be_generated", "layernorm_variant",
    "normalize_before", "normalize_embedding", "static_position_embeddings",
    // Another name of encoder_layers, and other heads.
    "num_hidden_layers", "id2label", "label2id", "num_labels", "problem_type",
    // Tokens of texts, which the tokenizer has.
    "bos_token_id"};

// Returns sines of each position in the first half of the columns, cosines in the second. Source:
// "Attention Is All You Need" (Vaswani et al. 2017). With a `padding_id`, frequencies and angles
// are rounded as M2M-100 does, and the row of padding is zeros.
WeightRef sinusoids(uint32_t rows, uint32_t columns, std::optional<uint32_t> padding_id) {
  const auto load = [=] {
    std::vector<double> values(size_t{rows} * columns);
    const uint32_t half = columns / 2;
    for (uint32_t row = 0; row < rows; ++row) {
      if (row == padding_id) continue;
      for (uint32_t i = 0; i < half; ++i) {
        double angle = row * std::pow(10000.0, -static_cast<double>(i) / half);
        if (padding_id) {
          const auto step = static_cast<float>(std::log(10000.0) / (half - 1.0));
          angle = static_cast<float>(row) * std::exp(-step * static_cast<float>(i));
        }
        values[size_t{row} * columns + i] = std::sin(angle);
        values[size_t{row} * columns + half + i] = std::cos(angle);
      }
    }
    return values;
  };
  return {.name = "sinusoids",
          .rows = rows,
          .columns = columns,
          .load =
              [load] {
                const std::vector<double> values = load();
                return std::vector<float>(values.begin(), values.end());
              },
          .load_f64 = load};
}

class EncoderDecoderReader {
 public:
  EncoderDecoderReader(ConfigFields& config, ModelTensors& tensors,
                       const EncoderDecoderFamily& family)
      : config_(config), tensors_(tensors), family_(family) {
    const auto is_prefixed = [&](const StoredTensor& tensor) {
      return tensor.name.starts_with(family.prefix);
    };
    if (std::ranges::any_of(tensors.stored(), is_prefixed)) prefix_ = family.prefix;
  }

  EncoderDecoderSpec run() {
    take_common_fields();
    EncoderDecoderSpec both;
    both.encoder = read_stack(family_.encoder);
    layers_ = static_cast<uint32_t>(both.encoder.layers.size());
    both.decoder = read_stack(family_.decoder);
    read_head(both.decoder);
    return both;
  }

 private:
  void take_common_fields() {
    pass_over_harmless(config_);
    config_.pass_over(kHarmlessOfEncoderDecoders);
    config_.expect("is_encoder_decoder", true, "only encoder-decoders are supported");
    config_.expect("is_decoder", false, "only encoder-decoders are supported");
    config_.expect("add_cross_attention", false, "it is for decoders without an encoder");
    config_.expect("tie_encoder_decoder", false, "layers that both share are not supported");
    config_.expect("pruned_heads", nlohmann::json::object(), "pruned heads are not supported");
    config_.expect("chunk_size_feed_forward", 0, "chunked feed-forward layers are not supported");
    vocab_size_ = config_.count("vocab_size", family_.vocab_size);
    decoder_vocab_size_ = vocab_size_;
    is_tied_ = config_.flag("tie_word_embeddings", true);
    shares_embedding_ = family_.shares_embedding;
    if (std::string_view(family_.model_type) != "marian") return;
    shares_embedding_ = config_.flag("share_encoder_decoder_embeddings", true);
    const uint32_t own_size = config_.count("decoder_vocab_size", vocab_size_);
    if (!shares_embedding_ || !is_tied_) decoder_vocab_size_ = own_size;
  }

  StackSpec read_stack(const Stack& stack) {
    const bool is_decoder = stack.cross != nullptr;
    StackSpec spec = {is_decoder ? decoder_spec() : TransformerSpec()};
    spec.architecture = family_.model_type;
    spec.input_name = is_decoder ? "decoder_input_ids" : "input_ids";
    spec.norm_first = family_.final_norm != nullptr;
    spec.model_dim = config_.count("d_model", family_.width);
    spec.heads = spec.kv_heads = read_size(config_, stack.heads);
    spec.ffn_dim = read_size(config_, stack.ffn);
    spec.positions_max = read_size(config_, stack.context);
    SizeField layers = stack.layers;
    if (layers.fallback == 0) layers.fallback = layers_;
    const uint32_t count = read_size(config_, layers);
    if (family_.activation != nullptr) {
      spec.activation = read_activation(config_, "activation_function", family_.activation);
      spec.head_dim = even_head_dim(spec.model_dim, spec.heads, config_.where());
    }
    spec.norms_tokens = is_decoder && family_.decoder_norms_tokens;
    const bool is_scaled = family_.may_scale_embedding && config_.flag("scale_embedding", false);
    if (is_scaled && !spec.norms_tokens) {
      spec.embedding_scale = std::sqrt(static_cast<double>(spec.model_dim));
    }
    const std::string prefix = prefix_ + stack.name;
    read_positions(prefix, is_decoder, spec);
    StackReading reading = {config_, tensors_, family_, spec, *stack.layer, prefix, is_decoder};
    if (family_.before_layers != nullptr) family_.before_layers(reading);
    check_sizes(spec, count, config_.where());
    if (spec.input_features == 0) read_embedding(prefix, is_decoder, spec);
    const LayerSettings settings = {
        .epsilon = family_.epsilon_field == nullptr
                       ? family_.epsilon
                       : config_.positive(family_.epsilon_field, family_.epsilon),
        .qkv_bias = family_.biases,
        .output_bias = family_.biases,
        .mlp_bias = family_.biases};
    const auto norm = [&](const char* name) {
      return read_norm(tensors_, reading.names, settings, prefix + name, spec.model_dim);
    };
    if (family_.embedding_norm != nullptr) spec.embedding_norm = norm(family_.embedding_norm);
    read_layers(tensors_, spec, reading.names, settings, prefix + family_.list, count);
    if (is_decoder) {
      spec.cross =
          read_attentions(tensors_, spec, *stack.cross, settings, prefix + family_.list, count);
    }
    if (family_.final_norm != nullptr) spec.final_norm = norm(family_.final_norm);
    if (family_.after_layers != nullptr) family_.after_layers(reading);
    return spec;
  }

  void read_positions(const std::string& prefix, bool is_decoder, StackSpec& spec) {
    const std::string name = prefix + "embed_positions.weight";
    spec.position_offset = family_.position_offset;
    std::optional<uint32_t> padding_id;
    uint32_t rows = spec.positions_max + spec.position_offset;
    if (family_.positions == Positions::kFromPadding) {
      padding_id = config_.count("pad_token_id", 1, 0);
      rows += 2;  // as many as transformers makes, whatever the padding's id
      if (*padding_id + 1 >= rows) {
        config_.refuse("pad_token_id", fmt::format("expected an id below {}", rows - 1));
      }
      if (is_decoder) {
        spec.notes.push_back(
            "what the decoder writes counts as positions, padding tokens included, as in the "
            "steps of generate()");
      } else {
        spec.padding_id = padding_id;
      }
      spec.position_offset = *padding_id + 1;
      spec.positions_max = rows - spec.position_offset;
      tensors_.pass_over(prefix + "embed_positions.weights");
    }
    if (family_.positions == Positions::kNone) return;
    const bool is_computed = family_.positions != Positions::kLearned && !tensors_.has(name);
    if (is_computed && spec.model_dim % 2 != 0) {
      config_.refuse("d_model", "expected an even number, as positions are sines and cosines");
    }
    spec.position_embedding = is_computed ? sinusoids(rows, spec.model_dim, padding_id)
                                          : tensors_.matrix(name, rows, spec.model_dim);
  }

  void read_embedding(const std::string& prefix, bool is_decoder, StackSpec& spec) {
    spec.vocab_size = is_decoder ? decoder_vocab_size_ : vocab_size_;
    const std::string own = prefix + "embed_tokens.weight", shared = prefix_ + "shared.weight";
    std::vector<std::string> names = {own};
    if (shares_embedding_ && is_tied_) {
      names = {shared, prefix_ + "encoder.embed_tokens.weight",
               prefix_ + "decoder.embed_tokens.weight"};
    } else if (shares_embedding_) {
      if (!tensors_.has(own)) names = {shared};
      tensors_.pass_over(shared);  // unused where both stacks have their own
    }
    spec.token_embedding = tensors_.tied(names, spec.vocab_size, spec.model_dim);
  }

  // Reads the matrix of the logits, if the class has them. T5's is untied where it is stored.
  void read_head(StackSpec& spec) {
    const std::optional<HeadKind> kind = read_head_kind(config_);
    if (kind && *kind != HeadKind::kCausal && *kind != HeadKind::kNone) {
      config_.refuse("architectures",
                     "expected a class with logits (...ForConditionalGeneration, ...MTModel), or "
                     "one without a head (...Model)");
    }
    const std::string name = std::string(family_.head) + ".weight";
    spec.is_headless = kind == HeadKind::kNone;
    if (spec.is_headless) return;
    const bool may_differ = family_.positions == Positions::kNone || !is_tied_;
    std::vector<double> bias;
    if (family_.has_logits_bias) {
      bias = tensors_.vector("final_logits_bias", spec.vocab_size);
      if (std::ranges::count(bias, 0.0) == std::ssize(bias)) bias.clear();
    }
    const bool must_be_there = family_.positions != Positions::kNone && !is_tied_;
    if (must_be_there || (may_differ && tensors_.has(name))) {
      spec.output = {tensors_.matrix(name, spec.vocab_size, spec.model_dim), std::move(bias)};
      return;
    }
    if (tensors_.has(name)) {
      spec.token_embedding =
          tensors_.tied({spec.token_embedding->name, name}, spec.vocab_size, spec.model_dim);
    }
    if (!bias.empty()) spec.output = {*spec.token_embedding, std::move(bias)};
  }

  ConfigFields& config_;
  ModelTensors& tensors_;
  const EncoderDecoderFamily& family_;
  std::string prefix_;
  uint32_t vocab_size_ = 0, decoder_vocab_size_ = 0;
  uint32_t layers_ = 0;  // of the encoder
  bool shares_embedding_ = true, is_tied_ = true;
};

}  // namespace

std::string encoder_decoder_types() {
  std::string types;
  for (const EncoderDecoderFamily& family : kEncoderDecoders) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", family.model_type);
  }
  return types;
}

bool is_encoder_decoder_type(std::string_view model_type) {
  return encoder_decoder_family(model_type) != nullptr;
}

EncoderDecoderSpec read_hf_encoder_decoder(const Opened& model) {
  ConfigFields config = model.config_fields();
  const TensorStore store = with_whole_weights(model);
  ModelTensors tensors(store);
  const EncoderDecoderFamily& family = *encoder_decoder_family(config.text("model_type"));
  // Token ids that generation forces are not in a model file.
  const std::vector<uint32_t> forced = config.ids("forced_bos_token_id");
  EncoderDecoderSpec spec = EncoderDecoderReader(config, tensors, family).run();
  for (const uint32_t id : config.ids("eos_token_id")) {
    if (id < spec.decoder.vocab_size) spec.decoder.eos_ids.push_back(id);
  }
  if (!forced.empty()) {
    spec.decoder.notes.push_back(
        fmt::format("forced_bos_token_id {}: it is the second token of --start", forced[0]));
  }
  note_passed_over(config.finish(), spec.decoder);
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
