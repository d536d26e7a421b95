// SPDX-License-Identifier: Apache-2.0
// Whole encoder models in the forms that they come in: folders and single files.
#pragma once

#include <filesystem>

#include "convert/spec/encoder_spec.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

enum class EncoderKind { kHuggingFace, kSentenceTransformers, kStateDict };

const char* name(EncoderKind kind);  // for people: "Hugging Face"

struct EncoderSource {
  EncoderKind kind = EncoderKind::kHuggingFace;
  EncoderSpec spec;
  // Of sentence-transformers, which may keep the tokenizer in a folder of its own, and make texts
  // lower case before it.
  std::filesystem::path tokenizer_folder{};
  bool lowers_case = false;
  Account account = {};  // of a state dict
};

// Whether `path` is an encoder: a folder of sentence-transformers; a Hugging Face folder whose
// config has an encoder's model_type, or weights in one; a state dict around several layers of
// torch.nn.TransformerEncoder, or a folder with one. To be asked before holds_decoder, which takes
// any folder for a decoder's. Throws InputError for a file that cannot be read.
bool holds_encoder(const std::filesystem::path& path);

// Reads the sizes, checks that every tensor is there and accounted for, and leaves the weights to
// WeightRef::load. Throws InputError. REQUIRES: holds_encoder(path).
EncoderSource open_encoder(const std::filesystem::path& path, const ModelOptions& options = {});

}  // namespace arenite::convert
