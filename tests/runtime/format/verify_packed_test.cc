// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about the packed weights of each target, each violated alone in a file with
// valid checksums.
#include "format/reader.h"
#include "runtime/format/verify_fixture.h"

namespace arenite::test {
namespace {

using ModelTable = format::Model;
using format::PackedView;
using format::SegmentView;

// Element 1 of the list of targets is changed, so that the index in the diagnostic says something.
constexpr uint32_t kChanged = 1;

// The record of the changed target, and what else is a part of it.
template <typename Change>
auto change_packed(Change change) {
  return [change](ModelSurgery& file) {
    format::PackedView packed = format::ModelReader(file.file()).packed(kChanged);
    change(packed);
    file.overwrite(file.packed(kChanged), packed);
  };
}

auto set_target(uint32_t target) {
  return change_packed([target](PackedView& packed) { packed.target = target; });
}

template <typename Change>
auto change_segment(Change change) {
  return change_packed([change](PackedView& packed) { change(packed.segment); });
}

// The lists of all targets follow each other.
auto set_offset(uint32_t tensor, uint32_t offset) {
  return [=](ModelSurgery& file) {
    const uint32_t tensors = file.model().tensors()->size();
    file.overwrite(file.model().tensor_offsets()->data() + kChanged * tensors + tensor, offset);
  };
}

template <typename Change>
auto change_formula(Change change) {
  return change_packed([change](PackedView& packed) { change(packed.formula); });
}

const Expected kPackedMisplaced = {"packed.segment", "misplaced", kChanged};
const Expected kTooLarge = {"packed.segment", "does not fit", kChanged};
const Expected kOverlapping = {"tensor_offsets", "overlap", 1};
const Expected kBeyond = {"tensor_offsets", "beyond its segment", 1};
const Expected kFormula = {"packed.formula", "not that of the program", kChanged};

const FileRule kPackedRules[] = {
    {"TargetThatIsNotKnown",
     set_target(kTargets),
     {"packed.target", "unknown target", kChanged, {{kTargets, kTargets - 1}}}},
    {"TargetThatIsFarFromKnown", set_target(256), {"packed.target", "unknown target", kChanged}},
    {"TargetTwice", set_target(0), {"packed.target", "twice", kChanged}},

    {"SegmentInTheMetadata", change_segment([](SegmentView& segment) { segment.offset = 0; }),
     kPackedMisplaced},
    {"SegmentInAnother", change_segment([](SegmentView& segment) { --segment.offset; }),
     kPackedMisplaced},
    {"SegmentBehindTheFile", change_segment([](SegmentView& segment) { segment.offset = 1 << 30; }),
     kPackedMisplaced},
    {"SegmentAtTheEndOfNumbers",
     change_segment([](SegmentView& segment) { segment.offset = UINT32_MAX; }), kPackedMisplaced},
    {"SegmentWithoutPadding",
     change_segment([](SegmentView& segment) { segment.length = 0; }),
     {"packed.segment.length", "read ahead", kChanged}},
    {"SegmentIntoTheFooter", change_segment([](SegmentView& segment) { ++segment.length; }),
     kTooLarge},
    {"SegmentOfAllBytesThereAre",
     change_segment([](SegmentView& segment) { segment.length = UINT32_MAX; }), kTooLarge},

    {"PlacesTooFew",
     [](ModelSurgery& file) { file.set_count(file.model().tensor_offsets(), 3); },
     {"tensor_offsets", "offset for each target and tensor"}},
    {"TensorsTooFew",
     [](ModelSurgery& file) { file.set_count(file.model().tensors(), 1); },
     {"ops.tensor", "does not exist", 2}},
    {"TensorOverAnother", set_offset(1, 1), kOverlapping},
    {"TensorBeyondItsSegment", set_offset(1, 64), kBeyond},
    {"TensorAtTheEndOfNumbers", set_offset(1, UINT32_MAX), kBeyond},
    {"SegmentOneTileTooShort", change_segment([](SegmentView& segment) { segment.length -= 2; }),
     kBeyond},

    {"FormulaOfActivations",
     change_formula([](ArenaFormula& formula) { --formula.axes[0].activations; }), kFormula},
    {"FormulaOfOutputs",
     change_formula([](ArenaFormula& formula) { ++formula.axes[1].activations; }), kFormula},
    {"FormulaOfKeys",
     change_formula([](ArenaFormula& formula) { --formula.groups[0].f32.per_panel; }), kFormula},
    {"FormulaOfPages",
     change_formula([](ArenaFormula& formula) { --formula.groups[0].f32.per_page; }), kFormula},
    {"FormulaOfARing",
     change_formula([](ArenaFormula& formula) { formula.groups[0].lookback = 7; }), kFormula},
    {"FormulaOfKeysInInt8",
     change_formula([](ArenaFormula& formula) { --formula.groups[0].int8.per_panel; }), kFormula},
    {"FormulaOfPagesInInt8",
     change_formula([](ArenaFormula& formula) { ++formula.groups[0].int8.per_page; }), kFormula},
    {"FormulaOfAGroupThatIsNotThere",
     change_formula([](ArenaFormula& formula) { formula.groups[3].int8.per_page = 1; }), kFormula},
    {"FormulaWithoutGroups", change_formula([](ArenaFormula& formula) { formula.group_count = 0; }),
     kFormula},
    {"FormulaOfGroupsWithoutEnd",
     change_formula([](ArenaFormula& formula) { formula.group_count = UINT32_MAX; }), kFormula},
    {"FormulaOfScratch",
     change_formula([](ArenaFormula& formula) { formula.scratch_bytes_per_thread = 64; }),
     kFormula},
    {"FormulaOfScratchPerToken",
     change_formula([](ArenaFormula& formula) { formula.axes[0].scratch = 64; }), kFormula},
    {"FormulaOfTiles", change_formula([](ArenaFormula& formula) { ++formula.nr; }), kFormula},
    {"FormulaOfScores", change_formula([](ArenaFormula& formula) { --formula.score_rows; }),
     kFormula},
    {"FormulaOfNoTiles", change_formula([](ArenaFormula& formula) { formula.nr = 0; }), kFormula},
};

class VerifyPacked : public testing::TestWithParam<FileRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyPacked, testing::ValuesIn(kPackedRules),
                         rule_name<ModelSurgery>);
TEST_P(VerifyPacked, RefusesEachBrokenRule) {
  const auto file = make_model(spec_named("causal"), {Target::kPortable, Target::kArm64});
  expect_file_refusal(GetParam(), ModelSurgery(file.span()));
}

// The last tensor lies in the segment, but not what kernels may read after it.
TEST(VerifyPackedWeights, RefusesATensorIntoWhatKernelsReadAhead) {
  convert::Program program = sound_program();
  program.tensors.push_back({"unused", 1, 16, std::vector<float>(16), {}, format::Layout::kPlain});
  ModelSurgery file(write_model(program, {Target::kPortable, Target::kArm64}).span());
  const format::ModelReader reader(file.file());
  const uint64_t end = reader.tensor_offset(kChanged, 2) + 16 * sizeof(float);
  ASSERT_EQ(end + format::kSegmentUnit, reader.packed(kChanged).segment.bytes());
  change_segment([](SegmentView& segment) { --segment.length; })(file);
  file.repair();
  expect_refusal(file.file(), {"tensor_offsets", "beyond its segment", 2});
}

// The read-ahead of kernels after the last tensor ends at the end of the segment.
TEST(VerifyPackedWeights, AcceptsATensorUpToWhatKernelsReadAhead) {
  convert::Program program = sound_program();
  program.tensors.push_back({"unused", 1, 12, std::vector<float>(12), {}, format::Layout::kPlain});
  ModelSurgery file(write_model(program, {Target::kPortable, Target::kArm64}).span());
  change_segment([](SegmentView& segment) { --segment.length; })(file);
  file.repair();
  const format::ModelReader reader(file.file());
  const uint64_t end = reader.tensor_offset(kChanged, 2) + 12 * sizeof(float);
  ASSERT_EQ(end + kReadAheadBytes, reader.packed(kChanged).segment.bytes());
  EXPECT_TRUE(Model::load(file.file()).ok());
}

// A byte is missing before the footer, so the last segment would share one with it.
TEST(VerifyPackedWeights, RefusesASegmentIntoTheFirstByteOfTheFooter) {
  const auto sound = make_model(spec_named("causal"), {Target::kPortable, Target::kArm64});
  const size_t end = sound.span().size() - sizeof(format::Footer);
  const SegmentView last = format::ModelReader(sound.span()).packed(kChanged).segment;
  ASSERT_EQ(last.end(), end);
  convert::AlignedBytes shorter(sound.span().size() - 1);
  std::memcpy(shorter.span().data(), sound.span().data(), end - 1);
  std::memcpy(shorter.span().data() + end - 1, sound.span().data() + end, sizeof(format::Footer));
  ModelSurgery file(shorter.span());
  format::Footer footer = file.footer();
  --footer.file_bytes;
  file.set_footer(footer);
  expect_refusal(file.file(),
                 {"packed.segment", "does not fit", kChanged, {{last.length, last.length - 1}}});
}

// Nothing repairs the checksum of the weights here.
TEST(VerifyPackedWeights, RefusesDamageInEachSegment) {
  const auto sound = make_model(spec_named("causal"));
  for (uint32_t i = 0; i < kTargets; ++i) {
    ModelSurgery file(sound.span());
    const SegmentView segment = format::ModelReader(file.file()).packed(i).segment;
    for (const uint64_t place : {uint64_t{0}, segment.bytes() / 2, segment.bytes() - 1}) {
      std::byte& byte = file.file()[static_cast<size_t>(segment.begin() + place)];
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

// Types that no kernel of this version reads are refused by their numbers, and so are layouts.
TEST(VerifyPackedWeights, RefusesTensorsOfOtherTypes) {
  for (const TensorType type : {TensorType::kInt8, static_cast<TensorType>(255)}) {
    ModelSurgery file(make_model(spec_named("causal")).span());
    format::TensorShape shape = format::ModelReader(file.file()).tensor(1);
    shape.type = type;
    file.overwrite(file.model().tensors()->Get(1), shape);
    file.repair();
    expect_refusal(file.file(), {"tensors.type", "unknown or holds no weights", 1});
  }
}

// Misaligned lists, and offsets that lead out of the file.
TEST(VerifyMetadata, RefusesListsThatAreMisaligned) {
  const convert::AlignedBytes sound = make_model(spec_named("causal"));
  for (const auto field :
       {ModelTable::VT_SLOTS, ModelTable::VT_OPS, ModelTable::VT_TENSORS, ModelTable::VT_CACHES,
        ModelTable::VT_MASKS, ModelTable::VT_MASK_WORDS, ModelTable::VT_HIDDEN_STATES,
        ModelTable::VT_PACKED, ModelTable::VT_TENSOR_OFFSETS}) {
    for (const uint32_t by : {1u, 2u, 3u}) {
      ModelSurgery file(sound.span());
      const auto& table = reinterpret_cast<const flatbuffers::Table&>(file.model());
      const uint8_t* const place = table.GetAddressOf(field);
      file.overwrite(place, flatbuffers::ReadScalar<uint32_t>(place) + by);
      file.repair();
      expect_refusal(file.file(), {"metadata", "well-formed"});
    }
  }
}

// Removes the required fields one by one.
TEST(VerifyMetadata, RefusesMissingFields) {
  for (const auto field :
       {ModelTable::VT_PRODUCER,       ModelTable::VT_NAME,        ModelTable::VT_ARCHITECTURE,
        ModelTable::VT_INPUTS,         ModelTable::VT_INPUT_NAMES, ModelTable::VT_FUNCTIONS,
        ModelTable::VT_FUNCTION_NAMES, ModelTable::VT_SLOTS,       ModelTable::VT_OPS,
        ModelTable::VT_OP_NAMES,       ModelTable::VT_TENSORS,     ModelTable::VT_TENSOR_NAMES,
        ModelTable::VT_CACHES,         ModelTable::VT_MASKS,       ModelTable::VT_MASK_WORDS,
        ModelTable::VT_HIDDEN_STATES,  ModelTable::VT_PACKED,      ModelTable::VT_TENSOR_OFFSETS,
        ModelTable::VT_LABELS,         ModelTable::VT_SELF_TEST}) {
    ModelSurgery file(make_model(spec_named("causal")).span());
    file.remove(file.model(), field);
    file.repair();
    expect_refusal(file.file(), {"metadata", "well-formed"});
  }
}

}  // namespace
}  // namespace arenite::test
