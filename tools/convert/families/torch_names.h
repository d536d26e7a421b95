// SPDX-License-Identifier: Apache-2.0
// What models around torch.nn.TransformerEncoder call the parts that PyTorch does not name.
#pragma once

#include <string>

#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// The full name of each part, without ".weight"; empty: there is none.
struct TorchNames {
  std::string tokens;     // embedding [vocab_size, model_dim], without bias
  std::string types;      // embedding of token types
  std::string input;      // linear layer of features, with bias
  std::string norm;       // of what is embedded
  std::string positions;  // table or buffer, as it is stored, with ".weight" where it has one
  std::string pooler;
  std::string head;
};

// Looks among the tensors outside the layers, whose names begin with `stack` + "layers." and
// `stack` + "norm.". Throws InputError where a model has both tokens and features.
TorchNames find_torch_names(const ModelTensors& tensors, const std::string& stack);

}  // namespace arenite::convert
