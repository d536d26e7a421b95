// SPDX-License-Identifier: Apache-2.0
// A stack of layers with more around it than a decoder or an encoder of text has: convolutions
// before the layers, and attention to the rows of another stack.
#pragma once

#include <vector>

#include "convert/spec/model_spec.h"
#include "core/windows.h"

namespace arenite::convert {

// activation(linear(windows of rows))
struct ConvolutionSpec {
  Windows windows;
  LinearSpec linear;  // [outputs, rows of a window * columns]
  Activation activation = Activation::kGeluErf;
};

struct StackSpec : TransformerSpec {
  const char* input_name = "";  // of the author's program; empty: the only input
  uint32_t positions_min = 0;   // shortest sequence
  bool norms_tokens = false;    // embedding_norm is of tokens, to which positions are added then
  std::vector<ConvolutionSpec> convolutions{};  // of features
  // Instead of score_bias, that of each layer; or none.
  std::vector<std::vector<double>> layer_biases{};
  // Attention of each layer to all rows of the encoder, between its own attention and its MLP: the
  // norm and the projections. There are no RoPE and no biases. None without an encoder.
  std::vector<LayerSpec> cross{};
};

struct EncoderDecoderSpec {
  StackSpec encoder, decoder;
  Account account;
};

}  // namespace arenite::convert
