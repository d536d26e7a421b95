// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about tokenizers, each violated alone.
#include <gtest/gtest.h>

#include "runtime/format/verify_tokenizer_fixture.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

using enum format::TokenizerList;

constexpr const char* kGpt2 = convert::kGpt2Split;

// 0 <unk>, 1 <s>, 2 </s>, 3 "ab", 4 "a", 5 "b", 6 " ", 7 "ba", 8 "aa"; merges a+a, a+b, b+a.
ModelSurgery pieces_file() {
  convert::TokenizerSpec spec = piece_spec({"ab", "a", "b", " ", "ba", "aa"}, false);
  spec.whole_tokens = {4, 5};
  spec.byte_tokens.assign(256, kNoToken);
  spec.byte_tokens['a'] = 4;
  return ModelSurgery(model_with(spec).span());
}

ModelSurgery pairs_file() {
  convert::TokenizerSpec spec = byte_spec({"ab"}, {{kGpt2}});
  spec.letters = {0xC0, 0xD6, 0xE0, 0xF0};
  spec.numbers = {0xB2, 0xB3};
  return ModelSurgery(model_with(spec).span());
}

class PiecesRules : public testing::TestWithParam<FileRule> {};
class PairsRules : public testing::TestWithParam<FileRule> {};

TEST_P(PiecesRules, EachBrokenRuleIsRefused) { expect_file_refusal(GetParam(), pieces_file()); }

TEST_P(PairsRules, EachBrokenRuleIsRefused) { expect_file_refusal(GetParam(), pairs_file()); }

TEST(TokenizerRules, AcceptIntactFiles) {
  EXPECT_TRUE(Model::load(pieces_file().file()).ok());
  EXPECT_TRUE(Model::load(pairs_file().file()).ok());
}

// Returns a file with a special token of `bytes` bytes, some of which it may share with an earlier
// token.
ModelSurgery file_with_special(uint32_t bytes) {
  convert::TokenizerSpec spec = byte_spec({});
  spec.tokens.push_back("zz");
  spec.tokens.push_back(std::string(format::kSpecialBytesMax, 'x'));
  spec.specials = {{257, 0}};
  ModelSurgery surgery(model_with(spec).span());
  const uint32_t end = list_of(surgery, kTokenOffsets)->Get(258);
  return changed(std::move(surgery), put(kTokenOffsets, 257, end - bytes));
}

// SentencePiece writes U+2581 for a space, and may have the character itself.
TEST(TokenizerRules, LetTheLowLineStandForASpace) {
  constexpr uint32_t kSpaceMark = 0x2581;
  convert::TokenizerSpec spec = piece_spec({"a", " ", "b"}, false);
  spec.tokens.push_back("\u2581");
  const auto file_with = [&](TokenId token) {
    ModelSurgery file(model_with(spec).span());
    const uint32_t last = list_of(file, kCharacters)->size() - 1;
    return changed(std::move(file), put(kCharacterTokens, last, token));
  };
  spec.characters[kSpaceMark] = 4;
  Diagnostic why;
  EXPECT_TRUE(Model::load(file_with(4).file(), &why).ok()) << why.reason;
  EXPECT_TRUE(Model::load(file_with(6).file(), &why).ok()) << why.reason;
  const uint32_t last = list_of(file_with(4), kCharacters)->size() - 1;
  expect_refusal(file_with(3).file(), {"tokenizer.character_tokens", "does not spell", last});
}

TEST(TokenizerRules, SplitTextsOfSomeKinds) {
  const auto file = [] { return ModelSurgery(model_with(byte_spec({}, {{kGpt2}})).span()); };
  EXPECT_TRUE(Model::load(file().file()).ok());
  expect_refusal(changed(file(), choose(&TokenizerNumbers::kind, 2)).file(),
                 {"tokenizer.columns", "no such list"});
}

