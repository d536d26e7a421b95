// SPDX-License-Identifier: Apache-2.0
// Compares the front ends of programs that take samples (make_sound_programs.py), and their
// outputs, with those of PyTorch in float64.
#include "convert/exported/sound/sound_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "arenite/sound.h"
#include "convert/convert.h"
#include "convert/files/npy.h"
#include "support/compare.h"
#include "support/refusal.h"
#include "support/test_data.h"
#include "support/test_session.h"

namespace arenite::convert {
namespace {

constexpr double kRelativeError = 2e-6;
constexpr uint32_t kMirrored = kCentred | kReflected;

struct FrontEnd {
  const char* name;
  uint32_t window, hop, bands, coefficients, flags;
  double floor, factor, offset, range;

  std::filesystem::path file(const char* ending) const {
    return testing::convert_fixture("sound_programs") / (std::string(name) + ending);
  }
};

void PrintTo(const FrontEnd& made, std::ostream* out) { *out << made.name; }

class SoundPrograms : public ::testing::TestWithParam<FrontEnd> {};

TEST_P(SoundPrograms, AreFrontEndsAndModels) {
  const FrontEnd& made = GetParam();
  const auto split = split_sound(read_exported(made.file(".pt2")), 16000);
  ASSERT_TRUE(split);
  const SoundNumbers& numbers = split->sound.numbers;
  EXPECT_EQ(numbers.rate, 16000u);
  EXPECT_EQ(numbers.points, 64u);
  EXPECT_EQ(numbers.window, made.window);
  EXPECT_EQ(numbers.hop, made.hop);
  EXPECT_EQ(numbers.bands, made.bands);
  EXPECT_EQ(numbers.coefficients, made.coefficients);
  EXPECT_EQ(numbers.flags, made.flags);
  EXPECT_FLOAT_EQ(numbers.floor, static_cast<float>(made.floor));
  EXPECT_FLOAT_EQ(numbers.factor, static_cast<float>(made.factor));
  EXPECT_NEAR(numbers.offset, made.offset, 1e-6);
  EXPECT_FLOAT_EQ(numbers.range, static_cast<float>(made.range));
  EXPECT_EQ(split->words,
            "input samples is sound: the file computes its features as the program does");
}

TEST_P(SoundPrograms, AgreeWithPyTorch) {
  const FrontEnd& made = GetParam();
  ConvertOptions options;
  options.sound = "rate=16000";
  const Conversion conversion =
      convert_model(made.file(".pt2"), made.name, options, parse_targets("portable"));
  const test::TestModel model(conversion.file.span(), Target::kPortable);
  const std::vector<float> samples =
      NpyArray::read(testing::convert_fixture("sound_programs") / "samples.npy").to_f32();
  const SoundInfo info = sound_info(*model);
  const auto frames = static_cast<uint32_t>(sound_frames(*model, samples.size()));
  const test::TestSession session(*model, test::options_for(frames));
  std::vector<float> rows(size_t{frames} * info.row_floats);
  const Result<SoundStream> stream = SoundStream::of(&*session, 16000);
  ASSERT_TRUE(stream.ok());
  SoundStream sound = *stream;
  ASSERT_EQ(*sound.features(std::span<const float>(samples), rows), frames);
  rows.resize(size_t{frames} * info.features);
  const std::vector<double> expected = NpyArray::read(made.file(".npy")).to_f64();
  double largest = 0.0;
  for (const double number : expected) largest = std::max(largest, std::abs(number));
  EXPECT_TRUE(test::all_near(session.run(rows), expected, kRelativeError * largest));
}

// Logarithm factors of decibels, and of (log10(x) + 4) / 4; that of log(1 + 1000 x) is 1.
constexpr double kDecibels = 10.0 / std::numbers::ln10;
constexpr double kQuarters = 0.25 / std::numbers::ln10;
INSTANTIATE_TEST_SUITE_P(
    Exported, SoundPrograms,
    ::testing::Values(
        FrontEnd{"log_mel", 64, 32, 8, 0, kMirrored | kAddsFloor, 1e-6, 1.0, 0.0, 0.0},
        FrontEnd{"log_mel_parts", 64, 32, 8, 0, kMirrored | kAddsFloor, 1e-6, 1.0, 0.0, 0.0},
        FrontEnd{"mfcc", 64, 32, 8, 6, kMirrored, 1e-10, kDecibels, 0.0, 80.0},
        FrontEnd{"by_hand", 40, 16, 8, 0, kMirrored | kDropsLast, 1e-8, kQuarters, 1.0, 0.5},
        FrontEnd{"convolution", 64, 32, 33, 0, kMirrored | kMagnitude | kIsLinear, 0.0, 1.0, 0.0,
                 0.0},
        FrontEnd{"frames", 48, 32, 33, 0, kAddsFloor, 1.0, 1.0, 0.0, 0.0}),
    [](const auto& info) { return std::string(info.param.name); });

// log(1 + (energy + 1e-6)) is left to the model, as the runtime adds once.
TEST(SoundProgram, AddsOnceBeforeItsLogarithm) {
  ExportedProgram program = read_exported(testing::convert_fixture("sound_programs/log_mel.pt2"));
  const auto log = std::ranges::find(program.nodes, "log", &Call::op);
  ASSERT_NE(log, program.nodes.end());
  log->op = "log1p";
  const auto split = split_sound(program, 16000);
  ASSERT_TRUE(split);
  EXPECT_TRUE(split->sound.numbers.has(kIsLinear));
  EXPECT_EQ(std::ranges::count(split->program->nodes, "log1p", &Call::op), 1);
}

TEST(SoundProgram, TakesOneChannel) {
  const ExportedProgram program =
      read_exported(testing::convert_fixture("sound_programs/log_mel.pt2"));
  for (const Shape& shape : std::vector<Shape>{{1, 2, 640}, {1, 1}, {1, 1, 1, 640}}) {
    ExportedProgram changed = program;
    std::vector<Extent>& sizes = changed.values[program.user_inputs().at(0)->value].sizes;
    sizes.clear();
    for (const int64_t size : shape) sizes.push_back({size});
    EXPECT_TRUE(testing::refuses([&] { split_sound(changed, 16000); },
                                 {"expected samples, [sounds, samples]"}));
  }
}

}  // namespace
}  // namespace arenite::convert
