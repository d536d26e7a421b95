// SPDX-License-Identifier: Apache-2.0
// What training programs write beside a state dict about its model: plain values in the checkpoint,
// and a config.json of their own making.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/checkpoint.h"
#include "convert/encoders/encoder_options.h"
#include "convert/models/config_fields.h"

namespace arenite::convert {

// Such configs have any fields, so those that are not known are not refused. Getters know a fact by
// all its usual names. They throw InputError for a value that it cannot have, and where two places
// say different things.
class TorchFacts {
 public:
  // `config` is a config.json; empty: none.
  TorchFacts(const Checkpoint& checkpoint, const std::filesystem::path& config);

  std::optional<uint32_t> heads();
  std::optional<Activation> activation();
  std::optional<bool> norm_first();
  std::optional<PoolingChoice> pooling();
  std::optional<double> norm_epsilon();
  std::vector<std::string> labels(uint32_t classes);  // empty: not named

  // Throws InputError where a size is written down and is another one than `found`, the tensors'.
  enum class Size { kModelDim, kFfnDim, kLayers, kVocabulary, kClasses };
  void check(Size size, uint32_t found);

 private:
  // What all sources that have one of the fields `names` say.
  template <typename Value>
  std::optional<Value> agreed(
      std::initializer_list<const char*> names,
      const std::function<Value(ConfigFields&, const std::string& name)>& read);

  std::vector<ConfigFields> sources_;
};

}  // namespace arenite::convert
