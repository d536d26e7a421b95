// SPDX-License-Identifier: Apache-2.0
// Each rule of the verifier about tokenizers, broken alone.
#include <gtest/gtest.h>

#include "runtime/format/verify_fixture.h"
#include "support/tokenizer_model.h"
#include "support/tokenizer_table.h"

namespace arenite::test {
namespace {

// 0 <unk>, 1 <s>, 2 </s>, 3 "ab", 4 "a", 5 "b", 6 " ", 7 "ba", 8 "aa"; merges a+a, a+b, b+a.
ModelSurgery pieces_file() {
  convert::TokenizerSpec spec = piece_spec({"ab", "a", "b", " ", "ba", "aa"}, false);
  spec.whole_tokens = {4, 5};
  spec.byte_tokens.assign(256, kNoToken);
  spec.byte_tokens['a'] = 4;
  return ModelSurgery(model_with(spec).span());
}

ModelSurgery pairs_file() {
  convert::TokenizerSpec spec = byte_spec({"ab"}, format::Pattern::kGpt2);
  spec.letters = {0xC0, 0xD6, 0xE0, 0xF0};
  spec.numbers = {0xB2, 0xB3};
  return ModelSurgery(model_with(spec).span());
}

TokenizerTable table(const ModelSurgery& surgery) { return TokenizerTable(surgery); }

template <typename T>
void put(ModelSurgery& surgery, const flatbuffers::Vector<T>* vector, uint32_t index, T value) {
  surgery.overwrite(vector->Data() + index * sizeof(T), value);
}

class PiecesRules : public testing::TestWithParam<FileRule> {};
class PairsRules : public testing::TestWithParam<FileRule> {};

TEST_P(PiecesRules, BrokenIsRefused) {
  ModelSurgery surgery = pieces_file();
  GetParam().break_it(surgery);
  surgery.repair();
  expect_refusal(surgery.file(), GetParam().expected);
}

TEST_P(PairsRules, BrokenIsRefused) {
  ModelSurgery surgery = pairs_file();
  GetParam().break_it(surgery);
  surgery.repair();
  expect_refusal(surgery.file(), GetParam().expected);
}

TEST(TokenizerRules, AreKeptBySoundFiles) {
  EXPECT_TRUE(Model::load(pieces_file().file()).ok());
  EXPECT_TRUE(Model::load(pairs_file().file()).ok());
}

// A special token of so many bytes, some of which may be those of a token before it.
ModelSurgery file_with_special(uint32_t bytes) {
  convert::TokenizerSpec spec = byte_spec({});
  spec.tokens.push_back("zz");
  spec.tokens.push_back(std::string(format::kSpecialBytesMax, 'x'));
  spec.specials = {{257, 0}};
  ModelSurgery surgery(model_with(spec).span());
  const uint32_t end = table(surgery).token_offsets()->Get(258);
  put(surgery, table(surgery).token_offsets(), 257, end - bytes);
  surgery.repair();
  return surgery;
}

TEST(TokenizerRules, LimitTheNameOfASpecialToken) {
  EXPECT_TRUE(Model::load(file_with_special(format::kSpecialBytesMax).file()).ok());
  expect_refusal(file_with_special(format::kSpecialBytesMax + 1).file(),
                 {"tokenizer.specials", "too long", 0});
  expect_refusal(file_with_special(0).file(), {"tokenizer.specials", "no name", 0});
}

TEST(TokenizerRules, CountTheLists) {
  for (const uint32_t count : {0u, format::kTokenizerLists - 1}) {
    ModelSurgery surgery = pieces_file();
    surgery.set_count(surgery.model().tokenizer()->lists(), count);
    surgery.repair();
    expect_refusal(surgery.file(), {"tokenizer.lists", "other lists"});
  }
}

TEST(TokenizerRules, LeaveNoListAway) {
  ModelSurgery surgery = pieces_file();
  const auto& list = *surgery.model().tokenizer()->lists()->Get(2);
  surgery.remove(list, format::NumberList::VT_VALUES);
  surgery.repair();
  expect_refusal(surgery.file(), {"metadata", "well-formed"});
}

// Characters have tokens only where nothing is made of bytes.
TEST(TokenizerRules, LeaveCharactersToPieces) {
  ModelSurgery surgery(model_with(piece_spec({"a"}, true)).span());
  ASSERT_GT(table(surgery).characters()->size(), 0u);
  set_choice(surgery, &TokenizerNumbers::kind, 0);
  surgery.repair();
  expect_refusal(surgery.file(), {"tokenizer.characters", "bytes are merged"});
}

// Changes of one element of a list, or of a scalar, of the tokenizer in `s`.
#define ARENITE_PUT(list, index, value) \
  [](ModelSurgery& s) { put(s, table(s).list(), index, value); }
#define ARENITE_SET(field, value) \
  [](ModelSurgery& s) { set_choice(s, &TokenizerNumbers::field, value); }
#define ARENITE_COUNT(list, count) [](ModelSurgery& s) { s.set_count(table(s).list(), count); }

INSTANTIATE_TEST_SUITE_P(
    All, PiecesRules,
    testing::Values(
        FileRule{"Kind", ARENITE_SET(kind, 4), {"tokenizer.kind", "not know"}},
        FileRule{"Pattern", ARENITE_SET(pattern, 6), {"tokenizer.pattern", "not know"}},
        FileRule{"Prefix", ARENITE_SET(prefix, 3), {"tokenizer.prefix", "not know"}},
        FileRule{"Unknown", ARENITE_SET(unknown, 3), {"tokenizer.unknown", "not know"}},
        FileRule{"Flags", ARENITE_SET(flags, 512u), {"tokenizer.flags", "not know"}},
        FileRule{"Empty",
                 ARENITE_COUNT(token_offsets, 1u),
                 {"tokenizer.token_offsets", "sensible size"}},
        FileRule{"FirstOffset",
                 ARENITE_PUT(token_offsets, 0, 1u),
                 {"tokenizer.token_offsets", "follow"}},
        FileRule{"OffsetBack",
                 ARENITE_PUT(token_offsets, 2, 1u),
                 {"tokenizer.token_offsets", "follow", 2}},
        FileRule{"LongToken",
                 ARENITE_PUT(token_offsets, 1, 1025u),
                 {"tokenizer.token_offsets", "too long", 1}},
        FileRule{
            "LooseBytes", ARENITE_PUT(token_offsets, 9, 20u), {"tokenizer.token_bytes", "fill"}},
        FileRule{"Bos", ARENITE_SET(bos, 9u), {"tokenizer.bos", "not in the vocabulary"}},
        FileRule{"BosMissing", ARENITE_SET(bos, kNoToken), {"tokenizer.bos", "not in"}},
        FileRule{"UnknownToken",
                 ARENITE_SET(unknown_token, 9u),
                 {"tokenizer.unknown_token", "not in the vocabulary"}},
        FileRule{"UnknownMissing",
                 ARENITE_SET(unknown_token, kNoToken),
                 {"tokenizer.unknown_token", "not in"}},
        FileRule{"End", ARENITE_PUT(ends, 0, 9u), {"tokenizer.ends", "not in the vocabulary"}},
        FileRule{"EndMissing",
                 [](ModelSurgery& s) {
                   set_choice(s, &TokenizerNumbers::flags, uint32_t{format::kAddEnd});
                   s.set_count(table(s).ends(), 0);
                 },
                 {"tokenizer.ends", "no end tokens"}},
        FileRule{
            "ByteCount", ARENITE_COUNT(byte_tokens, 255u), {"tokenizer.byte_tokens", "256 bytes"}},
        FileRule{"ByteId",
                 ARENITE_PUT(byte_tokens, 7, 9u),
                 {"tokenizer.byte_tokens", "not in the vocabulary", 7}},
        FileRule{"ByteMeaning",
                 ARENITE_PUT(byte_tokens, 98, 4u),
                 {"tokenizer.byte_tokens", "something else", 98}},
        FileRule{"CharacterCount",
                 ARENITE_COUNT(character_tokens, 2u),
                 {"tokenizer.character_tokens", "one token"}},
        FileRule{"CharacterOrder",
                 ARENITE_PUT(characters, 1, 32u),
                 {"tokenizer.characters", "order", 1}},
        FileRule{"CharacterSurrogate",
                 ARENITE_PUT(characters, 2, 0xD800u),
                 {"tokenizer.characters", "none", 2}},
        FileRule{"CharacterTooLarge",
                 ARENITE_PUT(characters, 2, 0x110000u),
                 {"tokenizer.characters", "none", 2}},
        FileRule{"CharacterId",
                 ARENITE_PUT(character_tokens, 0, 9u),
                 {"tokenizer.character_tokens", "not in the vocabulary"}},
        FileRule{"CharacterMeaning",
                 ARENITE_PUT(character_tokens, 1, 5u),
                 {"tokenizer.character_tokens", "something else", 1}},
        FileRule{"MergeColumns",
                 ARENITE_COUNT(merge_ranks, 1u),
                 {"tokenizer.merge_rights", "right side"}},
        FileRule{
            "MergeBegins", ARENITE_COUNT(merge_begin, 9u), {"tokenizer.merge_begin", "divided"}},
        FileRule{"MergeBeginBeyond",
                 ARENITE_PUT(merge_begin, 3, 4u),
                 {"tokenizer.merge_begin", "divided", 2}},
        FileRule{"MergeBeginBack",
                 ARENITE_PUT(merge_begin, 7, 2u),
                 {"tokenizer.merge_begin", "divided", 6}},
        FileRule{
            "MergeOrder", ARENITE_PUT(merge_rights, 1, 4u), {"tokenizer.merge_rights", "order", 1}},
        FileRule{"MergeRight",
                 ARENITE_PUT(merge_rights, 0, 9u),
                 {"tokenizer.merge_rights", "name no token"}},
        FileRule{"MergeRank",
                 ARENITE_PUT(merge_ranks, 1, kNoToken),
                 {"tokenizer.merge_ranks", "no rank", 1}},
        FileRule{"MergeToken",
                 ARENITE_PUT(merge_tokens, 0, 9u),
                 {"tokenizer.merge_tokens", "not in the vocabulary"}},
        FileRule{"MergeMeaning",
                 ARENITE_PUT(merge_tokens, 0, 7u),
                 {"tokenizer.merge_tokens", "parts do not make"}},
        FileRule{"MergeOfCharacters",
                 [](ModelSurgery& s) { set_choice(s, &TokenizerNumbers::kind, 2); },
                 {"tokenizer.merge_rights", "not merged"}},
        FileRule{"WholeId",
                 ARENITE_PUT(whole_tokens, 0, 9u),
                 {"tokenizer.whole_tokens", "not in the vocabulary"}},
        FileRule{
            "WholeOrder", ARENITE_PUT(whole_tokens, 1, 4u), {"tokenizer.whole_tokens", "order", 1}},
        FileRule{
            "SpecialColumns", ARENITE_COUNT(special_flags, 2u), {"tokenizer.specials", "flags"}},
        FileRule{"SpecialId", ARENITE_PUT(specials, 2, 9u), {"tokenizer.specials", "order", 2}},
        FileRule{"SpecialOrder", ARENITE_PUT(specials, 1, 0u), {"tokenizer.specials", "order", 1}},
        FileRule{"SpecialFlags",
                 ARENITE_PUT(special_flags, 1, uint8_t{16}),
                 {"tokenizer.special_flags", "not know", 1}},
        FileRule{"SpecialIndex",
                 ARENITE_PUT(special_order, 0, 3u),
                 {"tokenizer.special_order", "order"}},
        FileRule{"SpecialNames",
                 ARENITE_PUT(special_order, 1, 0u),
                 {"tokenizer.special_order", "order", 2}},
        FileRule{"ClassesMissing", ARENITE_SET(pattern, 1), {"tokenizer.letters", "missing"}}),
    rule_name<ModelSurgery>);

INSTANTIATE_TEST_SUITE_P(
    All, PairsRules,
    testing::Values(
        FileRule{"ByteTokensMissing",
                 ARENITE_COUNT(byte_tokens, 0),
                 {"tokenizer.byte_tokens", "256 bytes"}},
        FileRule{"RangesUnneeded", ARENITE_SET(pattern, 0), {"tokenizer.letters", "not needed"}},
        FileRule{"RangesOdd", ARENITE_COUNT(letters, 3u), {"tokenizer.letters", "ranges"}},
        FileRule{"RangeOfAscii", ARENITE_PUT(letters, 0, 0x7Fu), {"tokenizer.letters", "order"}},
        FileRule{"RangeBackwards", ARENITE_PUT(letters, 1, 0xBFu), {"tokenizer.letters", "order"}},
        FileRule{
            "RangesOverlap", ARENITE_PUT(letters, 2, 0xD6u), {"tokenizer.letters", "order", 2}},
        FileRule{
            "RangeTooLarge", ARENITE_PUT(numbers, 1, 0x110000u), {"tokenizer.numbers", "order"}},
        FileRule{"PatternOfCharacters", ARENITE_SET(kind, 2), {"tokenizer.pattern", "not cut"}}),
    rule_name<ModelSurgery>);

#undef ARENITE_PUT
#undef ARENITE_SET
#undef ARENITE_COUNT
#undef ARENITE_CLEAR

}  // namespace
}  // namespace arenite::test
