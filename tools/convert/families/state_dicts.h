// SPDX-License-Identifier: Apache-2.0
// The questions that no state dict answers, put to the options and to what the training program
// wrote beside the weights.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/open/opened.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

template <typename Value>
struct Fact {
  Value value;
  std::string where;  // it stands, for messages
};

// Such configs have any fields, so those that are not known are not refused. Getters know a fact by
// all its usual names. They throw InputError for a value that it cannot have, and where two places
// say different things.
class TrainingFacts {
 public:
  explicit TrainingFacts(const Opened& model);

  std::optional<Fact<uint32_t>> heads();
  std::optional<Fact<Activation>> activation();
  std::optional<Fact<bool>> norm_first();
  std::optional<Fact<PoolingChoice>> pooling();
  std::optional<Fact<MaskChoice>> mask();  // kCausal or kBidirectional
  std::optional<Fact<EmbeddingScale>> embedding_scale();
  std::optional<Fact<double>> score_scale();
  std::optional<Fact<double>> epsilon();
  std::optional<Fact<double>> rope_theta();
  std::optional<Fact<uint32_t>> positions();
  // What `read` makes of the source that has an id2label; empty: none has.
  std::vector<std::string> labels(
      const std::function<std::vector<std::string>(ConfigFields& source)>& read);

  // Throws InputError where a size is written down and is another one than `found`, the tensors'.
  enum class Size { kModelDim, kFfnDim, kLayers, kKvHeads, kVocabulary, kPositions, kClasses };
  void check(Size size, uint32_t found);

 private:
  // What all sources that have one of the fields `names` say.
  template <typename Value>
  std::optional<Fact<Value>> agreed(
      std::initializer_list<const char*> names,
      const std::function<Value(ConfigFields&, const std::string& name)>& read);

  std::vector<ConfigFields> sources_;
};

// A mask of a band: each token sees itself, those before it as far as `window`, and later ones
// unless the model is causal.
struct BandChoice {
  bool causal = false;
  uint32_t window = 0;  // keys that a query sees, its own included; 0: all

  friend bool operator==(const BandChoice&, const BandChoice&) = default;
};

// Each getter remembers what it answered and from where, for the Account. One whose question must
// be answered, and is not, remembers that and returns something of its type: the caller goes on to
// its other questions, and then calls require_all. Getters throw InputError where an option and the
// training program say different things.
class StateDictAnswers {
 public:
  // `where` begins messages. REQUIRES: the options and facts outlive it.
  StateDictAnswers(const ModelOptions& options, TrainingFacts& facts, std::string where)
      : options_(options), facts_(facts), where_(std::move(where)) {}

  // These must be answered.
  uint32_t heads(uint32_t model_dim);
  uint32_t heads_of_modules(uint32_t heads);  // says how many there are
  Activation activation();
  bool norm_first();
  BandChoice mask();
  double embedding_scale(uint32_t model_dim);
  PoolingChoice ask_pooling(const std::string& reader);  // which reads the pooled rows
  uint32_t positions();  // that a model without a table of positions is for

  // These are assumed.
  double epsilon(double otherwise);
  std::optional<double> score_scale();                 // nullopt: 1/sqrt(head_dim)
  BandChoice mask_of_decoder();                        // causal
  double embedding_scale_if_said(uint32_t model_dim);  // 1
  double rope_theta();                                 // 10000

  // The mask in a buffer of the file: throws InputError where it is said to be another one.
  BandChoice mask_of_buffer(const std::string& buffer, const BandChoice& mask);
  std::optional<PoolingChoice> pooling_if_said();
  // Throws InputError for the options that such a model has no use for.
  void refuse_embedding_scale(const char* why) const;
  void refuse_rope_theta(const char* why) const;
  void assume(std::string text) { account_.assumed.push_back(std::move(text)); }

  // Throws InputError that names every option that is missing. `published` says what the program
  // uses as it was published.
  void require_all(const std::string& published) const;

  const Account& account() const { return account_; }

 private:
  struct Question {
    std::string option;   // that answers it: "--heads N"
    std::string meaning;  // for people
    std::string field;    // of a config that answers it
  };

  // The option's value, or the fact's.
  template <typename Value>
  std::optional<Value> known(const std::optional<Value>& option,
                             const std::optional<Fact<Value>>& fact, const char* what,
                             const std::string& option_as_text);
  std::optional<BandChoice> known_mask();
  std::optional<EmbeddingScale> known_embedding_scale();
  void ask(Question question) { missing_.push_back(std::move(question)); }
  void refuse(bool is_given, const char* option, const char* why) const;

  const ModelOptions& options_;
  TrainingFacts& facts_;
  const std::string where_;
  Account account_;
  std::vector<Question> missing_;
};

}  // namespace arenite::convert
