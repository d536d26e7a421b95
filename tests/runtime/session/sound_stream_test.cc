// SPDX-License-Identifier: Apache-2.0
// Sessions fed with sound give the bits of features computed separately, in pieces of any size, for
// several sequences; refusals of files and calls.
#include "arenite/sound.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "arenite/arenite_sound.h"
#include "convert/check/pack_model.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "runtime/format/verify_fixture.h"
#include "runtime/session/windows_fixture.h"
#include "support/decoder_factory.h"
#include "support/test_session.h"

namespace arenite::test {
namespace {

constexpr const char* kSoundWords =
    "rate=8000,window=80,hop=30,fft=90,mels=5,add=1e-4,pad=reflect,scale=slaney";

convert::Program program_of_sound(const std::string& words = kSoundWords,
                                  const Stem& stem = kCausalStem) {
  convert::Program program = convert::compile(stem_graph(stem), "stem");
  program.sound = convert::make_sound_table(convert::parse_sound(words));
  return program;
}

TestModel loaded(const convert::Program& program) {
  return TestModel(convert::write_model(program, {Target::kPortable}).span(), Target::kPortable);
}

std::vector<int16_t> made_sound(size_t samples) {
  std::vector<int16_t> sound;
  for (const float x : random_floats(samples, 3)) {
    sound.push_back(static_cast<int16_t>(x * 5000.0f));
  }
  return sound;
}

// Returns the floats that SoundStream::features writes for a sound of `samples` samples.
size_t room_for(const Model& model, size_t samples) {
  return static_cast<size_t>(sound_frames(model, samples)) * sound_info(model).row_floats;
}

template <typename Sample>
std::vector<float> heard(Session* session, const std::vector<Sample>& sound, size_t piece,
                         uint32_t sequence = 0) {
  Diagnostic why;
  Result<SoundStream> stream = SoundStream::of(session, 8000, sequence, &why);
  EXPECT_TRUE(stream.ok()) << describe(stream.status(), why);
  std::vector<float> all;
  const auto add = [&](const Result<Output>& output) {
    EXPECT_TRUE(output.ok()) << describe(output.status(), why);
    all.insert(all.end(), output->data, output->data + size_t{output->rows} * output->features);
    return output->rows != 0;
  };
  for (size_t begin = 0; begin < sound.size(); begin += piece) {
    std::span<const Sample> rest(sound.data() + begin, std::min(piece, sound.size() - begin));
    while (!rest.empty()) add(stream->step(rest, &why));
  }
  while (add(stream->finish(&why))) {
  }
  return all;
}

TEST(SoundStream, GivesTheBitsOfFeaturesThatAreMadeApart) {
  const TestModel model = loaded(program_of_sound());
  const SoundInfo info = sound_info(*model);
  EXPECT_EQ(info.rate, 8000u);
  EXPECT_EQ(info.features, kFeatures);
  EXPECT_EQ(info.frames_per_token, 1u);
  const std::vector<int16_t> sound = made_sound(700);
  std::vector<float> real;
  for (const int16_t x : sound) real.push_back(static_cast<float>(x) / 32768.0f);

  const TestSession session(*model, options_for(kPositions, 2));
  Result<SoundStream> stream = SoundStream::of(&*session, 8000);
  ASSERT_TRUE(stream.ok());
  std::vector<float> rows(room_for(*model, sound.size()), NAN);
  const Result<size_t> frames = stream->features(sound, rows);
  ASSERT_TRUE(frames.ok());
  EXPECT_EQ(*frames, 1u + 700 / 30);
  std::vector<float> expected;
  for (size_t i = 0; i < *frames; ++i) {
    const auto row = session->step(std::span<const float>(rows).subspan(i * kFeatures, kFeatures));
    const std::vector<float> values = values_of(row);
    expected.insert(expected.end(), values.begin(), values.end());
  }
  for (const size_t piece : {1u, 29u, 30u, 256u, 700u}) {
    for (const uint32_t sequence : {0u, 1u}) {
      session->reset();
      EXPECT_EQ(heard(&*session, sound, piece, sequence), expected) << piece;
      EXPECT_EQ(session->positions(sequence), *frames);
      EXPECT_EQ(session->positions(1 - sequence), 0u);
    }
  }
  session->reset();
  EXPECT_EQ(heard(&*session, real, 64), expected);
}

// In slices of this budget, or as small as they can be, where another token is filled while a step
// is in progress.
std::vector<float> heard_in_slices(Session* session, std::span<const int16_t> sound,
                                   uint64_t budget) {
  Result<SoundStream> stream = SoundStream::of(session, 8000);
  std::vector<float> all;
  const auto run = [&] {
    const auto advance = [&] {
      Diagnostic why;
      const Result<uint32_t> left = session->advance(budget, &why);
      return left.ok() ? left : session->advance(why.expected);  // what the next block takes
    };
    Result<uint32_t> left = advance();
    std::span<const int16_t> next = sound.first(std::min<size_t>(7, sound.size()));
    for (; left.ok() && *left != 0; left = advance()) {
      const size_t before = next.size();
      if (before == 0) continue;
      const Result<bool> early = stream->begin_step(next);
      EXPECT_TRUE(!early.ok() || !*early);
      sound = sound.subspan(before - next.size());
    }
    EXPECT_TRUE(left.ok());
    session->cancel();  // where it is not at its end
    const Output output = session->output();
    all.insert(all.end(), output.data, output.data + size_t{output.rows} * output.features);
  };
  while (!sound.empty()) {
    const Result<bool> begun = stream->begin_step(sound);
    if (!begun.ok()) return {};
    if (*begun) run();
  }
  for (Result<bool> begun = stream->begin_finish(); *begun; begun = stream->begin_finish()) run();
  return all;
}

TEST(SoundStream, IsTheSameInSlices) {
  const TestModel model = loaded(program_of_sound());
  const TestSession session(*model, options_for(kPositions));
  const std::vector<int16_t> sound = made_sound(700);
  const std::vector<float> expected = heard(&*session, sound, 700);
  for (const uint64_t budget : {uint64_t{1}, uint64_t{20000}, UINT64_MAX}) {
    session->reset();
    EXPECT_EQ(heard_in_slices(&*session, sound, budget), expected) << budget;
  }
  // A cancelled step discards its sound; the next token starts anew.
  session->reset();
  Result<SoundStream> stream = SoundStream::of(&*session, 8000);
  std::span<const int16_t> rest = sound;
  ASSERT_TRUE(*stream->begin_step(rest));
  EXPECT_EQ(stream->begin_step(rest).status(), Status::kInvalidArgument) << "in progress";
  const size_t left = rest.size();
  session->cancel();
  EXPECT_EQ(session->positions(0), 0u);
  EXPECT_TRUE(*stream->begin_step(rest));
  EXPECT_EQ(rest.size(), left);
  session->cancel();
}

TEST(SoundStream, IsTheSameInC) {
  const TestModel model = loaded(program_of_sound());
  const TestSession session(*model, options_for(kPositions));
  const std::vector<int16_t> sound = made_sound(400);
  const std::vector<float> expected = heard(&*session, sound, 400);
  std::vector<float> rows(64 * kFeatures), own(64 * kFeatures);
  const size_t frames = *SoundStream::of(&*session, 8000)->features(sound, rows);
  session->reset();

  const auto c_model = reinterpret_cast<const arenite_model*>(&*model);
  const auto c_session = reinterpret_cast<arenite_session*>(&*session);
  EXPECT_EQ(arenite_model_sound(c_model).hop, 30u);
  EXPECT_EQ(arenite_sound_frames(c_model, 400), frames);
  arenite_sound_stream stream;
  arenite_diagnostic why;
  EXPECT_EQ(arenite_sound_stream_init(&stream, c_session, 1, 0, &why), ARENITE_INVALID_ARGUMENT);
  EXPECT_EQ(why.found, 1u);
  ASSERT_EQ(arenite_sound_stream_init(&stream, c_session, 8000, 0, &why), ARENITE_OK);
  arenite_samples samples = {sound.data(), nullptr, sound.size()};
  size_t count = 0;
  ASSERT_EQ(arenite_sound_stream_features(&stream, &samples, own.data(), own.size(), &count, &why),
            ARENITE_OK);
  EXPECT_EQ(count, frames);
  EXPECT_TRUE(std::equal(own.begin(), own.begin() + ptrdiff_t(count * kFeatures), rows.begin()));
  std::vector<float> all;
  arenite_output output = {};
  const auto add = [&] { all.insert(all.end(), output.data, output.data + output.rows * 4); };
  bool begun = false;
  for (bool in_slices = false; samples.count != 0; add(), in_slices = !in_slices) {
    if (in_slices) {
      ASSERT_EQ(arenite_sound_stream_begin_step(&stream, &samples, &begun, &why), ARENITE_OK);
      uint32_t left = 0;
      output = {};
      if (begun) {
        ASSERT_EQ(arenite_session_advance(c_session, UINT64_MAX, &left, &why), ARENITE_OK);
        output = arenite_session_output(c_session);
      }
    } else {
      ASSERT_EQ(arenite_sound_stream_step(&stream, &samples, &output, &why), ARENITE_OK);
    }
  }
  do {
    ASSERT_EQ(arenite_sound_stream_finish(&stream, &output, &why), ARENITE_OK);
    add();
  } while (output.rows != 0);
  EXPECT_EQ(all, expected);
  ASSERT_EQ(arenite_sound_stream_begin_finish(&stream, &begun, &why), ARENITE_INVALID_ARGUMENT);
}

TEST(SoundStream, FillsATokenWithSeveralFrames) {
  const TestModel model =
      loaded(program_of_sound("rate=8000,window=80,hop=30,fft=80,mels=1,add=1e-4"));
  EXPECT_EQ(sound_info(*model).frames_per_token, kFeatures);
  const TestSession session(*model, options_for(kPositions));
  const std::vector<int16_t> sound = made_sound(80 + 30 * (2 * kFeatures + 1));
  EXPECT_EQ(heard(&*session, sound, 50).size(), 2u * 4);
}

TEST(SoundStream, TriesARefusedStepAgain) {
  const TestModel model = loaded(program_of_sound());
  const TestSession session(*model, options_for(2));
  const std::vector<int16_t> sound = made_sound(300);
  Result<SoundStream> stream = SoundStream::of(&*session, 8000);
  std::span<const int16_t> rest = sound;
  for (int i = 0; i < 2; ++i) EXPECT_EQ(stream->step(rest)->rows, 1u);
  EXPECT_EQ(stream->step(rest).status(), Status::kContextFull);
  const size_t left = rest.size();
  EXPECT_EQ(stream->step(rest).status(), Status::kContextFull);
  EXPECT_EQ(rest.size(), left);
  session->reset();
  EXPECT_EQ(stream->step(rest)->rows, 1u);
  EXPECT_EQ(rest.size(), left);
}

TEST(SoundStream, RefusesCalls) {
  const TestModel model = loaded(program_of_sound());
  const TestSession session(*model, options_for(kPositions));
  Diagnostic why;
  EXPECT_EQ(SoundStream::of(&*session, 16000, 0, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.field, "rate");
  EXPECT_EQ(SoundStream::of(&*session, 8000, 1).status(), Status::kInvalidArgument);
  std::span<const int16_t> none;
  EXPECT_EQ(SoundStream().step(none).status(), Status::kInvalidArgument);
  Result<SoundStream> stream = SoundStream::of(&*session, 8000);
  const std::vector<int16_t> sound = made_sound(40);
  std::span<const int16_t> rest = sound;
  EXPECT_EQ(stream->step(rest)->rows, 0u);
  EXPECT_EQ(stream->finish().status(), Status::kInvalidArgument) << "too short to be mirrored";
  std::vector<float> rows(4);
  EXPECT_EQ(stream->features(sound, rows).status(), Status::kInvalidArgument);
  EXPECT_EQ(stream->features(made_sound(200), rows).status(), Status::kInvalidArgument);

  EXPECT_EQ(SoundStream().features(sound, rows, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the stream belongs to no session");
  const auto more = made_sound(400);
  rest = more;
  while (!rest.empty()) ASSERT_TRUE(stream->step(rest).ok());
  EXPECT_NE(stream->finish()->rows, 0u);
  EXPECT_EQ(stream->step(rest, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the sound has ended: finish it first");
  const TestSession many(*model, options_for(2, kSoundSequencesMax + 1));
  EXPECT_TRUE(SoundStream::of(&*many, 8000, kSoundSequencesMax - 1).ok());
  EXPECT_EQ(SoundStream::of(&*many, 8000, kSoundSequencesMax, &why).status(),
            Status::kInvalidArgument);
  EXPECT_EQ(why.expected, kSoundSequencesMax - 1);

  const TestModel plain = loaded(convert::compile(stem_graph(kCausalStem), "stem"));
  EXPECT_EQ(sound_info(*plain).rate, 0u);
  const TestSession of_plain(*plain, options_for(kPositions));
  EXPECT_EQ(SoundStream::of(&*of_plain, 8000).status(), Status::kUnsupported);
  for (const auto& [words, stem] :
       {std::pair(std::string(kSoundWords), kWholeStem),
        std::pair(std::string(kSoundWords) + ",range=8", kCausalStem)}) {
    const TestModel whole = loaded(program_of_sound(words, stem));
    const TestSession of_whole(*whole, options_for(kPositions));
    Result<SoundStream> other = SoundStream::of(&*of_whole, 8000);
    rest = sound;
    EXPECT_EQ(other->step(rest, &why).status(), Status::kUnsupported);
    EXPECT_STREQ(why.field, stem.causal ? "sound.range" : "sound");
    EXPECT_NE(std::string(why.reason).find("whole s"), std::string::npos) << why.reason;
    std::vector<float> room(8 * kFeatures);
    EXPECT_TRUE(other->features(made_sound(200), room).ok());
  }
}

TEST(SoundStream, HasItsPartOfTheArena) {
  const TestModel plain = loaded(convert::compile(stem_graph(kCausalStem), "stem"));
  const TestModel model = loaded(program_of_sound());
  for (const uint32_t sequences : {1u, 3u}) {
    const auto bytes = [&](const TestModel& of) {
      return plan_arena(*of, options_for(kPositions, sequences))->total_bytes;
    };
    const size_t more = bytes(model) - bytes(plain);
    const size_t exact = sequences * sizeof(float) * (81 + 2 * 90 + kFeatures);
    EXPECT_LE(more, (exact + 63) / 64 * 64);
    EXPECT_GE(more + 63, exact);
  }
}

TEST(SoundOfAFile, IsVerified) {
  using convert::SoundTable;
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const struct {
    const char* field;
    std::function<void(SoundTable&)> break_it;
    uint32_t index = 0;
  } rules[] = {
      {"sound.rate", [](SoundTable& s) { s.numbers.rate = 0; }},
      {"sound.points", [](SoundTable& s) { s.numbers.points = 8192; }},
      {"sound.points", [](SoundTable& s) { s.numbers.points = 2 * 53; }},
      {"sound.window", [](SoundTable& s) { s.numbers.window = 91; }},
      {"sound.window", [](SoundTable& s) { s.numbers.window = 0; }},
      {"sound.hop", [](SoundTable& s) { s.numbers.hop = 0; }},
      {"sound.bands", [](SoundTable& s) { s.numbers.bands = 0; }},
      {"sound.bands", [](SoundTable& s) { s.numbers.bands = UINT32_MAX; }},
      {"sound.coefficients", [](SoundTable& s) { s.numbers.coefficients = 6; }},
      {"sound.flags", [](SoundTable& s) { s.numbers.flags |= 512; }},
      {"sound.flags", [](SoundTable& s) { s.numbers.flags = kReflected; }},
      {"sound.flags", [](SoundTable& s) { s.numbers.flags = kDropsLast; }},
      {"sound.flags", [](SoundTable& s) { s.numbers.hop = 41, s.numbers.flags |= kDropsLast; }},
      {"sound.floor", [](SoundTable& s) { s.numbers.floor = 0.0f; }},
      {"sound.floor", [](SoundTable& s) { s.numbers.flags |= kIsLinear, s.numbers.floor = -1.0f; }},
      {"sound.floor", [](SoundTable& s) { s.numbers.range = -1.0f; }},
      {"sound.floor", [](SoundTable& s) { s.numbers.factor = kNan; }},
      {"sound.filters", [](SoundTable& s) { s.filters.pop_back(); }},
      {"sound.filters", [](SoundTable& s) { s.filters[4] = 47; }, 2},
      {"sound.filters", [](SoundTable& s) { s.filters[5] = UINT32_MAX; }, 2},
      {"sound.tables", [](SoundTable& s) { s.tables.push_back(0.0f); }},
      {"sound.tables", [](SoundTable& s) { s.tables[100] = kNan; }},
  };
  for (const auto& rule : rules) {
    convert::Program program = program_of_sound();
    rule.break_it(*program.sound);
    Diagnostic why;
    const auto file = convert::write_model(program, {Target::kPortable});
    EXPECT_EQ(Model::load(file.span(), &why).status(), Status::kBadModel) << rule.field;
    ASSERT_NE(why.field, nullptr);
    EXPECT_STREQ(why.field, rule.field) << why.reason;
    EXPECT_EQ(why.index, rule.index) << why.reason;
  }
  convert::Program linear = program_of_sound();
  linear.sound->numbers.flags |= kIsLinear;
  linear.sound->numbers.floor = 0.0f;
  EXPECT_TRUE(Model::load(convert::write_model(linear, {Target::kPortable}).span()).ok());
  convert::Program none = program_of_sound();
  none.inputs[0].slot = 99;
  expect_refusal(convert::write_model(none, {Target::kPortable}).span(),
                 {"inputs.slot", "does not exist"});
  // Inputs that sound cannot feed: tokens, images, parts of frames, and too many frames.
  ModuleSpec wide = spec_named("causal");
  wide.features = kFramesPerTokenMax + 1;
  const std::pair<convert::Program, const char*> others[] = {
      {decoder_program({}), "mels=1"},
      {convert::compile(image_graph({false, true}), "image"), "mels=5"},
      {program_of_sound(), "mels=4"},
      {convert::compile(convert::build_graph(make_module(wide)), "wide"), "mels=1"}};
  for (auto [program, bands] : others) {
    const std::string words = std::string("rate=8000,window=64,hop=9,add=1,") + bands;
    program.sound = convert::make_sound_table(convert::parse_sound(words));
    expect_refusal(convert::write_model(program, {Target::kPortable}).span(),
                   {"sound.bands", "whole frames"});
  }
}

// An accepted file terminates and stays inside its memory, which ends at a guard page.
TEST(SoundOfAFile, RunsSafelyForAnyAcceptedNumbers) {
  constexpr uint32_t kValues[] = {0, 1, 2, 7, 31, 40, 46, 80, 81, 255, 65536, UINT32_MAX};
  const std::vector<int16_t> sound = made_sound(400);
  uint32_t ran = 0;
  for (size_t place = 0; place < sizeof(SoundNumbers) / sizeof(uint32_t) + 10; ++place) {
    for (const uint32_t value : kValues) {
      convert::Program program = program_of_sound();
      auto* const numbers = reinterpret_cast<uint32_t*>(&program.sound->numbers);
      (place < 10 ? program.sound->filters[place] : numbers[place - 10]) = value;
      const auto file = convert::write_model(program, {Target::kPortable});
      const Result<Model> model = Model::load(file.span());
      if (!model.ok()) continue;
      ++ran;
      const TestSession session(*model, options_for(kPositions));
      Result<SoundStream> stream = SoundStream::of(&*session, sound_info(*model).rate);
      ASSERT_TRUE(stream.ok());
      for (std::span<const int16_t> rest(sound); !rest.empty();) {
        if (!stream->step(rest).ok()) break;
      }
      for (bool more = true; more;) {
        const Result<Output> output = stream->finish();
        more = output.ok() && output->rows != 0;
      }
      std::vector<float> rows(room_for(*model, sound.size()));
      EXPECT_EQ(stream->features(sound, rows).ok(), !rows.empty());
    }
  }
  EXPECT_GT(ran, 40u);
}

}  // namespace
}  // namespace arenite::test
