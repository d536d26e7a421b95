// SPDX-License-Identifier: Apache-2.0
// Computes the features of sound, one frame at a time:
//
//     window -> |Fourier transform|^2 -> energies of bands -> logarithms -> cosine transform
//
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/sound.h"
#include "core/sound_table.h"

namespace arenite::sound {

// Samples as int16, or as floats from -1 to 1.
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

// Cuts a stream of samples into frames and computes their features. The last samples lie in a ring
// buffer of window + 1 samples, one more than a frame, so that both ends of the sound can be
// mirrored. `floats` [sound_floats(numbers, 0)] hold the ring and 2 * points floats of work space.
// The caller owns `place` and `floats`. REQUIRES: a front end that verify_sound accepted.
class Frames {
 public:
  Frames(const SoundView& view, SoundPlace& place, float* floats)
      : view_(view), numbers_(*view.numbers), place_(place), ring_(floats) {}

  void restart();
  // Takes samples until a frame is complete and returns how many it took.
  size_t take(const Samples& samples);
  const SoundNumbers& numbers() const { return numbers_; }
  bool is_whole() const { return place_.until == 0; }
  // Ends the sound. Returns false if it is too short to be mirrored.
  bool end();
  // After end(): pads the sound up to the next frame. Returns false if there is none.
  bool take_padding();
  // Computes the bands of the complete frame, before the clamp relative to the peak. The result
  // [bands] lies in the work space until the next call.
  const float* compute();
  // Computes `features` from `bands`, the result of compute(). Both may be the same memory.
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

// Computes the features of a whole sound, [count, features], at the front of `rows`, which has room
// for [count, bands]. REQUIRES: `frames` was restarted, and count is SoundNumbers::frames of the
// sound.
void compute_features(Frames& frames, const Samples& sound, size_t count, float* rows);

// Computes |X[k]|^2, k = 0 ... points / 2, of the Fourier transform X of the `points` real samples
// in x. Returns x or `other`, whichever holds the result; the other one may then hold bands. Both
// have room for `points` floats, and x is overwritten.
float* power_spectrum(const SoundView& view, float* x, float* other);

// Computes power spectra in integers, for CPUs without an FPU (integer_frames.cc).
namespace integers {

// Multiplies x by the window and computes the power spectrum. Amplitudes are accurate to 2^-13 of
// the largest one, since roots have 16 bits, unless the frame is loud only where the window is near
// zero.
float* spectrum(const SoundView& view, float* x, float* other);
// Returns sum(weights * x), NaN if an element is not finite. For count < 256 the error is below
// 2^-12 of the sum of magnitudes; its bound grows with count^2, to 2^-6 for 2049.
float sum(const float* weights, const float* x, uint32_t count);
// Returns log(x), within 2^-14; NaN if x is below 2^-126 or not finite.
float logarithm(float x);

}  // namespace integers

}  // namespace arenite::sound