// Pieces within characters are for byte pairs, and are not split into characters again.
TEST(TokenizerRules, SplitCharactersOfBytePairsOnly) {
  convert::TokenizerSpec pieces = piece_spec({"a", " "}, true);
  pieces.splits = {{kGpt2}};
  expect_refusal(
      changed(ModelSurgery(model_with(pieces).span()), put(kSplits, 1, format::kOfBytes)).file(),
      {"tokenizer.splits", "is invalid", 1});
  const auto twice = [] {
    return ModelSurgery(model_with(byte_spec({}, {{kGpt2}, {kGpt2}})).span());
  };
  const uint32_t second = 1 + (list_of(twice(), kSplits)->size() - 1) / 2;
  Diagnostic why;
  EXPECT_TRUE(
      Model::load(changed(twice(), put(kSplits, second, format::kOfBytes)).file(), &why).ok())
      << why.reason;
  expect_refusal(changed(twice(), put(kSplits, 1, format::kOfBytes)).file(),
                 {"tokenizer.splits", "is invalid", second});
}

// Parts are split once: a second list of them would take the place of the first.
TEST(TokenizerRules, LetOneStepBeginParts) {
  const auto twice = [] {
    return ModelSurgery(model_with(byte_spec({}, {{kGpt2}, {kGpt2}})).span());
  };
  const uint32_t second = 1 + (list_of(twice(), kSplits)->size() - 1) / 2;
  EXPECT_TRUE(Model::load(changed(twice(), put(kSplits, 1, format::kPartsFollow)).file()).ok());
  expect_refusal(changed(changed(twice(), put(kSplits, 1, format::kPartsFollow)),
                         put(kSplits, second, format::kPartsFollow))
                     .file(),
                 {"tokenizer.splits", "is invalid", second});
}

TEST(TokenizerRules, LimitTheNameOfASpecialToken) {
  EXPECT_TRUE(Model::load(file_with_special(format::kSpecialBytesMax).file()).ok());
  expect_refusal(file_with_special(format::kSpecialBytesMax + 1).file(),
                 {"tokenizer.specials",
                  "too long",
                  0,
                  {{format::kSpecialBytesMax + 1, format::kSpecialBytesMax}}});
  expect_refusal(file_with_special(0).file(), {"tokenizer.specials", "is empty", 0});
}

// The first token is like any other.
TEST(TokenizerRules, HoldForMergesOfTheFirstToken) {
  const auto file = [] {
    return ModelSurgery(model_with(byte_spec({std::string("\0a", 2)})).span());
  };
  ASSERT_EQ(list_of(file(), kMergeBegin)->Get(1), 1u);
  EXPECT_TRUE(Model::load(file().file()).ok());
  expect_refusal(changed(file(), put(kMergeRights, 0, 'b')).file(),
                 {"tokenizer.merge_tokens", "its two parts concatenated"});
}

TEST(TokenizerRules, RequireEveryList) {
  for (const uint32_t count : {0u, format::kFirstTokenizerLists - 1}) {
    ModelSurgery surgery = pieces_file();
    surgery.set_count(surgery.model().tokenizer()->lists(), count);
    surgery.repair();
    expect_refusal(surgery.file(), {"tokenizer.lists", "unknown lists"});
  }
}

TEST(TokenizerRules, RefuseAListWithoutValues) {
  ModelSurgery surgery = pieces_file();
  const auto& list = *surgery.model().tokenizer()->lists()->Get(2);
  surgery.remove(list, format::NumberList::VT_VALUES);
  surgery.repair();
  expect_refusal(surgery.file(), {"metadata", "well-formed"});
}

// Characters have tokens only where nothing is made of bytes.
TEST(TokenizerRules, AllowCharactersForPiecesOnly) {
  ModelSurgery surgery(model_with(piece_spec({"a"}, true)).span());
  ASSERT_GT(list_of(surgery, kCharacters)->size(), 0u);
  expect_refusal(changed(std::move(surgery), choose(&TokenizerNumbers::kind, 0)).file(),
                 {"tokenizer.characters", "has no such list"});
}

