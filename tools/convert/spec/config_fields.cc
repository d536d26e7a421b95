// SPDX-License-Identifier: Apache-2.0
// Types and ranges of config fields, and the names of fields that turn something off.
#include "convert/spec/config_fields.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "convert/files/json_file.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

using nlohmann::json;

namespace {

// Switches that some programs turn on by default, so that false changes the computation.
constexpr std::string_view kOnByDefault[] = {
    // Norms before attention and MLP rather than after them, the last norm, and the kind of norms.
    "do_layer_norm_before", "final_layer_norm", "final_norm", "norm_first", "normalize_before",
    "pre_norm", "prenorm", "qk_norm", "rms_norm", "use_final_norm", "use_pre_norm", "use_qk_norm",
    "use_rms_norm", "use_rmsnorm",
    // Causal attention.
    "causal", "causal_attention", "is_causal", "use_causal_mask",
    // Positions.
    "rope", "rotary", "use_absolute_position_embeddings", "use_position_embeddings", "use_rope",
    "use_rotary", "use_rotary_emb", "use_rotary_embedding", "use_rotary_embeddings",
    // Score scaling by 1/sqrt(head_dim), and what is added to the residual stream.
    "parallel_attn", "parallel_residual", "scale_attention", "scale_attn", "scale_attn_weights",
    "scale_qk", "use_parallel_residual", "use_residual"};

bool is_on_by_default(const std::string& name) {
  const std::string_view last = std::string_view(name).substr(name.rfind('.') + 1);  // of GGUF keys
  return std::find(std::begin(kOnByDefault), std::end(kOnByDefault), last) !=
         std::end(kOnByDefault);
}

// Whether the value is false, "", [] or {}, which programs write for unused features.
bool asks_for_nothing(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

}  // namespace

const json* ConfigFields::find(const std::string& name) const {
  const auto found = object_.find(name);
  return found == object_.end() ? nullptr : &*found;
}

bool ConfigFields::has(const std::string& name) const {
  return find(name) != nullptr && !find(name)->is_null();
}

bool ConfigFields::is_null(const std::string& name) const { return equals(name, nullptr); }

bool ConfigFields::is_text(const std::string& name) const {
  return find(name) != nullptr && find(name)->is_string();
}

bool ConfigFields::equals(const std::string& name, const json& value) const {
  return find(name) != nullptr && *find(name) == value;
}

std::vector<std::string> ConfigFields::names() const {
  std::vector<std::string> names;
  for (const auto& [name, _] : object_.items()) names.push_back(name);
  return names;
}

const json* ConfigFields::take(const std::string& name, bool must_be_there) {
  taken_.insert(name);
  if (has(name)) return find(name);
  if (must_be_there) throw InputError("{}: field {} is missing", where_, quote(name));
  return nullptr;
}

void ConfigFields::refuse_form(const std::string& name, const std::string& expected) const {
  throw InputError("{}: field {} is {}: {}", where_, quote(name), show(object_.at(name)), expected);
}

void ConfigFields::refuse(const std::string& name, const std::string& why) const {
  throw UnsupportedError("{}: field {} is {}: {}", where_, quote(name),
                         has(name) ? show(object_.at(name)) : "missing", why);
}

uint32_t ConfigFields::count(const std::string& name, std::optional<uint32_t> fallback,
                             uint32_t minimum) {
  const json* value = take(name, !fallback);
  if (value == nullptr) return *fallback;
  if (!value->is_number_unsigned() || value->get<uint64_t>() < minimum ||
      value->get<uint64_t>() > kSideMax) {
    refuse_form(name, fmt::format("expected a whole number from {} to {}", minimum, kSideMax));
  }
  return value->get<uint32_t>();
}

double ConfigFields::positive(const std::string& name, std::optional<double> fallback) {
  const json* value = take(name, !fallback);
  if (value == nullptr) return *fallback;
  // The runtime computes in float32, so the value must not round to 0 or infinity, nor be
  // subnormal, since not all CPUs support that.
  if (!value->is_number() || !(value->get<double>() > 0.0) ||
      !std::isnormal(static_cast<float>(value->get<double>()))) {
    refuse_form(name, "expected a number above 0, of 1.2e-38 to 3.4e+38");
  }
  return value->get<double>();
}

bool ConfigFields::flag(const std::string& name, std::optional<bool> fallback) {
  const json* value = take(name, !fallback);
  if (value == nullptr) return *fallback;
  if (!value->is_boolean()) refuse_form(name, "expected true or false");
  return value->get<bool>();
}

std::string ConfigFields::text(const std::string& name, std::optional<std::string> fallback) {
  const json* value = take(name, !fallback);
  if (value == nullptr) return *fallback;
  if (!value->is_string()) refuse_form(name, "expected a string");
  return value->get<std::string>();
}

std::vector<uint32_t> ConfigFields::ids(const std::string& name) {
  const json* value = take(name);
  std::vector<uint32_t> ids;
  if (value == nullptr) return ids;
  for (const json& id : value->is_array() ? *value : json::array({*value})) {
    if (!id.is_number_integer() || id.get<int64_t>() > INT32_MAX || id.get<int64_t>() < -1) {
      refuse_form(name, "expected a token id, or a list of them");
    }
    if (id.get<int64_t>() >= 0) ids.push_back(id.get<uint32_t>());  // -1: none
  }
  return ids;
}

std::vector<std::string> ConfigFields::texts(const std::string& name) {
  const json* value = take(name);
  std::vector<std::string> texts;
  if (value == nullptr) return texts;
  if (!value->is_array()) refuse_form(name, "expected a list of strings");
  for (const json& text : *value) {
    if (!text.is_string()) refuse_form(name, "expected a list of strings");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

std::vector<double> ConfigFields::reals(const std::string& name) {
  const json* value = take(name);
  std::vector<double> reals;
  if (value == nullptr) return reals;
  for (const json& real : value->is_array() ? *value : json::array({nullptr})) {
    if (!real.is_number() || !(real.get<double>() > 0.0) ||
        !std::isnormal(static_cast<float>(real.get<double>()))) {
      refuse_form(name, "expected a list of numbers above 0");
    }
    reals.push_back(real.get<double>());
  }
  return reals;
}

json ConfigFields::value(const std::string& name) {
  const json* value = take(name);
  return value == nullptr ? json() : *value;
}

std::optional<ConfigFields> ConfigFields::object(const std::string& name) {
  const json* value = take(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) refuse_form(name, "expected an object");
  return ConfigFields(*value, fmt::format("{}, {}", where_, quote(name)));
}

void ConfigFields::expect(const std::string& name, const json& value, const char* why) {
  const json* found = take(name);
  if (found != nullptr && *found != value) {
    refuse(name, fmt::format("expected {}; {}", show(value), why));
  }
}

std::vector<std::string> ConfigFields::finish() const {
  std::string unknown;
  std::vector<std::string> passed_over;
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || taken_.contains(name)) continue;
    if (asks_for_nothing(value) && !is_on_by_default(name)) {
      passed_over.push_back(name);
    } else {
      unknown += fmt::format("\n  {}: {}", quote(name), show(value));
    }
  }
  if (unknown.empty()) return passed_over;
  throw UnsupportedError(
      "{}: these fields are unknown, and may change what the model computes:{}\nremove those that "
      "do not matter for this model",
      where_, unknown);
}

}  // namespace arenite::convert
