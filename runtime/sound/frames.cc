// SPDX-License-Identifier: Apache-2.0
// Computes plain float32 with the same order of operations on every CPU, so that features have the
// same bits.
#include "sound/frames.h"

#include <cassert>
#include <cstring>

#include "ops/row_ops.h"
#include "sound/transform.h"

namespace arenite::sound {
namespace {

using Pair = Complex<float>;

Pair at(const float* pairs, size_t index) { return {pairs[2 * index], pairs[2 * index + 1]}; }
void put(float* pairs, size_t index, Pair value) {
  pairs[2 * index] = value.re;
  pairs[2 * index + 1] = value.im;
}

// Stockham's algorithm: each pass reads one half of the work space and writes the other, and the
// result is in order without a bit reversal. Returns the half that holds the result.
float* transform(const float* roots, uint32_t length, float* x, float* y) {
  uint32_t stride = 1;
  for (uint32_t left = length; left > 1;) {
    const uint32_t radix = radix_of(left), part = left / radix;
    for (uint32_t p = 0; p < part; ++p) {
      for (uint32_t q = 0; q < stride; ++q) {
        Pair few[kRadixMax];
        for (uint32_t j = 0; j < radix; ++j) few[j] = at(x, q + stride * (p + part * j));
        transform_few(few, radix, length, [roots](uint32_t i) { return at(roots, i); });
        for (uint32_t k = 0; k < radix; ++k) {
          const Pair root = at(roots, size_t{p} * k * stride);
          put(y, q + stride * (radix * p + k), k == 0 ? few[0] : few[k] * root);
        }
      }
    }
    float* const made = y;
    y = x;
    x = made;
    left = part;
    stride *= radix;
  }
  return x;
}

}  // namespace

// The samples are interleaved into complex z[k] = x[2k] + i x[2k + 1], whose transform Z yields,
// with n = points / 2 and w = e^(-2 pi i / points),
//   X[k]      = (Z[k] + Z*[n - k]) / 2 - i w^k (Z[k] - Z*[n - k]) / 2
//   X*[n - k] = (Z[k] + Z*[n - k]) / 2 + i w^k (Z[k] - Z*[n - k]) / 2
float* power_spectrum(const SoundView& view, float* x, float* other) {
  const uint32_t n = view.numbers->points / 2;
  float* const z = transform(view.roots(), n, x, other);
  float* const power = z == x ? other : x;
  const auto square = [](Pair a) { return a.re * a.re + a.im * a.im; };
  for (uint32_t k = 0; k <= n / 2; ++k) {
    const Pair a = at(z, k), b = at(z, k == 0 ? 0 : n - k);
    const Pair sum = {0.5f * (a.re + b.re), 0.5f * (a.im - b.im)};
    const Pair difference = {0.5f * (a.re - b.re), 0.5f * (a.im + b.im)};
    const Pair turned = times_minus_i(difference * at(view.half_roots(), k));
    power[k] = square(sum + turned);
    power[n - k] = square(sum - turned);
  }
  return power;
}

namespace floats {
namespace {

[[maybe_unused]] float* spectrum(const SoundView& view, float* x, float* other) {
  for (uint32_t i = 0; i < view.numbers->window; ++i) x[i] *= view.window()[i];
  return power_spectrum(view, x, other);
}

[[maybe_unused]] float sum(const float* weights, const float* x, uint32_t count) {
  float sum = 0.0f;
  for (uint32_t i = 0; i < count; ++i) sum += weights[i] * x[i];
  return sum;
}

using arenite::logarithm;

}  // namespace
}  // namespace floats

#if defined(ARENITE_INTEGER_ROWS)
namespace arithmetic = integers;
#else
namespace arithmetic = floats;
#endif

// ---- frames ----

void Frames::restart() {
  const uint32_t padding = numbers_.padding();
  place_ = {.next = padding, .until = numbers_.window - padding};
  if (numbers_.has(kReflected)) place_.until = padding + 1;
  for (uint32_t i = 0; i < padding; ++i) ring_[i] = 0.0f;
}

void Frames::push(float sample) {
  ring_[place_.next] = sample;
  if (++place_.next == size()) place_.next = 0;
  --place_.until;
}

size_t Frames::take(const Samples& samples) {
  size_t taken = 0;
  while (taken < samples.count && place_.until != 0) push(samples[taken++]);
  if (place_.until == 0 && place_.is_first && numbers_.has(kReflected)) mirror_begin();
  return taken;
}

void Frames::mirror_begin() {
  const uint32_t padding = numbers_.padding();
  for (uint32_t i = 1; i <= padding; ++i) ring_[padding - i] = ring_[padding + i];
}

bool Frames::end() {
  place_.after = numbers_.padding();
  return !numbers_.has(kReflected) || !place_.is_first || place_.until == 0;
}

bool Frames::take_padding() {
  while (place_.until != 0 && place_.after != 0) {
    const uint32_t back = 2 * (numbers_.padding() - place_.after + 1);
    const uint32_t mirrored = (place_.next + size() - back) % size();
    push(numbers_.has(kReflected) ? ring_[mirrored] : 0.0f);
    --place_.after;
  }
  const bool is_last = place_.after < numbers_.hop;
  return place_.until == 0 && !(numbers_.has(kDropsLast) && is_last);
}

void Frames::copy_frame(float* frame) const {
  const uint32_t window = numbers_.window;
  const uint32_t to_end = size() - place_.begin < window ? size() - place_.begin : window;
  std::memcpy(frame, ring_ + place_.begin, to_end * sizeof(float));
  std::memcpy(frame + to_end, ring_, (window - to_end) * sizeof(float));
  if (numbers_.has(kRemovesMean)) {
    float sum = 0.0f;
    for (uint32_t i = 0; i < window; ++i) sum += frame[i];
    const float mean = sum / static_cast<float>(window);
    for (uint32_t i = 0; i < window; ++i) frame[i] -= mean;
  }
  const float emphasis = numbers_.emphasis;
  for (uint32_t i = window; i-- != 0 && emphasis != 0.0f;) {
    frame[i] -= emphasis * frame[i == 0 ? 0 : i - 1];
  }
  for (uint32_t i = window; i < numbers_.points; ++i) frame[i] = 0.0f;
}

// factor * log(max(energy, floor)) + offset; kAddsFloor: energy + floor; kIsLinear: without log.
// NaN remains NaN.
float Frames::finished(float energy) const {
  if (numbers_.has(kAddsFloor)) {
    energy += numbers_.floor;
  } else {
    energy = energy < numbers_.floor ? numbers_.floor : energy;
  }
  if (!numbers_.has(kIsLinear)) energy = arithmetic::logarithm(energy);
  return energy * numbers_.factor + numbers_.offset;
}

const float* Frames::compute() {
  float* const frame = work();
  float* const other = frame + numbers_.points;
  copy_frame(frame);
  float* const power = arithmetic::spectrum(view_, frame, other);
  float* const bands = power == frame ? other : frame;
  for (uint32_t i = 0; i < numbers_.bins() && numbers_.has(kMagnitude); ++i) {
    power[i] = __builtin_sqrtf(power[i]);
  }
  const float* weight = view_.weights();
  for (uint32_t i = 0; i < numbers_.bands; ++i) {
    const float* const bin = power + view_.filters[2 * i];
    const uint32_t count = view_.filters[2 * i + 1];
    bands[i] = finished(arithmetic::sum(weight, bin, count));
    weight += count;
  }
  place_.begin = (place_.begin + numbers_.hop) % size();
  // A mirrored start takes padding + 1 samples; for an even window, that is one more than the frame
  // needs.
  const bool took_more = place_.is_first && numbers_.has(kReflected) && numbers_.window % 2 == 0;
  place_.until = numbers_.hop - (took_more ? 1 : 0);
  place_.is_first = false;
  return bands;
}

void Frames::complete(const float* bands, float peak, float* features) {
  float* const raised = work();
  const float least = peak - numbers_.range;
  for (uint32_t i = 0; i < numbers_.bands; ++i) {
    raised[i] = numbers_.range != 0.0f && bands[i] < least ? least : bands[i];
  }
  if (numbers_.coefficients == 0) {
    std::memcpy(features, raised, numbers_.bands * sizeof(float));
    return;
  }
  const float* cosine = view_.cosines();
  for (uint32_t i = 0; i < numbers_.coefficients; ++i) {
    float sum = 0.0f;
    for (uint32_t j = 0; j < numbers_.bands; ++j) sum += *cosine++ * raised[j];
    features[i] = sum;
  }
}

void compute_features(Frames& frames, const Samples& sound, size_t count, float* rows) {
  const SoundNumbers& numbers = frames.numbers();
  float loudest = -__builtin_inff();
  size_t made = 0;
  const auto add = [&] {
    float* const row = rows + made * numbers.bands;
    std::memcpy(row, frames.compute(), numbers.bands * sizeof(float));
    for (uint32_t i = 0; i < numbers.bands; ++i) loudest = row[i] > loudest ? row[i] : loudest;
    ++made;
  };
  for (size_t taken = 0; made < count; add()) {
    taken += frames.take(sound.after(taken));
    if (!frames.is_whole()) break;
  }
  frames.end();
  while (made < count && frames.take_padding()) add();
  assert(made == count);
  const float peak = numbers.has(kPeakIsFixed) ? numbers.peak : loudest;
  for (size_t i = 0; i < made; ++i) {
    frames.complete(rows + i * numbers.bands, peak, rows + i * numbers.features());
  }
}

}  // namespace arenite::sound
