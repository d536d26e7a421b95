// SPDX-License-Identifier: Apache-2.0
// Features of sound, a frame at a time: a window of samples, its Fourier transform, the energies of
// bands, their logarithms, and a cosine transform of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/sound.h"
#include "core/sound_table.h"

namespace arenite::sound {

// Samples as 16-bit numbers, or as floats from -1 to 1.
struct Samples {
  const int16_t* whole = nullptr;
  const float* real = nullptr;
  size_t count = 0;

  Samples(std::span<const int16_t> samples) : whole(samples.data()), count(samples.size()) {}
  Samples(std::span<const float> samples) : real(samples.data()), count(samples.size()) {}
  Samples after(size_t taken) const {
    Samples rest = *this;
    if (whole != nullptr) rest.whole += taken;
    if (real != nullptr) rest.real += taken;
    rest.count -= taken;
    return rest;
  }
  float operator[](size_t index) const {
    return whole != nullptr ? static_cast<float>(whole[index]) * 0x1p-15f : real[index];
  }
};

// The last samples lie in a ring of window + 1: one more than a frame has, so that both ends can be
// mirrored.
// `floats` are the ring, then 2 * points to work in: the first of sound_floats().
// REQUIRES: a front end that verify_sound accepted.
class Frames {
 public:
  Frames(const SoundView& view, SoundPlace& place, float* floats)
      : view_(view), numbers_(*view.numbers), place_(place), ring_(floats) {}

  void restart();
  // Takes samples until a frame is whole: how many.
  size_t take(const Samples& samples);
  const SoundNumbers& numbers() const { return numbers_; }
  bool is_whole() const { return place_.until == 0; }
  // No sample comes after these. False if there are too few to mirror.
  bool end();
  // After the end: goes on to the next frame, if there is one.
  bool take_padding();
  // The bands of the frame that is whole, before they are compared with the peak; in the second
  // part of `floats`, until the next call.
  const float* compute();
  // What the model reads, of bands as compute gives them: to `features`, which may lie where they
  // do.
  void complete(const float* bands, float peak, float* features);

 private:
  uint32_t size() const { return numbers_.window + 1; }
  float* work() const { return ring_ + size(); }
  void push(float sample);
  void mirror_begin();
  void copy_frame(float* frame) const;
  float finished(float energy) const;

  SoundView view_;
  const SoundNumbers& numbers_;
  SoundPlace& place_;
  float* ring_;
};

// The features of a whole sound, [count, features], at the front of `rows`, which has room for
// [count, bands]. REQUIRES: `frames` begin anew, and count is what SoundNumbers::frames says.
void all_features(Frames& frames, const Samples& sound, size_t count, float* rows);

// The Fourier transform of `points` real numbers in x, which are lost: points / 2 + 1 squares of
// magnitudes, to where it returns, x or `other`; both have room for `points` floats and the other
// of them for bands.
float* power_spectrum(const SoundView& view, float* x, float* other);

// For CPUs without an FPU (integer_frames.cc). The same of numbers that first are multiplied with
// the window: amplitudes are within 2^-13 of the largest one and of their own, since roots have 16
// bits.
float* integer_spectrum(const SoundView& view, float* x, float* other);
// Of products with weights, within 2^-12 of the sum of their magnitudes. NaN, and infinities,
// become NaN.
float integer_sum(const float* weights, const float* x, uint32_t count);
// Within 2^-14; NaN where x is below 2^-126 or not finite.
float integer_logarithm(float x);

}  // namespace arenite::sound