INSTANTIATE_TEST_SUITE_P(
    All, PiecesRules,
    testing::Values(
        FileRule{"Kind", choose(&TokenizerNumbers::kind, 5), {"tokenizer.kind", "larger than"}},
        FileRule{
            "Prefix", choose(&TokenizerNumbers::prefix, 3), {"tokenizer.prefix", "larger than"}},
        FileRule{
            "Unknown", choose(&TokenizerNumbers::unknown, 3), {"tokenizer.unknown", "larger than"}},
        FileRule{"Flags",
                 choose(&TokenizerNumbers::flags, format::kTokenizerFlagsAll + 1),
                 {"tokenizer.flags", "larger than"}},
        FileRule{
            "Empty", resize(kTokenOffsets, 1), {"tokenizer.token_offsets", "empty or too large"}},
        FileRule{"FirstOffset",
                 put(kTokenOffsets, 0, 1),
                 {"tokenizer.token_offsets", "token offsets decrease", 0, {{1, 0}}}},
        FileRule{"OffsetBack",
                 put(kTokenOffsets, 2, 1),
                 {"tokenizer.token_offsets", "token offsets decrease", 2}},
        FileRule{
            "LongToken", put(kTokenOffsets, 1, 1025), {"tokenizer.token_offsets", "too long", 1}},
        FileRule{"LooseBytes", put(kTokenOffsets, 9, 20), {"tokenizer.token_bytes", "fill"}},
        FileRule{"Bos", choose(&TokenizerNumbers::bos, 9), {"tokenizer.bos", "larger than"}},
        FileRule{"BosMissing",
                 choose(&TokenizerNumbers::bos, kNoToken),
                 {"tokenizer.bos", "larger than"}},
        FileRule{"UnknownToken",
                 choose(&TokenizerNumbers::unknown_token, 9),
                 {"tokenizer.unknown_token", "larger than"}},
        FileRule{"UnknownMissing",
                 choose(&TokenizerNumbers::unknown_token, kNoToken),
                 {"tokenizer.unknown_token", "larger than"}},
        FileRule{"End", put(kEnds, 0, 9), {"tokenizer.ends", "not in the vocabulary"}},
        FileRule{"EndMissing",
                 all_of({choose(&TokenizerNumbers::flags, format::kAddEnd), resize(kEnds, 0)}),
                 {"tokenizer.ends", "no end tokens"}},
        FileRule{"ByteCount", resize(kByteTokens, 255), {"tokenizer.byte_tokens", "256 bytes"}},
        FileRule{"ByteId",
                 put(kByteTokens, 7, 9),
                 {"tokenizer.byte_tokens", "not in the vocabulary", 7}},
        FileRule{"ByteMeaning",
                 put(kByteTokens, 98, 4),
                 {"tokenizer.byte_tokens", "does not spell", 98}},
        FileRule{"CharacterCount",
                 resize(kCharacterTokens, 2),
                 {"tokenizer.character_tokens", "not as long"}},
        FileRule{"CharacterOrder", put(kCharacters, 1, 32), {"tokenizer.characters", "sorted", 1}},
        FileRule{"CharacterSurrogate",
                 put(kCharacters, 2, 0xD800),
                 {"tokenizer.characters", "surrogate", 2}},
        FileRule{"CharacterTooLarge",
                 put(kCharacters, 2, 0x110000),
                 {"tokenizer.characters", "or none", 2}},
        FileRule{"CharacterId",
                 put(kCharacterTokens, 0, 9),
                 {"tokenizer.character_tokens", "not in the vocabulary"}},
        FileRule{"CharacterMeaning",
                 put(kCharacterTokens, 1, 5),
                 {"tokenizer.character_tokens", "does not spell", 1}},
        FileRule{"MergeColumns", resize(kMergeRanks, 1), {"tokenizer.merge_ranks", "not as long"}},
        FileRule{"MergeBegins", resize(kMergeBegin, 9), {"tokenizer.merge_begin", "merge offsets"}},
        FileRule{"MergeBeginBeyond",
                 put(kMergeBegin, 3, 4),
                 {"tokenizer.merge_begin", "merge offsets", 2}},
        FileRule{"MergeBeginBack",
                 put(kMergeBegin, 7, 2),
                 {"tokenizer.merge_begin", "merge offsets", 6}},
        FileRule{"MergeOrder", put(kMergeRights, 1, 4), {"tokenizer.merge_rights", "order", 1}},
        FileRule{"MergeRight",
                 put(kMergeRights, 0, 9),
                 {"tokenizer.merge_rights", "not in the vocabulary"}},
        FileRule{"MergeRank",
                 put(kMergeRanks, 1, kNoToken),
                 {"tokenizer.merge_ranks", "a list has a value out of range", 1}},
        FileRule{"MergeToken",
                 put(kMergeTokens, 0, 9),
                 {"tokenizer.merge_tokens", "not in the vocabulary"}},
        FileRule{"MergeMeaning",
                 put(kMergeTokens, 0, 7),
                 {"tokenizer.merge_tokens", "its two parts concatenated"}},
        FileRule{"MergeOfCharacters",
                 choose(&TokenizerNumbers::kind, 2),
                 {"tokenizer.merge_begin", "has no such list"}},
        FileRule{"WholeId",
                 put(kWholeTokens, 0, 9),
                 {"tokenizer.whole_tokens", "not in the vocabulary"}},
        FileRule{"WholeOrder", put(kWholeTokens, 1, 4), {"tokenizer.whole_tokens", "order", 1}},
        FileRule{"SpecialColumns",
                 [](ModelSurgery& s) { s.set_count(s.model().tokenizer()->special_flags(), 2); },
                 {"tokenizer.special_flags", "need flags"}},
        FileRule{
            "SpecialId", put(kSpecials, 2, 9), {"tokenizer.specials", "not in the vocabulary", 2}},
        FileRule{"SpecialOrder", put(kSpecials, 1, 0), {"tokenizer.specials", "sorted", 1}},
        FileRule{"SpecialFlags",
                 [](ModelSurgery& s) {
                   s.overwrite(s.model().tokenizer()->special_flags()->Data() + 1, uint8_t{64});
                 },
                 {"tokenizer.special_flags", "unknown flag", 1}},
        FileRule{"SpecialIndex",
                 put(kSpecialOrder, 0, 3),
                 {"tokenizer.special_order", "a list has a value out of range"}},
        FileRule{
            "SpecialNames", put(kSpecialOrder, 1, 0), {"tokenizer.special_order", "order", 2}}),
    rule_name<ModelSurgery>);

