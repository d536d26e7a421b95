// SPDX-License-Identifier: Apache-2.0
// Encoders of transformers, with their heads: a row for each family. RoBERTa counts positions from
// its padding token on. ELECTRA's embeddings may have another width than its layers. DistilBERT has
// its own names, and neither token types nor a pooler.
#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/hf_models.h"
#include "convert/files/error.h"
#include "convert/spec/model_tensors.h"
#include "convert/spec/rope_scaling.h"

namespace arenite::convert {
namespace {

using nlohmann::json;

constexpr LayerNames kDistilBert = {.attention_norm = "sa_layer_norm",
                                    .mlp_norm = "output_layer_norm",
                                    .query = "attention.q_lin",
                                    .key = "attention.k_lin",
                                    .value = "attention.v_lin",
                                    .output = "attention.out_lin",
                                    .up = "ffn.lin1",
                                    .down = "ffn.lin2"};

constexpr LayerNames kMpnet = {.attention_norm = "attention.LayerNorm",
                               .mlp_norm = "output.LayerNorm",
                               .query = "attention.attn.q",
                               .key = "attention.attn.k",
                               .value = "attention.attn.v",
                               .output = "attention.attn.o",
                               .up = "intermediate.dense",
                               .down = "output.dense"};
constexpr LayerNames kAlbert = {.attention_norm = "attention.LayerNorm",
                                .mlp_norm = "full_layer_layer_norm",
                                .query = "attention.query",
                                .key = "attention.key",
                                .value = "attention.value",
                                .output = "attention.dense",
                                .up = "ffn",
                                .down = "ffn_output"};
constexpr LayerNames bert_with_norms(const char* attention_norm, const char* mlp_norm) {
  LayerNames names = kBertLayer;
  names.attention_norm = attention_norm;
  names.mlp_norm = mlp_norm;
  return names;
}
constexpr LayerNames kNormsFirst = bert_with_norms("attention.LayerNorm", "intermediate.LayerNorm");
constexpr LayerNames kRobertaXl = bert_with_norms("attention.self_attn_layer_norm", "LayerNorm");
constexpr LayerNames kNomic = {.attention_norm = "norm1",
                               .mlp_norm = "norm2",
                               .fused = "attn.Wqkv",
                               .output = "attn.out_proj",
                               .gate = "mlp.fc12",
                               .up = "mlp.fc11",
                               .down = "mlp.fc2"};
constexpr LayerNames kModernBert = {.attention_norm = "attn_norm",
                                    .mlp_norm = "mlp_norm",
                                    .fused = "attn.Wqkv",
                                    .output = "attn.Wo",
                                    .up = "mlp.Wi",
                                    .down = "mlp.Wo",
                                    .has_gate_in_up = true};

// Training settings, and how tables were initialized.
constexpr const char* kHarmlessOfDistilBert[] = {"dropout", "qa_dropout", "seq_classif_dropout",
                                                 "sinusoidal_pos_embds", "tie_weights_"};
constexpr const char* kHarmlessOfModernBert[] = {
    "deterministic_flash_attn", "initializer_cutoff_factor", "layer_norm_eps", "reference_compile",
    "repad_logits_with_grad", "sparse_pred_ignore_index", "sparse_prediction",
    // The tensors decide, and some classes do not pool.
    "classifier_activation", "classifier_bias", "classifier_pooling", "decoder_bias"};
// Sizes of parts that transformers does not have.
constexpr const char* kHarmlessOfAlbert[] = {"down_scale_factor", "gap_size", "net_structure_type",
                                             "num_memory_blocks"};
// Positions beyond those of training, and how its first program computes.
constexpr const char* kHarmlessOfNomic[] = {"n_positions", "summary_proj_to_labels",
                                            "dense_seq_output", "rotary_scaling_factor",
                                            "use_xentropy"};

// The head that predicts masked tokens.
struct LanguageHead {
  const char* dense;
  const char* norm;
  const char* decoder;
  const char* bias;  // of the decoder; also stored as <decoder>.bias
  bool has_models_activation = false;
  bool may_lack_biases = false;
};
constexpr LanguageHead kRobertaHead = {"lm_head.dense", "lm_head.layer_norm", "lm_head.decoder",
                                       "lm_head.bias"};

struct EncoderFamily {
  const char* model_type;
  const char* prefix;  // prefix of the encoder's names in a model with a head
  LanguageHead language_head;
  // Reads the fields that no other family has.
  void (*read_own)(ConfigFields& config, uint32_t layers, TransformerSpec& spec,
                   LayerSettings& settings) = nullptr;
  const LayerNames* layer = &kBertLayer;
  const char* list = "encoder.layer.";
  const char* tokens = "embeddings.word_embeddings";
  const char* positions = "embeddings.position_embeddings";  // null: none
  const char* embedding_norm = "embeddings.LayerNorm";       // null: none
  const char* input = "embeddings_project";                  // if the embeddings have another width
  const char* final_norm = nullptr;                          // a family with norms first has one
  const char* pooler = "pooler.dense";

