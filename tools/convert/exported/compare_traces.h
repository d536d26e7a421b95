// SPDX-License-Identifier: Apache-2.0
// Decides at which sequence lengths a conversion is the author's model: compares the graphs of two
// traced lengths node by node, and evaluates graph and program on the same inputs in double
// precision.
//
//   traces of 8 and 19 tokens are equal  ->  any length, up to the end of tables
//   their masks follow different rules   ->  exactly 8 tokens, with the reason
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convert/exported/exported_model.h"
#include "convert/exported/trace/trace_shape.h"
#include "convert/graph/graph.h"

namespace arenite::convert {
// The number of tokens of each input.
using Lengths = std::vector<int64_t>;
Lengths traced_lengths(const TraceShape& trace_shape);  // of the example
// Counts parameters as PyTorch does: without buffers, and tied weights once.
uint64_t parameters_of(const ExportedProgram& program);

std::string counted_tokens(const Lengths& lengths);  // "12 tokens", "12 + 5 tokens"

// ---- the lengths at which a conversion is the author's model ----

// Lengths of one input, in tokens.
struct InputLengths {
  std::string name{};
  int64_t traced = 0;           // of the example
  int64_t step = 1;             // the archive has lengths at this distance: 8 for 8 * s27
  int64_t other = 0;            // second traced length; 0: none
  int64_t shortest = 1;         // shortest accepted sequence
  int64_t positions = 0;        // longest accepted sequence; 0: unbounded
  int64_t limit = 0;            // upper limit by tables and ranges; 0: none
  int64_t least = 1;            // minimum by the archive
  int64_t longest = 0;          // maximum by the archive or --expect; 0: unbounded
  bool is_fixed = false;        // accepts one length only
  bool is_end_chosen = false;   // `positions` is a default that --context changes
  bool is_causal = false;       // runs token by token
  std::string parting_guard{};  // it allows lengths again beyond those that are left out
  std::string nonlinear_op{};   // rounding op, since which each length had to be computed

  std::string text() const;
  std::string steps_text() const;  // "multiples of 8 only"
};

struct LengthClaim {
  std::vector<InputLengths> inputs{};
  std::vector<Lengths> computed{};    // lengths evaluated, but not traced
  bool takes_lengths = false;         // an input tells lengths or padding
  bool is_claimed = false;            // --any-length
  bool is_proved = false;             // --expect has outputs of other lengths
  bool ends_with_mask = false;        // a dense mask bounds the positions
  bool ends_with_terms = false;       // an attention bias does
  bool ends_with_angles = false;      // rotation angles do
  std::string why_exact{};            // why only the example's length is right; or empty
  std::string export_lines{};         // torch.export call that makes sizes dynamic
  std::vector<std::string> guards{};  // that fixed the sizes

  std::string text() const;  // for the report
  Lengths traced() const {
    Lengths lengths;
    for (const InputLengths& input : inputs) lengths.push_back(input.traced);
    return lengths;
  }
};

// Returns a compiled mask unchanged, the compiled form of a dense band around the diagonal, and
// nullopt for other dense masks. REQUIRES: a CompiledMask or a BufferMask.
std::optional<CompiledMask> mask_rule(const Mask& mask);

// Suggests a change of the author's code where graph and program differ.
std::string why_it_differs(const ExportedModel& model, const TraceShape& trace_shape);

// Notes in the model which ids end sequences, and which feature columns hold integers.
void note_ids(ExportedModel& model);

// Notes in the model that leading padding rows, which see no key, differ from the program's.
void note_rows_of_padding(ExportedModel& model);

// Returns why the graphs of a shorter and a longer trace are different models; empty if they are
// the same model.
std::string difference(const Graph& shorter, const Graph& longer);

// ---- comparison of a graph with its program ----

// The largest difference of outputs beyond rounding, and the largest output.
struct ProgramDifference {
  double difference, value;

  std::string text() const;
};

// Evaluates graph and program in double precision at the length of `trace_shape`: on the author's
// example if it has that length, on random inputs, and with mixed sequence lengths if the program
// takes lengths or a padding mask. Returns the largest difference if rounding does not explain it;
// otherwise notes it in `model`.
std::optional<ProgramDifference> compare_with_program(ExportedModel& model,
                                                      const TraceShape& trace_shape);

// Results of compare_with_program at lengths that were not traced: the two shortest, the longest
// within a work limit, and some between, which `seed` selects. `tries_all` adds every length of a
// single input up to a maximum.
struct OtherLengths {
  std::vector<Lengths> right;
  std::map<Lengths, std::string> wrong;  // with the reason
};
OtherLengths compare_at_other_lengths(ExportedModel& model, const TraceShape& trace_shape,
                                      const Lengths& shortest, const Lengths& longest,
                                      uint32_t seed, bool tries_all);

}  // namespace arenite::convert
