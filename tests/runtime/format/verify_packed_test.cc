// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the packed weights of each target, each broken alone in a file whose
// checksums are right.
#include "format/reader.h"
#include "runtime/format/verify_fixture.h"
#include "support/hostile_file.h"

namespace arenite::test {
namespace {

using format::Packed;
using format::Segment;

// Element 1 of the list of targets is changed, so that the index in the diagnostic says something.
constexpr uint32_t kChanged = 1;

template <typename T>
auto set_field(flatbuffers::voffset_t field, T value) {
  return [=](ModelSurgery& file) { file.set(file.packed(kChanged), field, value); };
}

template <typename Change>
auto change_segment(Change change) {
  return [change](ModelSurgery& file) {
    const Segment& old = *file.packed(kChanged).segment();
    uint64_t offset = old.offset();
    uint64_t bytes = old.bytes();
    change(offset, bytes);
    file.overwrite(&old, Segment(offset, bytes, old.crc32c()));
  };
}

auto set_offset(uint32_t tensor, uint64_t offset) {
  return [=](ModelSurgery& file) {
    file.overwrite(file.packed(kChanged).tensor_offsets()->data() + tensor, offset);
  };
}

// The last tensor lies in the segment, but not what kernels may read behind it.
void end_one_byte_early(ModelSurgery& file) {
  const format::ModelReader reader(file.file());
  const uint32_t last = reader.tensors() - 1;
  const Checked tensor_bytes =
      format::stored_bytes(reader.tensor(last), reader.packed(kChanged).packing);
  const uint64_t end = reader.tensor_offset(kChanged, last) + tensor_bytes.value();
  change_segment([end](uint64_t&, uint64_t& bytes) { bytes = end + kReadAheadBytes - 1; })(file);
}

template <typename Change>
auto change_formula(Change change) {
  return [change](ModelSurgery& file) {
    const format::ArenaFormula& old = *file.packed(kChanged).formula();
    ArenaFormula formula;
    formula.activation_bytes_per_token = static_cast<uint32_t>(old.activation_bytes_per_token());
    formula.activation_bytes_per_output = static_cast<uint32_t>(old.activation_bytes_per_output());
    formula.nr = old.nr();
    formula.score_rows = old.score_rows();
    change(formula);
    file.overwrite(&old, format::ArenaFormula(formula.activation_bytes_per_token,
                                              formula.activation_bytes_per_output, formula.nr,
                                              formula.score_rows));
  };
}

template <typename Change>
auto change_group(Change change) {
  return [change](ModelSurgery& file) {
    const format::CacheGroup* const old = file.packed(kChanged).cache_groups()->Get(0);
    CacheGroup group = {old->behind(), TensorType::kF32,
                        static_cast<uint32_t>(old->bytes_per_panel()),
                        static_cast<uint32_t>(old->bytes_per_page())};
    change(group);
    file.overwrite(old,
                   format::CacheGroup(group.lookback, group.bytes_per_panel, group.bytes_per_page));
  };
}

const Expected kMisplaced = {"packed.segment", "misplaced", kChanged};
const Expected kTooLarge = {"packed.segment", "does not fit", kChanged};
const Expected kOverlapping = {"packed.tensor_offsets", "overlap or are misaligned", 1};
const Expected kBeyond = {"packed.tensor_offsets", "beyond its segment", 1};
const Expected kFormula = {"packed.formula", "not that of the program", kChanged};

const FileRule kRules[] = {
    {"TargetThatIsNotKnown",
     set_field(Packed::VT_TARGET, uint8_t{kTargets}),
     {"packed.target", "does not know", kChanged}},
    {"TargetThatIsFarFromKnown",
     set_field(Packed::VT_TARGET, uint8_t{255}),
     {"packed.target", "does not know", kChanged}},
    {"TargetTwice", set_field(Packed::VT_TARGET, uint8_t{0}), {"packed.target", "twice", kChanged}},
    {"OtherColumnsPerTile",
     set_field(Packed::VT_NR, uint8_t{16}),
     {"packed.nr", "not that of its target", kChanged}},
    {"NoColumnsPerTile",
     set_field(Packed::VT_NR, uint8_t{0}),
     {"packed.nr", "not that of its target", kChanged}},
    {"OtherRowsPerTile",
     set_field(Packed::VT_MR, uint8_t{9}),
     {"packed.mr", "not that of its target", kChanged}},

    {"SegmentMisaligned", change_segment([](uint64_t& offset, uint64_t&) { offset += 32; }),
     kMisplaced},
    {"SegmentInTheMetadata", change_segment([](uint64_t& offset, uint64_t&) { offset = 0; }),
     kMisplaced},
    {"SegmentInAnother", change_segment([](uint64_t& offset, uint64_t&) { offset -= 64; }),
     kMisplaced},
    {"SegmentBehindTheFile",
     change_segment([](uint64_t& offset, uint64_t&) { offset = uint64_t{1} << 40; }), kMisplaced},
    {"SegmentAtTheEndOfNumbers",
     change_segment([](uint64_t& offset, uint64_t&) { offset = ~uint64_t{63}; }), kMisplaced},
    {"SegmentWithoutPadding",
     change_segment([](uint64_t&, uint64_t& bytes) { bytes = 15; }),
     {"packed.segment.bytes", "read ahead", kChanged}},
    {"SegmentIntoTheFooter", change_segment([](uint64_t&, uint64_t& bytes) { bytes += 64; }),
     kTooLarge},
    {"SegmentOfAllBytesThereAre",
     change_segment([](uint64_t&, uint64_t& bytes) { bytes = UINT64_MAX; }), kTooLarge},

    {"PlacesTooFew",
     [](ModelSurgery& file) { file.set_count(file.packed(kChanged).tensor_offsets(), 1); },
     {"packed.tensor_offsets", "a place for each tensor", kChanged}},
    {"TensorsTooFew",
     [](ModelSurgery& file) { file.set_count(file.model().tensors(), 1); },
     {"linear.tensor", "not there", 2}},
    {"TensorMisaligned", set_offset(1, 4096 + 16), kOverlapping},
    {"TensorOverAnother", set_offset(1, 64), kOverlapping},
    {"TensorBeyondItsSegment", set_offset(1, 4096), kBeyond},
    {"TensorAtTheEndOfNumbers", set_offset(1, ~uint64_t{63}), kBeyond},
    {"SegmentOneTileTooShort", change_segment([](uint64_t&, uint64_t& bytes) { bytes -= 64; }),
     kBeyond},

    {"TensorIntoWhatKernelsReadAhead", end_one_byte_early, kBeyond},

    {"FormulaOfActivations",
     change_formula([](ArenaFormula& formula) { --formula.activation_bytes_per_token; }), kFormula},
    {"FormulaOfOutputs",
     change_formula([](ArenaFormula& formula) { ++formula.activation_bytes_per_output; }),
     kFormula},
    {"FormulaOfKeys", change_group([](CacheGroup& group) { --group.bytes_per_panel; }), kFormula},
    {"FormulaOfPages", change_group([](CacheGroup& group) { --group.bytes_per_page; }), kFormula},
    {"FormulaOfARing", change_group([](CacheGroup& group) { group.lookback = 7; }), kFormula},
    {"FormulaWithoutGroups",
     [](ModelSurgery& file) { file.set_count(file.packed(kChanged).cache_groups(), 0); }, kFormula},
    {"FormulaOfTiles", change_formula([](ArenaFormula& formula) { ++formula.nr; }), kFormula},
    {"FormulaOfScores", change_formula([](ArenaFormula& formula) { --formula.score_rows; }),
     kFormula},
    {"FormulaOfNoTiles", change_formula([](ArenaFormula& formula) { formula.nr = 0; }), kFormula},
};

class VerifyPacked : public testing::TestWithParam<FileRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyPacked, testing::ValuesIn(kRules), rule_name<ModelSurgery>);
TEST_P(VerifyPacked, Refuses) {
  ModelSurgery file(make_model(spec_named("causal"), {Target::kPortable, Target::kArm64}).span());
  GetParam().break_it(file);
  file.repair();
  expect_refusal(file.file(), GetParam().expected);
}

// Nothing repairs the checksum of the weights here.
TEST(VerifyPackedWeights, RefusesDamageInEachSegment) {
  const auto sound = make_model(spec_named("causal"));
  for (uint32_t i = 0; i < kTargets; ++i) {
    ModelSurgery file(sound.span());
    const Segment& segment = *file.packed(i).segment();
    for (const uint64_t place : {uint64_t{0}, segment.bytes() / 2, segment.bytes() - 1}) {
      std::byte& byte = file.file()[static_cast<size_t>(segment.offset() + place)];
      byte ^= std::byte{1};
      expect_refusal(file.file(), {"packed.segment.crc32c", "damaged", i});
      byte ^= std::byte{1};
    }
  }
}

// No op reads this tensor, but a target must still hold it.
TEST(VerifyPackedWeights, RefusesATensorWithoutSize) {
  for (const bool outputs : {false, true}) {
    convert::Program program = sound_program();
    program.tensors.push_back({"empty", outputs ? 4u : 0u, outputs ? 0u : 4u, {}, {}});
    program.tensors.back().load = [] { return std::vector<float>(); };
    const auto file = write_model(program, {Target::kPortable});
    expect_refusal(file.span(), {"tensors", "empty", 2});
  }
}

// FlatBuffers' verifier lets a list of 8-byte numbers begin at any multiple of 4.
TEST(VerifyPackedWeights, ReadsPlacesAtAnyMultipleOfFour) {
  convert::Program program = sound_program();
  program.tensors.push_back({"unused", 1, 1, {1.0f}, {}});
  ModelSurgery file(write_model(program, {Target::kPortable}).span());
  // The list forgets its last element and moves by 4 bytes, into the room that this leaves.
  const Packed& packed = file.packed(0);
  const flatbuffers::Vector<uint64_t>* const old = packed.tensor_offsets();
  const uint64_t places[] = {old->Get(0), old->Get(1)};
  const uint8_t* const moved = old->Data();
  file.overwrite(moved, uint32_t{2});
  file.overwrite(moved + sizeof(uint32_t), places);
  const uint32_t distance = flatbuffers::ReadScalar<uint32_t>(
      reinterpret_cast<const flatbuffers::Table&>(packed).GetAddressOf(Packed::VT_TENSOR_OFFSETS));
  file.set(packed, Packed::VT_TENSOR_OFFSETS, distance + uint32_t{sizeof(uint32_t)});
  file.set_count(file.model().tensors(), 2);
  file.repair();
  ASSERT_NE(reinterpret_cast<uintptr_t>(packed.tensor_offsets()->Data()) % sizeof(uint64_t), 0u);
  EXPECT_EQ(load_and_run(file.file()), Fate::kRan);
}

// Fields that must be there, taken away one by one.
TEST(VerifyPackedWeights, RefusesMissingFields) {
  for (const auto field : {Packed::VT_SEGMENT, Packed::VT_TENSOR_OFFSETS, Packed::VT_FORMULA}) {
    ModelSurgery file(make_model(spec_named("causal")).span());
    file.remove(file.packed(0), field);
    file.repair();
    expect_refusal(file.file(), {"metadata", "well-formed"});
  }
}

}  // namespace
}  // namespace arenite::test