  uint32_t vocab_size = 30522;
  SizeField width = {"hidden_size", 768};
  SizeField ffn = {"intermediate_size", 3072};
  SizeField heads = {"num_attention_heads", 12};
  SizeField layers = {"num_hidden_layers", 12};
  SizeField context = {"max_position_embeddings", 512};
  const char* activation = "hidden_act";
  const char* activation_default = "gelu";
  uint32_t embedding_size = 0;  // 0: as wide as the layers, and no field says otherwise
  bool has_types = true;
  const char* epsilon_field = "layer_norm_eps";  // null: always `epsilon`
  double epsilon = 1e-12;
  Presence biases = Presence::kRequired;
  bool counts_from_padding = false;
  bool shares_layers = false;               // a group of layers runs several times
  bool has_score_bias = false;              // by the distance between query and key
  std::span<const char* const> harmless{};  // fields of its config that change nothing
};

// Layers without windows come first of every few, and rotate by another theta.
void read_modernbert(ConfigFields& config, uint32_t layers, TransformerSpec& spec,
                     LayerSettings& settings) {
  settings.qkv_bias = settings.output_bias = stored_if(config.flag("attention_bias", false));
  settings.mlp_bias = stored_if(config.flag("mlp_bias", false));
  settings.norm_bias = stored_if(config.flag("norm_bias", false));
  settings.lacks_first_norm = true;
  const uint32_t window = config.count("local_attention", 128) / 2 + 1;
  const uint32_t pattern = config.count("global_attn_every_n_layers", 3);
  std::vector<bool> windowed;
  for (uint32_t i = 0; i < layers; ++i) windowed.push_back(i % pattern != 0);
  for (const bool is_windowed : windowed_layers(config, std::move(windowed))) {
    settings.windows.push_back(is_windowed ? window : 0);
    settings.rotations.push_back(is_windowed ? Rotation::kLocal : Rotation::kModel);
  }
  config.expect("rope_scaling", nullptr, "only rope_parameters is supported for this family");
  read_ropes_by_window(config, spec, {.theta = {"global_rope_theta"}, .theta_fallback = 160000.0},
                       {.theta = {"local_rope_theta"}});
}

void read_nomic(ConfigFields& config, uint32_t, TransformerSpec& spec, LayerSettings&) {
  constexpr const char* kWhy = "only what transformers computes is supported";
  config.expect("head_dim", spec.head_dim, "it is the width divided by the heads");
  config.expect("activation_function", "swiglu", kWhy);
  for (const char* field : {"causal", "prenorm", "use_rms_norm"}) {
    config.expect(field, false, kWhy);
  }
  config.expect("scale_attn_weights", true, kWhy);
  config.expect("rotary_emb_fraction", 1.0, kWhy);
  config.expect("layer_norm_epsilon", config.positive("layer_norm_eps", 1e-12),
                "it is another name of layer_norm_eps");
  spec.rope = read_hf_rope(config, spec,
                           {.theta = {"rotary_emb_base", "rope_theta"}, .theta_fallback = 1000.0});
}

constexpr EncoderFamily kEncoders[] = {
    {.model_type = "bert",
     .prefix = "bert.",
     .language_head = {"cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
                       "cls.predictions.decoder", "cls.predictions.bias", true}},
    {.model_type = "distilbert",
     .prefix = "distilbert.",
     .language_head = {"vocab_transform", "vocab_layer_norm", "vocab_projector",
                       "vocab_projector.bias", true},
     .layer = &kDistilBert,
     .list = "transformer.layer.",
     .width = {"dim", 768},
     .ffn = {"hidden_dim", 3072},
     .heads = {"n_heads", 12},
     .layers = {"n_layers", 6},
     .activation = "activation",
     .has_types = false,
     .epsilon_field = nullptr,
     .harmless = kHarmlessOfDistilBert},
    {.model_type = "roberta",
     .prefix = "roberta.",
     .language_head = kRobertaHead,
     .vocab_size = 50265,
     .counts_from_padding = true},
    {.model_type = "xlm-roberta",
     .prefix = "roberta.",
     .language_head = kRobertaHead,
     .counts_from_padding = true},
    {.model_type = "camembert",
     .prefix = "roberta.",
     .language_head = kRobertaHead,
     .counts_from_padding = true},
    {.model_type = "roberta-prelayernorm",
     .prefix = "roberta_prelayernorm.",
     .language_head = kRobertaHead,
     .layer = &kNormsFirst,
     .final_norm = "LayerNorm",
     .vocab_size = 50265,
     .counts_from_padding = true},
    {.model_type = "xlm-roberta-xl",
     .prefix = "roberta.",
     .language_head = kRobertaHead,
     .layer = &kRobertaXl,
     .embedding_norm = nullptr,
     .final_norm = "encoder.LayerNorm",
     .vocab_size = 250880,
     .epsilon = 1e-5,
     .counts_from_padding = true},
    {.model_type = "mpnet",
     .prefix = "mpnet.",
     .language_head = kRobertaHead,
     .layer = &kMpnet,
     .vocab_size = 30527,
     .has_types = false,
     .counts_from_padding = true,
     .has_score_bias = true},
    {.model_type = "albert",
     .prefix = "albert.",
     .language_head = {"predictions.dense", "predictions.LayerNorm", "predictions.decoder",
                       "predictions.bias", true},
     .layer = &kAlbert,
     .list = "encoder.albert_layer_groups.",
     .input = "encoder.embedding_hidden_mapping_in",
     .pooler = "pooler",
     .vocab_size = 30000,
     .activation_default = "gelu_new",
     .embedding_size = 128,
     .shares_layers = true,
     .harmless = kHarmlessOfAlbert},
    {.model_type = "modernbert",
     .prefix = "model.",
     .language_head = {"head.dense", "head.norm", "decoder", "decoder.bias", false, true},
     .read_own = read_modernbert,
     .layer = &kModernBert,
     .list = "layers.",
     .tokens = "embeddings.tok_embeddings",
     .positions = nullptr,
     .embedding_norm = "embeddings.norm",
     .final_norm = "final_norm",
     .vocab_size = 50368,
     .activation = "hidden_activation",
     .has_types = false,
     .epsilon_field = "norm_eps",
     .epsilon = 1e-5,
     .harmless = kHarmlessOfModernBert},
    {.model_type = "nomic_bert",
     .prefix = "nomic_bert.",
     .language_head = {"cls.predictions.transform.dense", "cls.predictions.transform.layer_norm",
                       "cls.predictions.decoder", "cls.predictions.bias", true},
     .read_own = read_nomic,
     .layer = &kNomic,
     .list = "encoder.layers.",
     .positions = nullptr,
     .embedding_norm = "emb_ln",
     .vocab_size = 30528,
     .width = {"hidden_size", 768, "n_embd"},
     .ffn = {"intermediate_size", 3072, "n_inner"},
     .heads = {"num_attention_heads", 12, "n_head"},
     .layers = {"num_hidden_layers", 12, "n_layer"},
     .context = {"max_position_embeddings", 2048, "max_trained_positions"},
     .activation_default = "silu",
     .biases = Presence::kNone,
     .harmless = kHarmlessOfNomic},
    {.model_type = "electra",
     .prefix = "electra.",
     .language_head = {"generator_predictions.dense", "generator_predictions.LayerNorm",
                       "generator_lm_head", "generator_lm_head.bias"},
     .width = {"hidden_size", 256},
     .ffn = {"intermediate_size", 1024},
     .heads = {"num_attention_heads", 4},
     .embedding_size = 128},
};

const EncoderFamily* encoder_family(std::string_view model_type) {
  const auto* const found = std::ranges::find_if(
      kEncoders, [&](const EncoderFamily& family) { return family.model_type == model_type; });
  return found == std::end(kEncoders) ? nullptr : found;
}

// Fields that do not change what an encoder computes, grouped by reason.
constexpr const char* kHarmlessOfModels[] = {
    // Act in training only.
    "attention_probs_dropout_prob", "classifier_dropout", "hidden_dropout_prob", "label2id",
    "problem_type",
    // Fields of decoders and language-model heads.
    "bos_token_id", "cross_attention_hidden_size", "eos_token_id", "tie_word_embeddings",
    // The pooler of BERT's original code; transformers supports a single kind.
    "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type",
    // ELECTRA's head for multiple choice, which checks these fields itself.
    "summary_activation", "summary_first_dropout", "summary_last_dropout", "summary_type",
    "summary_use_proj",
    // Same result in exact arithmetic.
    "chunk_size_feed_forward"};

void take_encoder_fields(ConfigFields& config) {
  pass_over_harmless(config);
  config.pass_over(kHarmlessOfModels);
  config.expect("is_decoder", false, "a causal model is not an encoder");
  config.expect("is_causal", false, "a causal model is not an encoder");
  config.expect("add_cross_attention", false, "cross-attention is not supported");
  config.expect("is_encoder_decoder", false, "only encoders are supported");
  config.expect("tie_encoder_decoder", false, "only encoders are supported");
  config.expect("position_embedding_type", "absolute", "relative positions are not supported");
  config.expect("pruned_heads", json::object(), "pruned heads are not supported");
}

// RoBERTa's padding token reads the row of its id in the position table; positions of other tokens
// start after that row.
void read_padding(ConfigFields& config, uint32_t position_rows, TransformerSpec& spec) {
  const uint32_t id = config.count("pad_token_id", 1, 0);
  if (id >= spec.vocab_size) {
    config.refuse("pad_token_id", fmt::format("expected an id below {}", spec.vocab_size));
  }
  if (id + 1 >= position_rows) {
    config.refuse(
        "max_position_embeddings",
        fmt::format("expected more than {}, as positions count from pad_token_id on", id + 1));
  }
  spec.padding_id = id;
  spec.position_offset = id + 1;
}

// Reads layers that are stored once and run several times: `list` holds groups of layers.
void read_shared_layers(ConfigFields& config, ModelTensors& tensors, TransformerSpec& spec,
                        const EncoderFamily& family, const LayerSettings& settings,
                        const std::string& list, uint32_t runs) {
  const uint32_t groups = config.count("num_hidden_groups", 1);
  const uint32_t layers = config.count("inner_group_num", 1);
  if (groups > runs || uint64_t{runs} * layers > kLayersMax) {
    config.refuse("num_hidden_groups",
                  fmt::format("expected up to {}, of at most {} layers", runs, kLayersMax));
  }
  std::vector<LayerSpec> stored;
  for (uint32_t group = 0; group < groups; ++group) {
    spec.layers.clear();
    read_layers(tensors, spec, *family.layer, settings,
                fmt::format("{}{}.albert_layers.", list, group), layers);
    stored.insert(stored.end(), spec.layers.begin(), spec.layers.end());
  }
  spec.layers.clear();
  for (uint32_t run = 0; run < runs; ++run) {
    const auto first = stored.begin() + ptrdiff_t{run * groups / runs} * layers;
    spec.layers.insert(spec.layers.end(), first, first + layers);
  }
}

TransformerSpec read_encoder(ConfigFields& config, ModelTensors& tensors,
                             const EncoderFamily& family, const std::string& prefix) {
  for (const char* field : family.harmless) config.pass_over(field);
  TransformerSpec spec;
  spec.architecture = family.model_type;
  spec.vocab_size = config.count("vocab_size", family.vocab_size);
  spec.model_dim = read_size(config, family.width);
  spec.ffn_dim = read_size(config, family.ffn);
  spec.activation = read_activation(config, family.activation, family.activation_default);
  const uint32_t layers = read_size(config, family.layers);
  if (layers > kLayersMax) {
    throw InputError("{}: {} layers: expected 1 to {}", config.where(), layers, kLayersMax);
  }
  spec.heads = spec.kv_heads = read_size(config, family.heads);
  spec.head_dim = even_head_dim(spec.model_dim, spec.heads, config.where());
  const uint32_t position_rows = read_size(config, family.context);
  if (family.counts_from_padding) read_padding(config, position_rows, spec);
  spec.positions_max = position_rows - spec.position_offset;
  LayerSettings settings = {.epsilon = family.epsilon_field == nullptr
                                           ? family.epsilon
                                           : config.positive(family.epsilon_field, family.epsilon),
                            .qkv_bias = family.biases,
                            .output_bias = family.biases,
                            .mlp_bias = family.biases};
  if (family.read_own != nullptr) family.read_own(config, layers, spec, settings);
  spec.norm_first = family.final_norm != nullptr;
  const uint32_t width = family.embedding_size == 0
                             ? spec.model_dim
                             : config.count("embedding_size", family.embedding_size);

  const auto table = [&](const char* name, uint32_t rows) {
    return tensors.matrix(fmt::format("{}{}.weight", prefix, name), rows, width);
  };
  spec.token_embedding = table(family.tokens, spec.vocab_size);
  if (family.positions != nullptr) spec.position_embedding = table(family.positions, position_rows);
  if (family.has_types) {
    spec.token_types = config.count("type_vocab_size", 2);
    spec.type_embedding = table("embeddings.token_type_embeddings", spec.token_types);
    if (spec.position_embedding) fold_single_type(spec);
  }
  const auto norm = [&](const char* name, uint32_t features) {
    return read_norm(tensors, *family.layer, settings, prefix + name, features);
  };
  if (family.embedding_norm != nullptr) spec.embedding_norm = norm(family.embedding_norm, width);
  if (width != spec.model_dim || family.shares_layers) {
    spec.input = tensors.linear(prefix + family.input, spec.model_dim, width, Presence::kRequired);
  }
  if (family.shares_layers) {
    read_shared_layers(config, tensors, spec, family, settings, prefix + family.list, layers);
  } else {
    read_layers(tensors, spec, *family.layer, settings, prefix + family.list, layers);
  }
  if (family.has_score_bias) {
    config.expect("relative_attention_num_buckets", 32, "transformers uses 32");
    spec.score_bias = read_score_bias(tensors, prefix + "encoder.relative_attention_bias.weight",
                                      spec, {.rows = 32, .farthest = 128});
  }
  if (family.final_norm != nullptr) spec.final_norm = norm(family.final_norm, spec.model_dim);
  return spec;
}

// ---- heads, by the suffix of their class's name ----

// A head of linear layers: `hidden` keeps the width of the rows, `scores` follows it.
struct ClassifierHead {
  HeadKind kind;
  std::string_view model_type;           // empty: any other
  PoolingChoice rows;                    // that it takes: kNone is each token's
  std::string_view hidden;               // empty: none
  std::optional<Activation> activation;  // after it; none: the model's own
  const char* scores;
  const char* norm = nullptr;  // of the hidden rows
};
constexpr std::string_view kPoolerLayer = "pooler";  // the family's, with the encoder's prefix
constexpr ClassifierHead kClassifierHeads[] = {
    {HeadKind::kSequence, "bert", PoolingChoice::kPooler, kPoolerLayer, Activation::kTanh,
     "classifier"},
    {HeadKind::kSequence, "distilbert", PoolingChoice::kFirst, "pre_classifier", Activation::kRelu,
     "classifier"},
    {HeadKind::kSequence, "electra", PoolingChoice::kFirst, "classifier.dense",
     Activation::kGeluErf, "classifier.out_proj"},
    {HeadKind::kSequence, "albert", PoolingChoice::kPooler, kPoolerLayer, Activation::kTanh,
     "classifier"},
    {HeadKind::kSequence, "nomic_bert", PoolingChoice::kPooler, kPoolerLayer, Activation::kTanh,
     "classifier"},
    {HeadKind::kSequence, "modernbert", PoolingChoice::kFirst, "head.dense", Activation::kGeluErf,
     "classifier", "head.norm"},
    {HeadKind::kSequence, "", PoolingChoice::kFirst, "classifier.dense", Activation::kTanh,
     "classifier.out_proj"},
    {HeadKind::kChoice, "distilbert", PoolingChoice::kFirst, "pre_classifier", Activation::kRelu,
     "classifier"},
    {HeadKind::kChoice, "electra", PoolingChoice::kFirst, "sequence_summary.summary",
     Activation::kGeluErf, "classifier"},
    {HeadKind::kChoice, "", PoolingChoice::kPooler, kPoolerLayer, Activation::kTanh, "classifier"},
    {HeadKind::kTokens, "modernbert", PoolingChoice::kNone, "head.dense", Activation::kGeluErf,
     "classifier", "head.norm"},
    {HeadKind::kTokens, "", PoolingChoice::kNone, "", {}, "classifier"},
    {HeadKind::kAnswer, "modernbert", PoolingChoice::kNone, "head.dense", Activation::kGeluErf,
     "classifier", "head.norm"},
    {HeadKind::kAnswer, "", PoolingChoice::kNone, "", {}, "qa_outputs"},
    {HeadKind::kNextSentence, "bert", PoolingChoice::kPooler, kPoolerLayer, Activation::kTanh,
     "cls.seq_relationship"},
    {HeadKind::kPreTraining,
     "electra",
     PoolingChoice::kNone,
     "discriminator_predictions.dense",
     {},
     "discriminator_predictions.dense_prediction"},
};

const ClassifierHead* classifier_of(HeadKind kind, std::string_view model_type) {
  for (const ClassifierHead& head : kClassifierHeads) {
    if (head.kind == kind && (head.model_type.empty() || head.model_type == model_type)) {
      return &head;
    }
  }
  return nullptr;
}

// Prefixes of head tensors that a model may have beside those of its class.
constexpr std::string_view kUnusedHeads[] = {"cls.",  // BERT
                                             "vocab_transform.",
                                             "vocab_layer_norm.",
                                             "vocab_projector.",  // DistilBERT
                                             "lm_head.",          // RoBERTa
                                             "predictions.",
                                             "sop_classifier.",  // ALBERT
                                             "head.",
                                             "decoder.",  // ModernBERT
                                             "generator_predictions.",
                                             "generator_lm_head.",
                                             "discriminator_predictions."};  // ELECTRA

// Prefixes of classification heads, for sequences and for tokens.
constexpr std::string_view kClassifiers[] = {"classifier.", "pre_classifier.", "qa_outputs.",
                                             "sequence_summary."};

// Adds pooling, head and labels to `spec`, an encoder that was read from `tensors`.
class HeadReader {
 public:
  HeadReader(ConfigFields& config, ModelTensors& tensors, const EncoderFamily& family,
             const std::string& prefix, TransformerSpec& spec)
      : config_(config), tensors_(tensors), family_(family), prefix_(prefix), spec_(spec) {}

