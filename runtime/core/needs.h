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

#include "arenite/tensor_type.h"
#include "arenite_needs.h"  // made by tools/cmake/model_needs.cmake, or by arenite bundle
#include "core/op_kinds.h"

namespace arenite {

enum class Need : uint8_t {
  // Ops.
  kLinear,
  kAttention,
  kEmbedding,
  kRope,
  kAdd,
  kJoin,
  kConvolution,
  kDepthwise,
  kMaxPool,
  kStore,
  // Selections, norms and activations, each in the order of its enum (op_kinds.h).
  kSelectAsAsked,
  kSelectFirst,
  kSelectMean,
  kSelectMax,
  kSelectMeanSqrtLength,
  kSelectWeightedMean,
  kSelectLast,
  kSelectSum,
  kSelectTurns,
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
  kExp,
  kSqrt,
  kReciprocal,
  kLog,
  kSin,
  // Masks that are no bands.
  kStripMask,
  kTileMask,
  kPairMask,
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
  kUnigram,  // also byte pairs and others with the lists of a normalizer, or several tokens around
  // What changes scores of attention besides masks and slopes. A build without these refuses the
  // fields that ask for them.
  kScoreCap,
  kScoreTables,
  kSinks,
  kQueryTerms,
  // Several inputs, or several functions; ops that run over blocks of rows.
  kFunctions,
  kBlocks,
  // Features that are made of sound.
  kSound,
};

// The name of a need is its kind, a space, and its name among those of its kind: for
// `arenite inspect --json` and for arenite_needs.h.
struct NeedName {
  const char* kind;
  const char* name;

  constexpr bool operator==(std::string_view text) const {
    const std::string_view first = kind;
    return text.starts_with(first) && text.substr(first.size()).starts_with(' ') &&
           text.substr(first.size() + 1) == name;
  }
};

// How many of one kind there are, and what they are called.
struct NeedNames {
  const char* kind;
  const char* const* names;
  uint32_t count;

  template <size_t kCount>
  constexpr NeedNames(const char* kind_in, const char* const (&names_in)[kCount])
      : kind(kind_in), names(names_in), count(kCount) {}
};
inline constexpr const char* kPlainOpNames[] = {"linear",   "attention", "embedding",   "rope",
                                                "add",      "join",      "convolution", "depthwise",
                                                "max_pool", "store"};
inline constexpr const char* kMaskNeedNames[] = {"strip", "tiles", "pairs"};
inline constexpr const char* kWeightNeedNames[] = {name(TensorType::kW8), name(TensorType::kQ8),
                                                   name(TensorType::kQ4)};
inline constexpr const char* kCacheNeedNames[] = {name(TensorType::kInt8)};
inline constexpr const char* kTokenizerNeedNames[] = {"byte pairs", "sentence pieces", "characters",
                                                      "WordPiece", "unigram"};
inline constexpr const char* kScoreNeedNames[] = {"soft_cap", "tables", "sinks", "query_terms"};
inline constexpr const char* kProgramNeedNames[] = {"functions", "blocks"};
inline constexpr const char* kSoundNeedNames[] = {"features"};
// In the order of Need.
inline constexpr NeedNames kNeedNames[] = {
    {"op", kPlainOpNames},       {"select", kSelectNames},
    {"norm", kNormNames},        {"activation", kActivationNames},
    {"mask", kMaskNeedNames},    {"weights", kWeightNeedNames},
    {"cache", kCacheNeedNames},  {"tokenizer", kTokenizerNeedNames},
    {"scores", kScoreNeedNames}, {"program", kProgramNeedNames},
    {"sound", kSoundNeedNames},
};

inline constexpr uint32_t kNeeds = [] {
  uint32_t count = 0;
  for (const NeedNames& of_kind : kNeedNames) count += of_kind.count;
  return count;
}();
static_assert(kNeeds == static_cast<uint32_t>(Need::kSound) + 1 && kNeeds <= 64);

constexpr NeedName name(Need need) {
  uint32_t index = static_cast<uint32_t>(need);
  for (const NeedNames& of_kind : kNeedNames) {
    if (index < of_kind.count) return {of_kind.kind, of_kind.names[index]};
    index -= of_kind.count;
  }
  return {"", ""};
}

// Bit set of the needs that this build meets.
constexpr uint64_t linked_needs() {
  if (kEverythingLinked) return UINT64_MAX;
  uint64_t needs = 0;
  for (const std::string_view wanted : kLinkedNeeds) {
    for (uint32_t i = 0; i < kNeeds; ++i) {
      if (name(static_cast<Need>(i)) == wanted) needs |= uint64_t{1} << i;
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
            Need::kMish, Need::kHardSwish, Need::kClamp, Need::kExp, Need::kSqrt, Need::kReciprocal,
            Need::kLog, Need::kSin);
inline constexpr bool kNormsLinked = (kLinked & kNormNeeds) != 0;
inline constexpr bool kActivationsLinked = (kLinked & kActivationNeeds) != 0;
inline constexpr bool kMeansLinked = any_linked(Need::kSelectMean, Need::kSelectMeanSqrtLength,
                                                Need::kSelectWeightedMean, Need::kSelectSum);
inline constexpr bool kPoolsLinked =
    any_linked(Need::kSelectFirst, Need::kSelectMean, Need::kSelectMax, Need::kSelectMeanSqrtLength,
               Need::kSelectWeightedMean, Need::kSelectLast, Need::kSelectSum);
inline constexpr bool kWindowsLinked =
    any_linked(Need::kConvolution, Need::kDepthwise, Need::kMaxPool);
inline constexpr bool kFunctionsLinked = linked(Need::kFunctions);
// Whether there are axes beside those of one input and of the rows that are asked for.
inline constexpr bool kAxesLinked = kPoolsLinked || kWindowsLinked || kFunctionsLinked ||
                                    any_linked(Need::kSelectTurns, Need::kJoin, Need::kBlocks);
inline constexpr bool kFewBitsLinked = any_linked(Need::kW8, Need::kQ8, Need::kQ4);
inline constexpr bool kMergesLinked = any_linked(Need::kBytePairs, Need::kSentencePieces);
inline constexpr bool kPiecesLinked =
    kMergesLinked || any_linked(Need::kCharacters, Need::kUnigram);
inline constexpr bool kTokenizersLinked = kPiecesLinked || linked(Need::kWordPiece);

// A name that no need has would leave out what a model needs.
static_assert(kEverythingLinked ||
                  static_cast<size_t>(std::popcount(kLinked)) == std::size(kLinkedNeeds),
              "the program arenite is of another version than this runtime");

}  // namespace arenite
