// SPDX-License-Identifier: Apache-2.0
// Sound files: conversion with --sound or of programs that take samples, results of `arenite run`,
// and refusals.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cli/printed.h"
#include "cli/program.h"
#include "convert/exported/changed_program.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"

namespace arenite::testing {
namespace {

constexpr const char* kWords = "rate=16000,window=512,hop=320,mels=32,low=60,high=7600,add=1e-3";

class RunSound : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult convert(const std::vector<std::string>& options,
                        const std::filesystem::path& checkpoint =
                            project_folder() / "examples/speech/words.pt2") const {
    std::vector<std::string> words = {"convert", checkpoint.string(), "-o", path("m.arn"),
                                      "--verbose"};
    words.insert(words.end(), options.begin(), options.end());
    return run_arenite(words);
  }
  ProgramResult run(const std::string& input) const {
    return run_arenite({"run", path("m.arn"), "--input", input, "--output", path("y.npy")});
  }
  std::vector<float> output() const {
    return arenite::convert::NpyArray::read(path("y.npy")).to_f32();
  }

  // With a chunk of another program between the two that count.
  std::string write_wave(const std::string& samples, uint16_t kind = 1, uint16_t bits = 16,
                         uint32_t rate = 16000, uint16_t channels = 1) const {
    const auto size = [](const std::string& bytes) {
      return bytes_of(static_cast<uint32_t>(bytes.size()));
    };
    const std::string format = bytes_of<uint16_t>({kind, channels}) +
                               bytes_of<uint32_t>({rate, 0}) + bytes_of<uint16_t>({0, bits});
    const std::string body = "WAVEfmt " + size(format) + format + "LIST" + size("abc") + "abc" +
                             std::string(1, '\0') + "data" + size(samples) + samples;
    return folder_.write("x.wav", "RIFF" + size(body) + body).string();
  }

  TempFolder folder_;
};

TEST_F(RunSound, IsTheSameOfEachKindOfFile) {
  ASSERT_TRUE(ends(convert({"--sound", kWords}), kDone, {"16000 samples a second"}));
  std::string samples, floats;
  for (int i = 0; i < 4000; ++i) {
    const auto sample = static_cast<int16_t>(i * (i / 16 + 300));
    samples += bytes_of(sample);
    floats += bytes_of(static_cast<float>(sample) / 32768.0f);
  }
  const std::string raw = folder_.write("x.raw", samples).string();
  ASSERT_TRUE(ends(run(raw), kDone, {"[11, 11] float32"}));
  const std::vector<float> expected = output();
  for (const std::string& wave : {write_wave(samples), write_wave(floats, 3, 32)}) {
    ASSERT_TRUE(ends(run(wave), kDone));
    EXPECT_EQ(output(), expected);
  }
  write_wave(floats, 3, 32);
  EXPECT_TRUE(ends(run_arenite({"inspect", path("m.arn")}), kDone,
                   {"16000 samples a second, 512 every 320, 512 points, 32 bands, plus 0.001"}));
}

TEST_F(RunSound, RefusesOtherFilesAndModels) {
  const std::string samples(8000, '\1');
  ASSERT_TRUE(ends(convert({"--sound", kWords}), kDone));
  EXPECT_TRUE(ends(run(write_wave(samples, 1, 16, 44100)), kBadInput,
                   {"44100 samples a second: expected 16000"}));
  EXPECT_TRUE(ends(run(write_wave(samples, 1, 16, 16000, 2)), kBadInput, {"2 channels"}));
  EXPECT_TRUE(ends(run(write_wave(samples, 1, 24)), kBadInput, {"of 24 bits"}));
  EXPECT_TRUE(ends(run(write_wave(samples.substr(0, 100))), kBadInput, {"too few"}));
  for (const char* const text : {"", "RIFF....WAVE", "RIFF....WAVEfmt ", "RIFF....WAVEdata...."}) {
    const std::string file = folder_.write("x.wav", text).string();
    EXPECT_TRUE(ends(run(file), kBadInput, {"x.wav"})) << text;
  }
  ASSERT_TRUE(ends(convert({}), kDone));
  EXPECT_TRUE(ends(run(write_wave(samples)), kBadInput, {"convert it with --sound"}));
  EXPECT_TRUE(ends(convert({"--sound", "whisper"}), kBadInput,
                   {"a frame has 80 features, but the model reads 32"}));
}

// ---- programs that take samples (make_sound_programs.py) ----

class RunSoundProgram : public RunSound {
 protected:
  static std::filesystem::path fixture(const std::string& name) {
    return convert_fixture("sound_programs") / name;
  }
  void expect_as_pytorch(const std::string& name, const char* front_end) const {
    SCOPED_TRACE(name);
    ASSERT_TRUE(ends(convert({"--sound", "rate=16000"}, fixture(name + ".pt2")), kDone,
                     {front_end, "samples is sound"}));
    expect_output(name, 2e-6);
  }
  void expect_output(const std::string& name, double tolerance) const {
    const std::vector<float> samples =
        arenite::convert::NpyArray::read(fixture("samples.npy")).to_f32();
    std::string floats;
    for (const float sample : samples) floats += bytes_of(sample);
    ASSERT_TRUE(ends(run(write_wave(floats, 3, 32)), kDone));
    const auto expected = arenite::convert::NpyArray::read(fixture(name + ".npy")).to_f64();
    const std::vector<float> found = output();
    ASSERT_EQ(found.size(), expected.size());
    double largest = 0.0;
    for (const double number : expected) largest = std::max(largest, std::abs(number));
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], tolerance * largest);
  }
};

