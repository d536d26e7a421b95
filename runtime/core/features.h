// SPDX-License-Identifier: Apache-2.0
// The parts of the runtime that one model needs and another does not. A build with ARENITE_MODEL
// links those that its models need; code asks linked(), which the compiler knows the answer to.
// Kernel sets are not among them: tools/cmake/xnnpack.cmake chooses these.
#pragma once

#include <cstdint>
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
  // Masks that are no bands.
  kStripMask,
  kTileMask,
  // Tokenizers, in the order of the file's numbers.
  kBytePairs,
  kSentencePieces,
  kCharacters,
  kWordPiece,
};
inline constexpr uint32_t kFeatures = 21;

// Names for messages, for `arenite inspect --json` and for arenite_features.h.
inline constexpr const char* kFeatureNames[kFeatures] = {
    "op linear",
    "op attention",
    "op embedding",
    "op rope",
    "op add",
    "op select",
    "norm layer",
    "norm rms",
    "norm length",
    "activation relu",
    "activation gelu_erf",
    "activation gelu_tanh",
    "activation silu",
    "activation soft_cap",
    "activation tanh",
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

// Whether this build has the feature.
constexpr bool linked(Feature feature) {
  if (kEverythingLinked) return true;
  for (const std::string_view wanted : kLinkedFeatures) {
    if (wanted == name(feature)) return true;
  }
  return false;
}

template <typename... Features>
constexpr bool any_linked(Features... features) {
  return (linked(features) || ...);
}

inline constexpr bool kNormsLinked =
    any_linked(Feature::kLayerNorm, Feature::kRmsNorm, Feature::kLengthNorm);
inline constexpr bool kActivationsLinked =
    any_linked(Feature::kRelu, Feature::kGeluErf, Feature::kGeluTanh, Feature::kSilu,
               Feature::kSoftCap, Feature::kTanh);
inline constexpr bool kMergesLinked = any_linked(Feature::kBytePairs, Feature::kSentencePieces);
inline constexpr bool kPiecesLinked = kMergesLinked || linked(Feature::kCharacters);
inline constexpr bool kTokenizersLinked = kPiecesLinked || linked(Feature::kWordPiece);

// A name that no feature has would leave out what a model needs.
constexpr bool all_names_known() {
  for (const std::string_view wanted : kLinkedFeatures) {
    bool known = wanted.empty();
    for (const std::string_view feature : kFeatureNames) known = known || wanted == feature;
    if (!known) return false;
  }
  return true;
}
static_assert(all_names_known(), "ARENITE_HOST_TOOL is of another version than this runtime");

}  // namespace arenite
