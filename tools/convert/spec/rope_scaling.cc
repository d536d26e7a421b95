// SPDX-License-Identifier: Apache-2.0
// Computes rotary frequencies in double precision from a config's fields.
#include "convert/spec/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// Returns the value that `outer` has under one of `names` or `inner` under `inner_name`. Throws
// InputError if several are present and differ.
double agreed(ConfigFields* inner, ConfigFields& outer, const char* const (&names)[2],
              const char* inner_name, double fallback) {
  std::optional<double> value;
  if (inner != nullptr && inner->has(inner_name)) value = inner->positive(inner_name);
  for (const char* name : names) {
    if (name == nullptr) continue;
    const double found = outer.positive(name, value.value_or(fallback));
    if (!outer.has(name)) continue;
    if (value && found != *value) {
      outer.refuse(name, fmt::format("a synonymous field says {}", *value));
    }
    value = found;
  }
  return value.value_or(fallback);
}

// "type" is the older name. finish() accepts the field either way.
std::string rope_type(ConfigFields& scaling) {
  const std::string older = scaling.text("type", "default");
  const std::string type = scaling.text("rope_type", older);
  if (scaling.has("type") && older != type) {
    scaling.refuse("type", fmt::format("rope_type says {}", quote(type)));
  }
  return type;
}

// Lowers the frequencies of wavelengths that are too long for the trained context, with a blend in
// between. Source: the reference code of Llama 3.1.
void apply_llama3(RopeSpec& rope, ConfigFields& scaling, double original_positions) {
  const double factor = scaling.positive("factor");
  const double low = scaling.positive("low_freq_factor");
  const double high = scaling.positive("high_freq_factor");
  if (high <= low) scaling.refuse("high_freq_factor", "expected more than low_freq_factor");
  const double longest = original_positions / low;
  const double shortest = original_positions / high;
  for (double& frequency : rope.inverse_frequencies) {
    const double wavelength = 2.0 * std::numbers::pi / frequency;
    if (wavelength < shortest) continue;
    if (wavelength > longest) {
      frequency /= factor;
      continue;
    }
    const double smooth = (original_positions / wavelength - low) / (high - low);
    frequency = (1.0 - smooth) * frequency / factor + smooth * frequency;
  }
}

// Scales like llama3 but with another blend, and with a score factor that grows with the context.
// Source: "YaRN: Efficient Context Window Extension of Large Language Models" (Peng et al. 2023).
void apply_yarn(RopeSpec& rope, ConfigFields& scaling, double theta, double positions_max,
                double original_positions) {
  const double factor = scaling.positive("factor", positions_max / original_positions);
  // Returns the index of the pair that makes `turns` rotations in the original context.
  const auto index_of = [&](double turns) {
    return rope.rotary_dim * std::log(original_positions / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(theta));
  };
  // Frequencies with more rotations are unchanged, and those with fewer are divided by the whole
  // factor.
  double begin = index_of(scaling.positive("beta_fast", 32.0));
  double end = index_of(scaling.positive("beta_slow", 1.0));
  if (scaling.flag("truncate", true)) {  // the blend begins and ends at a whole index
    begin = std::floor(begin);
    end = std::ceil(end);
  }
  if (theta <= 1.0) scaling.refuse("rope_theta", "expected more than 1");
  begin = std::max(begin, 0.0);
  end = std::min(end, rope.rotary_dim - 1.0);
  if (begin == end) end += 0.001;  // as in the authors' program
  for (size_t i = 0; i < rope.inverse_frequencies.size(); ++i) {
    double& frequency = rope.inverse_frequencies[i];
    const double slowed = std::clamp((static_cast<double>(i) - begin) / (end - begin), 0.0, 1.0);
    frequency = frequency / factor * slowed + frequency * (1.0 - slowed);
  }
  const auto growth = [&](double weight) {
    return factor <= 1.0 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
  };
  const bool is_weighted = scaling.has("mscale") && scaling.has("mscale_all_dim");
  const double weighted =
      growth(scaling.positive("mscale", 1.0)) / growth(scaling.positive("mscale_all_dim", 1.0));
  rope.magnitude = scaling.positive("attention_factor", is_weighted ? weighted : growth(1.0));
}

// Divides the frequencies by the factors of texts no longer than the trained context, to which it
// limits the model. Source: "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens" (Ding
// et al. 2024).
void apply_longrope(RopeSpec& rope, ConfigFields& scaling, TransformerSpec& spec,
                    const std::optional<double>& outer_original) {
  const std::string type = rope_type(scaling);
  if (type != "longrope" && type != "su") scaling.refuse("short_factor", "expected longrope");
  const std::vector<double> factors = scaling.reals("short_factor");
  if (factors.size() != rope.inverse_frequencies.size()) {
    scaling.refuse("short_factor",
                   fmt::format("expected {} factors", rope.inverse_frequencies.size()));
  }
  for (size_t i = 0; i < factors.size(); ++i) rope.inverse_frequencies[i] /= factors[i];
  const double original = outer_original.value_or(
      scaling.positive("original_max_position_embeddings", spec.positions_max));
  if (original <= 1.0) scaling.refuse("original_max_position_embeddings", "expected more than 1");
  const double factor = scaling.positive("factor", spec.positions_max / original);
  const double magnitude =
      factor <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
  rope.magnitude = scaling.positive("attention_factor", magnitude);
  scaling.pass_over({"long_factor", "original_max_position_embeddings"});
  scaling.finish();
  if (original >= spec.positions_max) return;
  spec.positions_max = static_cast<uint32_t>(original);
  spec.notes.push_back(fmt::format(
      "context {}: longrope rotates by other frequencies in longer texts", spec.positions_max));
}