TEST_F(RunSoundProgram, AgreesWithPyTorch) {
  const char* const kLogMel = "64 every 32, 64 points, 8 bands, plus 1e-06, mirrored ends";
  expect_as_pytorch("log_mel", kLogMel);
  expect_as_pytorch("log_mel_parts", kLogMel);
  expect_as_pytorch("mfcc", "8 bands, 6 coefficients, at least 1e-10, mirrored ends, at most 80");
  expect_as_pytorch("by_hand",
                    "40 every 16, 64 points, 8 bands, at least 1e-08, mirrored ends, without the "
                    "last, at most 0.5 below the loudest");
  expect_as_pytorch("convolution", "33 bands of magnitudes, at least 0, no logarithm, mirrored");
  expect_as_pytorch("frames", "48 every 32, 64 points, 33 bands, plus 1");
}

// With silence, or frames of zeros, after a short sound: as the extractors of transformers.
TEST_F(RunSoundProgram, PadsAsTheConfigSays) {
  for (const auto& [config, tokens] : {std::pair("whisper", 100), std::pair("ast", 40)}) {
    SCOPED_TRACE(config);
    const std::string file = fixture(std::string(config) + ".json").string();
    ASSERT_TRUE(ends(convert({"--sound", file}, fixture("heard.pt2")), kDone,
                     {fmt::format("then exactly {} tokens: --sound", tokens)}));
    expect_output(config, 1e-5);
  }
  EXPECT_TRUE(ends(convert({"--sound", "whisper,mels=8,length=50"}, fixture("heard.pt2")),
                   kBadInput, {"padded to 50 samples, 0 tokens", "length=0"}));
}

TEST_F(RunSoundProgram, RefusesOtherFeatures) {
  const auto rate = [&](const std::filesystem::path& program) {
    return convert({"--sound", "rate=16000"}, program);
  };
  EXPECT_TRUE(ends(convert({}, fixture("log_mel.pt2")), kBadInput, {"pass --sound rate=N only"}));
  EXPECT_TRUE(ends(convert({"--sound", "whisper"}, fixture("log_mel.pt2")), kBadInput,
                   {"pass --sound rate=N only"}));
  EXPECT_TRUE(ends(rate(fixture("less_mean.pt2")), kBadInput,
                   {"op aten.mean.dim", "not in frames of a Fourier transform"}));
  EXPECT_TRUE(
      ends(convert({"--sound", "rate=16000"}), kBadInput, {"expected samples, [sounds, samples]"}));
  // Replaces the name of one op of the program by another.
  const auto changed = [&](const char* op, const char* by) {
    convert::Members members("sound_programs/log_mel.pt2");
    std::string text = members.model.dump();
    const size_t at = text.find(op);
    members.model = convert::json::parse(text.replace(at, std::string_view(op).size(), by));
    return folder_.write("changed.pt2", members.bytes());
  };
  EXPECT_TRUE(ends(rate(changed("aten.abs.default", "aten.angle.default")), kBadInput,
                   {"op aten.angle.default", "such as phases"}));
  EXPECT_TRUE(ends(rate(changed("aten.add.Tensor", "aten.mul.Tensor")), kBadInput,
                   {"op aten.log.default", "the logarithm of silence is -infinity"}));
}

}  // namespace
}  // namespace arenite::testing
