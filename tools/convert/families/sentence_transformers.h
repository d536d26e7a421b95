// SPDX-License-Identifier: Apache-2.0
// Folders of the sentence-transformers library: an encoder of Hugging Face's, and a list of modules
// that make one vector of its rows.
#pragma once

#include <filesystem>

#include "convert/spec/encoder_spec.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

// Whether `folder` has a modules.json.
bool is_sentence_transformers(const std::filesystem::path& folder);

struct SentenceTransformers {
  EncoderSpec spec;
  std::filesystem::path tokenizer_folder;
  bool lowers_case = false;  // of texts, before they are tokenized
};

// Modules understood: Transformer and Pooling, then Dense, LayerNorm, Normalize and Dropout in any
// order. Throws InputError for others, and for settings that are not known.
SentenceTransformers read_sentence_transformers(const std::filesystem::path& folder,
                                                const ModelOptions& options);

}  // namespace arenite::convert
