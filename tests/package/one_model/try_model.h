// SPDX-License-Identifier: Apache-2.0
// Loads a model, runs it on fixed pseudo-random numbers and returns a line with a digest of the
// results, or the reason of a failure. For a model packed as portable, the line is the same on
// every machine.
#ifndef ARENITE_TESTS_PACKAGE_ONE_MODEL_TRY_MODEL_H_
#define ARENITE_TESTS_PACKAGE_ONE_MODEL_TRY_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "arenite/session.h"

inline constexpr uint32_t kTokens = 8;

// Writes the line into `text`. `arena` is for kTokens tokens.
inline std::string_view try_model(std::span<const std::byte> file, std::span<std::byte> arena,
                                  std::span<char> text) {
  arenite::Diagnostic why;
  const auto refused = [&](arenite::Status status) {
    return std::string_view(text.data(), arenite::describe(status, why, text));
  };
  const auto model = arenite::Model::load(file, &why);
  if (!model.ok()) return refused(model.status());
  arenite::SessionOptions options;
  options.positions_max = kTokens;
  const auto session = arenite::Session::create(*model, options, arena, &why);
  if (!session.ok()) return refused(session.status());

  arenite::Result<arenite::Output> output(arenite::Output{});
  if (model->vocab_size() != 0) {
    arenite::TokenId ids[kTokens];
    for (uint32_t i = 0; i < kTokens; ++i) ids[i] = i * 7 % model->vocab_size();
    output = (*session)->step(std::span<const arenite::TokenId>(ids), &why);
  } else {
    static float features[kTokens * 64];
    const size_t count = kTokens * model->input_features();
    if (count > std::size(features)) return "the model is too wide for this program";
    for (size_t i = 0; i < count; ++i) features[i] = static_cast<float>(i * 37 % 64) / 32.0f - 1.0f;
    output = (*session)->step(std::span<const float>(features, count), &why);
  }
  if (!output.ok()) return refused(output.status());

  uint32_t digest = 2166136261u;  // FNV-1a, over words
  for (size_t i = 0; i < size_t{output->rows} * output->features; ++i) {
    uint32_t word;
    std::memcpy(&word, output->data + i, sizeof(word));
    digest = (digest ^ word) * 16777619u;
  }
  constexpr std::string_view kWords = "digest ";
  std::memcpy(text.data(), kWords.data(), kWords.size());
  for (size_t i = 0; i < 8; ++i) {
    text[kWords.size() + i] = "0123456789abcdef"[digest >> (28 - 4 * i) & 15u];
  }
  return {text.data(), kWords.size() + 8};
}

#endif  // ARENITE_TESTS_PACKAGE_ONE_MODEL_TRY_MODEL_H_
