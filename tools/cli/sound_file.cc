// SPDX-License-Identifier: Apache-2.0
// Reads the chunks fmt and data of RIFF WAVE files; skips all others.
#include "cli/sound_file.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cli/process.h"
#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/program/program.h"
#include "format/verify.h"
#include "session/session_state.h"
#include "sound/frames.h"

namespace arenite::tool {
namespace {

using Bytes = std::span<const std::byte>;

template <typename T>
T number_at(Bytes bytes, size_t place) {
  T value = 0;
  std::memcpy(&value, bytes.data() + place, sizeof(T));  // little-endian, like this program's CPUs
  return value;
}

struct SoundData {
  uint32_t rate = 0;  // samples per second; 0: not in the file
  bool is_float = false;
  Bytes samples;
};

SoundData parse_wave(Bytes file, const std::string& name) {
  constexpr uint32_t kHeaderBytes = 12, kChunkBytes = 8, kFormatBytes = 16, kSubformat = 24;
  constexpr uint16_t kWhole = 1, kFloat = 3, kExtensible = 0xFFFE;
  const auto tag_at = [&](size_t place, const char* tag) {
    return place + 4 <= file.size() && std::memcmp(file.data() + place, tag, 4) == 0;
  };
  if (!tag_at(0, "RIFF") || !tag_at(8, "WAVE")) {
    throw convert::InputError("{}: not a WAV file: it does not begin with RIFF and WAVE", name);
  }
  SoundData sound;
  for (size_t at = kHeaderBytes; at + kChunkBytes <= file.size();) {
    const uint32_t bytes = number_at<uint32_t>(file, at + 4);
    const Bytes rest = file.subspan(at + kChunkBytes);
    if (tag_at(at, "fmt ") && bytes >= kFormatBytes && rest.size() >= bytes) {
      uint16_t kind = number_at<uint16_t>(rest, 0);
      if (kind == kExtensible && bytes >= kSubformat + 2) {
        kind = number_at<uint16_t>(rest, kSubformat);
      }
      const uint16_t channels = number_at<uint16_t>(rest, 2);
      const uint16_t bits = number_at<uint16_t>(rest, 14);
      sound.is_float = kind == kFloat;
      if (channels != 1 || !((kind == kWhole && bits == 16) || (sound.is_float && bits == 32))) {
        throw convert::InputError(
            "{}: {} channels of {} bits, encoding {}: expected one channel of 16-bit or float "
            "samples; sox {} -c 1 -b 16 -e signed OUT.wav makes it",
            name, channels, bits, kind, name);
      }
      sound.rate = number_at<uint32_t>(rest, 4);
    } else if (tag_at(at, "data") && sound.rate != 0) {
      // Programs that write to a pipe do not know the size in advance.
      sound.samples = rest.first(std::min<size_t>(bytes, rest.size()));
      return sound;
    }
    at += kChunkBytes + size_t{bytes} + bytes % 2;
  }
  throw convert::InputError("{}: no samples: expected the chunks fmt and data", name);
}

std::vector<float> samples_of(const SoundData& sound) {
  const size_t bytes = sound.is_float ? sizeof(float) : sizeof(int16_t);
  std::vector<float> samples(sound.samples.size() / bytes);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = sound.is_float
                     ? number_at<float>(sound.samples, i * bytes)
                     : static_cast<float>(number_at<int16_t>(sound.samples, i * bytes)) * 0x1p-15f;
  }
  return samples;
}

// Returns the shortest length of at least `tokens` that the model takes, if there is one.
uint32_t padded_length(const InputInfo& input, uint32_t tokens) {
  const uint32_t allowed = format::allowed_length(input, tokens);
  return allowed < tokens && input.tokens_step > 1 ? allowed + input.tokens_step : allowed;
}

// Pads short sounds with zeros. Cuts a sound that is too long for a fixed-length model if features
// depend on the whole sound or frames are padded, as the extractors of Whisper and AST do. Returns
// the length that the model then gets.
size_t fit_length(const SoundNumbers& numbers, const InputInfo& input, uint32_t frames_per_token,
                  std::vector<float>& samples) {
  const size_t given = samples.size();
  if (input.tokens_min < 2 && input.tokens_step < 2) return given;
  const auto tokens = static_cast<uint32_t>(numbers.frames(given) / frames_per_token);
  const uint64_t least = uint64_t{padded_length(input, tokens)} * frames_per_token;
  const bool is_short = numbers.frames(given) < least;
  const bool is_cut = input.tokens_min == input.positions_max && numbers.frames(given) > least &&
                      (numbers.needs_whole_sound() || numbers.has(kPadsFrames));
  if (!is_short && !is_cut) return given;
  const auto whole = static_cast<size_t>(numbers.samples(least));
  if (is_cut || !numbers.has(kPadsFrames)) samples.resize(whole);
  return whole;
}

}  // namespace

