// SPDX-License-Identifier: Apache-2.0
// The real runtime, in an arena on the heap of the converter.
#include "convert/check/target_check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <stdexcept>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

[[noreturn]] void fail(const char* what, Status status, const Diagnostic& why) {
  char text[256];
  describe(status, why, text);
  throw std::logic_error(
      fmt::format("the converted model does not {}: {}; this is a bug", what, text));
}

std::vector<float> values_of(const Result<Output>& output, const Diagnostic& why) {
  if (!output.ok()) fail("run", output.status(), why);
  return {output->data, output->data + size_t{output->rows} * output->features};
}

void require_same(const Result<Output>& output, const Diagnostic& why,
                  std::span<const float> expected) {
  if (!output.ok()) fail("step", output.status(), why);
  if (output->rows != 1 || output->features != expected.size() ||
      std::memcmp(output->data, expected.data(), expected.size_bytes()) != 0) {
    throw std::logic_error("stepping differs from one pass: this is a bug");
  }
}

double largest_difference(const std::vector<float>& found, const std::vector<double>& expected) {
  double largest = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::fabs(found[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;  // NaN too
  }
  return largest;
}

}  // namespace

Model load_converted(const AlignedBytes& file, Target target) {
  Diagnostic why;
  LoadOptions options;
  options.force_target = true;
  options.target = target;
  const Result<Model> model = Model::load(file.span(), &why, options);
  if (!model.ok()) fail("load", model.status(), why);
  return *model;
}

CheckSession::CheckSession(const AlignedBytes& file, Target target, uint32_t positions,
                           Outputs outputs)
    : model_(load_converted(file, target)) {
  Diagnostic why;
  SessionOptions options;
  options.positions_max = positions;
  options.outputs = outputs;
  const Result<ArenaPlan> plan = plan_arena(model_, options, &why);
  if (!plan.ok()) fail("plan", plan.status(), why);
  arena_ = AlignedBytes(plan->total_bytes);
  const Result<Session*> session = Session::create(model_, options, arena_.span(), &why);
  if (!session.ok()) fail("start", session.status(), why);
  session_ = *session;
}

std::vector<float> CheckSession::run(const Batch& batch) {
  Diagnostic why;
  return values_of(session_->run(batch, &why), why);
}

std::vector<float> CheckSession::run(const TokenBatch& batch) {
  Diagnostic why;
  return values_of(session_->run(batch, &why), why);
}

void CheckSession::step(std::span<const float> features, std::span<const float> expected) {
  Diagnostic why;
  require_same(session_->step(features, &why), why, expected);
}

void CheckSession::step(TokenId id, std::span<const float> expected) {
  Diagnostic why;
  require_same(session_->step(std::span(&id, 1), &why), why, expected);
}

std::vector<TargetCheck> check_targets(
    const std::string& checkpoint, const std::vector<Target>& targets,
    const Expectation& expectation,
    const std::function<std::vector<float>(Target target)>& run_target) {
  std::vector<TargetCheck> checks;
  for (const Target target : targets) {
    TargetCheck check{target, (cpu_targets() & bit(target)) != 0, 0.0};
    if (check.ran) check.largest_error = largest_difference(run_target(target), expectation.values);
    if (!std::isfinite(check.largest_error)) {
      throw InputError(
          "{}: these weights are too large for float32: {}, and target {} gives infinities or NaN; "
          "expected finite results",
          quote(checkpoint), expectation.circumstances, name(target));
    }
    if (check.largest_error > expectation.error_max) {
      throw InputError(
          "{}: float32 is not exact enough for these weights: {}, and target {} is off double "
          "precision by {:.1e}; expected at most {:.1e}",
          quote(checkpoint), expectation.circumstances, name(target), check.largest_error,
          expectation.error_max);
    }
    checks.push_back(check);
  }
  return checks;
}

}  // namespace arenite::convert
