// SPDX-License-Identifier: Apache-2.0
// A model of an exported program as the converter's graph, and for what lengths that is the model.
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

// Of Graph::array_flags, beside ArrayFlag: the lengths are what its user claims; SPEC.md.
constexpr uint32_t kLengthsClaimed = 64;

struct ExportedModel {
  std::shared_ptr<const ExportedProgram> program;
  Graph graph;
  bool causal = false;               // runs token by token
  bool has_row_of_sequence = false;  // gives out one for each, not one for each token
  bool tokens_first = false;         // its arrays are [tokens, sequences, ..]
  bool keeps_token_axis = false;     // rows of sequences are [sequences, 1, ..]
  bool columns_first = false;        // it gives out [sequences, columns, tokens]
  bool may_see_nothing = false;      // rows of a sequence that begins with padding see no key
  // Bit i: nothing reads the author's input i, of those that are no masks, lengths, positions or
  // types.
  uint32_t unread_inputs = 0;
  std::string length;       // for people: for what lengths it is the author's model, and why
  size_t output_index = 0;  // of the program's outputs
  size_t outputs = 1;
  uint64_t parameters = 0;          // of the program, where tied ones count once
  double largest_difference = 0.0;  // of the graph and the program, both in double precision
  double largest_value = 0.0;
  uint32_t compared_inputs = 0;
  double compared_seconds = 0.0;  // that it took
  // Of a large model, for which an input takes a while: one that was compared.
  std::optional<EvaluatedInput> evaluated;
  // What makes its features of samples, which the program itself takes.
  std::optional<SoundTable> sound;
  Account account;
};

// Throws InputError that names the op and its place in the author's source for what the runtime
// cannot compute, and for a graph that gives other results than the program does on its example
// and on random inputs.
// The author's outputs for arrays of the shapes of `expected_inputs`, with which the conversion is
// to be compared, prove at which lengths a program with fixed sizes is the model, too.
ExportedModel read_exported_model(const std::filesystem::path& path, const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs = {});

// The same of a program that was read. The graph is another model, perhaps, where `compares` is
// false: then it is not compared with the program.
ExportedModel read_exported_model(const std::shared_ptr<const ExportedProgram>& program,
                                  const ModelOptions& options,
                                  const std::vector<std::vector<uint64_t>>& expected_inputs = {},
                                  bool compares = true);

// Two programs as one model: the output of `encoder` in place of that input of `decoder` which has
// rows as wide, or the name `encoded`, where that is not empty. Weights that both have are one.
// Throws InputError where they do not fit.
ExportedModel joined_programs(ExportedModel encoder, const ExportedModel& decoder,
                              const std::string& encoded);

Graph build_graph(const ExportedModel& model);

}  // namespace arenite::convert
