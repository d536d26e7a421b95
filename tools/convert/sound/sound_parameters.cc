// SPDX-License-Identifier: Apache-2.0
// Parses the parameters of --sound, and a feature extractor's preprocessor_config.json.
#include "convert/sound/sound_parameters.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <tuple>
#include <type_traits>

#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/spec/config_fields.h"

namespace arenite::convert {
namespace {

// Sets a parameter; returns what was expected instead, or an empty string on success.
using Set = std::function<std::string(SoundParameters&, const std::string&)>;

struct Key {
  const char* name;
  Set set;
  std::string values;  // for help
};

template <typename T>
bool read_number(const std::string& text, T& value) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && read.ptr == text.data() + text.size();
}

template <typename T>
Key number(const char* name, T SoundParameters::*field, std::type_identity_t<T> least,
           std::type_identity_t<T> most) {
  const std::string expected = fmt::format("{}..{}", least, most);
  return {name,
          [=](SoundParameters& parameters, const std::string& text) {
            T value = 0;
            const bool is_right = read_number(text, value) && value >= least && value <= most;
            parameters.*field = value;
            return is_right ? std::string() : expected;
          },
          expected};
}

template <typename T>
Key choice(const char* name, T SoundParameters::*field,
           std::vector<std::pair<const char*, T>> choices) {
  std::string expected;
  for (const auto& [word, value] : choices)
    expected += (expected.empty() ? "" : "|") + std::string(word);
  return {name,
          [=](SoundParameters& parameters, const std::string& text) {
            for (const auto& [word, value] : choices) {
              if (text != word) continue;
              parameters.*field = value;
              return std::string();
            }
            return expected;
          },
          expected};
}

Key peak() {
  Key key = number("peak", &SoundParameters::peak, -1e6, 1e6);
  key.set = [set = key.set](SoundParameters& parameters, const std::string& text) {
    parameters.has_peak = true;
    return set(parameters, text);
  };
  return key;
}

std::vector<Key> keys() {
  using P = SoundParameters;
  const std::vector<std::pair<const char*, bool>> last = {{"keep", false}, {"drop", true}};
  const std::vector<std::pair<const char*, bool>> mean = {{"keep", false}, {"remove", true}};
  return {
      choice<SoundForm>("form", &P::form,
                        {{"bands", SoundForm::kBands}, {"samples", SoundForm::kSamples}}),
      choice<bool>("level", &P::normalizes, {{"keep", false}, {"normalize", true}}),
      number("rate", &P::rate, 1, kSoundRateMax),
      number("window", &P::window, 2, kPointsMax),
      number("hop", &P::hop, 1, kHopMax),
      number("fft", &P::points, kPointsMin, kPointsMax),
      number("mels", &P::bands, 1, kPointsMax),
      number("mfcc", &P::coefficients, 0, kPointsMax),
      choice<WindowShape>("shape", &P::shape,
                          {{"hann", WindowShape::kHann},
                           {"hann_symmetric", WindowShape::kHannSymmetric},
                           {"hamming", WindowShape::kHamming},
                           {"hamming_symmetric", WindowShape::kHammingSymmetric},
                           {"povey", WindowShape::kPovey},
                           {"ones", WindowShape::kOnes}}),
      choice<FramesOf>("frames", &P::frames,
                       {{"fft", FramesOf::kTransform}, {"window", FramesOf::kWindow}}),
      choice<SoundPadding>("pad", &P::padding,
                           {{"none", SoundPadding::kNone},
                            {"zeros", SoundPadding::kZeros},
                            {"reflect", SoundPadding::kReflect}}),
      choice<bool>("last", &P::drops_last, last),
      choice<bool>("dc", &P::removes_mean, mean),
      number("preemphasis", &P::emphasis, 0, 1),
      number("gain", &P::gain, 1e-6, 1e6),
      number("power", &P::power, 1, 2),
      choice<MelScale>(
          "scale", &P::scale,
          {{"htk", MelScale::kHtk}, {"slaney", MelScale::kSlaney}, {"kaldi", MelScale::kKaldi}}),
      choice<BandNorm>("norm", &P::norm,
                       {{"none", BandNorm::kNone}, {"slaney", BandNorm::kSlaney}}),
      number("low", &P::low, 0, 1e6),
      number("high", &P::high, 0, 1e6),
      choice<Logarithm>("log", &P::logarithm,
                        {{"none", Logarithm::kNone},
                         {"ln", Logarithm::kNatural},
                         {"log10", Logarithm::kTen},
                         {"db", Logarithm::kDecibel}}),
      number("floor", &P::floor, 0, 1e6),
      number("add", &P::added, 0, 1e6),
      number("range", &P::range, 0, 1e6),
      peak(),
      number("mean", &P::mean, -1e6, 1e6),
      number("deviation", &P::deviation, 1e-6, 1e6),
      number("length", &P::length, 0, uint64_t{1} << 32),
      choice<bool>("padding", &P::pads_frames, {{"samples", false}, {"frames", true}}),
  };
}

// Default parameters of published programs.
constexpr std::pair<const char*, const char*> kNames[] = {
    // Default parameters of Wav2Vec2FeatureExtractor: the samples themselves.
    {"wav2vec2", "form=samples,rate=16000,level=normalize"},
    // Default parameters of WhisperFeatureExtractor.
    {"whisper",
     "rate=16000,window=400,hop=160,mels=80,scale=slaney,norm=slaney,log=log10,floor=1e-10,"
     "pad=reflect,last=drop,range=8,mean=-4,deviation=4,length=480000"},
    // Default parameters of torchaudio.transforms.MelSpectrogram, which returns energies, and of
    // MFCC.
    {"torchaudio", "rate=16000,window=400,hop=200,mels=128,pad=reflect,log=none"},
    {"torchaudio_mfcc",
     "rate=16000,window=400,hop=200,mels=128,pad=reflect,log=db,floor=1e-10,range=80,mfcc=40"},
    // Default parameters of librosa.feature.melspectrogram and mfcc.
    {"librosa",
     "rate=22050,window=2048,hop=512,mels=128,scale=slaney,norm=slaney,pad=zeros,log=none"},
    {"librosa_mfcc",
     "rate=22050,window=2048,hop=512,mels=128,scale=slaney,norm=slaney,pad=zeros,log=db,"
     "floor=1e-10,range=80,mfcc=20"},
    // Default parameters of torchaudio.compliance.kaldi.fbank, without its dither.
    {"kaldi",
     "rate=16000,window=400,hop=160,fft=512,mels=23,shape=povey,frames=window,dc=remove,"
     "preemphasis=0.97,scale=kaldi,low=20,floor=1.1920929e-07"},
};

void set_keys(std::string_view text, SoundParameters& parameters) {
  const std::vector<Key> known = keys();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part(text.substr(begin, end - begin));
    const size_t equals = part.find('=');
    const auto key = std::ranges::find(known, part.substr(0, equals), &Key::name);
    if (equals == part.npos || key == known.end()) {
      throw InputError(
          "--sound: found {}: expected a name or KEY=VALUE of 'arenite help sound', the name first",
          quote(part));
    }
    const std::string expected = key->set(parameters, part.substr(equals + 1));
    refuse_if(!expected.empty(), "--sound: found {}, expected {}={}", quote(part), key->name,
              expected);
    begin = end + 1;
  }
}