// Returns the object with the RoPE fields; nullopt if there is none.
std::optional<ConfigFields> scaling_fields(ConfigFields& config) {
  std::optional<ConfigFields> scaling = config.object("rope_scaling");
  if (scaling && scaling->size() == 0) scaling.reset();
  std::optional<ConfigFields> parameters = config.object("rope_parameters");
  if (scaling && parameters) {
    config.refuse("rope_scaling", "rope_parameters is present, too: expected one of them");
  }
  return scaling ? std::move(scaling) : std::move(parameters);
}

// Returns how many elements of a head rotate.
uint32_t read_rotary_dim(ConfigFields& config, ConfigFields* inner, uint32_t head_dim,
                         const RopeFields& names) {
  constexpr const char* kShare = "partial_rotary_factor";
  uint32_t rotary_dim = names.rotary_dim != 0 ? names.rotary_dim : head_dim;
  if (names.partial_factor[0] == nullptr) {
    constexpr const char* kWhy = "this model rotates whole heads";
    config.expect(kShare, 1.0, kWhy);
    if (inner != nullptr) inner->expect(kShare, 1.0, kWhy);
  } else {
    double factor = 0.0;
    if (names.inner_partial_counts && inner != nullptr && inner->has(kShare)) {
      config.pass_over(kShare);
      factor = inner->positive(kShare);
    } else {
      factor = agreed(inner, config, names.partial_factor, kShare, names.partial_fallback);
    }
    if (factor > 1.0) config.refuse(names.partial_factor[0], "expected at most 1");
    rotary_dim = static_cast<uint32_t>(head_dim * factor);
  }
  if (rotary_dim == 0 || rotary_dim % 2 != 0) {
    throw InputError(
        "{}: {} of the {} elements of a head rotate: expected an even number, as they go in pairs",
        config.where(), rotary_dim, head_dim);
  }
  return rotary_dim;
}

}  // namespace

RopeSpec plain_rope(uint32_t rotary_dim, double theta, const std::string& where) {
  if (rotary_dim > kRotaryDimMax) {
    throw InputError("{}: {} elements of a head are rotated: expected at most {}", where,
                     rotary_dim, kRotaryDimMax);
  }
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

void apply_scaling(RopeSpec& rope, ConfigFields& scaling, double theta, double positions_max,
                   const std::optional<double>& outer_original) {
  const std::string type = rope_type(scaling);
  const double original_positions =
      outer_original.value_or(scaling.positive("original_max_position_embeddings", positions_max));
  scaling.pass_over("original_max_position_embeddings");
  if (type == "linear") {
    scale_linear(rope, scaling.positive("factor"));
  } else if (type == "llama3") {
    apply_llama3(rope, scaling, original_positions);
  } else if (type == "yarn") {
    apply_yarn(rope, scaling, theta, positions_max, original_positions);
  } else if (type == "dynamic") {
    scaling.pass_over("factor");  // which begins to count where the positions of the model end
  } else if (type == "default") {
    scaling.expect("factor", 1.0, "the type of scaling is 'default', which has none");
  } else {
    throw InputError(
        "{}: RoPE scaling of type {} is not supported: expected 'default', 'linear', 'dynamic', "
        "'llama3' or 'yarn'",
        scaling.where(), quote(type));
  }
  scaling.finish();
}

RopeSpec read_hf_rope(ConfigFields& config, TransformerSpec& spec, const RopeFields& names) {
  config.expect("use_rope", true, "models of this family have no other positions");
  config.expect("rope_interleaved", false, "RoPE of neighbouring elements is not supported here");
  std::optional<ConfigFields> scaling = scaling_fields(config);
  ConfigFields* inner = scaling ? &*scaling : nullptr;
  const double theta = agreed(inner, config, names.theta, "rope_theta", names.theta_fallback);
  const uint32_t rotary_dim = read_rotary_dim(config, inner, spec.head_dim, names);
  std::optional<double> original;
  if (config.has("original_max_position_embeddings")) {
    original = config.positive("original_max_position_embeddings");
  }
  RopeSpec rope = plain_rope(rotary_dim, theta, config.where());
  rope.turns_neighbours = names.turns_neighbours;
  if (scaling && scaling->has("short_factor")) {
    apply_longrope(rope, *scaling, spec, original);
  } else if (scaling) {
    apply_scaling(rope, *scaling, theta, spec.positions_max, original);
  }
  return rope;
}

void read_ropes_by_window(ConfigFields& config, TransformerSpec& spec, const RopeFields& names,
                          const RopeFields& of_windows) {
  std::optional<ConfigFields> kinds = config.object("rope_parameters");
  const auto read = [&](const char* kind, const RopeFields& of_kind, nlohmann::json parameters) {
    const double theta = config.positive(of_kind.theta[0], of_kind.theta_fallback);
    const bool has_own = kinds && kinds->has(kind);
    if (has_own) parameters = kinds->value(kind);
    nlohmann::json fields = {{"rope_parameters", parameters}};
    if (!has_own || !parameters.contains("rope_theta")) fields["rope_theta"] = theta;
    ConfigFields own(std::move(fields), fmt::format("{}, {}", config.where(), kind));
    return read_hf_rope(own, spec, {});
  };
  spec.rope = read("full_attention", names, config.value("rope_scaling"));
  spec.local_rope = read("sliding_attention", of_windows, nullptr);
  if (kinds) kinds->finish();
}

}  // namespace arenite::convert
