// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the file itself, its lists and its packed weights, each violated alone
// in a file with valid checksums.
#include "runtime/format/verify_fixture.h"

namespace arenite::test {
namespace {

using format::Footer;
using format::Packed;
using format::Segment;

template <typename Change>
auto change_footer(Change change) {
  return [change](ModelSurgery& file) {
    Footer footer = file.footer();
    change(footer, file.file().size());
    file.set_footer(footer);
  };
}

const FileRule kFooterRules[] = {
    {"OtherIdentifier",
     [](ModelSurgery& file) { file.file()[5] = std::byte{'X'}; },
     {"identifier", "not an Arenite model"}},
    {"OtherMagic",
     change_footer([](Footer& footer, size_t) { ++footer.magic; }),
     {"footer.magic", "truncated, or has bytes appended"}},
    {"OlderVersion",
     change_footer([](Footer& footer, size_t) { --footer.format_version; }),
     {"footer.version", "another format version", 0, {}, Status::kVersionMismatch}},
    {"OtherVersion",
     change_footer([](Footer& footer, size_t) { ++footer.format_version; }),
     {"footer.version", "another format version", 0, {}, Status::kVersionMismatch}},
    {"OtherLength",
     change_footer([](Footer& footer, size_t) { ++footer.file_bytes; }),
     {"footer.file_bytes", "not as long as it says"}},
    {"MetadataTooShort",
     change_footer([](Footer& footer, size_t) { footer.metadata_bytes = 7; }),
     {"footer.metadata_bytes", "does not fit"}},
    {"MetadataInTheFooter",
     change_footer([](Footer& footer, size_t bytes) { footer.metadata_bytes = bytes - 31; }),
     {"footer.metadata_bytes", "does not fit"}},
    {"MetadataOfAllBytesThereAre",
     change_footer([](Footer& footer, size_t) { footer.metadata_bytes = UINT64_MAX; }),
     {"footer.metadata_bytes", "does not fit"}},
    {"ReservedFieldInUse",
     change_footer([](Footer& footer, size_t) { footer.reserved = 1; }),
     {"footer.reserved", "not zero"}},
    {"OtherChecksum",
     change_footer([](Footer& footer, size_t) { ++footer.metadata_crc32c; }),
     {"footer.metadata_crc32c", "damaged"}},
};

// The checksums are repaired after these.
const FileRule kContentRules[] = {
    {"RootOutsideTheMetadata",
     [](ModelSurgery& file) { file.file()[3] = std::byte{0x7F}; },
     {"metadata", "well-formed"}},
    {"MetadataOfTooFewBytes",
     [](ModelSurgery& file) {
       Footer footer = file.footer();
       footer.metadata_bytes /= 2;
       file.set_footer(footer);
     },
     {"metadata", "well-formed"}},
    {"TooFewSlots",
     [](ModelSurgery& file) { file.set_count(file.model().slots(), 0); },
     {"slots", "too short"}},
    {"NoOps",
     [](ModelSurgery& file) { file.set_count(file.model().ops(), 0); },
     {"ops", "too short"}},
    {"NoTargets",
     [](ModelSurgery& file) { file.set_count(file.model().packed(), 0); },
     {"packed", "too short"}},
    {"OpOfAnUnknownKind",
     [](ModelSurgery& file) { file.overwrite(file.model().ops()->Get(2), uint32_t{77}); },
     {"ops.kind", "unknown kind", 2}},
    {"BytesBetweenTheParts",
     [](ModelSurgery& file) {
       // Behind the metadata come zeros up to the first segment.
       const uint64_t end = file.footer().metadata_bytes;
       ASSERT_NE(end % format::kSegmentUnit, 0u);
       file.file()[static_cast<size_t>(end)] = std::byte{1};
     },
     {"packed.segment", "not zero"}},
    {"BytesBeforeTheFooter",
     [](ModelSurgery& file) {
       file.pad_to(4096);
       file.file()[file.file().size() - sizeof(Footer) - 1] = std::byte{1};
     },
     {"file", "not zero"}},
};

class VerifyFooter : public testing::TestWithParam<FileRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyFooter, testing::ValuesIn(kFooterRules),
                         rule_name<ModelSurgery>);
TEST_P(VerifyFooter, RefusesEachBrokenRule) {
  ModelSurgery file(make_model(spec_named("causal")).span());
  GetParam().break_it(file);
  expect_refusal(file.file(), GetParam().expected);
}

class VerifyContent : public testing::TestWithParam<FileRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyContent, testing::ValuesIn(kContentRules),
                         rule_name<ModelSurgery>);
TEST_P(VerifyContent, RefusesEachBrokenRule) {
  const auto model = make_model(spec_named("causal"), {Target::kPortable, Target::kArm64});
  expect_file_refusal(GetParam(), ModelSurgery(model.span()));
}

class VerifyCounts : public testing::TestWithParam<ProgramRule> {};
const ProgramRule kCountRules[] = {
    {"TooManySlots",
     [](convert::Program& p) { p.slots.resize(format::kSlotsMax + 1); },
     {"slots", "too long"}},
    {"TooManyOps",
     [](convert::Program& p) { p.ops.resize(format::kOpsMax + 1, p.ops[0]); },
     {"ops", "too long"}},
    {"TooManyTensors",
     [](convert::Program& p) {
       p.tensors.resize(format::kTensorsMax + 1, {"more", 1, 1, {1.0f}, {}});
     },
     {"tensors", "too long"}},
    {"TooManyCaches",
     [](convert::Program& p) { p.caches.resize(format::kOpsMax + 1, p.caches[0]); },
     {"caches", "too long"}},
    {"TooManyMasks",
     [](convert::Program& p) { p.masks.resize(format::kMasksMax + 1, p.masks[0]); },
     {"masks", "too long"}},
    {"TooManyHiddenStates",
     [](convert::Program& p) {
       p.hidden_states.resize(format::kHiddenStatesMax + 1, {2, {3, 0, 4}});
     },
     {"hidden_states", "too long"}},
};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyCounts, testing::ValuesIn(kCountRules),
                         rule_name<convert::Program>);
TEST_P(VerifyCounts, RefusesEachBrokenRule) { expect_program_refusal(GetParam(), "causal"); }

TEST(VerifyCountsOfTargets, RefusesMoreThanThereAre) {
  const auto file =
      write_model(sound_program(), std::vector<Target>(kTargets + 1, Target::kPortable));
  expect_refusal(file.span(), {"packed", "too long"});
}

// A file that is as large as the limits allow is sound.
TEST(VerifyCountsOfTargets, AcceptsAsManyMasksAndTensorsAsAllowed) {
  convert::Program program = sound_program();
  program.masks.resize(format::kMasksMax, program.masks[0]);
  program.tensors.resize(format::kTensorsMax, {"more", 1, 1, {1.0f}, {}});
  const auto file = write_model(program, {Target::kPortable});
  Diagnostic why;
  const Status status = Model::load(file.span(), &why).status();
  EXPECT_EQ(status, Status::kOk) << describe(status, why);
}

}  // namespace
}  // namespace arenite::test
