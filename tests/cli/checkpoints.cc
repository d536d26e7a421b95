// SPDX-License-Identifier: Apache-2.0
// The checkpoints are small, so that each test can make them anew.
#include "cli/checkpoints.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "convert/files/npy.h"
#include "support/byte_string.h"
#include "support/model_factory.h"

namespace arenite::testing {

test::CheckpointBuilder small_checkpoint() {
  test::CheckpointBuilder weights;
  for (const char* name : {"W_query", "W_key", "W_value"}) weights.add_linear(name, 4, 3);
  std::vector<double> later(36);
  for (uint32_t i = 0; i < 36; ++i) later[i] = i % 6 > i / 6 ? 1.0 : 0.0;
  return weights.add("mask", {6, 6}, later);
}

test::CheckpointBuilder gpt2_checkpoint() {
  constexpr uint32_t kWidth = 768;
  test::CheckpointBuilder weights;
  const auto scaled = [](size_t count, uint64_t seed) {
    std::vector<double> values = test::exact_values(count, seed);
    for (double& value : values) value /= 16.0;
    return values;
  };
  weights.add("c_attn.weight", {3 * kWidth, kWidth}, scaled(3 * kWidth * kWidth, 1));
  weights.add("c_attn.bias", {3 * kWidth}, scaled(3 * kWidth, 2));
  weights.add("c_proj.weight", {kWidth, kWidth}, scaled(kWidth * kWidth, 3));
  return weights.add("c_proj.bias", {kWidth}, scaled(kWidth, 4));
}

std::string convert_small(const TempFolder& folder, const std::string& target) {
  const std::string checkpoint =
      folder.write("small.safetensors", small_checkpoint().safetensors()).string();
  const std::string model = (folder.path() / "small.arn").string();
  const ProgramResult result =
      run_arenite({"convert", checkpoint, "-o", model, "--target", target});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return model;
}

std::string write_features(const TempFolder& folder, const std::string& name,
                           const std::vector<uint64_t>& shape, uint64_t seed) {
  size_t count = 1;
  for (const uint64_t extent : shape) count *= extent;
  const std::filesystem::path file = folder.path() / name;
  convert::write_npy(file, shape, test::random_floats(count, seed));
  return file.string();
}

std::string npy_bytes(const std::string& descr, const std::string& order, const std::string& shape,
                      const std::string& data) {
  std::string header =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': ({}), }}", descr, order, shape);
  header.resize(118 - 1, ' ');
  header += '\n';
  return "\x93NUMPY\x01" + std::string(1, '\0') + bytes_of(static_cast<uint16_t>(header.size())) +
         header + data;
}

}  // namespace arenite::testing
