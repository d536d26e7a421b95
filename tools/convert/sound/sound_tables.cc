// SPDX-License-Identifier: Apache-2.0
// Windows, roots of unity, triangular bands and cosines, by their published definitions.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "convert/files/error.h"
#include "convert/sound/sound_parameters.h"

namespace arenite::convert {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// HTK's scale is 2595 log10(1 + f / 700), Kaldi's the same up to a factor. Slaney's is linear below
// 1 kHz (15 mel), and then has 27 mel for each factor of 6.4.
double mel_of(MelScale scale, double hertz) {
  if (scale != MelScale::kSlaney) return 2595.0 * std::log10(1.0 + hertz / 700.0);
  if (hertz < 1000.0) return hertz * 3.0 / 200.0;
  return 15.0 + 27.0 * std::log(hertz / 1000.0) / std::log(6.4);
}
double hertz_of(MelScale scale, double mel) {
  if (scale != MelScale::kSlaney) return 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
  if (mel < 15.0) return mel * 200.0 / 3.0;
  return 1000.0 * std::exp((mel - 15.0) * std::log(6.4) / 27.0);
}

double window_at(WindowShape shape, uint32_t index, uint32_t size) {
  const bool is_symmetric = shape == WindowShape::kHannSymmetric ||
                            shape == WindowShape::kHammingSymmetric || shape == WindowShape::kPovey;
  const double cosine = std::cos(kTwoPi * index / (is_symmetric ? size - 1 : size));
  switch (shape) {
    case WindowShape::kHann:
    case WindowShape::kHannSymmetric:
      return 0.5 - 0.5 * cosine;
    case WindowShape::kHamming:
    case WindowShape::kHammingSymmetric:
      return 0.54 - 0.46 * cosine;
    case WindowShape::kPovey:
      return std::pow(0.5 - 0.5 * cosine, 0.85);
    case WindowShape::kOnes:
      break;
  }
  return 1.0;
}

void add_roots(uint32_t of, uint32_t count, std::vector<float>& tables) {
  for (uint32_t k = 0; k < count; ++k) {
    tables.push_back(static_cast<float>(std::cos(kTwoPi * k / of)));
    tables.push_back(static_cast<float>(-std::sin(kTwoPi * k / of)));
  }
}

// Returns triangular bands between three neighbouring edges. Edges are evenly spaced in mel; the
// sides are linear in hertz or, for Kaldi, in mel.
SoundMatrix bands_of(const SoundParameters& parameters, uint32_t bins) {
  const bool in_mel = parameters.scale == MelScale::kKaldi;
  const double low = mel_of(parameters.scale, parameters.low);
  const double high = mel_of(parameters.scale, parameters.high);
  const auto edge = [&](uint32_t i) {
    const double mel = low + (high - low) * i / (parameters.bands + 1);
    return in_mel ? mel : hertz_of(parameters.scale, mel);
  };
  SoundMatrix made = {parameters.bands, bins, {}};
  for (uint32_t i = 0; i < parameters.bands; ++i) {
    const double left = edge(i), centre = edge(i + 1), right = edge(i + 2);
    const double factor = parameters.norm == BandNorm::kSlaney ? 2.0 / (right - left) : 1.0;
    for (uint32_t bin = 0; bin < bins; ++bin) {
      const double hertz = 1.0 * bin * parameters.rate / parameters.points;
      const double at = in_mel ? mel_of(parameters.scale, hertz) : hertz;
      const double weight =
          std::min((at - left) / (centre - left), (right - at) / (right - centre));
      made.values.push_back(std::max(0.0, weight) * factor);
    }
  }
  return made;
}

// Appends each band's filter as its first bin, count and weights, without zeros at both ends.
void add_bands(const SoundMatrix& bands, SoundTable& made) {
  for (size_t row = 0; row < bands.rows; ++row) {
    const std::span weights = std::span(bands.values).subspan(row * bands.columns, bands.columns);
    const auto is_some = [](double weight) { return weight != 0.0; };
    const auto first = std::ranges::find_if(weights, is_some);
    const auto end = std::find_if(weights.rbegin(), weights.rend(), is_some).base();
    const auto count = first < end ? end - first : 0;
    made.filters.push_back(count == 0 ? 0 : static_cast<uint32_t>(first - weights.begin()));
    made.filters.push_back(static_cast<uint32_t>(count));
    for (auto weight = first; count != 0 && weight != end; ++weight) {
      made.tables.push_back(static_cast<float>(*weight));
    }
  }
}

// Converts a natural logarithm to the base of `logarithm`.
double factor_of(Logarithm logarithm) {
  if (logarithm == Logarithm::kTen) return 1.0 / std::log(10.0);
  return logarithm == Logarithm::kDecibel ? 10.0 / std::log(10.0) : 1.0;
}

SoundNumbers numbers_of(const SoundParameters& parameters, uint32_t window) {
  SoundNumbers numbers;
  numbers.rate = parameters.rate;
  numbers.window = window;
  numbers.hop = parameters.hop;
  numbers.points = parameters.points;
  numbers.bands = parameters.bands;
  numbers.coefficients = parameters.coefficients;
  const std::pair<SoundFlags, bool> flags[] = {
      {kCentred, parameters.padding != SoundPadding::kNone},
      {kReflected, parameters.padding == SoundPadding::kReflect},
      {kMagnitude, parameters.power == 1},
      {kAddsFloor, parameters.added != 0.0},
      {kDropsLast, parameters.drops_last},
      {kRemovesMean, parameters.removes_mean},
      {kIsLinear, parameters.logarithm == Logarithm::kNone},
      {kPeakIsFixed, parameters.has_peak},
      {kPadsFrames, parameters.pads_frames}};
  for (const auto& [flag, is_set] : flags) numbers.flags |= is_set ? flag : 0u;
  numbers.emphasis = static_cast<float>(parameters.emphasis);
  numbers.floor = static_cast<float>(parameters.added != 0.0 ? parameters.added : parameters.floor);
  numbers.factor = static_cast<float>(factor_of(parameters.logarithm) / parameters.deviation);
  numbers.offset = static_cast<float>(-parameters.mean / parameters.deviation);
  numbers.range = static_cast<float>(parameters.range / parameters.deviation);
  numbers.peak = static_cast<float>((parameters.peak - parameters.mean) / parameters.deviation);
  return numbers;
}

}  // namespace

