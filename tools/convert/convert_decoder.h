// SPDX-License-Identifier: Apache-2.0
// From a decoder model to a verified model file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/recognise.h"

namespace arenite::convert {

struct DecoderConversionOptions {
  ModelOptions source;  // for the overload that recognises the model itself
  // Longest sequence; 0: as trained. Fewer positions make the tables of positions shorter.
  uint32_t context = 0;
  std::filesystem::path tokenizer{};  // empty: the one in the same file, or beside it
};

struct DecoderConversion : ConvertedModel {
  const char* form = "";  // that the model came in, for people
  DecoderSpec spec;
};

// Reads, builds, packs, and runs the result in this process against the reference, in one pass and,
// if causal, token by token, on every target that this CPU has. Throws InputError for bad input.
DecoderConversion convert_decoder(const std::filesystem::path& path, Recognised model,
                                  const std::string& name, const DecoderConversionOptions& options,
                                  const std::vector<Target>& targets);
DecoderConversion convert_decoder(const std::filesystem::path& path, const std::string& name,
                                  const DecoderConversionOptions& options,
                                  const std::vector<Target>& targets);

// Throws InputError where the table of RoPE's angles is out of proportion to the model.
void check_angles(const DecoderSpec& spec, const std::string& path);

}  // namespace arenite::convert