  void run(std::optional<PoolingChoice> pooling, HeadUse use) {
    const bool is_dropped = use == HeadUse::kDrop;
    const HeadKind kind = is_dropped ? HeadKind::kNone : read_kind(pooling.has_value());
    if (const ClassifierHead* const head = classifier_of(kind, family_.model_type)) {
      check_pooling(pooling, rows_of(*head), config_.where());
      read_classifier(*head);
    } else {
      config_.pass_over(kClassNames);
      if (kind == HeadKind::kNone) {
        read_pooling(pooling.value_or(PoolingChoice::kNone));
      } else {
        read_language_head(family_.language_head);
      }
    }
    pass_over_unused(is_dropped);
  }

 private:
  static constexpr const char* kClassNames[] = {"id2label", "num_labels", "_num_labels",
                                                "sentence_transformers"};

  // Throws UnsupportedError for a class whose head is unsupported, or is not in the weights.
  HeadKind read_kind(bool is_pooling_said) {
    const std::optional<HeadKind> kind = read_head_kind(config_);
    if (!kind) {
      const auto is_classifier = [](const StoredTensor& tensor) {
        return tensor.name.starts_with("classifier.") || tensor.name.starts_with("qa_outputs.");
      };
      if (std::ranges::none_of(tensors_.stored(), is_classifier)) return HeadKind::kNone;
      config_.refuse("architectures",
                     "the weights have a classifier, of sequences or of tokens: expected a name "
                     "that says which, such as 'BertForSequenceClassification'");
    }
    // A requested pooling reads the encoder's own rows, so heads that predict masked tokens are
    // dropped.
    const bool is_pre_training = *kind == HeadKind::kPreTraining;
    if (is_pooling_said && (*kind == HeadKind::kMasked || is_pre_training)) return HeadKind::kNone;
    if (is_pre_training && spec_.architecture == "bert") {
      throw InputError(
          "{}: field 'architectures' names a class with two outputs: load the class whose output "
          "you want, such as BertForMaskedLM, BertForNextSentencePrediction or BertModel, and save "
          "it; or pass --pooling (none: each token's last hidden state)",
          config_.where());
    }
    if (*kind == HeadKind::kCausal) {
      config_.refuse("architectures", "a causal model is not an encoder");
    }
    if (*kind != HeadKind::kNone && *kind != HeadKind::kMasked &&
        classifier_of(*kind, family_.model_type) == nullptr) {
      config_.refuse("architectures", "this head is not supported for this type of model");
    }
    return *kind;
  }

