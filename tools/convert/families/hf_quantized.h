// SPDX-License-Identifier: Apache-2.0
// Hugging Face checkpoints that another program has quantized: what families then see is a model
// whose layers have plain names and shapes, and weights that know their integers.
#pragma once

#include "convert/open/opened.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// The tensors of `model`, with one matrix for what a quantized layer has instead of its weight.
// They are as they were where the config says nothing of quantization. Throws InputError, also for
// schemes that are not taken over, by their names.
TensorStore with_whole_weights(const Opened& model);

// Some programs save a bias of zeros with each layer that they quantize, though the model has none:
// passes over those that nobody took. REQUIRES: all others are taken.
void pass_over_zero_biases(ModelTensors& tensors);

}  // namespace arenite::convert