SoundTable make_sound_table(const SoundParameters& parameters) {
  // Frames of torch.stft and librosa are as long as the transform, with the window in the middle.
  // If frames are centred, the zeros at both ends can be dropped.
  const uint32_t zeros = parameters.points - parameters.window;
  const bool cuts_window =
      parameters.frames == FramesOf::kWindow ||
      (parameters.padding != SoundPadding::kNone && zeros % 2 == 0 && parameters.window % 2 == 0);
  const SoundNumbers numbers =
      numbers_of(parameters, cuts_window ? parameters.window : parameters.points);
  std::vector<double> window;
  for (uint32_t i = 0; i < numbers.window; ++i) {
    const uint32_t before = cuts_window ? 0 : zeros / 2;
    const bool is_inside = i >= before && i - before < parameters.window;
    const double value =
        is_inside ? window_at(parameters.shape, i - before, parameters.window) : 0.0;
    window.push_back(value * parameters.gain);
  }
  SoundMatrix cosines = {parameters.coefficients, parameters.bands, {}};
  for (uint32_t i = 0; i < parameters.coefficients; ++i) {
    const double scale = std::sqrt((i == 0 ? 1.0 : 2.0) / parameters.bands);
    for (uint32_t j = 0; j < parameters.bands; ++j) {
      const double angle = std::numbers::pi * i * (j + 0.5) / parameters.bands;
      cosines.values.push_back(scale * std::cos(angle));
    }
  }
  return make_sound_table(numbers, window, bands_of(parameters, numbers.bins()), cosines);
}

SoundTable make_sound_table(const SoundNumbers& numbers, const std::vector<double>& window,
                            const SoundMatrix& bands, const SoundMatrix& cosines) {
  SoundTable made;
  made.numbers = numbers;
  const auto add = [&](double value) { made.tables.push_back(static_cast<float>(value)); };
  std::ranges::for_each(window, add);
  add_roots(numbers.points / 2, numbers.points / 2, made.tables);
  add_roots(numbers.points, numbers.points / 4 + 1, made.tables);
  add_bands(bands, made);
  std::ranges::for_each(cosines.values, add);
  return made;
}

std::string describe_sound(const SoundNumbers& numbers) {
  std::string text =
      fmt::format("{} samples a second, {} every {}, {} points, {} bands", numbers.rate,
                  numbers.window, numbers.hop, numbers.points, numbers.bands);
  if (numbers.coefficients != 0) text += fmt::format(", {} coefficients", numbers.coefficients);
  if (numbers.has(kMagnitude)) text += " of magnitudes";
  text += fmt::format(", {}{:g}", numbers.has(kAddsFloor) ? "plus " : "at least ", numbers.floor);
  if (numbers.has(kIsLinear)) text += ", no logarithm";
  if (numbers.has(kCentred)) text += numbers.has(kReflected) ? ", mirrored ends" : ", zeros around";
  if (numbers.has(kDropsLast)) text += ", without the last";
  if (numbers.has(kPadsFrames)) text += ", padded with frames of zeros";
  if (numbers.range != 0.0f) {
    text += fmt::format(", at most {:g} below {}", numbers.range,
                        numbers.has(kPeakIsFixed) ? fmt::format("{:g}", numbers.peak)
                                                  : "the loudest of a whole sound");
  }
  return text;
}

}  // namespace arenite::convert
