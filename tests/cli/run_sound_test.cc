// SPDX-License-Identifier: Apache-2.0
// Sound in files: from --sound of a conversion to what arenite run makes of samples, and what it
// refuses.
#include <gtest/gtest.h>

#include "cli/printed.h"
#include "cli/program.h"
#include "convert/files/npy.h"
#include "support/byte_string.h"

namespace arenite::testing {
namespace {

constexpr const char* kWords = "rate=16000,window=512,hop=320,mels=32,low=60,high=7600,add=1e-3";

class RunSound : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return (folder_.path() / name).string(); }
  ProgramResult convert(const std::vector<std::string>& options) const {
    const auto checkpoint = project_folder() / "examples/speech/words.pt2";
    std::vector<std::string> words = {"convert", checkpoint.string(), "-o", path("m.arn")};
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
                   {"44100 samples a second, and the model hears 16000"}));
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
                   {"a frame has 80 features, and the model reads 32"}));
}

}  // namespace
}  // namespace arenite::testing
