// SPDX-License-Identifier: Apache-2.0
// Writes the models that the benchmarks time: shapes of known modules, with random weights.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <string>

#include "convert/atomic_file.h"
#include "convert/convert.h"
#include "convert/program_builder.h"
#include "convert/writer.h"

namespace {

using namespace arenite::convert;

class Noise {
 public:
  float next(float scale) {
    state_ = state_ * 1664525u + 1013904223u;
    return (static_cast<float>(state_ >> 8) * 0x1p-23f - 1.0f) * scale;
  }

 private:
  uint32_t state_ = 1;
};

Projection projection(Noise& noise, const char* name, uint32_t outputs, uint32_t inputs) {
  Projection made{name, outputs, inputs, {}, {}};
  made.weights.resize(size_t{outputs} * inputs);
  made.bias.resize(outputs);
  const float scale = 1.0f / std::sqrt(static_cast<float>(inputs));
  for (float& weight : made.weights) weight = noise.next(scale);
  for (float& bias : made.bias) bias = noise.next(scale);
  return made;
}

// GPT-style causal self-attention: `width` wide, queries, keys and values fused.
AttentionModule causal_self_attention(uint32_t width, uint32_t heads, uint32_t context) {
  Noise noise;
  AttentionModule module;
  module.architecture = "GPT CausalSelfAttention";
  module.heads = heads;
  module.head_dim = module.value_dim = width / heads;
  module.features = width;
  module.query = projection(noise, "query", width, width);
  module.key = projection(noise, "key", width, width);
  module.value = projection(noise, "value", width, width);
  module.output = projection(noise, "output", width, width);
  module.positions_max = context;
  module.masks = {band_mask(arenite::kUnlimited, 0, context)};
  module.head_masks.assign(heads, 0);
  return module;
}

void write(const std::filesystem::path& folder, const std::string& name,
           const AttentionModule& module) {
  const AlignedBytes bytes = write_model(build_program(module, name), parse_targets("all"));
  AtomicFile file(folder / (name + ".arn"));
  file.write(bytes.span());
  file.commit();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: make_bench_models FOLDER\n");
    return 2;
  }
  try {
    std::filesystem::create_directories(argv[1]);
    write(argv[1], "gpt2-attention", causal_self_attention(768, 12, 1024));
    write(argv[1], "tiny-attention", causal_self_attention(4, 2, 8));
  } catch (const std::exception& error) {
    fmt::print(stderr, "make_bench_models: {}\n", error.what());
    return 1;
  }
  return 0;
}
