// SPDX-License-Identifier: Apache-2.0
// From an encoder to a verified model file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/recognise.h"

namespace arenite::convert {

struct EncoderConversionOptions {
  ModelOptions source;
  // Longest sequence; 0: as trained, or any where the model knows no positions.
  uint32_t context = 0;
  std::filesystem::path tokenizer{};  // empty: the one in the folder, or beside the file
};

struct EncoderConversion : ConvertedModel {
  const char* form = "";  // that the model came in, for people
  EncoderSpec spec;
};

// Reads, builds, packs, and runs the result in this process against the reference, on
// every target that this CPU has. Throws InputError for bad input.
EncoderConversion convert_encoder(const std::filesystem::path& path, Recognised model,
                                  const std::string& name, const EncoderConversionOptions& options,
                                  const std::vector<Target>& targets);
EncoderConversion convert_encoder(const std::filesystem::path& path, const std::string& name,
                                  const EncoderConversionOptions& options,
                                  const std::vector<Target>& targets);

}  // namespace arenite::convert
