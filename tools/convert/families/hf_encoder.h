// SPDX-License-Identifier: Apache-2.0
// Encoders as Hugging Face's transformers library saves them: a config and tensors by its names.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "convert/spec/config_fields.h"
#include "convert/spec/encoder_spec.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// Whether a config's model_type is an encoder's, be it one that is read or one that is refused by
// name.
bool is_encoder_type(std::string_view model_type);

// Those that are read, for messages: "bert, distilbert, ...".
std::string encoder_types();

// Whether an encoder keeps the head that its `architectures` names, if it names any.
enum class HeadUse { kKeep, kDrop };

// The encoder that `config` describes, by its model_type: bert, distilbert, roberta, xlm-roberta or
// electra; with the head that its `architectures` names. A language head goes where `options` ask
// for a pooling. Throws InputError for other types and
// heads, for any field that is not understood, and for tensors that are missing, of another shape,
// or left over.
EncoderSpec read_hf_encoder(ConfigFields& config, ModelTensors& tensors,
                            const ModelOptions& options, HeadUse head_use = HeadUse::kKeep);

// The same from a folder that save_pretrained wrote; `weights` as in read_hf_weights.
EncoderSpec read_hf_encoder_folder(const std::filesystem::path& folder,
                                   const std::filesystem::path& weights,
                                   const ModelOptions& options, HeadUse head_use = HeadUse::kKeep);

// One function per family, for all but the head; `model_type` is taken already. `prefix` is what
// stands in front of the names of all these tensors.
EncoderSpec read_hf_bert(ConfigFields& config, ModelTensors& tensors, const std::string& model_type,
                         const std::string& prefix);  // and all who are much like it
EncoderSpec read_hf_distilbert(ConfigFields& config, ModelTensors& tensors,
                               const std::string& prefix);

// Adds pooling, head and labels to `spec`, read by read_hf_*.
void read_hf_head(ConfigFields& config, ModelTensors& tensors, const std::string& model_type,
                  const std::string& prefix, const ModelOptions& options, HeadUse head_use,
                  EncoderSpec& spec);

// Adds the head that guesses tokens, for each row. Returns false, and adds nothing, where the
// weights have none. `prefix` is the encoder's.
bool read_hf_language_head(ConfigFields& config, ModelTensors& tensors,
                           const std::string& model_type, const std::string& prefix,
                           EncoderSpec& spec);

}  // namespace arenite::convert
