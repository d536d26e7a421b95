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
#include "convert/families/transformer_graph.h"
#include "convert/modules/module_graph.h"
#include "convert/recognise.h"

namespace arenite::convert {

struct ConvertOptions {
  ModelOptions source{};
  std::filesystem::path tokenizer{};          // empty: the one in the same file, or beside it
  std::vector<std::string> without_passes{};  // names of passes that are left out
};

struct Conversion : ConvertedModel {
  Recognised model;

  const DecoderSpec* decoder() const { return std::get_if<DecoderSpec>(&model.spec); }
  const EncoderSpec* encoder() const { return std::get_if<EncoderSpec>(&model.spec); }
  const AttentionModule* module() const { return std::get_if<AttentionModule>(&model.spec); }
};

// "native" (the best target of this CPU), "all", or names separated by commas. Throws InputError
// for an unknown name.
std::vector<Target> parse_targets(const std::string& text);

// The graph with types of its weights and after all passes but those named. Throws InputError for
// the name of a pass that there is not.
Graph rewrite(Graph graph, const std::vector<std::string>& without_passes = {});

// The runtime's program for a graph. Throws InputError for the name of a pass that there is not.
Program compile(const Graph& graph, const std::string& name,
                const std::vector<std::string>& without_passes = {});

// Reads what lies at `path`, packs it, and runs the result in this process against the graph, on
// every target that this CPU has, token by token too where the model can be fed so. Throws
// InputError for bad input.
Conversion convert_model(const std::filesystem::path& path, const std::string& name,
                         const ConvertOptions& options, const std::vector<Target>& targets);

// Throws InputError where the table of RoPE's angles is out of proportion to the model.
void check_angles(const DecoderSpec& spec, const std::string& path);

}  // namespace arenite::convert
