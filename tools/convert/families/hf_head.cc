// SPDX-License-Identifier: Apache-2.0
// Heads of Hugging Face encoders, by the last words of their architecture's name.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/families/encoder_parts.h"
#include "convert/families/hf_encoder.h"
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
    spec_.pooling = Pooling::kFirst;
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
    if (choice == PoolingChoice::kMean) spec_.pooling = Pooling::kMean;
    if (choice == PoolingChoice::kFirst) spec_.pooling = Pooling::kFirst;
    if (choice == PoolingChoice::kPooler) add_pooler();
  }

 private:
  void add_pooler() {
    spec_.pooling = Pooling::kFirst;
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

}  // namespace arenite::convert
