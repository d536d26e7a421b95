// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the self-test, each broken alone in a file whose checksums are right.
#include "convert/program/conversion_steps.h"
#include "convert/program/self_test.h"
#include "runtime/format/verify_fixture.h"
#include "support/hostile_file.h"

namespace arenite::test {
namespace {

using format::Segment;

convert::AlignedBytes tested_file() {
  return convert::pack_model(sound_program(), {Target::kPortable, Target::kArm64}, "test");
}

struct Record {
  uint64_t offset, bytes;
  uint32_t crc32c, tokens;
};

template <typename Change>
auto change_record(Change change) {
  return [change](ModelSurgery& file) {
    const format::SelfTest& old = *file.model().self_test();
    Record record = {old.segment().offset(), old.segment().bytes(), old.segment().crc32c(),
                     old.tokens()};
    change(record);
    file.overwrite(
        &old, format::SelfTest(Segment(record.offset, record.bytes, record.crc32c), record.tokens));
  };
}

const Expected kMisplaced = {"self_test.segment", "misplaced"};
const Expected kWrongSize = {"self_test.segment.bytes", "as long as its parts"};
const Expected kTokens = {"self_test.tokens", "longer than the context, or empty"};
const Expected kNotEmpty = {"self_test", "not empty"};

const FileRule kRules[] = {
    {"NoTokens", change_record([](Record& record) { record.tokens = 0; }), kTokens},
    {"FewerTokens", change_record([](Record& record) { --record.tokens; }), kWrongSize},
    {"TokensWithoutEnd", change_record([](Record& record) { record.tokens = UINT32_MAX; }),
     kWrongSize},
    {"Misaligned", change_record([](Record& record) { record.offset += 4; }), kMisplaced},
    {"InTheWeights", change_record([](Record& record) { record.offset -= 64; }), kMisplaced},
    {"InTheMetadata", change_record([](Record& record) { record.offset = 0; }), kMisplaced},
    {"BehindTheFile", change_record([](Record& record) { record.offset = uint64_t{1} << 40; }),
     kMisplaced},
    {"AtTheEndOfNumbers", change_record([](Record& record) { record.offset = ~uint64_t{63}; }),
     kMisplaced},
    {"IntoTheFooter",
     change_record([](Record& record) { record.offset += 64; }),
     {"self_test.segment", "does not fit"}},
    {"OneByteShort", change_record([](Record& record) { --record.bytes; }), kWrongSize},
    {"OfAllBytesThereAre", change_record([](Record& record) { record.bytes = UINT64_MAX; }),
     kWrongSize},
    {"NoneWithTokens", change_record([](Record& record) { record.bytes = 0; }), kNotEmpty},
    {"NoneWithAPlace", change_record([](Record& record) {
       record = {record.offset, 0, 0, 0};
     }),
     kNotEmpty},
    // Nothing says what the bytes are for.
    {"Forgotten",
     change_record([](Record& record) { record = {}; }),
     {"file", "before the footer are not zero"}},
};

class VerifySelfTest : public testing::TestWithParam<FileRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifySelfTest, testing::ValuesIn(kRules), rule_name<ModelSurgery>);
TEST_P(VerifySelfTest, Refuses) {
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
  program.positions_max = 5;
  EXPECT_EQ(convert::self_test_tokens(program), 5u);
  const auto file = convert::write_model(program, {Target::kPortable}, 6);
  expect_refusal(file.span(), {"self_test.tokens", "longer than the context"});
}

TEST(VerifySelfTestDamage, IsFoundByTheChecksum) {
  ModelSurgery file(tested_file().span());
  const Segment& segment = file.model().self_test()->segment();
  for (const uint64_t place : {uint64_t{0}, segment.bytes() / 2, segment.bytes() - 1}) {
    std::byte& byte = file.file()[static_cast<size_t>(segment.offset() + place)];
    byte ^= std::byte{1};
    expect_refusal(file.file(), {"self_test.segment.crc32c", "damaged"});
    byte ^= std::byte{1};
  }
}

// Files of those who leave the field out are as good as those that leave its bytes zero.
TEST(VerifySelfTestAbsent, IsNoSelfTest) {
  ModelSurgery file(make_model(spec_named("causal")).span());
  file.remove(file.model(), format::Model::VT_SELF_TEST);
  file.repair();
  const Result<Model> model = Model::load(file.file());
  ASSERT_TRUE(model.ok());
  EXPECT_EQ(model->self_test_tokens(), 0u);
}

}  // namespace
}  // namespace arenite::test
