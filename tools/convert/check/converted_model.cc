// SPDX-License-Identifier: Apache-2.0
// One sequence of tokens or features.
#include "convert/check/converted_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/files/progress.h"
#include "convert/graph/interpreter.h"
#include "convert/program/program.h"

namespace arenite::convert {
namespace {

// Softmax makes the rounding of scores visible in proportion to them.
constexpr double kOrdinaryScore = 100.0;

// Of the largest output: some steps of activations in int8.
constexpr double kStepError = 0.05;

constexpr uint64_t kTokens = 48;  // odd in no tile
constexpr uint64_t kTokensMin = 2;
constexpr uint64_t kProductsMax = 2'000'000'000;  // of a weight and an activation

struct CheckedInput {
  std::vector<TokenId> tokens;
  std::vector<uint8_t> types;
  std::vector<float> features;
  uint32_t count = 0;
};

// Enough tokens to pass a tile of every kernel set, fewer for large models, since the reference is
// slow, and for short contexts.
uint32_t tokens_to_check(const Program& program) {
  uint64_t weights = 0;
  for (const ProgramTensor& tensor : program.tensors) {
    if (tensor.layout == format::Layout::kGemm) weights += uint64_t{tensor.outputs} * tensor.inputs;
  }
  const uint64_t affordable = kProductsMax / std::max<uint64_t>(1, weights);
  const uint64_t count = std::clamp(affordable, kTokensMin, kTokens);
  return token_count_for(static_cast<uint32_t>(count), program);
}

CheckedInput input_to_check(const Graph& graph, const Program& program,
                            const std::optional<EvaluatedInput>& evaluated) {
  CheckedInput input;
  const auto patches = program.patches();
  if (evaluated) {
    input.tokens = evaluated->tokens;
    input.features = evaluated->features;
    const size_t width = program.slots[program.input_slot].width;
    input.count = static_cast<uint32_t>(input.tokens.empty() ? input.features.size() / width
                                                             : input.tokens.size());
    if (patches) input.count = program.positions_max;
    return input;
  }
  if (patches) {
    input.count = program.positions_max;
    input.features = features_to_check(static_cast<size_t>(patches->pixels().value()));
    return input;
  }
  input.count = tokens_to_check(program);
  if (graph.vocab_size == 0) {
    input.features =
        features_to_check(size_t{input.count} * program.slots[program.input_slot].width);
    return input;
  }
  input.tokens = spread_tokens(input.count, graph.vocab_size);
  input.types = types_to_check(input.count, graph.token_types);  // those of a pair of texts
  return input;
}

std::vector<float> run_target(const AlignedBytes& file, Target target, const CheckedInput& input) {
  CheckSession session(file, target, input.count, Outputs::kAll);
  const bool is_text = !input.tokens.empty();
  TokenBatch batch{input.tokens, 1, input.count};
  batch.types = input.types;
  const std::vector<float> values =
      is_text ? session.run(batch) : session.run(Batch{input.features, 1, input.count, {}});
  const bool finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
  if (!finite || !session.model().causal() || !input.types.empty()) return values;
  session.reset();
  const size_t width = session.session().output().features;
  const size_t features = input.features.size() / input.count;
  for (size_t t = 0; t < input.count; ++t) {
    // The first token comes with the rows of the prefix.
    const size_t end = values.size() - (input.count - t - 1) * width;
    const size_t begin = t == 0 ? 0 : end - width;
    const auto expected = std::span(values).subspan(begin, end - begin);
    if (is_text) {
      session.step(input.tokens[t], expected);
    } else {
      session.step(std::span(input.features).subspan(t * features, features), expected);
    }
  }
  return values;
}

template <typename Real>
double largest_difference(const std::vector<Real>& found, const std::vector<double>& expected) {
  double largest = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::fabs(found[i] - expected[i]);
    if (!(difference <= largest)) largest = difference;  // NaN too
  }
  return largest;
}

}  // namespace

std::optional<double> ConvertedModel::computing_error() const {
  std::optional<double> largest;
  for (const TargetCheck& check : checks) {
    if (check.ran) largest = std::max(largest.value_or(0.0), check.largest_error);
  }
  return largest;
}

void check_conversion(ConvertedModel& conversion, const std::string& path,
                      const std::vector<Target>& targets, double relative_error_max) {
  const CheckedInput input =
      input_to_check(conversion.graph, conversion.program, conversion.evaluated);
  const GraphInput fed = {input.tokens, input.types, input.features};
  if (!conversion.evaluated) report_progress("computing in double precision");
  Evaluation reference =
      conversion.evaluated ? conversion.evaluated->result : evaluate(conversion.graph, fed);
  const auto require_small = [&](double error, const std::string& what) {
    const double error_max = relative_error_max * std::max(1.0, reference.largest_value) *
                             std::max(1.0, reference.largest_score / kOrdinaryScore);
    const std::string circumstances = fmt::format("scores reach {:.1e} and outputs {:.1e}",
                                                  reference.largest_score, reference.largest_value);
    if (!std::isfinite(error)) {
      throw InputError(
          "{}: these weights are too large for float32: {}, and {} gives infinities or NaN; "
          "expected finite results",
          quote(path), circumstances, what);
    }
    if (error > error_max) {
      throw InputError(
          "{}: float32 is not exact enough for these weights: {}, and {} is off double "
          "precision by {:.1e}; expected at most {:.1e}",
          quote(path), circumstances, what, error, error_max);
    }
  };
  // Where nothing was rounded the author's weights and those of the file are one and the same.
  if (is_rounded(conversion.rewritten)) {
    Evaluation stored = evaluate(with_stored_weights(conversion.rewritten), fed);
    conversion.storing_error = largest_difference(stored.values, reference.values);
    // What few bits cost is for the person to judge, unless nothing is left.
    if (!has_few_bits(conversion.program) || !std::isfinite(conversion.storing_error)) {
      require_small(conversion.storing_error, "storing them");
    }
    reference = std::move(stored);
  }
  if (rounds_activations(conversion.program)) {
    relative_error_max = std::max(relative_error_max, kStepError);
  }
  conversion.checked_tokens = input.count;
  conversion.largest_output = reference.largest_value;
  for (const Target target : targets) {
    report_progress(fmt::format("checking {}", name(target)));
    TargetCheck check{target, (cpu_targets() & bit(target)) != 0, 0.0};
    if (check.ran) {
      check.largest_error =
          largest_difference(run_target(conversion.file, target, input), reference.values);
    }
    require_small(check.largest_error, fmt::format("target {}", name(target)));
    conversion.checks.push_back(check);
  }
}

}  // namespace arenite::convert
