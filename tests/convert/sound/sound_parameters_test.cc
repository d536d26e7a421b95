// SPDX-License-Identifier: Apache-2.0
// Features of sound agree with the programs that models are trained with, for every supported
// transform and in pieces of any size; refusals of --sound.
#include "convert/sound/sound_parameters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "convert/files/checkpoint.h"
#include "convert/files/error.h"
#include "sound/frames.h"
#include "support/model_factory.h"
#include "support/refusal.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace arenite::convert {
namespace {

SoundView view_of(const SoundTable& table) { return {&table.numbers, table.filters, table.tables}; }

// Computes the features of a whole sound, or of one in pieces of `piece` samples, whose features
// must not depend on the loudest band.
class Maker {
 public:
  explicit Maker(const SoundTable& table)
      : view_(view_of(table)),
        floats_(sound_floats(table.numbers, 0), NAN),
        frames_(view_, place_, floats_.data()) {
    frames_.restart();
  }

  std::vector<float> whole(std::span<const int16_t> samples) {
    const SoundNumbers& numbers = *view_.numbers;
    const auto count = static_cast<size_t>(numbers.frames(samples.size()));
    std::vector<float> rows(count * numbers.bands, NAN);
    sound::compute_features(frames_, samples, count, rows.data());
    rows.resize(count * numbers.features());
    return rows;
  }

  std::vector<float> pieces(std::span<const int16_t> samples, size_t piece) {
    while (!samples.empty()) {
      auto rest = samples.first(std::min(piece, samples.size()));
      samples = samples.subspan(rest.size());
      while (!rest.empty()) {
        rest = rest.subspan(frames_.take(rest));
        if (frames_.is_whole()) add();
      }
    }
    EXPECT_TRUE(frames_.end());
    while (frames_.take_padding()) add();
    return rows_;
  }

 private:
  void add() {
    std::vector<float> row(view_.numbers->bands);
    frames_.complete(frames_.compute(), view_.numbers->peak, row.data());
    row.resize(view_.numbers->features());
    rows_.insert(rows_.end(), row.begin(), row.end());
  }

  SoundView view_;
  SoundPlace place_;
  std::vector<float> floats_, rows_;
  sound::Frames frames_;
};

std::vector<int16_t> samples_of(const Checkpoint& data) {
  std::vector<int16_t> samples;
  for (const int64_t sample : data.find("samples")->to_i64()) {
    samples.push_back(static_cast<int16_t>(sample));
  }
  return samples;
}

TEST(Sound, AgreesWithOtherPrograms) {
  const Checkpoint data =
      Checkpoint::read(testing::project_folder() / "tests/convert/data/sound.safetensors");
  const std::vector<int16_t> samples = samples_of(data);
  testing::TempFolder folder;
  for (const CheckpointTensor& tensor : data.tensors()) {
    if (tensor.name == "samples") continue;
    const std::string words = tensor.name != "ast.json" ? tensor.name
                                                        : folder
                                                              .write("ast.json", R"({
        "feature_extractor_type": "ASTFeatureExtractor", "num_mel_bins": 64, "mean": -4.0,
        "std": 4.5, "max_length": 7, "sampling_rate": 16000, "feature_size": 1})")
                                                              .string();
    const SoundTable table = make_sound_table(parse_sound(words));
    const std::vector<float> found = Maker(table).whole(samples);
    const std::vector<float> expected = tensor.to_f32();
    ASSERT_EQ(found.size(), expected.size()) << tensor.name;
    double most = 0.0, largest = 0.0;
    for (size_t i = 0; i < found.size(); ++i) {
      most = std::max(most, std::abs(double{found[i]} - expected[i]));
      largest = std::max(largest, std::abs(double{expected[i]}));
    }
    // Kaldi's own are computed in float32.
    EXPECT_LE(most, 1e-5 * largest) << tensor.name;
    if (table.numbers.needs_whole_sound()) continue;
    for (const size_t piece : {1u, 7u, 160u, 1000u}) {
      EXPECT_EQ(Maker(table).pieces(samples, piece), found) << tensor.name << ", " << piece;
    }
  }
}

