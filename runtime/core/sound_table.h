// SPDX-License-Identifier: Apache-2.0
// What a model file says of the sound that its features are made of: numbers, tables, and what
// follows from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/checked_math.h"

namespace arenite {

// Ids and bits are part of the file format: never renumbered, never reused.
enum SoundFlags : uint32_t {
  kCentred = 1,        // frame t is around sample t * hop: half a window is put before and after
  kReflected = 2,      // what is put there mirrors the sound; else it is zeros
  kMagnitude = 4,      // bands are sums of magnitudes, not of their squares
  kAddsFloor = 8,      // to a band's energy; else the floor is the least that it can be
  kDropsLast = 16,     // the last frame of a sound is left out
  kRemovesMean = 32,   // of each frame, before anything else
  kIsLinear = 64,      // energies as they are, without a logarithm
  kPeakIsFixed = 128,  // what `range` is below: `peak`, not the loudest band of the whole sound
  kPadsFrames = 256,   // after a short sound come frames of `offset`, not silence
  kSoundFlagsAll = 511,
};

// Limits of what is computed with float32 to about seven digits, and in 32-bit sizes.
inline constexpr uint32_t kPointsMin = 32;
inline constexpr uint32_t kPointsMax = 4096;
inline constexpr uint32_t kHopMax = 1u << 16;
inline constexpr uint32_t kSoundRateMax = 1u << 20;
inline constexpr uint32_t kFramesPerTokenMax = 64;

struct SoundNumbers {
  uint32_t rate = 0;          // samples a second
  uint32_t window = 0;        // samples of a frame
  uint32_t hop = 0;           // samples from one frame to the next
  uint32_t points = 0;        // of the Fourier transform: the window, and zeros
  uint32_t bands = 0;         // of the filter bank
  uint32_t coefficients = 0;  // of the cosine transform of a frame's bands; 0: there is none
  uint32_t flags = 0;         // of SoundFlags
  float emphasis = 0.0f;      // of each sample this part of the one before is taken away
  float floor = 0.0f;         // of a band's energy
  float factor = 1.0f;        // of its natural logarithm
  float offset = 0.0f;        // and what is added then
  float range = 0.0f;         // below the peak a band is raised to this distance; 0: none is
  float peak = 0.0f;

  bool has(SoundFlags flag) const { return (flags & flag) != 0; }
  uint32_t bins() const { return points / 2 + 1; }
  uint32_t features() const { return coefficients != 0 ? coefficients : bands; }
  // Samples before the first that the first frame has.
  uint32_t padding() const { return has(kCentred) ? window / 2 : 0; }
  // Whether what a band becomes depends on the whole sound.
  bool needs_whole_sound() const { return range != 0.0f && !has(kPeakIsFixed); }

  // Frames of a sound of so many samples.
  uint64_t frames(uint64_t samples) const {
    const uint64_t padded = samples + 2 * uint64_t{padding()};
    if (padded < window || (has(kReflected) && samples <= padding())) return 0;
    return (padded - window) / hop + (has(kDropsLast) ? 0 : 1);
  }
  // The fewest samples that have so many frames, or more where ends are mirrored in too few.
  uint64_t samples(uint64_t frames) const {
    const uint64_t hops = frames - (has(kDropsLast) ? 0 : 1);
    const uint64_t count = hops * hop + window - 2 * uint64_t{padding()};
    return has(kReflected) && count <= padding() ? padding() + 1 : count;
  }
};

// The next factor of a length that a Fourier transform is made of; 0: it has others.
constexpr uint32_t radix_of(uint32_t length) {
  for (const uint32_t radix : {4u, 2u, 3u, 5u, 7u}) {
    if (length % radix == 0) return radix;
  }
  return 0;
}
// Even, and half of it a product of 2, 3, 5 and 7.
constexpr bool has_transform(uint32_t points) {
  if (points % 2 != 0 || points < kPointsMin || points > kPointsMax) return false;
  uint32_t left = points / 2;
  while (left > 1 && radix_of(left) != 0) left /= radix_of(left);
  return left == 1;
}

// All lie in the file. The tables follow each other: the window; e^(-2 pi i k / n) for k below
// n = points / 2; the same of `points` for k up to points / 4; the weights of all bands; and the
// cosine transform [coefficients, bands]. Complex numbers are pairs.
struct SoundView {
  const SoundNumbers* numbers = nullptr;  // null: there is no front end
  std::span<const uint32_t> filters;      // of each band its first bin, and how many
  std::span<const float> tables;

  const float* window() const { return tables.data(); }
  const float* roots() const { return window() + numbers->window; }
  const float* half_roots() const { return roots() + numbers->points; }
  const float* weights() const { return half_roots() + 2 * (numbers->points / 4 + 1); }
  const float* cosines() const {
    return tables.data() + tables.size() - numbers->coefficients * numbers->bands;
  }
};

// Floats that a stream works in, of a model whose input has `width` columns: the last samples, the
// two halves of a transform, and a token.
constexpr uint32_t sound_floats(const SoundNumbers& numbers, uint32_t width) {
  return numbers.window + 1 + 2 * numbers.points + width;
}

}  // namespace arenite
