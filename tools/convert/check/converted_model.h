// SPDX-License-Identifier: Apache-2.0
// What a conversion has made, and how right it is: compared with the graph in double precision, and
// with what the author's own model gave for the same input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/check/converted_model.h"
#include "convert/files/memory.h"
#include "convert/graph/graph.h"
#include "convert/graph/interpreter.h"
#include "convert/program/program.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// How one target did against the reference, which has the weights of the file.
struct TargetCheck {
  Target target = Target::kPortable;
  bool ran = false;  // false: this CPU cannot run it
  double largest_error = 0.0;
};

// Above this share of the largest value the model that was converted is not the author's.
inline constexpr double kAuthorDifferenceMax = 1e-3;

struct ConvertedModel {
  Graph graph;                              // as its author wrote it
  Graph rewritten;                          // after the passes
  std::optional<EvaluatedInput> evaluated;  // by `graph`: spares the check an evaluation
  Program program;
  AlignedBytes file;
  uint32_t checked_tokens = 0;
  double largest_output = 0.0;  // of the reference, to put the errors into proportion
  std::vector<TargetCheck> checks;
  double storing_error = 0.0;  // of the reference with the file's weights; 0: they are the author's
  Account account;             // what it rests on besides the file
  // Share of the largest value by which the author's outputs may be off: by their type's rounding.
  double author_difference_max = kAuthorDifferenceMax;

  std::optional<double> computing_error() const;  // the largest of the targets that ran
};

// Runs the file in this process on every target that this CPU has, in one pass and, where the model
// can be fed so, token by token, and compares with the graph in double precision and the weights
// that the file holds; where these are not the author's, compares that with the author's graph.
// Throws InputError that names `path` where a result is infinite or off by more than
// `relative_error_max` of the largest one.
void check_conversion(ConvertedModel& conversion, const std::string& path,
                      const std::vector<Target>& targets, double relative_error_max);

struct AuthorFiles {
  std::filesystem::path input;             // .npy
  std::filesystem::path outputs;           // .npy
  std::vector<std::string> lengths{};      // of sequences, by lengths_of_inputs; empty: all
  std::vector<std::string> more_inputs{};  // with which it may be NAME=FILE, by files_of_inputs
};

struct AuthorCheck {
  uint64_t sequences = 0;
  uint64_t tokens = 0;              // of each sequence of the first input
  bool of_last_tokens = false;      // the outputs are those of each sequence's last token
  double largest_difference = 0.0;  // of the targets that ran, in float32
  double largest_value = 0.0;       // of the author's outputs
  std::optional<double> difference_in_few_bits{};  // of the file, where it rounds weights or caches
};

// Runs `conversion` with the real runtime on every target of its file that this CPU has. An input
// is [tokens] or [sequences, tokens] of whole numbers for a model of tokens, and one dimension
// more, of floats, for one of features; tokens come first where the author's model has them so. The
// outputs are a row for each token, or for each sequence: of a model that pools its result, else
// that of its last token; rows of padding are not compared. Throws InputError, which names a file,
// for arrays that do not fit, and, with all that the conversion was told and assumed, for outputs
// that differ.
// Where the file holds few bits, `in_float32` is the same model without them, packed for the best
// target of this CPU: it proves the conversion, and what rounding costs is told and not judged.
AuthorCheck check_against_author(const ConvertedModel& conversion, const AuthorFiles& files,
                                 const std::string& checkpoint,
                                 const AlignedBytes* in_float32 = nullptr);

}  // namespace arenite::convert
