// SPDX-License-Identifier: Apache-2.0
// What the configs of all Hugging Face decoders have in common.
#pragma once

#include <cstdint>
#include <string>

#include "convert/decoders/decoder_spec.h"
#include "convert/models/config_fields.h"

namespace arenite::convert {

// Takes the fields that do not change what a decoder computes, refuses settings that do and are not
// supported, and sets bos_id and eos_ids. REQUIRES: vocab_size is set.
void take_common_fields(ConfigFields& config, DecoderSpec& spec);

// Throws InputError for sizes that do not go together. Sizes that nothing is read for yet, such as
// a number of layers beyond reason, never get further than this.
void check_sizes(const DecoderSpec& spec, size_t layers, const std::string& where);

}  // namespace arenite::convert
