// SPDX-License-Identifier: Apache-2.0
// Whole decoder models in the forms that they come in: folders and single files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "convert/decoders/decoder_spec.h"
#include "convert/decoders/gguf_tokenizer.h"

namespace arenite::convert {

// What a person may say about a model that its file does not. Where the file does say it, they must
// agree.
struct DecoderOptions {
  uint32_t heads = 0;                    // of a bare state dict; 0: not said
  std::optional<Activation> activation;  // of a bare state dict; unsaid: what its family used
};

enum class DecoderKind { kHuggingFace, kGguf, kLlama2c, kStateDict };

const char* name(DecoderKind kind);  // for people: "GGUF"

struct DecoderSource {
  DecoderKind kind = DecoderKind::kHuggingFace;
  DecoderSpec spec;
  std::optional<GgufTokenizer> tokenizer;  // where the same file holds one
};

// Whether `path` is a whole model rather than one module: a folder, a GGUF or llama2.c file,
// weights in a Hugging Face folder, or a state dict with a token embedding. Throws InputError for a
// file that cannot be read.
bool holds_decoder(const std::filesystem::path& path);

// Recognises by content: a folder with config.json (Hugging Face), or the weights inside one; GGUF;
// llama2.c's .bin; a state dict of nanoGPT or minGPT (.pt or safetensors). Reads the sizes, checks
// that every tensor is there and accounted for, and leaves the weights to WeightRef::load. Throws
// InputError.
DecoderSource open_decoder(const std::filesystem::path& path, const DecoderOptions& options = {});

}  // namespace arenite::convert
