// SPDX-License-Identifier: Apache-2.0
// Heads of Hugging Face encoders, by the last words of their architecture's name.
#include "convert/families/hf_models.h"

#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/reader_parts.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

enum class HeadKind { kNone, kSequence, kTokens, kLanguage };

constexpr std::pair<std::string_view, HeadKind> kArchitectures[] = {
    {"ForSequenceClassification", HeadKind::kSequence},
    {"ForTokenClassification", HeadKind::kTokens},
    {"ForMaskedLM", HeadKind::kLanguage},
    {"ForPreTraining", HeadKind::kNone},
    {"Model", HeadKind::kNone},
};

// Heads that are left from training: those that guess tokens, where they are not asked for.
constexpr const char* kLanguageHeads[] = {
    // BERT
    "cls.",
    // DistilBERT
    "vocab_transform.",
    "vocab_layer_norm.",
    "vocab_projector.",
    // RoBERTa
    "lm_head.",
    // ELECTRA
    "generator_predictions.",
    "generator_lm_head.",
    "discriminator_predictions.",
};

// Heads of sequences and of tokens.
constexpr const char* kClassifiers[] = {"classifier.", "pre_classifier."};

bool has_classifier(const ModelTensors& tensors) {
  for (const StoredTensor& tensor : tensors.stored()) {
    if (tensor.name.starts_with("classifier.")) return true;
  }
  return false;
}

HeadKind read_kind(ConfigFields& config, const ModelTensors& tensors) {
  const std::vector<std::string> architectures = config.texts("architectures");
  if (architectures.empty()) {
    if (!has_classifier(tensors)) return HeadKind::kNone;
    config.refuse("architectures",
                  "the weights have a classifier, of sequences or of tokens: expected a name that "
                  "says which, such as 'BertForSequenceClassification'");
  }
  if (architectures.size() > 1) config.refuse("architectures", "expected one name");
  std::string known;
  for (const auto& [ending, kind] : kArchitectures) {
    if (architectures[0].ends_with(ending)) return kind;
    known += fmt::format("{}...{}", known.empty() ? "" : ", ", ending);
  }
  config.refuse("architectures", "this head is not known: expected one of " + known);
}

class HeadReader {
 public:
  HeadReader(ModelTensors& tensors, const std::string& type, const std::string& prefix,
             EncoderSpec& spec)
      : tensors_(tensors), type_(type), prefix_(prefix), spec_(spec) {}

  PoolingChoice read_sequence_classifier() {
    spec_.pooling = SelectKind::kFirst;
    if (type_ == "bert") {
      add_pooler();
      add_classifier("classifier");
      return PoolingChoice::kPooler;
    }
    if (type_ == "distilbert") {
      add_square("pre_classifier", Activation::kRelu);
      add_classifier("classifier");
    } else {
      add_square("classifier.dense", type_ == "electra" ? Activation::kGeluErf : Activation::kTanh);
      add_classifier("classifier.out_proj");
    }
    return PoolingChoice::kFirst;
  }

  PoolingChoice read_token_classifier() {
    add_classifier("classifier");
    return PoolingChoice::kNone;
  }

  // Not having the pooler's tensors is an error that ModelTensors reports.
  void read_pooling(PoolingChoice choice) {
    if (choice == PoolingChoice::kMean) spec_.pooling = SelectKind::kMean;
    if (choice == PoolingChoice::kFirst) spec_.pooling = SelectKind::kFirst;
    if (choice == PoolingChoice::kPooler) add_pooler();
  }

 private:
  void add_pooler() {
    spec_.pooling = SelectKind::kFirst;
    add_square(prefix_ + "pooler.dense", Activation::kTanh);
  }

  void add_square(const std::string& name, Activation activation) {
    spec_.head.push_back(
        {tensors_.linear(name, spec_.model_dim, spec_.model_dim, Presence::kRequired), activation});
  }

  void add_classifier(const std::string& name) {
    const uint32_t classes = tensors_.shape_of(name + ".weight").rows;
    spec_.head.push_back(
        {tensors_.linear(name, classes, spec_.model_dim, Presence::kRequired), std::nullopt});
  }

  ModelTensors& tensors_;
  const std::string& type_;
  const std::string& prefix_;
  EncoderSpec& spec_;
};

constexpr const char* kScoresAsComputed =
    "scores of a cross-encoder are given out as the classifier computes them";

void read_class_names(ConfigFields& config, EncoderSpec& spec) {
  const uint32_t classes = spec.head.back().linear->weight.rows;
  spec.labels = read_labels(config, classes);
  for (const char* field : {"num_labels", "_num_labels"}) {
    config.expect(field, classes, "the classifier has as many");
  }
  config.expect("sbert_ce_default_activation_function", "torch.nn.modules.linear.Identity",
                kScoresAsComputed);
  if (std::optional<ConfigFields> scores = config.object("sentence_transformers")) {
    scores->expect("activation_fn", "torch.nn.modules.linear.Identity", kScoresAsComputed);
    scores->pass_over("version");
    scores->finish();
  }
}

