// SPDX-License-Identifier: Apache-2.0
// Values first, then the form that says where they belong, then what spoils it.
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

std::span<std::byte> lend(size_t bytes) {
  static GuardedRegion region(kValueBytesMax);
  return region.lend(bytes, sizeof(float));
}

float any_float(Choices& choices) {
  using Limits = std::numeric_limits<float>;
  constexpr float kFloats[] = {
      0.0f, -0.0f, 1e30f, -1e30f, Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min()};
  return kFloats[choices.below(std::size(kFloats))];
}

void make_values(const Model& model, MadeBatch& batch, size_t tokens, uint32_t wild_one_in,
                 Choices& choices) {
  batch.reads_ids = model.vocab_size() != 0;
  batch.width = batch.reads_ids ? 1 : model.input_features();
  const size_t count = tokens * batch.width;
  // A model of wide features: nothing is fed.
  if (count > kValueBytesMax / sizeof(float)) return;
  const std::span<std::byte> memory = lend(count * sizeof(float));
  Random& random = choices.random();
  if (batch.reads_ids) {
    const std::span<TokenId> ids(reinterpret_cast<TokenId*>(memory.data()), count);
    for (TokenId& id : ids) id = random.below(model.vocab_size());
    batch.ids = ids;
    if (model.token_types() != 0 && choices.one_in(3)) {
      batch.types.resize(count);
      const uint32_t types = std::min(model.token_types(), 256u);
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

uint32_t tokens_for(const Model& model, const SessionOptions& options, uint32_t sequences,
                    Choices& choices) {
  const ImageShape image = image_shape(model);
  if (image.channels != 0) return image.patches;
  uint32_t most = options.positions_max == 0 ? model.positions_max() : options.positions_max;
  if (options.tokens_max != 0) most = std::min(most, options.tokens_max / sequences);
  return 1 + choices.below(std::clamp(most, 1u, kTokensMax));
}

void spoil(const Model& model, MadeBatch& batch, Choices& choices) {
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
      if (!batch.ids.empty()) const_cast<TokenId&>(batch.ids.back()) = model.vocab_size();
  }
}

}  // namespace

Batch MadeBatch::of_features() const {
  Batch batch{features, sequences, tokens, lengths};
  batch.visible = visible;
  batch.back_to_back = back_to_back;
  return batch;
}

TokenBatch MadeBatch::of_ids() const {
  TokenBatch batch{ids, sequences, tokens, lengths};
  batch.visible = visible;
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

MadeBatch any_batch(const Model& model, const SessionOptions& options, Choices& choices) {
  MadeBatch batch;
  batch.sequences = 1 + choices.below(options.sequences_max);
  batch.tokens = tokens_for(model, options, batch.sequences, choices);
  const uint32_t form = image_shape(model).channels != 0 ? 0 : choices.below(4);
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
  make_values(model, batch, values, 32, choices);
  if (choices.one_in(8)) spoil(model, batch, choices);
  return batch;
}

MadeBatch sound_batch(const Model& model, const SessionOptions& options, uint32_t sequences,
                      uint32_t wild_one_in, Choices& choices) {
  MadeBatch batch;
  batch.sequences = sequences;
  batch.tokens = tokens_for(model, options, sequences, choices);
  size_t values = size_t{sequences} * batch.tokens;
  if (image_shape(model).channels == 0) {
    batch.back_to_back = true;
    values = 0;
    for (uint32_t i = 0; i < sequences; ++i) {
      batch.lengths.push_back(1 + choices.below(batch.tokens));
      values += batch.lengths.back();
    }
  }
  make_values(model, batch, values, wild_one_in, choices);
  batch.types.clear();
  return batch;
}

}  // namespace arenite::test
