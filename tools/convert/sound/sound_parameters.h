// SPDX-License-Identifier: Apache-2.0
// The sound front end of a model (how training computed features from samples), parsed from
// options, and the tables of the runtime's front end.
//
//   const SoundParameters parameters = parse_sound("whisper");
//   const SoundTable table = make_sound_table(parameters);  // window, mel filters, cosines
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
enum class SoundForm { kBands, kSamples };

// Zero means that a field is unset.
struct SoundParameters {
  SoundForm form = SoundForm::kBands;  // of samples, only `rate` and `normalizes` apply
  uint32_t rate = 0;
  bool normalizes = false;  // each sound gets a mean of 0 and a variance of 1
  uint32_t window = 0;
  uint32_t hop = 0;
  uint32_t points = 0;  // points of the transform; 0: `window`
  uint32_t bands = 0;
  uint32_t coefficients = 0;
  WindowShape shape = WindowShape::kHann;
  FramesOf frames = FramesOf::kTransform;  // length of frames: `points` or `window`
  SoundPadding padding = SoundPadding::kNone;
  bool drops_last = false;
  bool removes_mean = false;
  double emphasis = 0.0;
  double gain = 1.0;  // multiplies samples of -1 to 1
  uint32_t power = 2;
  MelScale scale = MelScale::kHtk;
  BandNorm norm = BandNorm::kNone;
  double low = 0.0;   // lower end of the bands, in hertz
  double high = 0.0;  // upper end; 0: half the rate
  Logarithm logarithm = Logarithm::kNatural;
  double floor = 0.0;  // log(max(energy, floor)),
  double added = 0.0;  // or log(energy + added)
  // clamps values to `range` below the loudest band of the sound, in units of `logarithm`
  double range = 0.0;
  double peak = 0.0;  // replaces the loudest band's value
  bool has_peak = false;
  double mean = 0.0;  // features are (x - mean) / deviation
  double deviation = 1.0;
  uint64_t length = 0;       // samples that each sound is padded or cut to; 0: any
  bool pads_frames = false;  // pads with zero frames, before mean and deviation

  friend bool operator==(const SoundParameters&, const SoundParameters&) = default;
};

struct SoundTable {
  SoundNumbers numbers;
  std::vector<uint32_t> filters;
  std::vector<float> tables;
};

// [rows, columns], row-major.
struct SoundMatrix {
  size_t rows = 0, columns = 0;
  std::vector<double> values{};
};

// Makes the table from window [numbers.window], bands [bands, bins] and cosines [coefficients,
// bands].
SoundTable make_sound_table(const SoundNumbers& numbers, const std::vector<double>& window,
                            const SoundMatrix& bands, const SoundMatrix& cosines);

// Parses "NAME,KEY=VALUE,...", where NAME stands for a program's defaults, or a
// preprocessor_config.json. Throws InputError.
SoundParameters parse_sound(const std::string& text);

// Returns N of "rate=N", the only parameter that a program with samples as input does not
// determine; 0 for other text.
uint32_t rate_alone(const std::string& text);

// Computes the tables in double precision, then rounds. Throws InputError for unsupported
// parameters. REQUIRES: form is kBands.
SoundTable make_sound_table(const SoundParameters& parameters);

// Describes a front end for people: "16000 samples a second, ...".
std::string describe_sound(const SoundNumbers& numbers);

// Lists keys and names, for help.
std::string sound_grammar();

}  // namespace arenite::convert