bool is_sound_file(const std::filesystem::path& file) {
  return file.extension() == ".wav" || file.extension() == ".raw";
}

convert::NpyArray read_features(const std::filesystem::path& file, const Model& model,
                                uint32_t input) {
  return is_sound_file(file) ? read_sound(file, model, input) : convert::NpyArray::read(file);
}

namespace {

// Subtracts the mean and divides by the deviation, as Wav2Vec2FeatureExtractor does.
void normalize(std::vector<float>& samples) {
  constexpr double kVarianceAdded = 1e-7;
  double sum = 0.0, squares = 0.0;
  for (const float sample : samples) sum += sample;
  const double mean = sum / static_cast<double>(samples.size());
  for (const float sample : samples) squares += (sample - mean) * (sample - mean);
  const double deviation =
      std::sqrt(squares / static_cast<double>(samples.size()) + kVarianceAdded);
  for (float& sample : samples) sample = static_cast<float>((sample - mean) / deviation);
}

// Returns the samples per second that a model takes. Throws InputError if the file does not say how
// sound becomes the input.
uint32_t rate_of(const std::string& name, const Model& model, uint32_t input) {
  const format::ModelReader reader = ModelAccess::reader(model);
  const SoundView view = reader.sound();
  const uint32_t rate = convert::sample_input(model.file()).rate;
  if ((view.numbers == nullptr && rate == 0) || input != 0) {
    throw convert::InputError(
        "{}: the model's file does not say how sound becomes features{}: convert it with --sound, "
        "or pass an array of features",
        name, input == 0 ? "" : " of this input");
  }
  if (view.numbers == nullptr) return rate;
  // Model::load makes this check in programs that link verify_sound.
  if (!format::verify_sound(reader, format::Refusal(nullptr))) {
    throw convert::InputError(
        "the model's file is damaged where it says how sound becomes features");
  }
  return view.numbers->rate;
}

uint32_t frames_per_token(const Model& model, const SoundNumbers& numbers) {
  const format::ModelReader reader = ModelAccess::reader(model);
  return reader.slot(reader.input_slot()).width / numbers.features();
}

// Calls fit_length for features. Samples themselves are padded, and never cut.
size_t fit_to_model(const Model& model, uint32_t input, std::vector<float>& samples) {
  const InputInfo info = model.input(input);
  const SoundNumbers* const numbers = ModelAccess::reader(model).sound().numbers;
  if (numbers != nullptr) {
    return fit_length(*numbers, info, frames_per_token(model, *numbers), samples);
  }
  const uint32_t least = padded_length(info, static_cast<uint32_t>(samples.size()));
  samples.resize(std::max<size_t>(samples.size(), least));
  return samples.size();
}

// Returns features [tokens, width]. REQUIRES: samples of a length that the model takes.
std::vector<float> rows_of(const std::string& name, const std::vector<float>& samples,
                           const Model& model, uint32_t input) {
  const SoundView view = ModelAccess::reader(model).sound();
  if (view.numbers == nullptr) return samples;
  const SoundNumbers& numbers = *view.numbers;
  const uint32_t per_token = frames_per_token(model, numbers);
  const uint64_t frames = numbers.frames(samples.size());
  uint64_t tokens = frames / per_token;
  if (tokens == 0) {
    throw convert::InputError("{}: {} samples are too few for a token", name, samples.size());
  }
  std::vector<float> rows(frames * numbers.bands), floats(sound_floats(numbers, 0));
  SoundPlace place;
  sound::Frames maker(view, place, floats.data());
  maker.restart();
  sound::compute_features(maker, std::span<const float>(samples), frames, rows.data());
  if (numbers.has(kPadsFrames)) {  // as ASTFeatureExtractor does
    const uint32_t padded = padded_length(model.input(input), static_cast<uint32_t>(tokens));
    tokens = std::max<uint64_t>(tokens, padded);
    rows.resize(frames * numbers.features());
  }
  rows.resize(tokens * per_token * numbers.features(), numbers.offset);
  return rows;
}

// Returns the rows as an array of the author's program.
convert::NpyArray array_of(const std::filesystem::path& file, std::vector<float> rows,
                           const Model& model) {
  const format::ModelReader reader = ModelAccess::reader(model);
  const uint64_t width = reader.slot(reader.input_slot()).width;
  const uint64_t tokens = rows.size() / width;
  convert::FileMap map(file);
  if ((convert::array_flags(model.file()) & convert::kTakesColumnsFirst) == 0) {
    return convert::NpyArray::of(std::move(map), file.string(), {tokens, width}, std::move(rows));
  }
  std::vector<float> turned;
  for (uint64_t c = 0; c < width; ++c) {
    for (uint64_t t = 0; t < tokens; ++t) turned.push_back(rows[t * width + c]);
  }
  return convert::NpyArray::of(std::move(map), file.string(), {1, width, tokens},
                               std::move(turned));
}

struct Samples {
  std::vector<float> values;
  uint32_t rate = 0;
};

// Reads the samples of a file at the model's rate, normalized where it takes them so.
Samples read_samples(const std::filesystem::path& file, const Model& model, uint32_t input) {
  const std::string name = convert::quote(file.string());
  const uint32_t rate = rate_of(name, model, input);
  const convert::FileMap map(file);
  const SoundData sound = file.extension() == ".wav" ? parse_wave(map.bytes(), name)
                                                     : SoundData{rate, false, map.bytes()};
  if (sound.rate != rate) {
    throw convert::InputError(
        "{}: {} samples a second: expected {}, the model's: resample it, as sox {} -r {} OUT.wav "
        "does",
        name, sound.rate, rate, name, rate);
  }
  Samples samples = {samples_of(sound), rate};
  if (convert::sample_input(model.file()).is_normalized) normalize(samples.values);
  return samples;
}

}  // namespace

