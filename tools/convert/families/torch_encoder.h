// SPDX-License-Identifier: Apache-2.0
// State dicts of models around torch.nn.TransformerEncoder, whatever their own class is called.
#pragma once

#include <filesystem>
#include <memory>

#include "convert/files/checkpoint.h"
#include "convert/spec/encoder_spec.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

// Whether there are several layers of a TransformerEncoder, or one with more of a model around it:
// a bare layer's attention is a module.
bool holds_torch_encoder(const Checkpoint& checkpoint);

struct TorchEncoder {
  EncoderSpec spec;
  Account account;
};

// Layers by PyTorch's names; embeddings, positions, input layer, pooler and head by common ones
// (torch_names.h). What tensors do not say comes from `options`, the checkpoint's plain values and
// `config`, a config.json beside it (empty: none). Heads, activation, the place of norms and the
// mask have to be said; where something is embedded, its scale; and where there is a head without a
// pooler, pooling, unless the model is causal and the head gives logits of its vocabulary. Scores
// are times 1/sqrt(head_dim) and norms have PyTorch's epsilon, unless it is said otherwise. Throws
// InputError, also for tensors without a place.
TorchEncoder read_torch_encoder(const std::shared_ptr<const Checkpoint>& checkpoint,
                                const std::filesystem::path& config, const ModelOptions& options);

}  // namespace arenite::convert
