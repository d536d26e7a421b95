// SPDX-License-Identifier: Apache-2.0
// How a training made features of sound, as its author would say it, and the tables that follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/sound_table.h"

namespace arenite::convert {

enum class WindowShape { kHann, kHannSymmetric, kHamming, kHammingSymmetric, kPovey, kOnes };
enum class MelScale { kHtk, kSlaney, kKaldi };
enum class BandNorm { kNone, kSlaney };
enum class Logarithm { kNone, kNatural, kTen, kDecibel };
enum class SoundPadding { kNone, kZeros, kReflect };
enum class FramesOf { kTransform, kWindow };

// Zero: not said.
struct SoundParameters {
  uint32_t rate = 0;
  uint32_t window = 0;
  uint32_t hop = 0;
  uint32_t points = 0;  // as the window
  uint32_t bands = 0;
  uint32_t coefficients = 0;
  WindowShape shape = WindowShape::kHann;
  FramesOf frames = FramesOf::kTransform;  // what is cut out of a sound, `points` or `window` long
  SoundPadding padding = SoundPadding::kNone;
  bool drops_last = false;
  bool removes_mean = false;
  double emphasis = 0.0;
  double gain = 1.0;  // of samples from -1 to 1
  uint32_t power = 2;
  MelScale scale = MelScale::kHtk;
  BandNorm norm = BandNorm::kNone;
  double low = 0.0;   // of the bands, in hertz
  double high = 0.0;  // half the rate
  Logarithm logarithm = Logarithm::kNatural;
  double floor = 0.0;  // an energy is at least this,
  double added = 0.0;  // or this more
  double range = 0.0;  // below the loudest band of the whole sound; in what `logarithm` gives
  double peak = 0.0;   // instead of the loudest band's
  bool has_peak = false;
  double mean = 0.0;  // of what is given out: it becomes (x - mean) / deviation
  double deviation = 1.0;
  uint64_t length = 0;       // samples that each sound is padded or cut to; 0: any number
  bool pads_frames = false;  // with frames of zeros, before mean and deviation
};

struct SoundTable {
  SoundNumbers numbers;
  std::vector<uint32_t> filters;
  std::vector<float> tables;
};

// [rows, columns], row by row.
struct SoundMatrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values{};
};

// What the numbers say, with a window, bands [bands, bins] and cosines [coefficients, bands].
SoundTable make_sound_table(const SoundNumbers& numbers, const std::vector<double>& window,
                            const SoundMatrix& bands, const SoundMatrix& cosines);

// Of "NAME,KEY=VALUE,...", where a name stands for what a program does if it is not told otherwise,
// or of a preprocessor_config.json. Throws InputError.
SoundParameters parse_sound(const std::string& text);

// N of "rate=N", which is all that a program of samples leaves open; 0 of any other text.
uint32_t rate_alone(const std::string& text);

// In double precision, then rounded. Throws InputError for what no transform or table is there for.
SoundTable make_sound_table(const SoundParameters& parameters);

// As people say it: "16000 samples a second, ...".
std::string describe_sound(const SoundNumbers& numbers);

// The keys and names, for help.
std::string sound_grammar();

}  // namespace arenite::convert
