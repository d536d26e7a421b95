// SPDX-License-Identifier: Apache-2.0
#include "format/self_test_layout.h"

namespace arenite::format {

SelfTestLayout self_test_layout(const ModelReader& model, uint32_t tokens) {
  constexpr uint64_t kWord = sizeof(float);
  const bool reads_tokens = model.vocab_size() != 0;
  const uint64_t input_width = reads_tokens ? 1 : model.slot(model.input_slot_of_rows()).width;
  const bool has_types = reads_tokens && model.token_types() != 0;
  Checked types = Checked(tokens) * input_width * kWord;
  if constexpr (linked(OpKind::kPatches)) {
    if (model.reads_images()) types = model.image_patches().pixels() * kWord;
  }
  const Checked ops = types + (has_types ? round_up(tokens, kWord) : Checked(0));
  const uint32_t rows = tokens + (linked(Need::kPrefix) ? model.prefix_rows() : 0);
  const Checked output = ops + (Checked(rows) + kSelfTestTolerances) * model.ops() * kWord;
  const Checked row = model.slot(model.output_slot()).width;
  const Checked end = round_up(output + (row + kSelfTestTolerances) * kWord, kSegmentUnit);
  return {rows, types.saturated(), ops.saturated(), output.saturated(), end.saturated()};
}

// The weights are the high bits of a linear congruential generator.
float digest_of_row(std::span<const float> row) {
  float sum = 0.0f;
  uint32_t state = 0;
  for (const float value : row) {
    state = state * 1664525u + 1013904223u;
    sum += value * (static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f);
  }
  return sum;
}

}  // namespace arenite::format
