// SPDX-License-Identifier: Apache-2.0
// The steps of an encoder's conversion, and the check of its result with the real runtime.
#include "convert/convert_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convert/check/check_inputs.h"
#include "convert/check/encoder_reference.h"
#include "convert/files/error.h"
#include "convert/program/conversion_steps.h"
#include "convert/program/encoder_program.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {
namespace {

// Above this share of the largest output the conversion itself is wrong.
constexpr double kRelativeErrorMax = 1e-3;

// One sequence, with the types of a pair where the model knows them.
struct CheckedInput {
  std::vector<TokenId> tokens;
  std::vector<uint8_t> types;
  std::vector<float> features;
  uint32_t count = 0;
};

CheckedInput input_to_check(const Program& program, const EncoderSpec& spec) {
  CheckedInput input;
  input.count = token_count_to_check(program);
  if (spec.vocab_size == 0) {
    input.features = features_to_check(size_t{input.count} * spec.input_features);
    return input;
  }
  input.tokens = tokens_to_check(program);
  input.types = types_to_check(input.count, spec.token_types);
  return input;
}

// In one pass and, where the model can be fed so, token by token.
std::vector<float> run_target(const AlignedBytes& file, Target target, const CheckedInput& input,
                              const EncoderSpec& spec) {
  CheckSession session(file, target, input.count, Outputs::kAll);
  TokenBatch batch{input.tokens, 1, input.count};
  batch.types = input.types;
  const std::vector<float> values = spec.vocab_size == 0
                                        ? session.run(Batch{input.features, 1, input.count})
                                        : session.run(batch);
  const bool finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
  const bool can_step = session.causal() && spec.pooling == Pooling::kNone && spec.token_types == 0;
  if (!finite || !can_step) return values;
  session.reset();
  const size_t width = values.size() / input.count;
  for (size_t t = 0; t < input.count; ++t) {
    const auto expected = std::span(values).subspan(t * width, width);
    if (spec.vocab_size != 0) {
      session.step(input.tokens[t], expected);
    } else {
      const size_t features = spec.input_features;
      session.step(std::span(input.features).subspan(t * features, features), expected);
    }
  }
  return values;
}

void check(EncoderConversion& conversion, const std::string& path,
           const std::vector<Target>& targets) {
  const EncoderSpec& spec = conversion.spec;
  const CheckedInput input = input_to_check(conversion.program, spec);
  Expectation expectation;
  expectation.values = spec.vocab_size == 0
                           ? reference_encoder(spec, input.features).values
                           : reference_encoder(spec, input.tokens, input.types).values;
  for (const double value : expectation.values) {
    conversion.largest_output = std::max(conversion.largest_output, std::fabs(value));
  }
  expectation.error_max = kRelativeErrorMax * std::max(1.0, conversion.largest_output);
  expectation.circumstances = fmt::format("outputs reach {:.1e}", conversion.largest_output);
  conversion.checked_tokens = input.count;
  conversion.checks = check_targets(path, targets, expectation, [&](Target target) {
    return run_target(conversion.file, target, input, spec);
  });
}

}  // namespace

EncoderConversion convert_encoder(const std::filesystem::path& path, const std::string& name,
                                  const EncoderConversionOptions& options,
                                  const std::vector<Target>& targets) {
  return convert_encoder(path, recognise(open_model(path), options.source), name, options, targets);
}

EncoderConversion convert_encoder(const std::filesystem::path& path, Recognised model,
                                  const std::string& name, const EncoderConversionOptions& options,
                                  const std::vector<Target>& targets) {
  EncoderConversion conversion;
  conversion.form = model.form;
  conversion.account = model.account();
  conversion.spec = std::get<EncoderSpec>(std::move(model.spec));
  EncoderSpec& spec = conversion.spec;
  const std::string quoted = quote(path.string());
  limit_context(spec.positions_max, options.context, quoted);
  conversion.program = build_encoder_program(spec, name);
  if (spec.vocab_size != 0) {
    conversion.program.tokenizer = tokenizer_for(model.tokenizer, options.tokenizer);
  } else if (!options.tokenizer.empty()) {
    throw InputError("{}: --tokenizer: the model reads features, not text: drop the option",
                     quoted);
  }
  conversion.file = pack_model(conversion.program, targets, quoted);
  check(conversion, path.string(), targets);
  return conversion;
}

}  // namespace arenite::convert
