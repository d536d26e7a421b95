// SPDX-License-Identifier: Apache-2.0
// The steps of a conversion, and the check of its result with the real runtime.
#include "convert/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convert/check/check_inputs.h"
#include "convert/check/module_reference.h"
#include "convert/files/error.h"
#include "convert/modules/attention_modules.h"
#include "convert/program/conversion_steps.h"
#include "convert/program/program_builder.h"

namespace arenite::convert {
namespace {

constexpr uint32_t kCheckedTokens = 48;  // past one tile of every kernel set, and odd in none
// Above this share of the largest output the conversion itself is wrong, where scores are of
// kOrdinaryScore; softmax makes the rounding of larger scores visible in proportion.
constexpr double kRelativeErrorMax = 1e-4;
constexpr double kOrdinaryScore = 100.0;

// Runs the file on one target, in one pass and, if causal, token by token.
std::vector<float> run_target(const AlignedBytes& file, Target target,
                              const std::vector<float>& features, uint32_t tokens) {
  CheckSession session(file, target, tokens, Outputs::kAll);
  const std::vector<float> values = session.run(Batch{features, 1, tokens, {}});
  const bool finite = std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  if (!finite || !session.causal()) return values;
  session.reset();
  const size_t width = session.input_features();
  const size_t output_width = values.size() / tokens;
  for (size_t t = 0; t < tokens; ++t) {
    session.step(std::span(features).subspan(t * width, width),
                 std::span(values).subspan(t * output_width, output_width));
  }
  return values;
}

void check(Conversion& conversion, const std::string& checkpoint,
           const std::vector<Target>& targets) {
  const AttentionModule& module = conversion.module;
  const uint32_t tokens = token_count_for(kCheckedTokens, module.positions_max, module.masks);
  const std::vector<float> features = features_to_check(size_t{tokens} * module.features);
  const ReferenceOutput expected = reference_output(module, features, tokens);
  conversion.checked_tokens = tokens;
  conversion.largest_output = expected.largest_value;
  const Expectation expectation = {
      expected.values,
      kRelativeErrorMax * std::max(1.0, expected.largest_value) *
          std::max(1.0, expected.largest_score / kOrdinaryScore),
      fmt::format("on features of unit variance, scores reach {:.1e} and outputs {:.1e}",
                  expected.largest_score, expected.largest_value)};
  conversion.checks = check_targets(checkpoint, targets, expectation, [&](Target target) {
    return run_target(conversion.file, target, features, tokens);
  });
}

}  // namespace

std::vector<Target> parse_targets(const std::string& text) {
  std::vector<Target> targets;
  if (text == "all" || text == "native") {
    for (uint32_t i = 0; i < kTargets; ++i) targets.push_back(static_cast<Target>(i));
    if (text == "all") return targets;
    while ((cpu_targets() & bit(targets.back())) == 0) targets.pop_back();
    return {targets.back()};
  }
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    uint32_t index = 0;
    while (index < kTargets && part != name(static_cast<Target>(index))) ++index;
    if (index == kTargets) {
      std::string known;
      for (uint32_t i = 0; i < kTargets; ++i) {
        known += fmt::format("{}{}", i == 0 ? "" : ", ", name(static_cast<Target>(i)));
      }
      throw InputError("unknown target {}: expected native, all, or some of {}", quote(part),
                       known);
    }
    const Target target = static_cast<Target>(index);
    if (std::find(targets.begin(), targets.end(), target) == targets.end()) {
      targets.push_back(target);
    }
    begin = end + 1;
  }
  return targets;
}

Conversion convert_checkpoint(const std::filesystem::path& checkpoint, const std::string& name,
                              const ModelOptions& options, const std::vector<Target>& targets) {
  return convert_module(checkpoint, read_attention_module(open_model(checkpoint), options), name,
                        targets);
}

Conversion convert_module(const std::filesystem::path& checkpoint, AttentionModule module,
                          const std::string& name, const std::vector<Target>& targets) {
  Conversion conversion;
  conversion.module = std::move(module);
  conversion.account = conversion.module.account;
  conversion.program = build_program(conversion.module, name);
  conversion.file = pack_model(conversion.program, targets, quote(checkpoint.string()));
  check(conversion, checkpoint.string(), targets);
  return conversion;
}

}  // namespace arenite::convert