INSTANTIATE_TEST_SUITE_P(
    All, PairsRules,
    testing::Values(
        FileRule{
            "ByteTokensMissing", resize(kByteTokens, 0), {"tokenizer.byte_tokens", "256 bytes"}},
        FileRule{"ColumnsMissing", resize(kColumns, 32), {"tokenizer.columns", "no columns"}},
        FileRule{"ColumnOfAscii", put(kColumns, 5, 1), {"tokenizer.columns", "unknown", 5}},
        FileRule{"ColumnUnknown", put(kColumns, 32, 0x80C8), {"tokenizer.columns", "unknown", 32}},
        FileRule{"RangeOfAscii", put(kColumns, 32, 0x7F01), {"tokenizer.columns", "order", 32}},
        FileRule{"RangesUnsorted", put(kColumns, 33, 0x8001), {"tokenizer.columns", "order", 33}},
        FileRule{
            "RangeTooLarge", put(kColumns, 33, 0x11000001), {"tokenizer.columns", "order", 33}},
        FileRule{"SplitsMissing", resize(kSplits, 0), {"tokenizer.columns", "unknown"}},
        FileRule{"SplitColumns", put(kSplits, 0, 257), {"tokenizer.columns", "too many"}},
        FileRule{"SplitFlags",
                 put(kSplits, 1, format::kSplitFlagsAll + 1),
                 {"tokenizer.splits", "is invalid", 1}},
        FileRule{"SplitStates", put(kSplits, 2, 1), {"tokenizer.splits", "is invalid", 1}},
        FileRule{"SplitStatesAbsent",
                 put(kSplits, 2, 0x80000000),
                 {"tokenizer.splits", "is invalid", 1}},
        FileRule{"SplitCutShort", resize(kSplits, 2), {"tokenizer.splits", "is invalid", 1}},
        FileRule{"SplitNext", put(kSplits, 3, 200), {"tokenizer.splits", "does not exist", 3}}),
    rule_name<ModelSurgery>);

ModelSurgery unigram_file() { return ModelSurgery(model_with(unigram_spec()).span()); }

class UnigramRulesOfFiles : public testing::TestWithParam<FileRule> {};

