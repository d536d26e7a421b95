// SPDX-License-Identifier: Apache-2.0
// One sequence of tokens or features, long enough to pass a tile of every kernel set.
#include "convert/check/converted_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "convert/graph/interpreter.h"
#include "convert/program/check_inputs.h"

namespace arenite::convert {
namespace {

// Softmax makes the rounding of scores visible in proportion to them.
constexpr double kOrdinaryScore = 100.0;

struct CheckedInput {
  std::vector<TokenId> tokens;
  std::vector<uint8_t> types;
  std::vector<float> features;
  uint32_t count = 0;
};

CheckedInput input_to_check(const Graph& graph, const Program& program) {
  CheckedInput input;
  input.count = token_count_to_check(program);
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
  if (!finite || !session.can_step() || !input.types.empty()) return values;
  session.reset();
  const size_t width = values.size() / input.count;
  const size_t features = input.features.size() / input.count;
  for (size_t t = 0; t < input.count; ++t) {
    const auto expected = std::span(values).subspan(t * width, width);
    if (is_text) {
      session.step(input.tokens[t], expected);
    } else {
      session.step(std::span(input.features).subspan(t * features, features), expected);
    }
  }
  return values;
}

}  // namespace

void check_conversion(ConvertedModel& conversion, const std::string& path,
                      const std::vector<Target>& targets, double relative_error_max) {
  const CheckedInput input = input_to_check(conversion.graph, conversion.program);
  const Evaluation reference =
      evaluate(conversion.graph, {input.tokens, input.types, input.features});
  conversion.checked_tokens = input.count;
  conversion.largest_output = reference.largest_value;
  const Expectation expectation = {reference.values,
                                   relative_error_max * std::max(1.0, reference.largest_value) *
                                       std::max(1.0, reference.largest_score / kOrdinaryScore),
                                   fmt::format("scores reach {:.1e} and outputs {:.1e}",
                                               reference.largest_score, reference.largest_value)};
  conversion.checks = check_targets(path, targets, expectation, [&](Target target) {
    return run_target(conversion.file, target, input);
  });
}

}  // namespace arenite::convert