  // Returns the rows that the head takes, which ModernBERT's config may choose.
  PoolingChoice rows_of(const ClassifierHead& head) {
    if (head.norm == nullptr || head.kind != HeadKind::kSequence) return head.rows;
    const std::string pooling = config_.text("classifier_pooling", "cls");
    if (pooling != "cls" && pooling != "mean") {
      config_.refuse("classifier_pooling", "expected cls or mean");
    }
    return pooling == "cls" ? PoolingChoice::kFirst : PoolingChoice::kMean;
  }

  // ModelTensors reports missing tensors.
  void add_linear(const std::string& name, uint32_t outputs, std::optional<Activation> activation) {
    spec_.head.push_back(
        {tensors_.linear(name, outputs, spec_.model_dim, Presence::kRequired), activation});
  }

  void read_pooling(PoolingChoice choice) {
    if (choice == PoolingChoice::kNone) return;
    spec_.pooling = choice == PoolingChoice::kMean ? SelectKind::kMean : SelectKind::kFirst;
    if (choice != PoolingChoice::kPooler) return;
    add_linear(prefix_ + family_.pooler, spec_.model_dim, Activation::kTanh);
  }

  // Reads the names of the classes, which the config may give.
  void read_class_names(uint32_t classes) {
    constexpr const char* kAsComputed =
        "activations after the classifier of a cross-encoder are not supported";
    constexpr const char* kIdentity = "torch.nn.modules.linear.Identity";
    spec_.labels = read_labels(config_, classes);
    for (const char* field : {"num_labels", "_num_labels"}) {
      config_.expect(field, classes, "the classifier has that number of outputs");
    }
    config_.expect("sbert_ce_default_activation_function", kIdentity, kAsComputed);
    if (std::optional<ConfigFields> scores = config_.object("sentence_transformers")) {
      scores->expect("activation_fn", kIdentity, kAsComputed);
      scores->pass_over("version");
      scores->finish();
    }
  }

