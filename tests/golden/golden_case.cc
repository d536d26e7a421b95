// SPDX-License-Identifier: Apache-2.0
// Reads a case; facts that the checkpoint lacks are in its config.json.
#include "golden/golden_case.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "convert/files/npy.h"
#include "golden/converted.h"
#include "support/test_data.h"

namespace arenite::test {
namespace {

// Sums of this many products, each rounded in float32, lie this far from the exact ones; PyTorch's
// own float32 comes within 6e-7 of the widest case.
constexpr double kNarrow = 2e-6;
constexpr double kWide = 1e-5;

std::filesystem::path first_of(const std::filesystem::path& folder,
                               const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (std::filesystem::exists(folder / name)) return folder / name;
  }
  throw std::runtime_error(folder.string() + " lacks " + names[0]);
}

convert::NpyArray read_array(const std::filesystem::path& file) {
  convert::NpyArray array = convert::NpyArray::read(file);
  if (array.shape().size() != 3) throw std::runtime_error(file.string() + ": expected 3 axes");
  return array;
}

}  // namespace

// Scores of recall reach 100, where float32 itself is coarse: PyTorch's is 4e-6 off.
const std::vector<GoldenCase> kOwnCases = {{"recall", 1e-5}};

const std::vector<GoldenCase> kDataCases = {
    {"seed000-causal-attention", kNarrow},
    {"seed000-multi-head-concat", kNarrow},
    {"seed000-multi-head-out-proj", kNarrow},
    {"seed001-bert-style", kWide, false},
    {"seed002-multi-head", kNarrow, false},
    {"seed002-self-attention", kNarrow, false},
    {"seed003-causal-mean", kNarrow, true, true},
    {"seed003-gpt-tiny", kNarrow},
    {"seed003-gpt2-small", kWide},
    {"seed004-rag-multi-head", kNarrow},
};

std::filesystem::path data_folder() { return arenite::testing::collection_folder(); }

std::filesystem::path case_folder(const std::string& name) {
  const std::filesystem::path own = testing::project_folder() / "models" / name;
  return std::filesystem::exists(own) ? own : data_folder() / "goldens" / name;
}

GoldenModel read_case(const GoldenCase& golden, Target target) {
  const std::string name = golden.name;
  const std::filesystem::path folder = case_folder(name);
  const convert::NpyArray input = read_array(folder / "input.npy");
  const convert::NpyArray output =
      read_array(first_of(folder, {"output.npy", "expected_output.npy"}));
  GoldenModel model;
  model.sequences = static_cast<uint32_t>(input.shape()[0]);
  model.tokens = static_cast<uint32_t>(input.shape()[1]);
  model.input_features = static_cast<uint32_t>(input.shape()[2]);
  model.output_features = static_cast<uint32_t>(output.shape()[2]);
  model.input = input.to_f32();
  model.output = output.to_f32();

  const nlohmann::json config = nlohmann::json::parse(std::ifstream(folder / "config.json"));
  model.causal = config.at("causal").get<bool>();
  model.file = converted("module", first_of(folder, {"weights.safetensors", name + ".safetensors"}),
                         {targets_for({target}), std::to_string(config.at("heads").get<uint32_t>()),
                          std::to_string(config.value("context_length", uint32_t{0})),
                          model.causal ? "causal" : "bidirectional",
                          std::to_string(golden.is_mask_alone ? model.input_features : 0)});
  return model;
}

}  // namespace arenite::test
