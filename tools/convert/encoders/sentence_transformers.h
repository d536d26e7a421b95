// SPDX-License-Identifier: Apache-2.0
// Folders of the sentence-transformers library: an encoder of Hugging Face's, and a list of modules
// that make one vector of its rows.
#pragma once

#include <filesystem>

#include "convert/encoders/encoder_spec.h"
#include "convert/model_options.h"

namespace arenite::convert {

// Whether `folder` has a modules.json.
bool is_sentence_transformers(const std::filesystem::path& folder);

// Modules understood: Transformer, Pooling (first token or mean), Dense, Normalize, in this order.
// Throws InputError for others, and for settings that are not known.
EncoderSpec read_sentence_transformers(const std::filesystem::path& folder,
                                       const ModelOptions& options);

}  // namespace arenite::convert
