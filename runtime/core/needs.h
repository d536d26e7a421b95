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

#include "arenite_needs.h"  // made by tools/cmake/model_needs.cmake

namespace arenite {

enum class Need : uint8_t {
  // Ops.
  kLinear,
  kAttention,
  kEmbedding,
  kRope,
  kAdd,
  // Selections, norms and activations, each in the order of its enum (op_kinds.h).
  kSelectAsAsked,
  kSelectFirst,
  kSelectMean,
  kSelectMax,
  kSelectMeanSqrtLength,
  kSelectWeightedMean,
  kSelectLast,
  kLayerNorm,
  kRmsNorm,
  kLengthNorm,
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
  // Weights that are not float32.
  kW8,
  kQ8,
  kQ4,
  // Keys and values in int8, which a file asks for.
  kInt8Cache,
  // Tokenizers, in the order of the file's numbers.
  kBytePairs,
  kSentencePieces,
  kCharacters,
  kWordPiece,
  // What changes scores of attention besides masks and slopes. A build without these refuses the
  // fields that ask for them, and has no names for them.
  kScoreCap,
  kScoreTables,
};
inline constexpr uint32_t kNeeds = 35;

// Names for messages, for `arenite inspect --json` and for arenite_needs.h.
inline constexpr const char* kNeedNames[kNeeds] = {
    "op linear",
    "op attention",
    "op embedding",
    "op rope",
    "op add",
    "select as_asked",
    "select first",
    "select mean",
    "select max",
    "select mean_sqrt_length",
    "select weighted_mean",
    "select last",
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
    "weights w8",
    "weights q8",
    "weights q4",
    "cache int8",
    "tokenizer byte pairs",
    "tokenizer sentence pieces",
    "tokenizer characters",
    "tokenizer WordPiece",
    "scores soft_cap",
    "scores tables",
};

constexpr const char* name(Need need) { return kNeedNames[static_cast<uint32_t>(need)]; }

// Bit set of the needs that this build meets.
constexpr uint64_t linked_needs() {
  if (kEverythingLinked) return UINT64_MAX;
  uint64_t needs = 0;
  for (const std::string_view wanted : kLinkedNeeds) {
    for (uint32_t i = 0; i < kNeeds; ++i) {
      if (wanted == kNeedNames[i]) needs |= uint64_t{1} << i;
    }
  }
  return needs;
}
inline constexpr uint64_t kLinked = linked_needs();

constexpr bool linked(Need need) { return (kLinked >> static_cast<uint32_t>(need) & 1u) != 0; }

template <typename... Needs>
constexpr bool any_linked(Needs... needs) {
  return (linked(needs) || ...);
}

inline constexpr bool kNormsLinked =
    any_linked(Need::kLayerNorm, Need::kRmsNorm, Need::kLengthNorm);
inline constexpr bool kActivationsLinked =
    any_linked(Need::kRelu, Need::kGeluErf, Need::kGeluTanh, Need::kSilu, Need::kSoftCap,
               Need::kTanh, Need::kSigmoid, Need::kScale);
inline constexpr bool kMeansLinked =
    any_linked(Need::kSelectMean, Need::kSelectMeanSqrtLength, Need::kSelectWeightedMean);
inline constexpr bool kFewBitsLinked = any_linked(Need::kW8, Need::kQ8, Need::kQ4);
inline constexpr bool kMergesLinked = any_linked(Need::kBytePairs, Need::kSentencePieces);
inline constexpr bool kPiecesLinked = kMergesLinked || linked(Need::kCharacters);
inline constexpr bool kTokenizersLinked = kPiecesLinked || linked(Need::kWordPiece);

// A name that no need has would leave out what a model needs.
static_assert(kEverythingLinked ||
                  static_cast<size_t>(std::popcount(kLinked)) == std::size(kLinkedNeeds),
              "ARENITE_HOST_TOOL is of another version than this runtime");

}  // namespace arenite