// Returns why the parameters contradict each other; empty if they do not.
std::string problem_of(const SoundParameters& p) {
  if (p.form == SoundForm::kSamples) {
    SoundParameters samples;
    std::tie(samples.form, samples.rate, samples.normalizes) =
        std::tie(p.form, p.rate, p.normalizes);
    return p.rate == 0    ? "pass rate=N, the samples a second"
           : p == samples ? ""
                          : "form=samples has no other keys than rate and level";
  }
  if (p.normalizes) return "level=normalize is for form=samples";
  for (const auto& [name, value] : {std::pair("rate", p.rate), std::pair("window", p.window),
                                    std::pair("hop", p.hop), std::pair("mels", p.bands)}) {
    if (value == 0) return fmt::format("pass {}=N, or a name that implies it", name);
  }
  if (!has_transform(p.points)) {
    return fmt::format(
        "fft={}: supported are even numbers from {} to {} whose halves are products of 2, 3, 5 and "
        "7; pass fft=N with zeros after the window, if training did that",
        p.points, kPointsMin, kPointsMax);
  }
  if (p.window > p.points)
    return fmt::format("window={} is longer than fft={}", p.window, p.points);
  if (p.bands > p.points / 2 + 1) return fmt::format("mels={}: more than bins", p.bands);
  if (p.coefficients > p.bands) return fmt::format("mfcc={}: more than mels", p.coefficients);
  if (!(p.low < p.high) || 2 * p.high > p.rate) {
    return fmt::format("bands from {} to {} Hz: expected up to half the rate", p.low, p.high);
  }
  if (p.drops_last && (p.padding == SoundPadding::kNone || 2 * p.hop > p.window)) {
    return "last=drop is for frames with pad=reflect or zeros, and a hop of at most half a window";
  }
  if (p.floor != 0.0 && p.added != 0.0) return "pass floor=X or add=X, not both";
  if (p.logarithm != Logarithm::kNone && p.floor == 0.0 && p.added == 0.0) {
    return "pass floor=X, the least energy, or add=X, before the logarithm; or log=none";
  }
  if (p.has_peak && p.range == 0.0) return "peak=X needs range=X, which is relative to it";
  const bool is_kaldis = p.removes_mean || p.emphasis != 0.0;
  if (is_kaldis && p.frames != FramesOf::kWindow && p.window != p.points) {
    return "dc=remove and preemphasis=X need frames=window";
  }
  return "";
}

