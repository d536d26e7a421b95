// SPDX-License-Identifier: Apache-2.0
// Sizes that follow from a spec, and those that do not go together.
#include "convert/spec/model_spec.h"

#include <fmt/format.h>

#include "convert/files/error.h"

namespace arenite::convert {

std::vector<double> WeightRef::exact() const {
  return visit(
      [](const auto& values) { return std::vector<double>(values.begin(), values.end()); });
}

TransformerSpec decoder_spec() {
  TransformerSpec spec;
  spec.is_decoder = spec.norm_first = spec.causal = true;
  return spec;
}

void note_passed_over(const std::vector<std::string>& fields, TransformerSpec& spec) {
  if (fields.empty()) return;
  spec.notes.push_back(
      fmt::format("passed over, as they are false or empty: {}", fmt::join(fields, ", ")));
}

void check_sizes(const TransformerSpec& spec, size_t layers, const std::string& where) {
  if (layers > kLayersMax) {
    throw InputError("{}: {} layers: at most {} are accepted", where, layers, kLayersMax);
  }
  if (uint64_t{spec.heads} * spec.head_dim > kSideMax) {
    throw InputError("{}: {} heads of {} elements: at most {} elements together are accepted",
                     where, spec.heads, spec.head_dim, kSideMax);
  }
  if (spec.heads % spec.kv_heads != 0) {
    throw InputError("{}: {} query heads cannot share {} key/value heads: expected a divisor",
                     where, spec.heads, spec.kv_heads);
  }
}

uint32_t even_head_dim(uint32_t model_dim, uint32_t heads, const std::string& where) {
  if (model_dim % heads != 0) {
    throw InputError("{}: {} heads do not divide a width of {}", where, heads, model_dim);
  }
  return model_dim / heads;
}

uint32_t pooled_width(const TransformerSpec& spec) {
  return spec.model_dim * static_cast<uint32_t>(1 + spec.more_pooling.size());
}

uint32_t output_width(const TransformerSpec& spec) {
  uint32_t width = pooled_width(spec);
  for (const HeadStepSpec& step : spec.head) {
    if (step.linear) width = step.linear->weight.rows;
  }
  return width;
}

bool is_normalized(const TransformerSpec& spec) {
  return !spec.head.empty() && spec.head.back().normalize;
}

}  // namespace arenite::convert