  // Checks the fields with which a config can change ELECTRA's layer before the scores of choices.
  void check_summary() {
    constexpr const char* kWhy = "the head reads the first token's row through a layer";
    config_.expect("summary_type", "first", kWhy);
    config_.expect("summary_use_proj", true, kWhy);
    config_.expect("summary_activation", "gelu", kWhy);
    config_.expect("summary_proj_to_labels", false, kWhy);
  }

  void read_classifier(const ClassifierHead& head) {
    read_pooling(rows_of(head));
    if (head.norm != nullptr) {
      spec_.head.push_back(read_transform(head.hidden, head.norm, spec_.model_dim, true));
    } else if (head.hidden != kPoolerLayer && !head.hidden.empty()) {
      add_linear(std::string(head.hidden), spec_.model_dim,
                 head.activation.value_or(spec_.activation));
    }
    const std::string scores = head.scores;
    const uint32_t outputs = tensors_.shape_of(scores + ".weight").rows;
    add_linear(scores, outputs, std::nullopt);
    if (head.kind == HeadKind::kSequence || head.kind == HeadKind::kTokens) {
      return read_class_names(outputs);
    }
    config_.pass_over(kClassNames);
    if (head.kind == HeadKind::kAnswer && outputs == 2) spec_.labels = {"start", "end"};
    if (head.kind == HeadKind::kNextSentence && outputs == 2) spec_.labels = {"follows", "random"};
    if (head.kind == HeadKind::kChoice && spec_.architecture == "electra") check_summary();
  }

