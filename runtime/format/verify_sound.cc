// SPDX-License-Identifier: Apache-2.0
// Verifies the front end that turns sound into features: its parameters, the bins of each filter
// band, the size of its tables, and that all values are finite.
#include <iterator>

#include "core/float_bits.h"
#include "core/needs.h"
#include "format/verify.h"

namespace arenite::format {
namespace {

struct NumberRule {
  Message field;
  uint32_t found, least, most;
};

bool verify_numbers(const arenite::SoundNumbers& numbers, const Refusal& refuse) {
  const NumberRule rules[] = {
      {"sound.rate", numbers.rate, 1, kSoundRateMax},
      {"sound.points", numbers.points, kPointsMin, kPointsMax},
      {"sound.window", numbers.window, 2, numbers.points},
      {"sound.hop", numbers.hop, 1, kHopMax},
      {"sound.bands", numbers.bands, 1, numbers.bins()},
      {"sound.coefficients", numbers.coefficients, 0, numbers.bands},
      {"sound.flags", numbers.flags, 0, kSoundFlagsAll},
  };
  for (uint32_t i = 0; i < std::size(rules); ++i) {
    const NumberRule& rule = rules[i];
    if (rule.found < rule.least || rule.found > rule.most) {
      return refuse("a sound parameter is out of range", rule.field, 0, rule.found, rule.most);
    }
  }
  if (!has_transform(numbers.points)) {
    return refuse("a transform of this length is not supported", "sound.points", 0, numbers.points);
  }
  const bool ends_are_known =
      numbers.has(kCentred) || (numbers.flags & (uint32_t{kReflected} | uint32_t{kDropsLast})) == 0;
  // With a longer hop, a stream would have to delay each frame until it knows that more follow.
  const bool last_is_known = !numbers.has(kDropsLast) || numbers.hop <= numbers.padding();
  if (!ends_are_known || !last_is_known) {
    return refuse("sound flags contradict each other", "sound.flags", 0, numbers.flags);
  }
  // The floor keeps the logarithm finite. A negative range would raise bands above the peak.
  const bool has_floor = numbers.floor > 0.0f || (numbers.has(kIsLinear) && numbers.floor == 0.0f);
  const float reals[] = {numbers.emphasis, numbers.floor, numbers.factor,
                         numbers.offset,   numbers.range, numbers.peak};
  if (has_floor && numbers.range >= 0.0f && all_finite(reals, std::size(reals))) return true;
  return refuse("a sound parameter is out of range", "sound.floor");
}

}  // namespace

bool verify_sound(const ModelReader& model, const Refusal& refuse) {
  const SoundView sound = model.sound();
  if (sound.numbers == nullptr) return true;
  const arenite::SoundNumbers& numbers = *sound.numbers;
  if (!verify_numbers(numbers, refuse)) return false;
  if (sound.filters.size() != 2 * size_t{numbers.bands}) {
    return refuse("filters lack the first bin and the count of each band", "sound.filters", 0,
                  static_cast<uint32_t>(sound.filters.size()), 2 * numbers.bands);
  }
  uint32_t weights = 0;
  for (uint32_t i = 0; i < numbers.bands; ++i) {
    const uint32_t first = sound.filters[2 * i], count = sound.filters[2 * i + 1];
    if (first > numbers.bins() || count > numbers.bins() - first) {
      return refuse("a band reaches beyond the bins", "sound.filters", i, first, numbers.bins());
    }
    weights += count;
  }
  const uint32_t size = numbers.window + numbers.points + 2 * (numbers.points / 4 + 1) + weights +
                        numbers.coefficients * numbers.bands;
  if (sound.tables.size() != size) {
    return refuse("the sound tables have the wrong size", "sound.tables", 0,
                  static_cast<uint32_t>(sound.tables.size()), size);
  }
  if (!all_finite(sound.tables.data(), size)) {
    return refuse("a value in the sound tables is not finite", "sound.tables");
  }
  const uint32_t features = numbers.features();
  const uint32_t width = model.vocab_size() != 0 ? 0 : model.slot(model.input_slot()).width;
  if (width == 0 || model.reads_images() || width % features != 0 ||
      width / features > kFramesPerTokenMax) {
    return refuse("a token is not made of whole frames", "sound.bands", 0, width, features);
  }
  return true;
}

}  // namespace arenite::format
