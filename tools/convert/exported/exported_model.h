// SPDX-License-Identifier: Apache-2.0
// Converts an exported PyTorch program (.pt2) to a graph, checks the graph against the program, and
// determines the sequence lengths at which it is the author's model.
//
//   torch.export.save(..., 'model.pt2')  ->  ExportedModel: graph, lengths, largest difference
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert/exported/read/exported_program.h"
#include "convert/graph/graph.h"
#include "convert/graph/interpreter.h"
#include "convert/sound/sound_parameters.h"
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// A bit of Graph::array_flags beside ArrayFlag: the lengths are claimed by the user (SPEC.md).
constexpr uint32_t kLengthsClaimed = 64;

struct ExportedModel {
  std::shared_ptr<const ExportedProgram> program;
  Graph graph;
  bool causal = false;               // runs token by token
  bool has_row_of_sequence = false;  // one output row per sequence, not per token
  bool tokens_first = false;         // arrays are [tokens, sequences, ..]
  bool keeps_token_axis = false;     // rows of sequences are [sequences, 1, ..]
  bool columns_first = false;        // the output is [sequences, channels, tokens]
  bool may_see_nothing = false;      // leading padding rows see no key
  // Bit i is set if no op reads the user's input i. Masks, lengths, positions and types are not
  // counted.
  uint32_t unread_inputs = 0;
  std::string length;       // for the report: accepted lengths, and why
  size_t output_index = 0;  // among the program's outputs
  size_t outputs = 1;
  uint64_t parameters = 0;          // of the program; tied weights count once
  double largest_difference = 0.0;  // of graph and program, in double precision
  double largest_value = 0.0;
  uint32_t compared_inputs = 0;
  double compared_seconds = 0.0;
  // One input of a large model with its outputs, to check the packed file against.
  std::optional<EvaluatedInput> evaluated;
  // The front end that replaces the program's computation of features from samples.
  std::optional<SoundTable> sound;
  Account account;
};

// Reads and converts an archive. `expected_inputs` are the shapes of the inputs that --expect gives
// with the author's outputs: they prove lengths of a program with fixed sizes. Throws InputError
// for an op that the runtime lacks, naming the op and its place in the author's source, and if
// graph and program differ on the example or on random inputs.
ExportedModel read_exported_model(const std::filesystem::path& path, const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs = {});

// Converts a program that is already read. If `compares` is false, the graph is not checked against
// the program and may be a different model.
ExportedModel read_exported_model(const std::shared_ptr<const ExportedProgram>& program,
                                  const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs = {},
                                  bool compares = true);

// Joins two programs: the encoder's output replaces the decoder's input `encoded` or, if that is
// empty, its only feature input of the same width. Equal weights are stored once. Throws InputError
// if the programs do not fit.
ExportedModel joined_programs(ExportedModel encoder, const ExportedModel& decoder,
                              const std::string& encoded);

Graph build_graph(const ExportedModel& model);

}  // namespace arenite::convert
