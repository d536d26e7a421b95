// SPDX-License-Identifier: Apache-2.0
// Bare state dicts of nanoGPT and minGPT, whose sizes are read off the shapes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "convert/checkpoint.h"
#include "convert/decoders/decoder_spec.h"

namespace arenite::convert {

// `heads` 0: as the training checkpoint's `model_args` say. Without `activation`, that of the
// family, which no file tells: the erf form of GELU for nanoGPT (since April 2023) and for minGPT
// of 2020, the tanh form for the later minGPT. Throws InputError.
DecoderSpec read_gpt_state_dict(const std::shared_ptr<const Checkpoint>& checkpoint, uint32_t heads,
                                std::optional<Activation> activation);

}  // namespace arenite::convert
