// SPDX-License-Identifier: Apache-2.0
// Files exist only while a conversion runs: the resulting model is in memory.
#include "convert/modules/conversion_case.h"

#include <algorithm>

#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

constexpr const char* kFileName = "weights.safetensors";

}  // namespace

convert::Conversion convert_file(const std::filesystem::path& checkpoint,
                                 const convert::ModelOptions& options) {
  return convert::convert_model(checkpoint, "test", {.source = options}, all_targets());
}

convert::Conversion convert_bytes(const std::string& checkpoint,
                                  const convert::ModelOptions& options) {
  const testing::TempFolder folder;
  return convert_file(folder.write(kFileName, checkpoint), options);
}

::testing::AssertionResult runs_as(const convert::Conversion& conversion,
                                   std::span<const float> input, uint32_t sequences,
                                   uint32_t tokens, std::span<const double> expected) {
  for (const Target target : targets_here()) {
    const TestModel model(conversion.file.span(), target);
    const TestSession session(*model, options_for(tokens, sequences));
    const auto same = all_near(session.run(input, sequences), expected, kOutputTolerance);
    if (!same) return ::testing::AssertionFailure() << name(target) << ": " << same.message();
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult runs_as(const convert::Conversion& conversion,
                                   const AttentionOracle& oracle) {
  constexpr uint32_t kTokensMax = 40;
  const uint32_t context = conversion.program.inputs[0].positions_max;
  const uint32_t tokens = context == 0 ? kTokensMax : std::min(context, kTokensMax);
  const std::vector<float> input = random_floats(size_t{tokens} * oracle.features(), 77);
  return runs_as(conversion, input, 1, tokens, oracle.run(input, tokens));
}

::testing::AssertionResult is_refused(const std::string& checkpoint,
                                      const convert::ModelOptions& options,
                                      std::initializer_list<std::string_view> parts) {
  const auto refused = testing::refuses([&] { convert_bytes(checkpoint, options); }, parts);
  return refused ? testing::refuses([&] { convert_bytes(checkpoint, options); }, {kFileName})
                 : refused;
}

}  // namespace arenite::test
