// SPDX-License-Identifier: Apache-2.0
// Computes rotary frequencies in double precision from a config's fields.
#include "convert/decoders/rope.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "convert/error.h"

namespace arenite::convert {
namespace {

constexpr double kThetaFallback = 10000.0;  // what every family defaults to

// The field that `outer` keeps under some of `names` and `inner` under `inner_name`. Throws
// InputError where two of them are there and differ.
double agreed(ConfigFields* inner, ConfigFields& outer, const std::vector<const char*>& names,
              const char* inner_name, double fallback) {
  std::optional<double> value;
  if (inner != nullptr && inner->has(inner_name)) value = inner->positive(inner_name);
  for (const char* name : names) {
    const double found = outer.positive(name, value.value_or(fallback));
    if (!outer.has(name)) continue;
    if (value && found != *value) {
      outer.refuse(name, fmt::format("another field for the same says {}", *value));
    }
    value = found;
  }
  return value.value_or(fallback);
}

// "type" is the older name. The field stays out of `finish` either way.
std::string rope_type(ConfigFields& scaling) {
  const std::string older = scaling.text("type", "default");
  const std::string type = scaling.text("rope_type", older);
  if (scaling.has("type") && older != type) {
    scaling.refuse("type", fmt::format("rope_type says {}", quote(type)));
  }
  return type;
}

void apply_scaling(RopeSpec& rope, ConfigFields& scaling) {
  const std::string type = rope_type(scaling);
  if (type == "linear") {
    scale_linear(rope, scaling.positive("factor"));
  } else if (type == "llama3") {
    const Llama3Scaling llama3{
        .factor = scaling.positive("factor"),
        .low_freq_factor = scaling.positive("low_freq_factor"),
        .high_freq_factor = scaling.positive("high_freq_factor"),
        .original_positions = scaling.positive("original_max_position_embeddings")};
    if (llama3.high_freq_factor <= llama3.low_freq_factor) {
      scaling.refuse("high_freq_factor", "expected more than low_freq_factor");
    }
    scale_llama3(rope, llama3);
  } else if (type != "default") {
    throw InputError(
        "{}: RoPE scaling of type {} is not supported: expected 'default', 'linear' or 'llama3'",
        scaling.where(), quote(type));
  }
  scaling.finish();
}

}  // namespace

RopeSpec plain_rope(uint32_t rotary_dim, double theta) {
  RopeSpec rope{.rotary_dim = rotary_dim, .inverse_frequencies = {}};
  rope.inverse_frequencies.reserve(rotary_dim / 2);
  for (uint32_t i = 0; i < rotary_dim; i += 2) {
    rope.inverse_frequencies.push_back(std::pow(theta, -double{1} * i / rotary_dim));
  }
  return rope;
}

void scale_linear(RopeSpec& rope, double factor) {
  for (double& frequency : rope.inverse_frequencies) frequency /= factor;
}

void scale_llama3(RopeSpec& rope, const Llama3Scaling& scaling) {
  const double longest = scaling.original_positions / scaling.low_freq_factor;
  const double shortest = scaling.original_positions / scaling.high_freq_factor;
  for (double& frequency : rope.inverse_frequencies) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      frequency /= scaling.factor;
      continue;
    }
    const double smooth = (scaling.original_positions / wavelength - scaling.low_freq_factor) /
                          (scaling.high_freq_factor - scaling.low_freq_factor);
    frequency = (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
  }
}

RopeSpec read_hf_rope(ConfigFields& config, uint32_t head_dim, const RopeFields& names) {
  std::optional<ConfigFields> scaling = config.object("rope_scaling");
  if (std::optional<ConfigFields> parameters = config.object("rope_parameters")) {
    if (scaling) config.refuse("rope_scaling", "rope_parameters is there, too: expected one");
    scaling = std::move(parameters);
  }
  ConfigFields* inner = scaling ? &*scaling : nullptr;
  const double theta = agreed(inner, config, names.theta, "rope_theta", kThetaFallback);
  uint32_t rotary_dim = head_dim;
  if (!names.partial_factor.empty()) {
    const double factor = agreed(inner, config, names.partial_factor, "partial_rotary_factor",
                                 names.partial_fallback);
    if (factor > 1.0) config.refuse(names.partial_factor[0], "expected at most 1");
    rotary_dim = static_cast<uint32_t>(head_dim * factor);
  }
  if (rotary_dim == 0 || rotary_dim % 2 != 0) {
    throw InputError(
        "{}: {} of the {} elements of a head rotate: expected an even number, as they go in pairs",
        config.where(), rotary_dim, head_dim);
  }
  RopeSpec rope = plain_rope(rotary_dim, theta);
  if (scaling) apply_scaling(rope, *scaling);
  return rope;
}

}  // namespace arenite::convert
