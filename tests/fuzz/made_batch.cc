// SPDX-License-Identifier: Apache-2.0
// Makes the values first, then the form that assigns them to sequences, then faults.
#include "fuzz/made_batch.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "arenite/image.h"
#include "fuzz/guarded_region.h"

namespace arenite::test {
namespace {

constexpr uint32_t kTokensMax = 40;
constexpr size_t kValueBytesMax = size_t{4} << 20;

// Each input has its own region.
std::span<std::byte> lend(uint32_t input, size_t bytes) {
  static GuardedRegion regions[kInputsMax] = {
      GuardedRegion(kValueBytesMax), GuardedRegion(kValueBytesMax), GuardedRegion(kValueBytesMax),
      GuardedRegion(kValueBytesMax)};
  return regions[input].lend(bytes, sizeof(float));
}

float any_float(Choices& choices) {
  using Limits = std::numeric_limits<float>;
  constexpr float kFloats[] = {
      0.0f, -0.0f, 1e30f, -1e30f, Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min()};
  return kFloats[choices.below(std::size(kFloats))];
}

void make_values(const FedInput& fed, MadeBatch& batch, size_t tokens, uint32_t wild_one_in,
                 Choices& choices) {
  const InputInfo info = fed.model.input(fed.input);
  batch.reads_ids = info.vocab_size != 0;
  batch.width = batch.reads_ids ? 1 : info.features;
  const size_t count = tokens * batch.width;
  // A model of wide features: nothing is fed.
  if (count > kValueBytesMax / sizeof(float)) return;
  const std::span<std::byte> memory = lend(fed.input, count * sizeof(float));
  Random& random = choices.random();
  if (batch.reads_ids) {
    const std::span<TokenId> ids(reinterpret_cast<TokenId*>(memory.data()), count);
    for (TokenId& id : ids) id = random.below(info.vocab_size);
    batch.ids = ids;
    if (info.token_types != 0 && choices.one_in(3)) {
      batch.types.resize(count);
      const uint32_t types = std::min(info.token_types, 256u);
      for (uint8_t& type : batch.types) type = static_cast<uint8_t>(random.below(types));
    }
    return;
  }
  const std::span<float> features(reinterpret_cast<float*>(memory.data()), count);
  random.fill(features, 1.0f);
  if (count != 0 && wild_one_in != 0 && choices.one_in(wild_one_in)) {
    features[random.below(static_cast<uint32_t>(count))] = any_float(choices);
  }
  batch.features = features;
}

bool is_image(const FedInput& fed) { return image_shape(fed.model, fed.input).channels != 0; }

uint32_t tokens_for(const FedInput& fed, uint32_t sequences, Choices& choices) {
  if (is_image(fed)) return image_shape(fed.model, fed.input).tokens();
  const InputSizes sizes = fed.sizes();
  uint32_t most =
      sizes.positions_max == 0 ? fed.model.input(fed.input).positions_max : sizes.positions_max;
  if (sizes.tokens_max != 0) most = std::min(most, sizes.tokens_max / sequences);
  return 1 + choices.below(std::clamp(most, 1u, kTokensMax));
}

void spoil(const FedInput& fed, MadeBatch& batch, Choices& choices) {
  switch (choices.below(8)) {
    case 0:
      batch.tokens = choices.below(4) * 0x55555555u;
      break;
    case 1:
      batch.sequences = choices.below(2) == 0 ? 0 : batch.sequences + 1;
      break;
    case 2:
      batch.lengths.push_back(UINT32_MAX);
      break;
    case 3:
      if (!batch.lengths.empty()) batch.lengths.back() = UINT32_MAX - choices.below(2);
      break;
    case 4:
      batch.types.assign(batch.ids.size(), 0xFF);
      break;
    case 5:
      batch.visible.assign(batch.visible.size() + 1, 1);
      break;
    case 6:
      batch.back_to_back = !batch.back_to_back;
      break;
    default:
      if (!batch.ids.empty())
        const_cast<TokenId&>(batch.ids.back()) = fed.model.input(fed.input).vocab_size;
  }
}

}  // namespace

InputSizes FedInput::sizes() const {
  if (input != 0) return options.others[input - 1];
  return {options.positions_max, options.tokens_max};
}

Input MadeBatch::as_input() const { return reads_ids ? Input(of_ids()) : Input(of_features()); }

Batch MadeBatch::of_features() const {
  Batch batch{features, sequences, tokens, lengths};
  batch.visible = visible;
  batch.outputs = outputs;
  batch.back_to_back = back_to_back;
  return batch;
}

TokenBatch MadeBatch::of_ids() const {
  TokenBatch batch{ids, sequences, tokens, lengths};
  batch.visible = visible;
  batch.outputs = outputs;
  batch.back_to_back = back_to_back;
  batch.types = types;
  return batch;
}

Result<Output> MadeBatch::run(Session& session, Diagnostic* why) const {
  return reads_ids ? session.run(of_ids(), why) : session.run(of_features(), why);
}

Result<Output> MadeBatch::step(Session& session, Diagnostic* why) const {
  return reads_ids ? session.step(of_ids(), why) : session.step(of_features(), why);
}

Status MadeBatch::begin(Session& session, bool is_run, Diagnostic* why) const {
  if (reads_ids) {
    return is_run ? session.begin_run(of_ids(), why) : session.begin_step(of_ids(), why);
  }
  return is_run ? session.begin_run(of_features(), why) : session.begin_step(of_features(), why);
}

MadeBatch MadeBatch::part(uint32_t begin, uint32_t end) const {
  MadeBatch result;
  result.reads_ids = reads_ids;
  result.width = width;
  result.tokens = end - begin;
  if (reads_ids) {
    result.ids = ids.subspan(begin, end - begin);
  } else {
    result.features = features.subspan(begin * width, (end - begin) * width);
  }
  return result;
}

MadeBatch any_batch(const FedInput& fed, uint32_t sequences, Choices& choices) {
  MadeBatch batch;
  batch.sequences = sequences;
  batch.tokens = tokens_for(fed, sequences, choices);
  const uint32_t form = is_image(fed) ? 0 : choices.below(5);
  size_t values = size_t{batch.sequences} * batch.tokens;
  if (form == 1 || form == 2) {
    for (uint32_t i = 0; i < batch.sequences; ++i) {
      batch.lengths.push_back(choices.below(batch.tokens + 1));
    }
  }
  if (form == 2) {
    batch.back_to_back = true;
    values = std::accumulate(batch.lengths.begin(), batch.lengths.end(), size_t{0});
  }
  if (form == 3) {
    batch.visible.resize(values);
    for (uint8_t& token : batch.visible) token = choices.random().below(3) != 0;
  }
  if (form == 4) {
    batch.outputs.resize(values);
    for (uint8_t& token : batch.outputs) token = choices.random().below(4) == 0;
  }
  make_values(fed, batch, values, 32, choices);
  if (choices.one_in(8)) spoil(fed, batch, choices);
  return batch;
}

MadeBatch sound_batch(const FedInput& fed, uint32_t sequences, uint32_t wild_one_in,
                      Choices& choices) {
  MadeBatch batch;
  batch.sequences = sequences;
  batch.tokens = tokens_for(fed, sequences, choices);
  size_t values = size_t{sequences} * batch.tokens;
  if (!is_image(fed)) {
    batch.back_to_back = true;
    values = 0;
    for (uint32_t i = 0; i < sequences; ++i) {
      batch.lengths.push_back(1 + choices.below(batch.tokens));
      values += batch.lengths.back();
    }
  }
  make_values(fed, batch, values, wild_one_in, choices);
  batch.types.clear();
  return batch;
}

}  // namespace arenite::test
