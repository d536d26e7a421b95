// SPDX-License-Identifier: Apache-2.0
// What a conversion has made, and what is known about how right it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arenite/target.h"
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

  std::optional<double> computing_error() const;  // the largest of the targets that ran
};

// Runs the file in this process on every target that this CPU has, in one pass and, where the model
// can be fed so, token by token, and compares with the graph in double precision and the weights
// that the file holds; where these are not the author's, compares that with the author's graph.
// Throws InputError that names `path` where a result is infinite or off by more than
// `relative_error_max` of the largest one.
void check_conversion(ConvertedModel& conversion, const std::string& path,
                      const std::vector<Target>& targets, double relative_error_max);

}  // namespace arenite::convert
