// SPDX-License-Identifier: Apache-2.0
// Bare state dicts of nanoGPT, minGPT and their kin, whose sizes are read off the shapes.
#pragma once

#include <filesystem>
#include <memory>

#include "convert/files/checkpoint.h"
#include "convert/spec/decoder_spec.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

struct GptStateDict {
  DecoderSpec spec;
  Account account;
};

// What tensors do not say comes from `options`, the checkpoint's plain values and `config`, a
// config.json beside it that is not transformers' (empty: none). Heads, activation and the place of
// norms have to be said. The mask is the file's buffer; where there is none it is causal, scores
// are times 1/sqrt(head_dim) and norms have PyTorch's epsilon, unless it is said otherwise. Throws
// InputError, also for tensors without a place.
GptStateDict read_gpt_state_dict(const std::shared_ptr<const Checkpoint>& checkpoint,
                                 const std::filesystem::path& config, const ModelOptions& options);

}  // namespace arenite::convert
