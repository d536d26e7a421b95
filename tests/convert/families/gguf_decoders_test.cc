// SPDX-License-Identifier: Apache-2.0
// Tiny decoders that llama.cpp's converter stored as GGUF
// (tests/convert/data/make_gguf_decoders.py) give the logits that transformers computes of the same
// weights.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/convert.h"
#include "convert/families/tiny_models.h"
#include "convert/files/json_file.h"
#include "support/recognised.h"
#include "support/reference_models.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

using namespace testing;
namespace fs = std::filesystem;

// transformers computes norms and angles in float32, also in a float64 model; and files have
// factors, epsilons and gains plus 1 in float32.
constexpr double kGgufError = 2e-6;

class GgufDecoderGolden : public ::testing::TestWithParam<std::string> {};

TEST_P(GgufDecoderGolden, GivesTheLogitsOfTransformers) {
  const fs::path file = convert_fixture("gguf") / (GetParam() + ".gguf");
  const nlohmann::json expected = read_json_value(convert_fixture("gguf") / (GetParam() + ".json"));
  std::vector<double> logits;
  for (const nlohmann::json& row : expected["results"]) {
    for (const nlohmann::json& value : row) logits.push_back(value);
  }
  const TransformerSpec spec = decoder_at(file);
  const auto ids = expected["ids"].get<std::vector<uint32_t>>();
  EXPECT_TRUE(near(reference_decoder(spec, ids).values, logits, kGgufError));
  EXPECT_FALSE(spec.is_headless);
  // The conversion itself compares the runtime with the reference.
  const Conversion conversion = convert_model(file, "tiny", {}, {Target::kPortable});
  EXPECT_TRUE(conversion.checks.at(0).ran);
}

std::vector<std::string> gguf_fixtures() {
  std::vector<std::string> names;
  for (const fs::directory_entry& file : fs::directory_iterator(convert_fixture("gguf"))) {
    if (file.path().extension() == ".gguf") names.push_back(file.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Decoders, GgufDecoderGolden, ::testing::ValuesIn(gguf_fixtures()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace arenite::convert