SoundFeatures read_whole_sound(const std::filesystem::path& file, const Model& model) {
  auto [samples, rate] = read_samples(file, model, 0);
  const SoundNumbers* const numbers = ModelAccess::reader(model).sound().numbers;
  const uint32_t hop = numbers == nullptr ? 1 : numbers->hop * frames_per_token(model, *numbers);
  SoundFeatures sound;
  sound.width = ModelAccess::reader(model).slot(ModelAccess::reader(model).input_slot()).width;
  sound.seconds_of_token = static_cast<double>(hop) / rate;
  sound.seconds = static_cast<double>(samples.size()) / rate;
  const uint32_t most = model.input(0).positions_max;
  const uint64_t tokens = numbers == nullptr
                              ? samples.size()
                              : numbers->frames(samples.size()) / frames_per_token(model, *numbers);
  if (most == 0 || tokens < most) (void)fit_to_model(model, 0, samples);
  sound.rows = rows_of(convert::quote(file.string()), samples, model, 0);
  return sound;
}

convert::NpyArray read_sound(const std::filesystem::path& file, const Model& model,
                             uint32_t input) {
  auto [samples, rate] = read_samples(file, model, input);
  const size_t given = samples.size();
  const size_t whole = fit_to_model(model, input, samples);
  if (whole != given) {
    const double per_second = rate;
    const auto seconds = [&](size_t count) { return static_cast<double>(count) / per_second; };
    print_error("{}: {:.2f} s of sound, {} to {:.2f} s, which the model takes\n",
                convert::quote(file.string()), seconds(given),
                whole < given ? "cut off" : "with silence after it", seconds(whole));
  }
  return array_of(file, rows_of(convert::quote(file.string()), samples, model, input), model);
}

}  // namespace arenite::tool
