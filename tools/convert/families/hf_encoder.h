// SPDX-License-Identifier: Apache-2.0
// The parts of Hugging Face encoders: what stands below the head, by family, and the heads.
#pragma once

#include <string>

#include "convert/families/families.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

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
