// SPDX-License-Identifier: Apache-2.0
// Whole decoder models in the forms that they come in: folders and single files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "convert/gguf/gguf_tokenizer.h"
#include "convert/spec/decoder_spec.h"
#include "convert/spec/model_options.h"

namespace arenite::convert {

enum class DecoderKind { kHuggingFace, kGguf, kLlama2c, kStateDict };

const char* name(DecoderKind kind);  // for people: "GGUF"

struct DecoderSource {
  DecoderKind kind = DecoderKind::kHuggingFace;
  DecoderSpec spec;
  std::optional<GgufTokenizer> tokenizer;  // where the same file holds one
  Account account = {};                    // of a state dict
};

// Whether `path` is a whole model rather than one module: a folder, a GGUF or llama2.c file,
// weights in a Hugging Face folder, or a state dict with a token embedding. Throws InputError for a
// file that cannot be read.
bool holds_decoder(const std::filesystem::path& path);

// Recognises by content: a folder with config.json (Hugging Face), or the weights inside one; GGUF;
// llama2.c's .bin; a state dict of nanoGPT, minGPT or their kin. Reads the sizes, checks
// that every tensor is there and accounted for, and leaves the weights to WeightRef::load. Throws
// InputError.
DecoderSource open_decoder(const std::filesystem::path& path, const ModelOptions& options = {});

}  // namespace arenite::convert
