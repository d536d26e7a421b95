// SPDX-License-Identifier: Apache-2.0
// A small attention module and small encoders with weights of a given type: for features and for
// tokens, with and without pooling. Rows are whole blocks of q4, except for input features, which
// get q8 instead. Outputs do not fill the panels of any kernel set.
#pragma once

#include <string>
#include <vector>

#include "arenite/tensor_type.h"
#include "convert/graph/graph.h"
#include "convert/program/program.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"

namespace arenite::test {

// A graph after all passes, with what its tests need to know.
struct FewBitsModel {
  std::string name;
  convert::Graph graph;
  uint32_t vocab_size = 0;  // 0: features
  uint32_t features = 0;    // of the input
  double tolerance = 0.0;   // of outputs, against the graph with the weights that a file holds

  convert::Program program() const;
};

ModuleSpec few_bits_module();
std::vector<EncoderShape> few_bits_encoders();

// The module and the encoders, in w8, q8 and q4 each.
std::vector<FewBitsModel> few_bits_modules();
std::vector<FewBitsModel> few_bits_encoder_models();

}  // namespace arenite::test