TEST(Sound, HasTransformsOfManyLengths) {
  uint32_t lengths = 0;
  for (uint32_t points = kPointsMin; points <= kPointsMax; ++points) {
    if (!has_transform(points)) continue;
    ++lengths;
    if (points > 512 && lengths % 32 != 0) continue;  // the sums below take their square
    SoundParameters parameters;
    parameters.rate = parameters.points = parameters.window = points;
    parameters.hop = parameters.bands = 1;
    parameters.high = points / 2.0;
    const SoundTable table = make_sound_table(parameters);
    std::vector<float> x = test::random_floats(points, points), other(points);
    const std::vector<float> samples = x;
    const float* const found = sound::power_spectrum(view_of(table), x.data(), other.data());
    std::vector<std::complex<double>> roots;
    for (uint32_t i = 0; i < points; ++i) {
      roots.push_back(std::polar(1.0, -2.0 * std::numbers::pi * i / points));
    }
    double most = 0.0;
    for (uint32_t k = 0; k <= points / 2; ++k) {
      std::complex<double> sum = 0.0;
      for (uint32_t i = 0; i < points; ++i) sum += double{samples[i]} * roots[i * k % points];
      most = std::max(most, std::abs(found[k] - std::norm(sum)));
    }
    EXPECT_LE(most, 2e-5 * points) << points;
  }
  EXPECT_GT(lengths, 150u);
  for (const uint32_t points : {256u, 320u, 400u, 480u, 512u, 640u, 882u, 1024u, 2048u, 4096u}) {
    EXPECT_TRUE(has_transform(points)) << points;
  }
}

TEST(Sound, HasAsManyFramesAsPredicted) {
  const SoundTable table = make_sound_table(
      parse_sound("rate=8000,window=64,hop=32,mels=9,add=1e-3,pad=reflect,last=drop"));
  const std::vector<int16_t> samples(512, 3);
  for (size_t count = 33; count < 200; ++count) {
    const std::span<const int16_t> some(samples.data(), count);
    EXPECT_EQ(Maker(table).pieces(some, 5).size(), 9 * (count / 32)) << count;
    EXPECT_EQ(table.numbers.frames(count), count / 32);
  }
  EXPECT_EQ(table.numbers.frames(32), 0u) << "there are too few to mirror";
}

TEST(Sound, RefusesUnknownParameters) {
  const std::string all = "rate=16000,window=400,hop=160,mels=40,floor=1e-6";
  EXPECT_NO_THROW(parse_sound(all));
  const std::pair<std::string, const char*> mistakes[] = {
      {"", "expected a name or KEY=VALUE"},
      {"wisper", "'wisper'"},
      {all + ",", "found ''"},
      {all + ",pitch=3", "'pitch=3'"},
      {all + ",power=3", "expected power=1..2"},
      {all + ",scale=bark", "expected scale=htk|slaney|kaldi"},
      {all + ",floor=nan", "expected floor="},
      {all + ",fft=401", "fft=401: supported are even numbers from 32 to 4096"},
      {all + ",fft=418", "products of 2, 3, 5 and 7"},
      {all + ",fft=256", "window=400 is longer than fft=256"},
      {all + ",mels=300", "mels=300"},
      {all + ",mfcc=41", "mfcc=41"},
      {all + ",high=9000", "up to half the rate"},
      {all + ",add=1", "not both"},
      {all + ",floor=0", "before the logarithm"},
      {all + ",peak=1", "range=X"},
      {all + ",last=drop", "last=drop is for"},
      {all + ",fft=512,dc=remove", "frames=window"},
      {"rate=16000,window=400,mels=40,floor=1", "pass hop=N"},
      {"form=samples", "pass rate=N"},
      {"wav2vec2,mels=40", "no other keys than rate and level"},
      {all + ",level=normalize", "for form=samples"}};
  for (const auto& mistake : mistakes) {
    EXPECT_TRUE(testing::refuses([&] { parse_sound(mistake.first); }, {"--sound", mistake.second}))
        << mistake.first;
  }
  testing::TempFolder folder;
  for (const auto& [text, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"feature_extractor_type": "ClapFeatureExtractor"})", "Clap"},
           {R"({"feature_extractor_type": "Wav2Vec2FeatureExtractor", "padding_value": 1})",
            "padding_value"},
           {R"({"feature_extractor_type": "WhisperFeatureExtractor", "dither": 0.5})", "dither"},
           {R"({"feature_extractor_type": "WhisperFeatureExtractor", "padding_side": "left"})",
            "padding_side"},
           {R"({"feature_extractor_type": "WhisperFeatureExtractor", "n_samples": 16000})",
            "n_samples"},
           {R"({"feature_extractor_type": "WhisperFeatureExtractor", "tempo": 2})", "tempo"}}) {
    const std::string file = folder.write("preprocessor_config.json", text).string();
    EXPECT_TRUE(testing::refuses([&] { parse_sound(file); }, {part})) << text;
  }
}

}  // namespace
}  // namespace arenite::convert
