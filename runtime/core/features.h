// SPDX-License-Identifier: Apache-2.0
// The parts of the runtime that one model needs and another does not. A build with ARENITE_MODEL
// links those that its models need; code asks linked(), which the compiler knows the answer to.
// Kernel sets are not among them: tools/cmake/xnnpack.cmake chooses these.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "arenite_features.h"  // made by tools/cmake/model_features.cmake

namespace arenite {

enum class Feature : uint8_t {
  // Ops.
  kLinear,
  kAttention,
  kEmbedding,
  kRope,
  kAdd,
  kSelect,
  // Selections that make a row of several.
  kMeanPooling,
  kMaxPooling,
  // Norms, in the order of the file's numbers.
  kLayerNorm,
  kRmsNorm,
  kLengthNorm,
  // Activations, in the order of the file's numbers.
  kRelu,
  kGeluErf,
  kGeluTanh,
  kSilu,
  kSoftCap,
  kTanh,
  kSigmoid,
  kScale,
  // Masks that are no bands.
  kStripMask,
  kTileMask,
  // Tokenizers, in the order of the file's numbers.
  kBytePairs,
  kSentencePieces,
  kCharacters,
  kWordPiece,
};
inline constexpr uint32_t kFeatures = 25;

// Names for messages, for `arenite inspect --json` and for arenite_features.h.
inline constexpr const char* kFeatureNames[kFeatures] = {
    "op linear",
    "op attention",
    "op embedding",
    "op rope",
    "op add",
    "op select",
    "pooling mean",
    "pooling max",
    "norm layer",
    "norm rms",
    "norm length",
    "activation relu",
    "activation gelu_erf",
    "activation gelu_tanh",
    "activation silu",
    "activation soft_cap",
    "activation tanh",
    "activation sigmoid",
    "activation scale",
    "mask strip",
    "mask tiles",
    "tokenizer byte pairs",
    "tokenizer sentence pieces",
    "tokenizer characters",
    "tokenizer WordPiece",
};

constexpr const char* name(Feature feature) {
  return kFeatureNames[static_cast<uint32_t>(feature)];
}

// Bit set of the features that this build has.
constexpr uint32_t linked_features() {
  if (kEverythingLinked) return UINT32_MAX;
  uint32_t features = 0;
  for (const std::string_view wanted : kLinkedFeatures) {
    for (uint32_t i = 0; i < kFeatures; ++i) {
      if (wanted == kFeatureNames[i]) features |= 1u << i;
    }
  }
  return features;
}
inline constexpr uint32_t kLinked = linked_features();

constexpr bool linked(Feature feature) {
  return (kLinked >> static_cast<uint32_t>(feature) & 1u) != 0;
}

template <typename... Features>
constexpr bool any_linked(Features... features) {
  return (linked(features) || ...);
}

inline constexpr bool kNormsLinked =
    any_linked(Feature::kLayerNorm, Feature::kRmsNorm, Feature::kLengthNorm);
inline constexpr bool kActivationsLinked =
    any_linked(Feature::kRelu, Feature::kGeluErf, Feature::kGeluTanh, Feature::kSilu,
               Feature::kSoftCap, Feature::kTanh, Feature::kSigmoid, Feature::kScale);
inline constexpr bool kMergesLinked = any_linked(Feature::kBytePairs, Feature::kSentencePieces);
inline constexpr bool kPiecesLinked = kMergesLinked || linked(Feature::kCharacters);
inline constexpr bool kTokenizersLinked = kPiecesLinked || linked(Feature::kWordPiece);

// A name that no feature has would leave out what a model needs.
static_assert(kEverythingLinked ||
                  static_cast<size_t>(std::popcount(kLinked)) == std::size(kLinkedFeatures),
              "ARENITE_HOST_TOOL is of another version than this runtime");

}  // namespace arenite
