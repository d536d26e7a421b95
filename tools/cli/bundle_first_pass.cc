// SPDX-License-Identifier: Apache-2.0
// Computes the first pass of a bundle's main.c with kernels that give the same bits on every CPU,
// so that main.c can compare its results.
#include <algorithm>
#include <bit>
#include <vector>

#include "cli/bundle.h"
#include "convert/check/check_session.h"

namespace arenite::tool {
namespace {

// These constants equal those of main.c.
constexpr uint32_t kPassTokens = 8;
constexpr uint32_t kPassPositions = 128;
constexpr uint32_t kPassNumbersMax = 16;

uint32_t pass_room(const InputInfo& input) {
  return input.positions_max != 0 ? input.positions_max : kPassPositions;
}

}  // namespace

FirstPass first_pass(const BundledModel& bundled) {
  LoadOptions load;
  load.force_target = true;
  const Result<Model> model = Model::load(bundled.file.bytes(), nullptr, load);
  if (!model.ok()) return {};  // packed for other kernels
  SessionOptions options;
  options.positions_max = bundled.sizes.positions;
  options.tokens_max = bundled.sizes.tokens;
  options.sequences_max = bundled.sizes.sequences;
  uint32_t vocab_size = UINT32_MAX;
  for (uint32_t i = 0; i < model->inputs(); ++i) {
    const InputInfo input = model->input(i);
    if (input.vocab_size != 0) vocab_size = std::min(vocab_size, input.vocab_size);
    if (i != 0) options.others[i - 1] = {pass_room(input), pass_room(input)};
  }
  const convert::ConvertedSession session(*model, options);
  std::vector<std::vector<float>> features(model->inputs());
  std::vector<std::vector<TokenId>> ids(model->inputs());
  std::vector<std::vector<uint8_t>> pairs(model->inputs());
  Output output;
  for (uint32_t f = 0; f < model->functions(); ++f) {
    std::vector<Input> fed;
    for (uint32_t i = 0; i < model->inputs(); ++i) {
      if ((model->function(f).inputs >> i & 1) == 0) continue;
      const InputInfo input = model->input(i);
      const uint32_t most = i == 0 ? bundled.sizes.tokens : pass_room(input);
      const uint32_t tokens = format::allowed_length(input, std::min(most, kPassTokens));
      if (input.takes_pairs) pairs[i].assign(size_t{tokens} * tokens, 1);
      for (uint32_t t = 0; t < tokens; ++t) ids[i].push_back(t * 7 % vocab_size);
      for (size_t k = 0; k < size_t{tokens} * input.features; ++k) {
        features[i].push_back(static_cast<float>(k * 37 % 64) / 32.0f - 1.0f);
      }
      if (input.features != 0) {
        fed.emplace_back(Batch{features[i], 1, tokens, {}, {}, false, pairs[i]});
      } else {
        fed.emplace_back(TokenBatch{ids[i], 1, tokens, {}, {}, false, {}, pairs[i]});
      }
    }
    Diagnostic why;
    const Result<Output> result = session->step(f, fed, &why);
    if (!result.ok()) convert::fail_as_bug("take a first pass", result.status(), why);
    output = *result;
  }
  const size_t count = size_t{output.rows} * output.features;
  FirstPass pass;
  pass.step = static_cast<uint32_t>(std::max<size_t>(1, count / kPassNumbersMax));
  for (size_t i = 0; i < count && pass.bits.size() < kPassNumbersMax; i += pass.step) {
    pass.bits.push_back(std::bit_cast<uint32_t>(output.data[i]));
  }
  return pass;
}

}  // namespace arenite::tool