  // Tied biases are stored once or twice. If they differ, the decoder's own is used.
  std::vector<double> read_bias(const LanguageHead& head, bool is_tied) {
    std::string first = head.bias;
    std::string second = std::string(head.decoder) + ".bias";
    if (!is_tied) std::swap(first, second);
    tensors_.pass_over(second);
    return tensors_.vector(tensors_.has(first) || !tensors_.has(second) ? first : second,
                           spec_.vocab_size,
                           head.may_lack_biases ? Presence::kIfStored : Presence::kRequired);
  }

  // Reads a layer with an activation and a norm.
  HeadStepSpec read_transform(std::string_view dense, const char* norm, uint32_t width,
                              bool may_lack_biases) {
    const Presence bias = may_lack_biases ? Presence::kIfStored : Presence::kRequired;
    const LanguageHead& head = family_.language_head;
    if (may_lack_biases) {
      config_.expect("classifier_activation", "gelu", "other activations are not supported");
    }
    return {.linear = tensors_.linear(std::string(dense), width, spec_.model_dim, bias),
            .activation = head.has_models_activation ? spec_.activation : Activation::kGeluErf,
            .norm = tensors_.norm(norm, width, spec_.layers[0].mlp_norm->epsilon, NormKind::kLayer,
                                  bias)};
  }

