// SPDX-License-Identifier: Apache-2.0
// Small models with random weights, made like the converter's: attention module, program, file. The
// bytes are the same on every platform.
#ifndef ARENITE_TESTS_SUPPORT_MODEL_FACTORY_H_
#define ARENITE_TESTS_SUPPORT_MODEL_FACTORY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"
#include "convert/masks/masks.h"
#include "convert/spec/model_spec.h"

namespace arenite::test {

// A weight whose values are in memory already.
inline convert::WeightRef held_weight(std::string name, uint32_t rows, uint32_t columns,
                                      std::vector<float> values) {
  return {std::move(name), rows, columns, [values = std::move(values)] { return values; }};
}

struct ModuleSpec {
  std::string name = "causal";
  uint32_t features = 6;  // of the input; with separate_inputs, of the query alone
  uint32_t heads = 2;
  uint32_t head_dim = 5;  // 0: no query and key; then features = heads * value_dim
  uint32_t value_dim = 3;
  uint32_t output_features = 4;  // 0: no output projection
  bool bias = true;
  bool separate_inputs = false;  // key and value inputs are one and two wider than the query's
  uint32_t positions_max = 0;    // 0: any
  std::vector<convert::Mask> masks = {convert::band_mask(kUnlimited, 0, 0)};
  std::vector<uint32_t> head_masks = {};  // empty: masks[0] for all heads
};

// The mask of `positions` positions in which query sees key where `sees(query, key)`: as a model's
// author has it in a buffer, and compiled.
convert::BufferMask buffer_where(uint32_t positions,
                                 const std::function<bool(uint32_t, uint32_t)>& sees);
convert::CompiledMask mask_where(uint32_t positions,
                                 const std::function<bool(uint32_t, uint32_t)>& sees);

convert::AttentionModule make_module(const ModuleSpec& spec);

std::vector<Target> all_targets();

// The model file, with the spec's name.
convert::AlignedBytes make_model(const ModuleSpec& spec,
                                 const std::vector<Target>& targets = all_targets());

// One spec for each kind of module and mask. All serve sequences of kSpecPositions tokens.
inline constexpr uint32_t kSpecPositions = 70;
std::vector<ModuleSpec> all_specs();
ModuleSpec spec_named(const std::string& name);

// Weights or features, uniform in [-1, 1).
std::vector<float> random_floats(size_t count, uint64_t seed);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_MODEL_FACTORY_H_
