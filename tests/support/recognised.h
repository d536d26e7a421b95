// SPDX-License-Identifier: Apache-2.0
// Reads models from a file or folder through the converter's registry.
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

inline bool is_encoder(const convert::Recognised& model) {
  const auto* spec = std::get_if<convert::TransformerSpec>(&model.facts);
  return spec != nullptr && !spec->is_decoder;
}

// The facts, with the account that recognise took out. Throws where the model is another one.
inline convert::TransformerSpec transformer_at(const std::filesystem::path& path,
                                               const convert::ModelOptions& options,
                                               bool is_decoder) {
  convert::Recognised model = model_at(path, options);
  auto& spec = std::get<convert::TransformerSpec>(model.facts);
  if (spec.is_decoder != is_decoder) throw std::bad_variant_access();
  spec.account = std::move(model.account);
  return std::move(spec);
}

inline convert::TransformerSpec decoder_at(const std::filesystem::path& path,
                                           const convert::ModelOptions& options = {}) {
  return transformer_at(path, options, true);
}

inline convert::TransformerSpec encoder_at(const std::filesystem::path& path,
                                           const convert::ModelOptions& options = {}) {
  return transformer_at(path, options, false);
}

}  // namespace arenite::testing
