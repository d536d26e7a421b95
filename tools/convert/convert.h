// SPDX-License-Identifier: Apache-2.0
// From a checkpoint to a verified model file: open, recognise, build the graph, run the passes,
// lower, pack, check.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/check/converted_model.h"
#include "convert/families/decoder_source.h"
#include "convert/families/encoder_source.h"
#include "convert/families/transformer_graph.h"
#include "convert/modules/module_graph.h"
#include "convert/modules/module_options.h"
#include "convert/spec/attention_module.h"

namespace arenite::convert {

struct ConvertOptions {
  ModelOptions source;
  // Longest sequence; 0: as trained. Fewer positions make the tables of positions shorter.
  uint32_t context = 0;
  std::filesystem::path tokenizer{};          // empty: the one in the same file, or beside it
  std::vector<std::string> without_passes{};  // names of passes that are left out
};

struct Conversion : ConvertedModel {
  AttentionModule module;
};

struct DecoderConversion : ConvertedModel {
  DecoderSource source;
};

struct EncoderConversion : ConvertedModel {
  EncoderSource source;
};

// "native" (the best target of this CPU), "all", or names separated by commas. Throws InputError
// for an unknown name.
std::vector<Target> parse_targets(const std::string& text);

// The runtime's program for a graph. Throws InputError for the name of a pass that there is not.
Program compile(const Graph& graph, const std::string& name,
                const std::vector<std::string>& without_passes = {});

// Each reads, builds, packs, and runs the result in this process against the graph, on every target
// that this CPU has, token by token too where the model can be fed so. They throw InputError for
// bad input.
Conversion convert_checkpoint(const std::filesystem::path& checkpoint, const std::string& name,
                              const ModuleOptions& options, const std::vector<Target>& targets,
                              const std::vector<std::string>& without_passes = {});
DecoderConversion convert_decoder(const std::filesystem::path& path, const std::string& name,
                                  const ConvertOptions& options,
                                  const std::vector<Target>& targets);
EncoderConversion convert_encoder(const std::filesystem::path& path, const std::string& name,
                                  const ConvertOptions& options,
                                  const std::vector<Target>& targets);

// Throws InputError where the table of RoPE's angles is out of proportion to the model.
void check_angles(const DecoderSpec& spec, const std::string& path);

}  // namespace arenite::convert
