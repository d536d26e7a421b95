// SPDX-License-Identifier: Apache-2.0
// Samples are followed through the ops that make features of them, by labels: 1 is the first.
#include "convert/exported/sound/sound_chain.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convert/exported/sound/sound_program.h"
#include "support/refusal.h"

namespace arenite::convert {
namespace {

// A program of one row of samples, value 0.
class FollowedSamples : public ::testing::Test {
 protected:
  void take(int64_t samples) {
    program_.source = "model.pt2";
    program_.tensors = std::make_shared<TensorStore>("model.pt2");
    program_.inputs.push_back({.value = 0, .name = "x"});
    program_.values.push_back({.name = "x", .sizes = {{1}, {samples}}});
    samples_ = samples;
  }
  uint32_t op(const std::string& name, std::vector<NamedArgument> arguments) {
    const auto value = static_cast<uint32_t>(program_.values.size());
    program_.values.push_back({.name = name});
    program_.nodes.push_back({.op = name, .arguments = std::move(arguments), .outputs = {value}});
    return value;
  }
  SoundChain chain() const { return SoundChain(program_, 0, {1, samples_}); }
  // Whether the last op is not followed, for this reason.
  ::testing::AssertionResult stops(const std::string& why) const {
    const std::string found = chain().why_not(program_.nodes.back());
    if (found.find(why) != std::string::npos) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << "'" << found << "'";
  }

  ExportedProgram program_;
  int64_t samples_ = 0;
};

TEST_F(FollowedSamples, AreMirroredAtBothEnds) {
  take(4);
  const uint32_t padded = op("pad", {{"self", ValueRef{0}},
                                     {"pad", Argument::List{int64_t{2}, int64_t{1}}},
                                     {"mode", std::string("reflect")}});
  const SoundChain followed = chain();
  const SoundValue* const found = followed.find(padded);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->labels.to_reals(), (Array::Reals{3, 2, 1, 2, 3, 4, 3}));
}

TEST_F(FollowedSamples, AreNotRepeatedAtTheirEnds) {
  take(4);
  op("pad", {{"self", ValueRef{0}},
             {"pad", Argument::List{int64_t{2}, int64_t{1}}},
             {"mode", std::string("replicate")}});
  EXPECT_TRUE(stops("it pads samples neither with zeros nor by reflection"));
}

// A transform of 32 samples has 17 bins.
TEST_F(FollowedSamples, HaveNoMoreBandsThanBins) {
  const auto bands = [&](int64_t count) {
    program_ = {};
    take(64);
    const uint32_t spectrum = op("stft", {{"self", ValueRef{0}},
                                          {"n_fft", int64_t{32}},
                                          {"hop_length", int64_t{16}},
                                          {"onesided", true},
                                          {"return_complex", true}});
    const uint32_t magnitudes = op("abs", {{"self", ValueRef{spectrum}}});
    const uint32_t powers = op("pow", {{"self", ValueRef{magnitudes}}, {"exponent", int64_t{2}}});
    const uint32_t matrix =
        op("ones", {{"size", Argument::List{count, int64_t{17}}}, {"dtype", ElementType::kF32}});
    return op("matmul", {{"self", ValueRef{matrix}}, {"other", ValueRef{powers}}});
  };
  const uint32_t as_many = bands(17);
  EXPECT_NE(chain().find(as_many), nullptr);
  bands(18);
  EXPECT_TRUE(stops("the sound front end has no such step"));
}

TEST_F(FollowedSamples, AreAtLeastTwo) {
  constexpr const char* kExpected = "expected samples, [sounds, samples]";
  take(1);
  program_.outputs = {ValueRef{0}};
  EXPECT_TRUE(arenite::testing::refuses([&] { split_sound(program_, 16000); }, {kExpected}));
  program_.values[0].sizes[1].size = 2;
  const std::string other = arenite::testing::refusal_of([&] { split_sound(program_, 16000); });
  EXPECT_NE(other, "");  // no op makes features
  EXPECT_EQ(other.find(kExpected), std::string::npos) << other;
}

}  // namespace
}  // namespace arenite::convert
