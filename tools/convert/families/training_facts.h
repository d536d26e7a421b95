// SPDX-License-Identifier: Apache-2.0
// What training programs write beside a state dict about its model: plain values in the checkpoint,
// and a config.json of their own making.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/open/opened.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_options.h"

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
  // What `read` makes of the source that has an id2label; empty: none has.
  std::vector<std::string> labels(
      const std::function<std::vector<std::string>(ConfigFields& source)>& read);

  // Throws InputError where a size is written down and is another one than `found`, the tensors'.
  enum class Size { kModelDim, kFfnDim, kLayers, kVocabulary, kPositions, kClasses };
  void check(Size size, uint32_t found);

 private:
  // What all sources that have one of the fields `names` say.
  template <typename Value>
  std::optional<Fact<Value>> agreed(
      std::initializer_list<const char*> names,
      const std::function<Value(ConfigFields&, const std::string& name)>& read);

  std::vector<ConfigFields> sources_;
};

}  // namespace arenite::convert
