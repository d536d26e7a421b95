// SPDX-License-Identifier: Apache-2.0
// Answers questions about a model from the options, the training program's config and plain values.
// Such configs contain arbitrary fields, so unknown ones are not refused, and each fact is looked
// up under all its usual names. Getters throw InputError for an impossible value and for sources
// that disagree. Every answer is recorded with its source for the Account. If a required fact is
// missing, its getter records the question and returns a placeholder; the caller goes on asking and
// finally calls require_all.
//
//   StateDictAnswers answers(model, options, where);
//   const uint32_t heads = answers.heads(model_dim);  // 1, and a question, if nothing says it
//   answers.require_all(published);
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "convert/open/opened.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/mask_buffers.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

class StateDictAnswers {
 public:
  // REQUIRES: the options outlive this object.
  StateDictAnswers(const Opened& model, const ModelOptions& options, std::string where);
  uint32_t heads(uint32_t model_dim);
  std::optional<uint32_t> heads_if_said();
  // Returns `heads`, for heads that are separate modules. Throws InputError if an option differs.
  uint32_t heads_of_modules(uint32_t heads);
  Activation activation();
  bool norm_first();
  // A decoder's mask is assumed to be causal.
  BandChoice mask(bool is_decoder);
  // Throws InputError if another source contradicts the mask in a buffer of the file.
  BandChoice mask_of_buffer(const std::string& buffer, const BandChoice& mask);
  // Assumed to be 1 if it is optional.
  double embedding_scale(uint32_t model_dim, bool must_be_said);
  std::optional<PoolingChoice> pooling_if_said();
  // Asks for the pooling that `reader`, a layer after it, expects.
  PoolingChoice ask_pooling(const std::string& reader);
  // Returns the context length of a model without a position table.
  uint32_t positions();
  double epsilon(double otherwise);
  // Returns nullopt for 1/sqrt(head_dim), which is assumed.
  std::optional<double> score_scale();
  double rope_theta();
  // Applies the config's rope_scaling to the base frequencies.
  void scale_rope(RopeSpec& rope, double theta, uint32_t positions_max);
  // Calls `read` with the source that has an id2label; returns an empty list if none has.
  std::vector<std::string> labels(
      const std::function<std::vector<std::string>(ConfigFields&)>& read);
  // Throws InputError if one of `fields` differs from `found`, the size of the tensors.
  void check_size(std::initializer_list<const char*> fields, uint32_t found);
  // Throws InputError if the option is given, as such a model has no use for it.
  void refuse(bool is_given, const char* option, const char* why) const;
  void assume(std::string text) { account_.assumed.push_back(std::move(text)); }
  // Throws InputError with all missing options; `published` lists the program's published values.
  void require_all(const std::string& published) const;
  const Account& account() const { return account_; }

 private:
  // A fact by its names: for people "number of heads", as option "--heads", and in fields.
  struct Fact {
    const char* what;
    const char* option;
    std::initializer_list<const char*> fields;
  };

  struct Question {
    std::string option;   // that answers it: "--heads N"
    std::string meaning;  // for people
    std::string field;    // of a config that answers it
  };

  // Returns the value of the fields in all sources, which must agree, and sets `where` to the last
  // source.
  template <typename Value>
  std::optional<Value> written(std::initializer_list<const char*> fields, std::string& where);
  // Returns the option's value, else the saved one. `option_text` is the option as it was given.
  template <typename Value>
  std::optional<Value> known(const std::optional<Value>& option, const Fact& fact,
                             std::string option_text = "");
  std::optional<BandChoice> known_mask();

  const ModelOptions& options_;
  std::vector<ConfigFields> sources_;
  const std::string where_;
  Account account_;
  std::vector<Question> missing_;
};

}  // namespace arenite::convert
