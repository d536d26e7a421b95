// SPDX-License-Identifier: Apache-2.0
// Tests loading: a model's description, and the choice of its target.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "arenite/version.h"
#include "runtime/session/session_fixture.h"
#include "session/session_state.h"

namespace arenite::test {
namespace {

Target best_here() { return targets_here().back(); }

uint32_t bits_of(const std::vector<Target>& targets) {
  uint32_t bits = 0;
  for (const Target target : targets) bits |= bit(target);
  return bits;
}

std::vector<Target> targets_elsewhere() {
  std::vector<Target> targets;
  for (const Target target : all_targets()) {
    if ((cpu_targets() & bit(target)) == 0) targets.push_back(target);
  }
  return targets;
}

TEST(ModelLoad, DescribesTheModel) {
  for (const ModuleSpec& spec : all_specs()) {
    const convert::AttentionModule module = make_module(spec);
    const auto file = make_model(spec);
    const Result<Model> model = Model::load(file.span());
    ASSERT_TRUE(model.ok()) << spec.name;
    EXPECT_STREQ(model->name(), spec.name.c_str());
    EXPECT_EQ(model->input_features(), module.features);
    EXPECT_EQ(model->output_features(), module.output_features());
    EXPECT_EQ(model->positions_max(), spec.positions_max);
    EXPECT_EQ(model->file().data(), file.span().data()) << "nothing is copied";
    EXPECT_EQ(model->file().size(), file.size());
    const bool causal =
        spec.name != "bidirectional" && spec.name != "prefix" && spec.name != "separate_inputs";
    EXPECT_EQ(model->causal(), causal) << spec.name;
    EXPECT_EQ(model->file_targets(), (1u << kTargets) - 1);
    EXPECT_EQ(ModelAccess::reader(*model).producer(), std::string("arenite ") + version());
  }
}

TEST(ModelLoad, RefusesANullFileOfAnySize) {
  Diagnostic why;
  const std::span<const std::byte> file(static_cast<const std::byte*>(nullptr), 100);
  EXPECT_EQ(Model::load(file, &why).status(), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the model file is null");
  EXPECT_EQ(Model::load({}, &why).status(), Status::kBadModel) << "no bytes are too few";
}

TEST(ModelLoad, PicksTheBestTargetThatTheCpuHas) {
  const auto all = make_model(spec_named("causal"));
  EXPECT_EQ(Model::load(all.span())->target(), best_here());
  for (const Target target : targets_here()) {
    // In the file's order and in the reverse, with the portable one as the alternative.
    const auto before = make_model(spec_named("causal"), {Target::kPortable, target});
    const auto after = make_model(spec_named("causal"), {target, Target::kPortable});
    if (target == Target::kPortable) continue;  // a target may appear once
    EXPECT_EQ(Model::load(before.span())->target(), target);
    EXPECT_EQ(Model::load(after.span())->target(), target);
    EXPECT_EQ(Model::load(after.span())->file_targets(), bit(target) | bit(Target::kPortable));
  }
}

TEST(ModelLoad, RunsTheTargetThatIsForced) {
  const auto file = make_model(spec_named("causal"));
  for (const Target target : targets_here()) {
    const Result<Model> model = Model::load(file.span(), nullptr, {true, target});
    ASSERT_TRUE(model.ok());
    EXPECT_EQ(model->target(), target);
  }
}

TEST(ModelLoad, RefusesAForcedTargetThatTheFileOrTheCpuLacks) {
  const auto portable = make_model(spec_named("causal"), {Target::kPortable});
  const auto all = make_model(spec_named("causal"));
  for (const Target target : all_targets()) {
    Diagnostic why;
    if (target != Target::kPortable) {
      EXPECT_EQ(Model::load(portable.span(), &why, {true, target}).status(), Status::kUnsupported);
      EXPECT_EQ(why.file_targets, bit(Target::kPortable));
      EXPECT_EQ(why.cpu_targets, cpu_targets());
    }
    const bool here = (cpu_targets() & bit(target)) != 0;
    EXPECT_EQ(Model::load(all.span(), &why, {true, target}).status(),
              here ? Status::kOk : Status::kUnsupported);
  }
}

TEST(ModelLoad, RefusesAFileForOtherCpusAndNamesBoth) {
  const std::vector<Target> foreign = targets_elsewhere();
  ASSERT_FALSE(foreign.empty()) << "there are targets of two architectures";
  const auto file = make_model(spec_named("causal"), foreign);
  Diagnostic why;
  const Status status = Model::load(file.span(), &why).status();
  EXPECT_EQ(status, Status::kUnsupported);
  EXPECT_EQ(why.file_targets, bits_of(foreign));
  EXPECT_EQ(why.cpu_targets, cpu_targets());
  const std::string text = describe(status, why);
  for (const Target target : all_targets()) {
    EXPECT_NE(text.find(name(target)), std::string::npos) << text;
  }
}

TEST(ModelLoad, SaysHowToConvertAFileForOtherCpus) {
  const auto file = make_model(spec_named("causal"), targets_elsewhere());
  Diagnostic why;
  const Status status = Model::load(file.span(), &why).status();
  const std::string text = describe(status, why);
  const size_t call = text.find("arenite convert --target ");
  ASSERT_NE(call, std::string::npos) << text;
  const std::string target = text.substr(text.rfind(' ') + 1);
  const Result<Model> model = Model::load(make_model(spec_named("causal")).span());
  EXPECT_EQ(target, name(model->target())) << "the fastest that there is";

  // The file and the build share a target, so the message must not suggest a new conversion.
  const auto portable = make_model(spec_named("causal"), {Target::kPortable});
  const Status forced =
      Model::load(portable.span(), &why, {true, targets_elsewhere().front()}).status();
  EXPECT_EQ(describe(forced, why).find("arenite convert"), std::string::npos);
  EXPECT_EQ(Model::load(portable.span(), nullptr, {true, targets_elsewhere().front()}).status(),
            Status::kUnsupported)
      << "without a diagnostic, too";
}

TEST(ModelLoad, RefusesAMisalignedFile) {
  const auto file = make_model(spec_named("causal"));
  const GuardedBuffer memory(file.size() + kModelAlignment, kModelAlignment);
  for (size_t offset = 1; offset < kModelAlignment; ++offset) {
    const std::span<std::byte> copy = memory.span().subspan(offset, file.size());
    std::memcpy(copy.data(), file.span().data(), file.size());
    Diagnostic why;
    ASSERT_EQ(Model::load(copy, &why).status(), Status::kInvalidArgument);
    EXPECT_STREQ(why.field, "file");
    EXPECT_EQ(why.found, offset);
  }
}

TEST(ModelLoad, RefusesAnEmptyFile) {
  Diagnostic why;
  EXPECT_EQ(Model::load({}, &why).status(), Status::kBadModel);
  EXPECT_EQ(describe(Status::kBadModel, why),
            "bad model: the file is too short for a model; file[0]; found 0, expected 40");
  EXPECT_EQ(Model::load({}).status(), Status::kBadModel);
}

LoadOptions skip_checksums() {
  LoadOptions options;
  options.checksums = Checksums::kSkip;
  return options;
}

TEST(ModelLoad, DefersTheChecksumsOfWeightsIfAsked) {
  const auto file = make_model(spec_named("causal"));
  Diagnostic why;
  const Result<Model> whole = Model::load(file.span(), &why, skip_checksums());
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->target(), best_here());
  EXPECT_EQ(whole->verify_checksums(), Status::kOk);

  const GuardedBuffer memory(file.size(), kModelAlignment);
  std::memcpy(memory.data(), file.span().data(), file.size());
  const format::ModelReader reader(file.span());
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const auto segment = static_cast<size_t>(reader.packed(i).segment.begin());
    std::byte& damaged = memory.span()[segment + 3];
    damaged ^= std::byte{0x10};
    EXPECT_EQ(Model::load(memory.span(), &why).status(), Status::kBadModel);
    const Result<Model> model = Model::load(memory.span(), &why, skip_checksums());
    ASSERT_TRUE(model.ok()) << describe(model.status(), why);
    EXPECT_EQ(model->verify_checksums(), Status::kBadModel) << "without a diagnostic, too";
    EXPECT_EQ(model->verify_checksums(&why), Status::kBadModel);
    EXPECT_STREQ(why.field, "packed.segment.crc32c");
    EXPECT_EQ(why.index, i) << "targets that do not run here are verified, too";
    damaged ^= std::byte{0x10};
    EXPECT_EQ(model->verify_checksums(&why), Status::kOk);
    EXPECT_EQ(why.reason, nullptr);
  }
}

TEST(ModelLoad, VerifiesAllButWeightsWhenChecksumsAreDeferred) {
  const auto file = make_model(spec_named("causal"), {Target::kPortable});
  const GuardedBuffer memory(file.size(), kModelAlignment);
  const format::SegmentView weights = format::ModelReader(file.span()).packed(0).segment;
  for (size_t i = 0; i < file.size(); ++i) {
    std::memcpy(memory.data(), file.span().data(), file.size());
    memory.span()[i] ^= std::byte{0x55};
    const bool is_weight = i >= weights.begin() && i < weights.end();
    ASSERT_EQ(Model::load(memory.span(), nullptr, skip_checksums()).ok(), is_weight) << i;
  }
}

// Calls and bytes of the program's own CRC function. From call `wrong_from` on it returns a wrong
// result.
struct OwnCrc {
  size_t calls = 0, bytes = 0, wrong_from = SIZE_MAX;
} own_crc;

uint32_t compute_own_crc(const void* bytes, size_t count) {
  own_crc.bytes += count;
  return crc32c_of(bytes, count) ^ (own_crc.calls++ >= own_crc.wrong_from ? 1u : 0u);
}

TEST(ModelLoad, TakesChecksumsFromAFunctionOfTheProgram) {
  const auto file = make_model(spec_named("causal"), {Target::kPortable});
  const LoadOptions options = {.crc32c = compute_own_crc};
  Diagnostic why;
  own_crc = {};
  const Result<Model> model = Model::load(file.span(), &why, options);
  ASSERT_TRUE(model.ok()) << describe(model.status(), why);
  EXPECT_EQ(own_crc.calls, 3u) << "metadata, weights, self-test";
  EXPECT_GT(own_crc.bytes, file.size() - 256) << "all but the footer and zeros before segments";
  EXPECT_EQ(model->verify_checksums(&why, compute_own_crc), Status::kOk);
  EXPECT_EQ(own_crc.calls, 5u);

  const char* const kFields[] = {"footer.metadata_crc32c", "packed.segment.crc32c",
                                 "self_test.segment.crc32c"};
  for (size_t i = 0; i < std::size(kFields); ++i) {
    own_crc = {.wrong_from = i};
    EXPECT_EQ(Model::load(file.span(), &why, options).status(), Status::kBadModel);
    EXPECT_STREQ(why.field, kFields[i]);
    EXPECT_EQ(why.found ^ why.expected, 1u);
  }
  own_crc = {.wrong_from = 0};
  EXPECT_EQ(model->verify_checksums(&why, compute_own_crc), Status::kBadModel);
  EXPECT_EQ(model->verify_checksums(&why), Status::kOk);
}

TEST(ModelLoad, HasNoChecksumsToVerifyWithoutAModel) {
  Diagnostic why;
  EXPECT_EQ(Model().verify_checksums(&why), Status::kInvalidArgument);
  EXPECT_STREQ(why.reason, "the model was not loaded");
}

TEST(ModelLoad, ForgetsAnEarlierDiagnostic) {
  const auto file = make_model(spec_named("causal"));
  Diagnostic why;
  ASSERT_FALSE(Model::load({}, &why).ok());
  ASSERT_TRUE(Model::load(file.span(), &why).ok());
  EXPECT_EQ(why.reason, nullptr);
  EXPECT_EQ(why.field, nullptr);
}

}  // namespace
}  // namespace arenite::test
