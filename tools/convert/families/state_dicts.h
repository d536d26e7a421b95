// SPDX-License-Identifier: Apache-2.0
// State dicts of published programs: a row for each program, with the names of its tensors, and the
// questions that no state dict answers.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/open/opened.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

enum class RopePairs { kNone, kHalves, kNeighbours };  // which elements of a head turn together

// Names are those of modules, without ".weight" and ".bias". What all names of a file begin with
// does not count. A null pointer: the program has no such part.
struct PublishedProgram {
  const char* name;          // for people
  const char* architecture;  // in model files
  const char* published;     // what it computes as its author published it, as options
  // A tensor of the first layer that no other program has: "h.0.attn.c_attn.weight". What stands
  // before the 0 is the list of layers.
  const char* key;

  bool is_decoder = true;  // gives logits of its vocabulary for each token
  // The program is the layers alone: mask, positions and the scale of embeddings are up to what
  // stands around them.
  bool is_layers_alone = false;
  // Gains are of (x - mean) / (deviation + epsilon), and the deviation is that of a sample.
  bool has_sample_norm = false;
  RopePairs rope = RopePairs::kNone;
  bool ties_head = false;  // the token embedding is the output matrix where no head is stored

  LayerNames layer;
  // Around the layers. Names with a space between them are different ones that are in use.
  const char* tokens;
  const char* types = nullptr;
  const char* input = nullptr;  // linear layer of features
  const char* positions = nullptr;
  const char* embedding_norm = nullptr;
  const char* final_norm;
  const char* pooler = nullptr;
  const char* head = nullptr;

  bool has_heads_of_their_own() const {
    return layer.query != nullptr && std::string_view(layer.query).find("{}") != std::string::npos;
  }
};

std::string known_programs();  // a line for each, for messages

// A program found in a file.
struct FoundProgram {
  const PublishedProgram* program;
  std::string list;  // what stands in front of a layer's number: "transformer.h."

  // The part around the layers that has one of the names `paths`, as ModelTensors takes it; empty:
  // none.
  std::string outside(const TensorStore& store, const char* paths) const;
  // The number of layers, as far as they are numbered without a gap.
  uint32_t count_layers(const TensorStore& store) const;
};

// All stacks of layers in `store` that are of a published program.
std::vector<FoundProgram> find_programs(const TensorStore& store);

// Is `name` <prefix>key, where the prefix is empty or ends in a dot?
bool ends_in(std::string_view name, std::string_view key);

// What the options and the training program's own config and plain values say of a model. Such
// configs have any fields, so those that are not known are not refused; a fact is known by all its
// usual names. Getters throw InputError for a value that cannot be, and where two places say
// different things. Each remembers what it answered and from where, for the Account. One whose
// question must be answered, and is not, remembers that and returns something of its type: the
// caller goes on to its other questions, and then calls require_all.
class StateDictAnswers {
 public:
  // REQUIRES: the options outlive it.
  StateDictAnswers(const Opened& model, const ModelOptions& options, std::string where);

  // These must be answered.
  uint32_t heads(uint32_t model_dim);
  uint32_t heads_of_modules(uint32_t heads);  // says how many there are
  Activation activation();
  bool norm_first();
  PoolingChoice ask_pooling(const std::string& reader);  // which reads the pooled rows
  uint32_t positions();  // that a model without a table of positions is for

  // These are assumed.
  double epsilon(double otherwise);
  std::optional<double> score_scale();  // nullopt: 1/sqrt(head_dim)
  double rope_theta();                  // 10000

  // These are assumed or not, by the kind of program.
  BandChoice mask(bool is_decoder);                               // that of a decoder: causal
  double embedding_scale(uint32_t model_dim, bool must_be_said);  // 1

  // These may go unsaid.
  std::optional<uint32_t> heads_if_said();
  std::optional<PoolingChoice> pooling_if_said();
  // The mask in a buffer of the file: throws InputError where it is said to be another one.
  BandChoice mask_of_buffer(const std::string& buffer, const BandChoice& mask);
  // What `read` makes of the source that has an id2label; empty: none has.
  std::vector<std::string> labels(
      const std::function<std::vector<std::string>(ConfigFields& source)>& read);

  // Throws InputError where one of `fields` is another size than `found`, the tensors'.
  void check_size(std::initializer_list<const char*> fields, uint32_t found);
  // Throws InputError for an option that was given, though such a model has no use for it.
  void refuse(bool is_given, const char* option, const char* why) const;
  void assume(std::string text) { account_.assumed.push_back(std::move(text)); }

  // Throws InputError that names every option that is missing. `published` says what the program
  // uses as it was published.
  void require_all(const std::string& published) const;

  const Account& account() const { return account_; }

 private:
  // A fact by its names: "number of heads", "--heads", and those of fields.
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

  // What all sources that have one of the fields say, and the last that does.
  template <typename Value>
  std::optional<Value> written(std::initializer_list<const char*> fields, std::string& where);
  // The option's value, or the written one. `option_text` is the option as it was given.
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