  // Reads the head that is applied to each row.
  void read_language_head(const LanguageHead& head) {
    if (!tensors_.has_part(head.dense)) {
      config_.refuse("architectures",
                     "the weights have no such head: --pooling none takes the encoder alone");
    }
    const uint32_t width = spec_.token_embedding->columns;
    const std::string decoder = std::string(head.decoder) + ".weight";
    HeadStepSpec transform = read_transform(head.dense, head.norm, width, head.may_lack_biases);
    HeadStepSpec logits;
    const bool is_tied = config_.flag("tie_word_embeddings", true);
    logits.is_token_embedding = is_tied;
    logits.linear.emplace();
    logits.linear->weight =
        is_tied ? tensors_.tied({fmt::format("{}{}.weight", prefix_, family_.tokens), decoder},
                                spec_.vocab_size, width)
                : tensors_.matrix(decoder, spec_.vocab_size, width);
    logits.linear->bias = read_bias(head, is_tied);
    spec_.head = {std::move(transform), std::move(logits)};
  }

  // Skips the tensors that the results do not need, and notes them in the spec's account.
  void pass_over_unused(bool is_dropped) {
    std::string unused;
    for (const std::string& name : tensors_.rest()) {
      const auto begins = [&](std::string_view start) { return name.starts_with(start); };
      if (!std::ranges::any_of(kUnusedHeads, begins) && !begins(prefix_ + "pooler.") &&
          !(is_dropped && std::ranges::any_of(kClassifiers, begins))) {
        continue;
      }
      tensors_.pass_over(name);
      unused += fmt::format("{}{}", unused.empty() ? "" : ", ", quote(name));
    }
    if (unused.empty()) return;
    spec_.account.assumed.push_back("unused, as the outputs of this class need none of them: " +
                                    unused);
  }

