// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about masks, each violated alone in a file with valid checksums.
#include <cmath>

#include "runtime/format/verify_fixture.h"

namespace arenite::test {
namespace {

using convert::CompiledMask;
using convert::Program;

CompiledMask& mask(Program& program) { return program.masks[0]; }

constexpr uint32_t kOrigin = kSpecPositions - 1;  // of a strip: where the distance is 0

const ProgramRule kStripRules[] = {
    {"StripWithoutPositions",
     [](Program& p) { mask(p).positions = 0; },
     {"masks.positions", "empty or too large"}},
    {"StripTooLong",
     [](Program& p) { mask(p).positions = format::kMaskPositionsMax + 1; },
     {"masks.positions", "empty or too large"}},
    {"StripWithTooFewValues",
     [](Program& p) { mask(p).values.pop_back(); },
     {"masks.words", "wrong length"}},
    {"StripWithTooManyValues",
     [](Program& p) { mask(p).values.push_back(0.0f); },
     {"masks.words", "wrong length"}},
    {"StripThatSeesTooFarBehind",
     [](Program& p) { mask(p).lookback = kSpecPositions; },
     {"masks.lookback", "wider"}},
    {"StripThatSeesTooFarAhead",
     [](Program& p) { mask(p).lookahead = kUnlimited; },
     {"masks.lookback", "wider"}},
    {"StripWithANan",
     [](Program& p) { mask(p).values[3] = NAN; },
     {"masks.values", "not a mask value", 3}},
    {"StripWithInfinity",
     [](Program& p) { mask(p).values[3] = INFINITY; },
     {"masks.values", "not a mask value", 3}},
    {"StripVisibleOutsideItsBand",
     [](Program& p) { mask(p).values[kOrigin + 1] = 0.0f; },
     {"masks.values", "not a mask value", kOrigin + 1}},
    {"StripThatHidesItself",
     [](Program& p) { mask(p).values[kOrigin] = -INFINITY; },
     {"masks.values", "own position", kOrigin}},
    {"StripSmallerThanTheContext",
     [](Program& p) { p.inputs[0].positions_max = kSpecPositions + 1; },
     {"masks.positions", "smaller"}},
    {"StripForAnyContext",
     [](Program& p) { p.inputs[0].positions_max = 0; },
     {"masks.positions", "smaller"}},
};

const ProgramRule kTileRules[] = {
    {"TilesWithoutPositions",
     [](Program& p) { mask(p).positions = 0; },
     {"masks.positions", "empty or too large"}},
    {"TilesTooLarge",
     [](Program& p) { mask(p).positions = format::kTileMaskPositionsMax + 1; },
     {"masks.positions", "empty or too large"}},
    {"MapTooShort",
     [](Program& p) { mask(p).map.resize(mask(p).map.size() - 2); },
     {"masks.words", "wrong length"}},
    {"MapTooLong",
     [](Program& p) { mask(p).map.insert(mask(p).map.end(), 2, kTileVisible); },
     {"masks.words", "wrong length"}},
    {"MixedTileWithoutAllRows",
     [](Program& p) { mask(p).bits.pop_back(); },
     {"masks.words", "wrong length"}},
    {"TilesWithoutRanges",
     [](Program& p) { mask(p).bits.clear(), mask(p).row_begin.clear(); },
     {"masks.words", "wrong length"}},
    {"RangesTooFew",
     [](Program& p) { mask(p).row_begin.pop_back(); },
     {"masks.words", "wrong length"}},
    {"RangeEndsTooMany",
     [](Program& p) { mask(p).row_end.push_back(1); },
     {"masks.words", "wrong length"}},
    {"MixedTileThatIsNotThere",
     [](Program& p) {
       mask(p).map[0] = static_cast<uint16_t>(kTileMixed + mask(p).bits.size() / kMaskTile);
     },
     {"masks.map", "does not exist"}},
    {"MixedTileFarFromThere",
     [](Program& p) {
       mask(p).map[0] = UINT16_MAX;
       mask(p).bits.resize(kMaskTile);
     },
     {"masks.map", "does not exist", 0, {{UINT16_MAX, kTileMixed + 1}}}},
    {"RowHiddenWhole",
     [](Program& p) { mask(p).map[0] = kTileHidden; },
     {"masks.map", "hides a whole row", 0}},
    {"RangeThatBeginsEarly",
     [](Program& p) { --mask(p).row_begin[30]; },
     {"masks.row_begin", "differs from its tiles"}},
    {"RangeThatEndsLate",
     [](Program& p) { ++mask(p).row_end[30]; },
     {"masks.row_end", "differs from its tiles"}},
    {"RangeThatEndsBeyondTheMask",
     [](Program& p) { mask(p).row_end[kOrigin] = UINT32_MAX; },
     {"masks.row_end", "differs from its tiles"}},
    {"TilesSmallerThanTheContext",
     [](Program& p) { p.inputs[0].positions_max = kSpecPositions + 1; },
     {"masks.positions", "smaller"}},
};

class VerifyStrip : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyStrip, testing::ValuesIn(kStripRules), rule_name<Program>);
TEST_P(VerifyStrip, RefusesEachBrokenRule) { expect_program_refusal(GetParam(), "strip"); }

class VerifyTiles : public testing::TestWithParam<ProgramRule> {};
INSTANTIATE_TEST_SUITE_P(Rules, VerifyTiles, testing::ValuesIn(kTileRules), rule_name<Program>);
TEST_P(VerifyTiles, RefusesEachBrokenRule) { expect_program_refusal(GetParam(), "documents"); }

// The keys of a tile beyond the mask do not count, whatever their bits say.
TEST(VerifyMasks, IgnoresBitsBeyondTheMask) {
  Program program = sound_program("documents");
  CompiledMask& tiles = mask(program);
  const uint32_t last_tile = tiles.map.back() - uint32_t{kTileMixed};
  for (uint32_t row = 0; row < kMaskTile; ++row) {
    tiles.bits[size_t{last_tile} * kMaskTile + row] |= UINT32_MAX << (kSpecPositions % kMaskTile);
  }
  const auto file = write_model(program, {Target::kPortable});
  EXPECT_TRUE(Model::load(file.span()).ok());
}

TEST(VerifyMasks, RefusesABandSmallerThanTheContext) {
  Program program = sound_program("mask_only");
  program.inputs[0].positions_max = kSpecPositions + 1;
  const auto file = write_model(program, {Target::kPortable});
  expect_refusal(file.span(), {"masks.positions", "smaller"});
}

// One large list in many masks would make verification take longer than the file is long.
TEST(VerifyMasks, RefusesListsSharedByMasks) {
  Program program = sound_program("strip");
  program.masks.resize(20, convert::band_mask(kUnlimited, 0, kSpecPositions));
  ModelSurgery file(write_model(program, {Target::kPortable}).span());
  const auto& masks = *file.model().masks();
  for (uint32_t i = 1; i < masks.size(); ++i) file.overwrite(masks.Get(i), *masks.Get(0));
  file.repair();
  expect_refusal(file.file(), {"masks.first_word", "not contiguous", 1});
}

TEST(VerifyMasks, RefusesListsThatDoNotFollowEachOtherToTheEnd) {
  ModelSurgery file(make_model(spec_named("strip")).span());
  const auto& words = *file.model().mask_words();
  file.set_count(&words, words.size() - 1);
  file.repair();
  expect_refusal(file.file(), {"masks.first_word", "not contiguous"});

  ModelSurgery spare(make_model(spec_named("causal")).span());
  spare.overwrite(spare.model().mask_words(), uint32_t{1});
  spare.repair();
  expect_refusal(spare.file(), {"mask_words", "belong to no mask"});
}

// A kind of a later version must not be taken for a band that shows everything.
TEST(VerifyMasks, RefusesAKindThatItDoesNotKnow) {
  for (const uint32_t kind : {4u, 256u, UINT32_MAX}) {
    ModelSurgery file(make_model(spec_named("causal")).span());
    file.overwrite(file.model().masks()->Get(0), kind);
    file.repair();
    expect_refusal(file.file(), {"masks.kind", "unknown kind"});
  }
}

}  // namespace
}  // namespace arenite::test
