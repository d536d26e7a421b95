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

#include "arenite_needs.h"  // made by tools/cmake/model_needs.cmake, or by arenite bundle

namespace arenite {

enum class Need : uint8_t {
  // Ops.
  kLinear,
  kAttention,
  kEmbedding,
  kRope,
  kAdd,
  kPrefix,
  kPatches,
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
  kDeviationNorm,
  kRootNorm,
  kSoftmax,
  kLogSoftmax,
  kRelu,
  kGeluErf,
  kGeluTanh,
  kSilu,
  kSoftCap,
  kTanh,
  kSigmoid,
  kScale,
  kLeakyRelu,
  kElu,
  kSoftplus,
  kMish,
  kHardSwish,
  kClamp,
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
  // fields that ask for them.
  kScoreCap,
  kScoreTables,
};
inline constexpr uint32_t kNeeds = 47;

// Names for `arenite inspect --json` and for arenite_needs.h.
inline constexpr const char* kNeedNames[kNeeds] = {
    "op linear",
    "op attention",
    "op embedding",
    "op rope",
    "op add",
    "op prefix",
    "op patches",
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
    "norm deviation",
    "norm root",
    "norm softmax",
    "norm log_softmax",
    "activation relu",
    "activation gelu_erf",
    "activation gelu_tanh",
    "activation silu",
    "activation soft_cap",
    "activation tanh",
    "activation sigmoid",
    "activation scale",
    "activation leaky_relu",
    "activation elu",
    "activation softplus",
    "activation mish",
    "activation hard_swish",
    "activation clamp",
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

template <typename... Needs>
constexpr uint64_t bits_of(Needs... needs) {
  return (... | (uint64_t{1} << static_cast<uint32_t>(needs)));
}

constexpr bool linked(Need need) { return (kLinked & bits_of(need)) != 0; }

template <typename... Needs>
constexpr bool any_linked(Needs... needs) {
  return (kLinked & bits_of(needs...)) != 0;
}

inline constexpr uint64_t kNormNeeds =
    bits_of(Need::kLayerNorm, Need::kRmsNorm, Need::kLengthNorm, Need::kDeviationNorm,
            Need::kRootNorm, Need::kSoftmax, Need::kLogSoftmax);
inline constexpr uint64_t kActivationNeeds =
    bits_of(Need::kRelu, Need::kGeluErf, Need::kGeluTanh, Need::kSilu, Need::kSoftCap, Need::kTanh,
            Need::kSigmoid, Need::kScale, Need::kLeakyRelu, Need::kElu, Need::kSoftplus,
            Need::kMish, Need::kHardSwish, Need::kClamp);
inline constexpr bool kNormsLinked = (kLinked & kNormNeeds) != 0;
inline constexpr bool kActivationsLinked = (kLinked & kActivationNeeds) != 0;
inline constexpr bool kMeansLinked =
    any_linked(Need::kSelectMean, Need::kSelectMeanSqrtLength, Need::kSelectWeightedMean);
inline constexpr bool kFewBitsLinked = any_linked(Need::kW8, Need::kQ8, Need::kQ4);
inline constexpr bool kMergesLinked = any_linked(Need::kBytePairs, Need::kSentencePieces);
inline constexpr bool kPiecesLinked = kMergesLinked || linked(Need::kCharacters);
inline constexpr bool kTokenizersLinked = kPiecesLinked || linked(Need::kWordPiece);

// A name that no need has would leave out what a model needs.
static_assert(kEverythingLinked ||
                  static_cast<size_t>(std::popcount(kLinked)) == std::size(kLinkedNeeds),
              "the program arenite is of another version than this runtime");

}  // namespace arenite
