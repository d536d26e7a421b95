// SPDX-License-Identifier: Apache-2.0
// Tests contexts in a config that exceed what the model supports.
#include <gtest/gtest.h>

#include "convert/convert.h"
#include "convert/spec/rope_scaling.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

TransformerSpec spec_of(uint32_t positions, uint32_t width, uint32_t rotary_dim, size_t layers) {
  TransformerSpec spec = decoder_spec();
  spec.positions_max = positions;
  spec.model_dim = width;
  spec.ffn_dim = 4 * width;
  spec.vocab_size = 1000;
  spec.layers.resize(layers);
  spec.rope = plain_rope(rotary_dim, 10000.0, "'config.json'");
  return spec;
}

TEST(ContextLimit, StaysInProportionToTheModel) {
  EXPECT_TRUE(testing::refuses([] { check_angles(spec_of(1 << 24, 4, 2, 1), "'m'"); },
                               {"'m'", "16777216 positions", "33554432 angles", "--context N"}));
  EXPECT_TRUE(
      testing::refuses([] { check_angles(spec_of(1 << 24, 64, 64, 1), "'m'"); }, {"angles"}));
}

TEST(ContextLimit, AllowsTheContextsOfRealModels) {
  check_angles(spec_of(2048, 64, 16, 2), "a small one that was trained as an exercise");
  check_angles(spec_of(131072, 2048, 64, 16), "Llama 3.2 1B");
  check_angles(spec_of(1 << 20, 3584, 128, 28), "Qwen 2.5 7B of a million");
  check_angles(spec_of(131072, 64, 64, 1), "a small one with the config of a large one");
}

TEST(ContextLimit, IsForRopeOnly) {
  TransformerSpec spec = spec_of(1 << 24, 4, 2, 1);
  spec.rope.reset();
  check_angles(spec, "learned positions are in the file");
}

}  // namespace
}  // namespace arenite::convert
