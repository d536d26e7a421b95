// SPDX-License-Identifier: Apache-2.0
// Says what model lies in a file or folder: a decoder, an encoder, or a single attention module.
#pragma once

#include <variant>

#include "convert/open/opened.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {

struct Recognised {
  const char* form = "";  // that it came in, for people: "GGUF"
  std::variant<DecoderSpec, EncoderSpec, AttentionModule> spec;
  TokenizerPlace tokenizer{};

  const Account& account() const;
};

// Goes through the forms that are known, in one order, and reads the first that the file has the
// sign of; where `options` ask for one, an attention module. Throws InputError for a model that is
// not understood, and for an option that it does not have or says otherwise.
Recognised recognise(const Opened& model, const ModelOptions& options = {});

}  // namespace arenite::convert
