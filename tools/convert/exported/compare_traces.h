// SPDX-License-Identifier: Apache-2.0
// Whether what a program computes at two lengths is one model.
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
// A number of tokens of each input.
using Lengths = std::vector<int64_t>;
Lengths traced_lengths(const TraceShape& trace_shape);  // those of the example
// Elements of all parameters, as PyTorch counts them: no buffers, and tied ones once.
uint64_t parameters_of(const ExportedProgram& program);

std::string counted_tokens(const Lengths& lengths);  // "12 tokens", "12 + 5 tokens"

// For which lengths a conversion is its author's model, and why.

// Of one input.
struct InputLengths {
  std::string name{};
  int64_t traced = 0;          // tokens of the example
  int64_t other = 0;           // that were followed, too; 0: none
  int64_t shortest = 1;        // sequence
  int64_t positions = 0;       // of the longest one; 0: any
  int64_t limit = 0;           // of the model, 0: none
  int64_t least = 1;           // that the archive allows
  int64_t longest = 0;         // that the archive allows, or the author's outputs prove; 0: any
  bool is_fixed = false;       // it has one length alone
  bool is_end_chosen = false;  // `positions` are those of the example
  bool is_causal = false;      // runs token by token
  std::string tried_since{};   // the op because of which it has lengths that were tried alone

  std::string text() const;
};

struct LengthClaim {
  std::vector<InputLengths> inputs{};
  std::vector<Lengths> computed{};    // that were not followed
  bool tells_lengths = false;         // the program is told what is padding
  bool is_claimed = false;            // a person says that lengths do not matter
  bool is_proved = false;             // the author's outputs say so
  bool ends_with_mask = false;        // which is no rule
  bool ends_with_terms = false;       // of scores
  bool ends_with_angles = false;      // of rotations
  std::string why_exact{};            // it is the model at the example's length alone; or empty
  std::string export_lines{};         // that give it any length, where its sizes are fixed
  std::vector<std::string> guards{};  // that PyTorch fixed them by

  std::string text() const;  // lines for a person
  Lengths traced() const {
    Lengths lengths;
    for (const InputLengths& input : inputs) lengths.push_back(input.traced);
    return lengths;
  }
};

// Keys by their distance, where that is all that counts: a range around 0. REQUIRES: a buffer's.
std::optional<CompiledMask> mask_rule(const Mask& mask);

// What the author can do where a conversion is not the program.
std::string why_it_differs(const ExportedModel& model, const TraceShape& trace_shape);

// Notes which ids end sequences, and which columns of features are taken for whole numbers.
void note_ids(ExportedModel& model);

// Notes that rows before the first token that counts are not the author's, where they see no key.
void note_rows_of_padding(ExportedModel& model);

// Why the graphs of two lengths, the shorter one first, are not one model; empty: they are.
std::string difference(const Graph& shorter, const Graph& longer);

// The check of a recognised graph against the program that it came from.

// Outputs of a graph and of its program that are further apart than rounding explains.
struct ProgramDifference {
  double difference, value;  // the largest ones

  std::string text() const;
};

// Computes both in double precision at the length of `trace_shape`, on the author's example where
// it is of that length and on random inputs, with sequences of several lengths where the program is
// told these, and notes in `model` how far they are apart. Gives the difference where that is more
// than rounding.
std::optional<ProgramDifference> compare_with_program(ExportedModel& model,
                                                      const TraceShape& trace_shape);

// The same at lengths that were not followed: the shortest and the next one, the longest that takes
// no more work than is in proportion, and some between, which `seed` chooses. With `tries_all` at
// each length of the one input, as far as that takes no more work.
struct OtherLengths {
  std::vector<Lengths> right;
  std::map<Lengths, std::string> wrong;  // and why
};
OtherLengths compare_at_other_lengths(ExportedModel& model, const TraceShape& trace_shape,
                                      const Lengths& shortest, const Lengths& longest,
                                      uint32_t seed, bool tries_all);

}  // namespace arenite::convert
