// SPDX-License-Identifier: Apache-2.0
// The steps of a decoder's conversion, and the check of its result with the real runtime.
#include "convert/convert_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convert/check/check_inputs.h"
#include "convert/check/decoder_reference.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"
#include "convert/program/conversion_steps.h"
#include "convert/program/decoder_program.h"
#include "convert/tokenizers/tokenizer_source.h"

namespace arenite::convert {
namespace {

// Above this share of the largest logit the conversion itself is wrong.
constexpr double kRelativeErrorMax = 1e-3;

void check(DecoderConversion& conversion, const std::string& path,
           const std::vector<Target>& targets) {
  const std::vector<TokenId> tokens = tokens_to_check(conversion.program);
  const uint32_t count = static_cast<uint32_t>(tokens.size());
  Expectation expectation;
  expectation.values = reference_decoder(conversion.spec, tokens).logits;
  for (const double value : expectation.values) {
    conversion.largest_output = std::max(conversion.largest_output, std::fabs(value));
  }
  expectation.error_max = kRelativeErrorMax * std::max(1.0, conversion.largest_output);
  expectation.circumstances =
      fmt::format("{} reach {:.1e}", conversion.spec.is_headless ? "outputs" : "logits",
                  conversion.largest_output);
  conversion.checked_tokens = count;
  conversion.checks = check_targets(path, targets, expectation, [&](Target target) {
    CheckSession session(conversion.file, target, count, Outputs::kAll);
    const std::vector<float> values = session.run(TokenBatch{tokens, 1, count, {}});
    const bool finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
    if (!session.causal()) return values;
    const size_t width = values.size() / count;
    session.reset();
    for (size_t t = 0; t < count && finite; ++t) {
      session.step(tokens[t], std::span(values).subspan(t * width, width));
    }
    return values;
  });
}

// Of the larger matrices, which make up nearly all of a model.
uint64_t weights_of(const DecoderSpec& spec) {
  const uint64_t width = spec.model_dim;
  return width * spec.vocab_size + spec.layers.size() * width * (2 * width + 2 * spec.ffn_dim);
}

}  // namespace

void check_angles(const DecoderSpec& spec, const std::string& path) {
  if (!spec.rope) return;
  const uint64_t angles = uint64_t{spec.positions_max} * spec.rope->rotary_dim;
  const uint64_t angles_max = kAnglesBase + kAnglesPerWeight * weights_of(spec);
  if (angles <= angles_max) return;
  throw InputError(
      "{}: a context of {} positions takes a table of {} angles: at most {} are accepted for a "
      "model of this size; pass --context N with fewer positions",
      path, spec.positions_max, angles, angles_max);
}

DecoderConversion convert_decoder(const std::filesystem::path& path, const std::string& name,
                                  const DecoderConversionOptions& options,
                                  const std::vector<Target>& targets) {
  return convert_decoder(path, recognise(open_model(path), options.source), name, options, targets);
}

DecoderConversion convert_decoder(const std::filesystem::path& path, Recognised model,
                                  const std::string& name, const DecoderConversionOptions& options,
                                  const std::vector<Target>& targets) {
  DecoderConversion conversion;
  conversion.form = model.form;
  conversion.account = model.account();
  conversion.spec = std::get<DecoderSpec>(std::move(model.spec));
  const std::string quoted = quote(path.string());
  limit_context(conversion.spec.positions_max, options.context, quoted);
  check_angles(conversion.spec, quoted);
  conversion.program = build_decoder_program(conversion.spec, name);
  conversion.program.tokenizer = tokenizer_for(model.tokenizer, options.tokenizer);
  conversion.file = pack_model(conversion.program, targets, quoted);
  check(conversion, path.string(), targets);
  return conversion;
}

}  // namespace arenite::convert