struct LanguageHead {
  std::string_view model_type;
  const char* dense;
  const char* norm;
  const char* decoder;
  const char* bias;  // of the decoder; also stored as <decoder>.bias
  bool has_models_activation;
};

constexpr LanguageHead kHeads[] = {
    {"bert", "cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm",
     "cls.predictions.decoder", "cls.predictions.bias", true},
    {"distilbert", "vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias",
     true},
    {"roberta", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias", false},
    {"xlm-roberta", "lm_head.dense", "lm_head.layer_norm", "lm_head.decoder", "lm_head.bias",
     false},
    {"electra", "generator_predictions.dense", "generator_predictions.LayerNorm",
     "generator_lm_head", "generator_lm_head.bias", false},
};

const LanguageHead* head_of(std::string_view model_type) {
  for (const LanguageHead& head : kHeads) {
    if (head.model_type == model_type) return &head;
  }
  return nullptr;
}

// DistilBERT has no field for it, and the same number.
double norm_epsilon(ConfigFields& config) { return config.positive("layer_norm_eps", 1e-12); }

// Tied biases are stored once or twice. Apart, the decoder's own is the one that counts.
std::vector<double> read_bias(ModelTensors& tensors, const LanguageHead& head, bool is_tied,
                              uint32_t tokens) {
  std::string first = head.bias;
  std::string second = std::string(head.decoder) + ".bias";
  if (!is_tied) std::swap(first, second);
  tensors.pass_over(second);
  return tensors.vector(tensors.has(first) || !tensors.has(second) ? first : second, tokens);
}

}  // namespace

void read_hf_head(ConfigFields& config, ModelTensors& tensors, const std::string& model_type,
                  const std::string& prefix, const ModelOptions& options, HeadUse head_use,
                  EncoderSpec& spec) {
  HeadReader reader(tensors, model_type, prefix, spec);
  const bool is_dropped = head_use == HeadUse::kDrop;
  HeadKind kind = is_dropped ? HeadKind::kNone : read_kind(config, tensors);
  // Any pooling is of the encoder's own rows.
  if (kind == HeadKind::kLanguage &&
      (options.pooling || !read_hf_language_head(config, tensors, model_type, prefix, spec))) {
    kind = HeadKind::kNone;
  }
  if (kind == HeadKind::kNone) {
    reader.read_pooling(options.pooling.value_or(PoolingChoice::kNone));
  }
  if (kind == HeadKind::kSequence || kind == HeadKind::kTokens) {
    check_pooling(options.pooling,
                  kind == HeadKind::kSequence ? reader.read_sequence_classifier()
                                              : reader.read_token_classifier(),
                  config.where());
    read_class_names(config, spec);
  } else {
    for (const char* field : {"id2label", "num_labels", "_num_labels", "sentence_transformers"}) {
      config.pass_over(field);
    }
  }
  for (const char* name : kLanguageHeads) tensors.pass_over_all(name);
  if (is_dropped) {
    for (const char* name : kClassifiers) tensors.pass_over_all(name);
  }
  tensors.pass_over_all(prefix + "pooler.");  // where it is there, but not asked for
}

bool read_hf_language_head(ConfigFields& config, ModelTensors& tensors,
                           const std::string& model_type, const std::string& prefix,
                           EncoderSpec& spec) {
  const LanguageHead* const head = head_of(model_type);
  if (head == nullptr || !tensors.has(std::string(head->dense) + ".weight")) return false;
  const uint32_t width = spec.token_embedding->columns;
  const std::string decoder = std::string(head->decoder) + ".weight";
  HeadStepSpec transform;
  transform.linear = tensors.linear(head->dense, width, spec.model_dim, Presence::kRequired);
  transform.activation = head->has_models_activation ? spec.activation : Activation::kGeluErf;
  transform.norm = read_hf_layer_norm(tensors, head->norm, width, norm_epsilon(config));
  HeadStepSpec logits;
  logits.is_token_embedding = config.flag("tie_word_embeddings", true);
  logits.linear.emplace();
  logits.linear->weight = logits.is_token_embedding
                              ? tensors.tied_embedding(prefix + "embeddings.word_embeddings.weight",
                                                       decoder, spec.vocab_size, width)
                              : tensors.matrix(decoder, spec.vocab_size, width);
  logits.linear->bias = read_bias(tensors, *head, logits.is_token_embedding, spec.vocab_size);
  spec.head = {std::move(transform), std::move(logits)};
  return true;
}

}  // namespace arenite::convert
