// SPDX-License-Identifier: Apache-2.0
// The sound front end of a model file: the parameters and tables from which features are computed.
//
//     samples -> frames [window] -> spectrum -> bands -> logarithm -> features (cosine transform)
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/checked_math.h"

namespace arenite {

// Ids and bits are part of the file format: never renumbered, never reused.
enum SoundFlags : uint32_t {
  kCentred = 1,        // frame t is centred at sample t * hop: half a window is padded at both ends
  kReflected = 2,      // the padding mirrors the sound; else it is zeros
  kMagnitude = 4,      // bands sum magnitudes, not their squares
  kAddsFloor = 8,      // adds `floor` to the energy of a band; else `floor` is the minimum
  kDropsLast = 16,     // drops the last frame of a sound
  kRemovesMean = 32,   // subtracts the mean of each frame first
  kIsLinear = 64,      // uses energies without a logarithm
  kPeakIsFixed = 128,  // `range` is relative to `peak`, not to the loudest band of the whole sound
  kPadsFrames = 256,   // pads short sounds by frames of `offset`, not by silence
  kSoundFlagsAll = 511,
};

// Limits within which float32 computes to about seven digits, and sizes fit 32 bits.
inline constexpr uint32_t kPointsMin = 32;
inline constexpr uint32_t kPointsMax = 4096;
inline constexpr uint32_t kHopMax = 1u << 16;
inline constexpr uint32_t kSoundRateMax = 1u << 20;
inline constexpr uint32_t kFramesPerTokenMax = 64;

struct SoundNumbers {
  uint32_t rate = 0;          // samples per second
  uint32_t window = 0;        // samples per frame
  uint32_t hop = 0;           // samples from the start of a frame to the next
  uint32_t points = 0;        // length of the Fourier transform: the window, zero-padded
  uint32_t bands = 0;         // bands of the filter bank
  uint32_t coefficients = 0;  // coefficients of the cosine transform of the bands; 0: no transform
  uint32_t flags = 0;         // bit set of SoundFlags
  float emphasis = 0.0f;      // pre-emphasis: x[i] - emphasis * x[i - 1]
  float floor = 0.0f;         // floor of the energy of a band
  float factor = 1.0f;        // factor of its natural logarithm
  float offset = 0.0f;        // offset added to that product
  float range = 0.0f;         // bands below peak - range are raised to it; 0: none
  float peak = 0.0f;

  bool has(SoundFlags flag) const { return (flags & flag) != 0; }
  uint32_t bins() const { return points / 2 + 1; }
  uint32_t features() const { return coefficients != 0 ? coefficients : bands; }
  // Padding samples before the first sample of the sound.
  uint32_t padding() const { return has(kCentred) ? window / 2 : 0; }
  // Whether a feature depends on the whole sound.
  bool needs_whole_sound() const { return range != 0.0f && !has(kPeakIsFixed); }

  // Returns how many frames `samples` samples yield.
  uint64_t frames(uint64_t samples) const {
    const uint64_t padded = samples + 2 * uint64_t{padding()};
    if (padded < window || (has(kReflected) && samples <= padding())) return 0;
    return (padded - window) / hop + (has(kDropsLast) ? 0 : 1);
  }
  // Returns the fewest samples that yield `frames` frames. If the ends are mirrored and these would
  // be too few to mirror, returns the fewest that can be mirrored, which yield more frames.
  uint64_t samples(uint64_t frames) const {
    const uint64_t hops = frames - (has(kDropsLast) ? 0 : 1);
    const uint64_t count = hops * hop + window - 2 * uint64_t{padding()};
    return has(kReflected) && count <= padding() ? padding() + 1 : count;
  }
};

// Returns the next factor of a length that the Fourier transform supports; 0: there is none.
constexpr uint32_t radix_of(uint32_t length) {
  for (const uint32_t radix : {4u, 2u, 3u, 5u, 7u}) {
    if (length % radix == 0) return radix;
  }
  return 0;
}
// Whether there is a transform: `points` is even, and half of it a product of 2, 3, 5 and 7.
constexpr bool has_transform(uint32_t points) {
  if (points % 2 != 0 || points < kPointsMin || points > kPointsMax) return false;
  uint32_t left = points / 2;
  while (left > 1 && radix_of(left) != 0) left /= radix_of(left);
  return left == 1;
}

// Views of the front end in the model file. The tables follow each other: window [window]; roots
// e^(-2 pi i k / n), k < n = points / 2; half roots e^(-2 pi i k / points), k <= points / 4;
// weights of all bands; cosine transform [coefficients, bands]. Complex numbers are pairs of
// floats.
struct SoundView {
  const SoundNumbers* numbers = nullptr;  // null: no front end
  std::span<const uint32_t> filters;      // [bands, 2]: first bin and number of bins
  std::span<const float> tables;

  const float* window() const { return tables.data(); }
  const float* roots() const { return window() + numbers->window; }
  const float* half_roots() const { return roots() + numbers->points; }
  const float* weights() const { return half_roots() + 2 * (numbers->points / 4 + 1); }
  const float* cosines() const {
    return tables.data() + tables.size() - numbers->coefficients * numbers->bands;
  }
};

// Floats of work space of a stream, for a model with `width` input features: the last samples, the
// two halves of a transform, and a token.
constexpr uint32_t sound_floats(const SoundNumbers& numbers, uint32_t width) {
  return numbers.window + 1 + 2 * numbers.points + width;
}

}  // namespace arenite