  ConfigFields& config_;
  ModelTensors& tensors_;
  const EncoderFamily& family_;
  const std::string& prefix_;
  TransformerSpec& spec_;
};

}  // namespace

std::string encoder_types() {
  std::string types;
  for (const EncoderFamily& family : kEncoders) {
    types += fmt::format("{}{}", types.empty() ? "" : ", ", family.model_type);
  }
  return types;
}

bool is_encoder_type(std::string_view model_type) { return encoder_family(model_type) != nullptr; }

TransformerSpec read_hf_encoder(const Opened& model, const ModelOptions& options,
                                HeadUse head_use) {
  ConfigFields config = model.config_fields();
  const TensorStore store = with_whole_weights(model);
  ModelTensors tensors(store);
  const std::string type = config.text("model_type");
  const EncoderFamily* const family = encoder_family(type);
  if (family == nullptr) config.refuse("model_type", "expected one of " + encoder_types());
  const bool is_alone = tensors.has(fmt::format("{}.weight", family->tokens));
  const std::string prefix = is_alone ? "" : family->prefix;
  take_encoder_fields(config);
  TransformerSpec spec = read_encoder(config, tensors, *family, prefix);
  pass_over_position_ids(tensors, prefix + "embeddings.position_ids");
  tensors.pass_over(prefix + "embeddings.token_type_ids");  // zeros, for callers who give none
  HeadReader(config, tensors, *family, prefix, spec).run(options.pooling, head_use);
  check_config_agrees(options, spec.heads, spec.activation, config.where());
  if (options.norm_first && *options.norm_first != spec.norm_first) {
    throw InputError(
        "{}: norms {} attention and MLP were requested, but models of type {} have them {} it: "
        "drop the option",
        config.where(), *options.norm_first ? "before" : "after", quote(spec.architecture),
        spec.norm_first ? "before" : "after");
  }
  config.finish();
  pass_over_zero_biases(tensors);
  tensors.finish();
  return spec;
}

}  // namespace arenite::convert
