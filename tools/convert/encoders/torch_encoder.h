// SPDX-License-Identifier: Apache-2.0
// State dicts of models around torch.nn.TransformerEncoder, whatever their own class is called.
#pragma once

#include <filesystem>
#include <memory>

#include "convert/checkpoint.h"
#include "convert/encoders/encoder_options.h"
#include "convert/encoders/encoder_spec.h"

namespace arenite::convert {

// Whether there are several layers of a TransformerEncoder, or one with more of a model around it:
// a bare layer's attention is a module.
bool holds_torch_encoder(const Checkpoint& checkpoint);

// Layers by PyTorch's names; embeddings, positions, input layer, pooler and classifier by common
// ones. What tensors do not say comes from `options`, the checkpoint's plain values and `config`,
// a config.json beside it (empty: none); unsaid, PyTorch's defaults hold. Heads and, where there is
// a classifier without a pooler, pooling have to be said. A factor on embeddings, which no state
// dict shows, is not known of. Throws InputError, also for tensors without a place.
EncoderSpec read_torch_encoder(const std::shared_ptr<const Checkpoint>& checkpoint,
                               const std::filesystem::path& config, const EncoderOptions& options);

}  // namespace arenite::convert
