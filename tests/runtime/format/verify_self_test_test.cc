// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the self-test, each violated alone in a file with valid checksums.
#include "convert/check/pack_model.h"
#include "core/crc32c.h"
#include "format/reader.h"
#include "runtime/format/verify_fixture.h"
#include "support/hostile_file.h"

namespace arenite::test {
namespace {

using format::SegmentView;

convert::AlignedBytes tested_file() {
  return convert::pack_model(sound_program(), {Target::kPortable, Target::kArm64}, "test");
}

template <typename Change>
auto change_record(Change change) {
  return [change](ModelSurgery& file) {
    const format::SelfTest& old = *file.model().self_test();
    format::SelfTestView record = format::ModelReader(file.file()).self_test();
    change(record.segment, record.tokens);
    file.overwrite(&old, record);
  };
}

const Expected kSelfTestMisplaced = {"self_test.segment", "misplaced"};
const Expected kWrongSize = {"self_test.segment.length", "as long as its parts"};
const Expected kTokens = {"self_test.tokens", "empty, or longer than the context"};
const Expected kNotEmpty = {"self_test", "has fields, but no bytes"};

const FileRule kSelfTestRules[] = {
    {"NoTokens", change_record([](SegmentView&, uint32_t& tokens) { tokens = 0; }), kTokens},
    {"OtherTokens", change_record([](SegmentView&, uint32_t& tokens) { tokens = 60; }), kWrongSize},
    {"TokensWithoutEnd", change_record([](SegmentView&, uint32_t& tokens) { tokens = UINT32_MAX; }),
     kWrongSize},
    {"InTheWeights", change_record([](SegmentView& segment, uint32_t&) { --segment.offset; }),
     kSelfTestMisplaced},
    {"InTheMetadata", change_record([](SegmentView& segment, uint32_t&) { segment.offset = 0; }),
     kSelfTestMisplaced},
    {"AtTheEndOfNumbers",
     change_record([](SegmentView& segment, uint32_t&) { segment.offset = UINT32_MAX; }),
     kSelfTestMisplaced},
    {"IntoTheFooter",
     change_record([](SegmentView& segment, uint32_t&) { ++segment.offset; }),
     {"self_test.segment", "does not fit"}},
    {"Shorter", change_record([](SegmentView& segment, uint32_t&) { --segment.length; }),
     kWrongSize},
    {"OfAllBytesThereAre",
     change_record([](SegmentView& segment, uint32_t&) { segment.length = UINT32_MAX; }),
     kWrongSize},
    {"NoneWithTokens", change_record([](SegmentView& segment, uint32_t&) { segment.length = 0; }),
     kNotEmpty},
    {"NoneWithAPlace", change_record([](SegmentView& segment, uint32_t& tokens) {
       segment = {segment.offset, 0, 0};
       tokens = 0;
     }),
     kNotEmpty},
    // Nothing says what the bytes are for.
    {"Forgotten",
     change_record([](SegmentView& segment, uint32_t& tokens) {
       segment = {};
       tokens = 0;
     }),
     {"file", "before the footer are not zero"}},
};

class VerifySelfTest : public testing::TestWithParam<FileRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifySelfTest, testing::ValuesIn(kSelfTestRules),
                         rule_name<ModelSurgery>);
TEST_P(VerifySelfTest, RefusesEachBrokenRule) {
  ModelSurgery file(tested_file().span());
  GetParam().break_it(file);
  file.repair();
  Diagnostic why;
  EXPECT_EQ(Model::load(file.file(), &why).status(), Status::kBadModel);
  EXPECT_STREQ(why.field, GetParam().expected.field) << describe(Status::kBadModel, why);
  EXPECT_NE(std::string(why.reason).find(GetParam().expected.words), std::string::npos)
      << describe(Status::kBadModel, why);
}

TEST(VerifySelfTestTokens, RefusesMoreThanTheContext) {
  convert::Program program = sound_program();
  program.inputs[0].positions_max = 5;
  EXPECT_EQ(convert::self_test_tokens(program), 5u);
  const auto file = convert::write_model(program, {Target::kPortable}, 6);
  expect_refusal(file.span(), {"self_test.tokens", "longer than the context"});
}

// repair() would mend it.
TEST(VerifySelfTestDamage, ChecksumOfAnAbsentTestIsRefused) {
  ModelSurgery file(write_model(sound_program(), {Target::kPortable}).span());
  format::SelfTestView record = {};
  record.segment.crc32c = 1;
  file.overwrite(file.model().self_test(), record);
  format::Footer footer = file.footer();
  footer.metadata_crc32c = crc32c(file.file().first(static_cast<size_t>(footer.metadata_bytes)));
  file.set_footer(footer);
  expect_refusal(file.file(), kNotEmpty);
}

TEST(VerifySelfTestDamage, IsFoundByTheChecksum) {
  ModelSurgery file(tested_file().span());
  const SegmentView segment = format::ModelReader(file.file()).self_test().segment;
  for (const uint64_t place : {uint64_t{0}, segment.bytes() / 2, segment.bytes() - 1}) {
    std::byte& byte = file.file()[static_cast<size_t>(segment.begin() + place)];
    byte ^= std::byte{1};
    expect_refusal(file.file(), {"self_test.segment.crc32c", "damaged"});
    byte ^= std::byte{1};
  }
}

}  // namespace
}  // namespace arenite::test