SoundParameters of_whisper(ConfigFields& fields) {
  SoundParameters parameters;
  set_keys(kNames[1].second, parameters);
  parameters.bands = fields.count("feature_size", 80);
  parameters.rate = fields.count("sampling_rate", 16000);
  parameters.hop = fields.count("hop_length", 160);
  parameters.window = fields.count("n_fft", 400);
  fields.expect("dither", 0.0, "noise is added to the sound");
  fields.expect("padding_side", "right", "silence comes before the sound");
  fields.expect("padding_value", 0.0, "the padding after the sound is not silence");
  fields.expect("do_normalize", false, "each sound is normalized");
  parameters.length = uint64_t{fields.count("chunk_length", 30)} * parameters.rate;
  fields.expect("n_samples", parameters.length, "chunk_length times sampling_rate differs");
  // Whisper computes its filters, whatever the file says, and nb_max_frames follows from other
  // fields.
  fields.pass_over({"mel_filters", "nb_max_frames"});
  return parameters;
}

// ASTFeatureExtractor uses Kaldi's parameters, with a symmetric Hann window.
SoundParameters of_spectrogram_transformer(const nlohmann::json& json, ConfigFields& fields) {
  SoundParameters parameters;
  set_keys(kNames[std::size(kNames) - 1].second, parameters);
  parameters.shape = WindowShape::kHannSymmetric;
  parameters.rate = fields.count("sampling_rate", 16000);
  parameters.bands = fields.count("num_mel_bins", 128);
  refuse_if(parameters.rate != 16000, "{}: field 'sampling_rate' is {}: expected 16000",
            fields.where(), parameters.rate);
  if (fields.flag("do_normalize", true)) {
    const bool has_mean = json.contains("mean") && json["mean"].is_number();
    parameters.mean = has_mean ? json["mean"].get<double>() : -4.2677393;
    parameters.deviation = 2.0 * fields.positive("std", 4.5689974);
  }
  const uint32_t frames = fields.count("max_length", 1024);
  parameters.length = uint64_t{frames - 1} * parameters.hop + parameters.window;
  parameters.pads_frames = true;
  fields.pass_over({"mean", "std"});
  return parameters;
}

SoundParameters of_samples(ConfigFields& fields) {
  SoundParameters parameters;
  parameters.form = SoundForm::kSamples;
  parameters.rate = fields.count("sampling_rate", 16000);
  parameters.normalizes = fields.flag("do_normalize", true);
  fields.expect("padding_value", 0.0, "the padding after the sound is not silence");
  return parameters;
}

SoundParameters of_config(const std::string& file) {
  const nlohmann::json json = read_json_object(file);
  ConfigFields fields(json, quote(file));
  const std::string kind = fields.text("feature_extractor_type");
  fields.pass_over({"feature_size", "padding_side", "padding_value", "processor_class",
                    "return_attention_mask"});
  SoundParameters parameters;
  if (kind == "WhisperFeatureExtractor") {
    parameters = of_whisper(fields);
  } else if (kind == "ASTFeatureExtractor") {
    parameters = of_spectrogram_transformer(json, fields);
  } else if (kind == "Wav2Vec2FeatureExtractor") {
    parameters = of_samples(fields);
  } else {
    fields.refuse("feature_extractor_type",
                  "expected WhisperFeatureExtractor, ASTFeatureExtractor or "
                  "Wav2Vec2FeatureExtractor; where the features of another do not depend on the "
                  "whole sound, pass them as KEY=VALUE,...");
  }
  fields.finish();
  return parameters;
}

}  // namespace

std::string sound_grammar() {
  std::string text = "A name stands for the defaults of a program:\n";
  for (const auto& [name, meaning] : kNames) text += fmt::format("  {}\n    {}\n", name, meaning);
  text += "\nKeys, of which rate, window, hop and mels are required:\n";
  for (const Key& key : keys()) text += fmt::format("  {}={}\n", key.name, key.values);
  return text;
}

SoundParameters parse_sound(const std::string& text) {
  SoundParameters parameters;
  if (text.ends_with(".json")) {
    parameters = of_config(text);
  } else {
    std::string_view rest = text;
    const std::string_view first = rest.substr(0, rest.find(','));
    for (const auto& [name, meaning] : kNames) {
      if (first != name) continue;
      set_keys(meaning, parameters);
      rest.remove_prefix(std::min(rest.size(), first.size() + 1));
      break;
    }
    if (!rest.empty() || parameters.rate == 0) set_keys(rest, parameters);
  }
  if (parameters.form == SoundForm::kBands) {
    if (parameters.points == 0) parameters.points = parameters.window;
    if (parameters.high == 0.0) parameters.high = parameters.rate / 2.0;
  }
  const std::string problem = problem_of(parameters);
  refuse_if(!problem.empty(), "--sound: {}", problem);
  return parameters;
}

uint32_t rate_alone(const std::string& text) {
  SoundParameters parameters;
  if (!text.starts_with("rate=") || text.find(',') != text.npos) return 0;
  set_keys(text, parameters);
  return parameters.rate;
}

}  // namespace arenite::convert
