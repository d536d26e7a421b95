// SPDX-License-Identifier: Apache-2.0
// Runs a converted model in this process and compares it with a reference in double precision.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "arenite/session.h"
#include "arenite/target.h"
#include "convert/files/memory.h"

namespace arenite::convert {

// How one target did against the double-precision reference.
struct TargetCheck {
  Target target = Target::kPortable;
  bool ran = false;  // false: this CPU cannot run it
  double largest_error = 0.0;
};

// The model of a file that was just converted, on one target. Whatever fails is a bug of the
// converter: std::logic_error.
Model load_converted(const AlignedBytes& file, Target target);

// A session of a file that was just converted, on one target. Whatever fails is a bug of the
// converter: std::logic_error.
class CheckSession {
 public:
  CheckSession(const AlignedBytes& file, Target target, uint32_t positions, Outputs outputs);

  Session& session() { return *session_; }
  bool can_step() const { return model_.causal() && !model_.pooled(); }

  // All rows of one pass, [tokens, features].
  std::vector<float> run(const Batch& batch);
  std::vector<float> run(const TokenBatch& batch);

  void reset() { session_->reset(); }
  // Feeds one token and throws unless the result is `expected`, bit for bit.
  void step(std::span<const float> features, std::span<const float> expected);
  void step(TokenId id, std::span<const float> expected);

 private:
  Model model_;
  AlignedBytes arena_;
  Session* session_ = nullptr;
};

// What the reference says, and how far a target may be off.
struct Expectation {
  std::vector<double> values;
  double error_max = 0.0;
  std::string circumstances;  // for messages: "on features of unit variance, ..."
};

// Runs `run_target` for each target that this CPU has. Throws InputError that names `checkpoint` if
// results are infinite or too far off.
std::vector<TargetCheck> check_targets(
    const std::string& checkpoint, const std::vector<Target>& targets,
    const Expectation& expectation,
    const std::function<std::vector<float>(Target target)>& run_target);

}  // namespace arenite::convert