TEST_P(UnigramRulesOfFiles, EachBrokenRuleIsRefused) {
  expect_file_refusal(GetParam(), unigram_file());
}

TEST(UnigramRules, AcceptIntactFiles) {
  Diagnostic why;
  EXPECT_TRUE(Model::load(unigram_file().file(), &why).ok()) << why.reason << why.field;
}

INSTANTIATE_TEST_SUITE_P(
    All, UnigramRulesOfFiles,
    testing::Values(
        FileRule{"Scores", resize(kScores, 8), {"tokenizer.scores", "score for each piece"}},
        FileRule{"ScoresOfPairs",
                 choose(&TokenizerNumbers::kind, 0),
                 {"tokenizer.scores", "no such list"}},
        FileRule{"Before", put(kBefore, 1, 5), {"tokenizer.before", "vocabulary", 1}},
        FileRule{"StepKind", put(kSteps, 0, 11), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepPrepend",
                 all_of({put(kSteps, 0, 5), put(kSteps, 1, 0x110000)}),
                 {"tokenizer.steps", "is invalid"}},
        FileRule{"StepOrder", put(kSteps, 0, 6), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepCompose", put(kSteps, 0, 7), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepDrop", put(kSteps, 0, 8), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepWordCharacters", put(kSteps, 0, 9), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepName",
                 all_of({put(kSteps, 0, 10), put(kSteps, 3, 99)}),
                 {"tokenizer.steps", "is invalid"}},
        FileRule{"StepCount", resize(kSteps, 19), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepFold", put(kSteps, 2, 4), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepFoldWraps", put(kSteps, 1, UINT32_MAX), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepHangul", put(kSteps, 3, 2), {"tokenizer.steps", "is invalid"}},
        FileRule{"StepFoldOrder", put(kFoldFrom, 1, 'A'), {"tokenizer.fold_from", "sorted", 1}},
        FileRule{"StepFoldTo",
                 put(kFoldTo, 2, 200u << format::kFoldCountShift),
                 {"tokenizer.fold_to", "does not exist", 2}},
        FileRule{"StepShrinkOfNone", put(kSteps, 10, 0), {"tokenizer.steps", "is invalid", 8}},
        FileRule{"StepShrinkTo", put(kSteps, 11, 0x110000), {"tokenizer.steps", "is invalid", 8}},
        FileRule{"StepShrinkOf", put(kSteps, 9, 0x110000), {"tokenizer.steps", "is invalid", 8}},
        FileRule{"StepSides", put(kSteps, 13, 8), {"tokenizer.steps", "is invalid", 12}},
        FileRule{"StepReplaceOfNone", put(kSteps, 18, 0), {"tokenizer.steps", "is invalid", 16}},
        FileRule{"StepReplace", put(kSteps, 19, 9), {"tokenizer.steps", "is invalid", 16}},
        FileRule{"CharsmapLongest", put(kSteps, 5, 2), {"tokenizer.steps", "is invalid", 4}},
        FileRule{"CharsmapMissing", resize(kCharsmap, 0), {"tokenizer.steps", "is invalid", 4}},
        FileRule{"CharsmapUnits", put(kCharsmap, 0, 2), {"tokenizer.charsmap", "cut short"}},
        FileRule{"CharsmapNoUnits",
                 all_of({put(kCharsmap, 0, 0), put(kCharsmap, 1, 5)}),
                 {"tokenizer.charsmap", "cut short"}},
        FileRule{"CharsmapTexts", put(kCharsmap, 1, 5), {"tokenizer.charsmap", "cut short"}},
        FileRule{"GraphemesOrder", put(kGraphemes, 3, 0x36F), {"tokenizer.graphemes", "order", 3}},
        FileRule{"GraphemesLast", put(kGraphemes, 1, 0x2FF), {"tokenizer.graphemes", "order", 1}},
        FileRule{"GraphemesClass", put(kGraphemes, 2, 6), {"tokenizer.graphemes", "order", 2}},
        FileRule{"GraphemesCount", resize(kGraphemes, 5), {"tokenizer.graphemes", "order"}}),
    rule_name<ModelSurgery>);

}  // namespace
}  // namespace arenite::test
