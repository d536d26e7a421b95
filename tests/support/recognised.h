// SPDX-License-Identifier: Apache-2.0
// Models as the converter's registry reads them from a file or folder.
#pragma once

#include <filesystem>
#include <utility>
#include <variant>

#include "convert/convert.h"

namespace arenite::testing {

inline convert::Recognised model_at(const std::filesystem::path& path,
                                    const convert::ModelOptions& options = {}) {
  return convert::recognise(convert::open_model(path), options);
}

// Throw where the model is another one.
inline convert::DecoderSpec decoder_at(const std::filesystem::path& path,
                                       const convert::ModelOptions& options = {}) {
  return std::get<convert::DecoderSpec>(model_at(path, options).spec);
}

inline convert::EncoderSpec encoder_at(const std::filesystem::path& path,
                                       const convert::ModelOptions& options = {}) {
  return std::get<convert::EncoderSpec>(model_at(path, options).spec);
}

inline bool is_encoder(const convert::Recognised& model) {
  return std::holds_alternative<convert::EncoderSpec>(model.spec);
}

}  // namespace arenite::testing
