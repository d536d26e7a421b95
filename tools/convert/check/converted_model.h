// SPDX-License-Identifier: Apache-2.0
// A converted model and its verification: against the graph in double precision, and against
// outputs of the author's own model for the same input.
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
#include "convert/spec/model_options.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Error of one target versus the reference, which uses the weights of the file.
struct TargetCheck {
  Target target = Target::kPortable;
  bool ran = false;  // false: this CPU cannot run it
  double largest_error = 0.0;
};

// Outputs that differ from the author's by more than this share of the largest value fail the
// check.
inline constexpr double kAuthorDifferenceMax = 1e-3;

struct ConvertedModel {
  Graph graph;      // as its author wrote it
  Graph rewritten;  // after the passes
  // result of `graph`, if known: spares the check an evaluation
  std::optional<EvaluatedInput> evaluated;
  Program program;
  AlignedBytes file;
  uint32_t checked_tokens = 0;
  double largest_output = 0.0;  // of the reference; errors are relative to it
  std::vector<TargetCheck> checks;
  double storing_error = 0.0;  // of the reference with the file's weights; 0: equal to the author's
  Account account;             // assumptions and sources besides the file
  // Tolerance for the author's outputs, as a share of the largest value; larger for rounded types.
  double author_difference_max = kAuthorDifferenceMax;

  std::optional<double> computing_error() const;  // the largest of the targets that ran
};

// Runs the file in this process on every target that this CPU runs, in one call and, where
// possible, token by token. Compares the results with the graph evaluated in double precision with
// the file's weights. If these differ from the author's weights, also compares that evaluation with
// the author's graph. Throws InputError that names `path` if a result is infinite or differs by
// more than `relative_error_max` of the largest one.
void check_conversion(ConvertedModel& conversion, const std::string& path,
                      const std::vector<Target>& targets, double relative_error_max);

struct AuthorCheck {
  uint64_t sequences = 0;
  uint64_t tokens = 0;                             // per sequence of the first input
  bool of_last_tokens = false;                     // the outputs are of each sequence's last token
  double largest_difference = 0.0;                 // of the targets that ran, in float32
  double largest_value = 0.0;                      // of the author's outputs
  std::optional<double> difference_in_few_bits{};  // of the file, if it is quantized
};

// Runs `conversion` with the real runtime on every target of its file that this CPU runs, and
// compares its outputs with the author's. An input is an array of integers [tokens] or [sequences,
// tokens] for a model of tokens, or of floats with one more dimension for a model of features.
// Tokens come first if the author's model has them first. Outputs are one row per token, or one per
// sequence: the pooled result, else the last token's row. Padding rows are not compared.
//
// Throws InputError that names a file for arrays that do not fit, and InputError with all options
// and assumptions of the conversion for outputs that differ. If the file is quantized, `in_float32`
// is the same model in float32, packed for the best target of this CPU: it proves the conversion,
// while the quantization loss is reported and not judged.
AuthorCheck check_against_author(const ConvertedModel& conversion, const AuthorFiles& files,
                                 const std::string& checkpoint,
                                 const AlignedBytes* in_float32 = nullptr);

}  // namespace arenite::convert
