// SPDX-License-Identifier: Apache-2.0
// Each projection has its own seed, so that a change in a spec keeps the weights of the others.
#include "support/model_factory.h"

#include <cmath>
#include <memory>
#include <stdexcept>
#include <utility>

#include "convert/modules/attention_modules.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "convert/spec/model_tensors.h"
#include "support/random.h"

namespace arenite::test {
namespace {

using convert::AttentionModule;
using convert::band_mask;
using convert::LinearSpec;

enum Seed : uint64_t { kQuery = 1, kKey, kValue, kOutput };

LinearSpec make_projection(const char* name, uint32_t outputs, uint32_t inputs, bool bias,
                           Seed seed) {
  std::vector<float> weights(size_t{outputs} * inputs);
  // Keeps the variance of the outputs near that of the inputs.
  const float limit = std::sqrt(3.0f / static_cast<float>(inputs));
  Random random(seed);
  random.fill(weights, limit);
  LinearSpec projection{held_weight(name, outputs, inputs, std::move(weights))};
  if (bias) {
    std::vector<float> drawn(outputs);
    random.fill(drawn, 0.5f);
    projection.bias.assign(drawn.begin(), drawn.end());
  }
  return projection;
}

// The model has as many positions as its mask.
ModuleSpec bounded(const char* name, const std::function<bool(uint32_t, uint32_t)>& sees) {
  return {
      .name = name, .positions_max = kSpecPositions, .masks = {buffer_where(kSpecPositions, sees)}};
}

}  // namespace

convert::BufferMask buffer_where(uint32_t positions,
                                 const std::function<bool(uint32_t, uint32_t)>& sees) {
  convert::DenseMask dense(positions);
  for (uint32_t query = 0; query < positions; ++query) {
    for (uint32_t key = 0; key < positions; ++key) dense.set(query, key, sees(query, key));
  }
  return {std::make_shared<convert::DenseMask>(std::move(dense)), "test mask"};
}

convert::CompiledMask mask_where(uint32_t positions,
                                 const std::function<bool(uint32_t, uint32_t)>& sees) {
  const convert::BufferMask mask = buffer_where(positions, sees);
  return compile_mask(*mask.dense, mask.origin);
}

AttentionModule make_module(const ModuleSpec& spec) {
  AttentionModule module;
  module.architecture = "test module";
  module.heads = spec.heads;
  module.head_dim = spec.head_dim;
  module.value_dim = spec.value_dim;
  module.features = spec.features;
  module.separate_inputs = spec.separate_inputs;
  if (spec.head_dim != 0) {
    const uint32_t wider = spec.separate_inputs ? 1 : 0;
    const uint32_t keys = spec.heads * spec.head_dim;
    module.query = make_projection("query", keys, spec.features, spec.bias, kQuery);
    module.key = make_projection("key", keys, spec.features + wider, spec.bias, kKey);
    module.value = make_projection("value", spec.heads * spec.value_dim, spec.features + 2 * wider,
                                   spec.bias, kValue);
    if (spec.separate_inputs) {
      module.features = module.query.inputs() + module.key.inputs() + module.value.inputs();
    }
  }
  if (spec.output_features != 0) {
    module.output = make_projection("output", spec.output_features, spec.heads * spec.value_dim,
                                    spec.bias, kOutput);
  }
  module.positions_max = spec.positions_max;
  module.masks = spec.masks;
  module.head_masks = spec.head_masks;
  module.head_masks.resize(spec.heads, 0);
  return module;
}

std::vector<Target> all_targets() {
  std::vector<Target> targets;
  for (uint32_t i = 0; i < kTargets; ++i) targets.push_back(static_cast<Target>(i));
  return targets;
}

convert::AlignedBytes make_model(const ModuleSpec& spec, const std::vector<Target>& targets) {
  return convert::write_model(convert::compile(convert::build_graph(make_module(spec)), spec.name),
                              targets);
}

std::vector<ModuleSpec> all_specs() {
  return {{},
          {.name = "bidirectional",
           .output_features = 0,
           .bias = false,
           .masks = {band_mask(kUnlimited, kUnlimited, 0)}},
          {.name = "window", .masks = {band_mask(6, 0, 0)}},
          // Every other earlier key: only the distance counts, but it is no band.
          bounded("strip", [](uint32_t query,
                              uint32_t key) { return key <= query && (query - key) % 2 == 0; }),
          // Documents of 23 positions, each causal in itself.
          bounded("documents", [](uint32_t query,
                                  uint32_t key) { return key <= query && key / 23 == query / 23; }),
          // A prefix of 9 positions that all see, then causal.
          bounded("prefix", [](uint32_t query, uint32_t key) { return key < 9 || key <= query; }),
          {.name = "head_masks",
           .heads = 4,
           .masks = {band_mask(kUnlimited, 0, 0), band_mask(3, 0, 0)},
           .head_masks = {0, 1, 1, 0}},
          {.name = "mask_only",
           .features = 3,
           .heads = 1,
           .head_dim = 0,
           .output_features = 0,
           .positions_max = kSpecPositions,
           .masks = {band_mask(kUnlimited, 0, kSpecPositions)}},
          // Wider than a tile of any kernel set.
          {.name = "wide",
           .features = 35,
           .heads = 3,
           .head_dim = 40,
           .value_dim = 33,
           .output_features = 65},
          {.name = "separate_inputs",
           .separate_inputs = true,
           .masks = {band_mask(kUnlimited, kUnlimited, 0)}}};
}

ModuleSpec spec_named(const std::string& name) {
  for (ModuleSpec& spec : all_specs()) {
    if (spec.name == name) return std::move(spec);
  }
  throw std::logic_error("no spec is called " + name);
}

std::vector<float> random_floats(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  Random(seed).fill(values, 1.0f);
  return values;
}

}  // namespace arenite::test
