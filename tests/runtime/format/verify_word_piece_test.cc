// SPDX-License-Identifier: Apache-2.0
// Each rule of the verifier about WordPiece and pairs, broken alone.
#include <gtest/gtest.h>

#include "runtime/format/verify_fixture.h"
#include "support/tokenizer_model.h"
#include "support/tokenizer_table.h"

namespace arenite::test {
namespace {

// Folded: A to Z, U+00C9 and U+0130, the last one to a sequence.
constexpr uint32_t kLastFold = 27;

ModelSurgery words_file() { return ModelSurgery(model_with(word_spec({"a", "##b"})).span()); }

ModelSurgery pieces_file() {
  return ModelSurgery(model_with(piece_spec({"ab", "a", "b"}, false)).span());
}

TokenizerTable table(const ModelSurgery& surgery) { return TokenizerTable(surgery); }

void put(ModelSurgery& surgery, const flatbuffers::Vector<uint32_t>* vector, uint32_t index,
         uint32_t value) {
  surgery.overwrite(vector->Data() + index * sizeof(uint32_t), value);
}

uint32_t fold_of(uint32_t count, uint32_t value) {
  return count << format::kFoldCountShift | value;
}

class WordRulesOfFiles : public testing::TestWithParam<FileRule> {};

TEST_P(WordRulesOfFiles, BrokenIsRefused) {
  ModelSurgery surgery = words_file();
  GetParam().break_it(surgery);
  surgery.repair();
  expect_refusal(surgery.file(), GetParam().expected);
}

TEST(WordPieceRules, AreKeptBySoundFiles) { EXPECT_TRUE(Model::load(words_file().file()).ok()); }

TEST(WordPieceRules, LetAWordBecomeAsManyCodePointsAsItHasBytes) {
  ModelSurgery surgery = words_file();
  put(surgery, table(surgery).fold_to(), kLastFold, fold_of(2, 0));
  surgery.repair();
  EXPECT_TRUE(Model::load(surgery.file()).ok());
}

// Of characters, with nothing else that belongs to words.
TEST(WordPieceRules, LeaveFoldsToWords) {
  ModelSurgery surgery = words_file();
  set_choice(surgery, &TokenizerNumbers::kind, 2);
  set_choice(surgery, &TokenizerNumbers::word_characters_max, 0u);
  surgery.set_count(table(surgery).punctuation(), 0);
  surgery.set_count(table(surgery).dropped(), 0);
  surgery.repair();
  expect_refusal(surgery.file(), {"tokenizer.fold_from", "for words only"});
}

#define ARENITE_PUT(list, index, value) \
  [](ModelSurgery& s) { put(s, table(s).list(), index, value); }
#define ARENITE_SET(field, value) \
  [](ModelSurgery& s) { set_choice(s, &TokenizerNumbers::field, value); }
#define ARENITE_COUNT(list, count) [](ModelSurgery& s) { s.set_count(table(s).list(), count); }

INSTANTIATE_TEST_SUITE_P(
    All, WordRulesOfFiles,
    testing::Values(
        FileRule{"KindWithoutWords",
                 ARENITE_SET(kind, 2),
                 {"tokenizer.word_characters_max", "no words"}},
        FileRule{"WordCharactersNone",
                 ARENITE_SET(word_characters_max, 0u),
                 {"tokenizer.word_characters_max", "sensible size"}},
        FileRule{"WordCharactersTooMany",
                 ARENITE_SET(word_characters_max, format::kWordCharactersMax + 1),
                 {"tokenizer.word_characters_max", "sensible size"}},
        FileRule{"Separators",
                 ARENITE_SET(pair_separators, 3u),
                 {"tokenizer.pair_separators", "too many"}},
        FileRule{"SeparatorsWithoutEnd",
                 [](ModelSurgery& s) {
                   set_choice(s, &TokenizerNumbers::flags, uint32_t{format::kAddBos});
                   s.set_count(table(s).ends(), 0);
                 },
                 {"tokenizer.pair_separators", "no end token"}},
        FileRule{"DroppedOdd", ARENITE_COUNT(dropped, 3u), {"tokenizer.dropped", "ranges"}},
        FileRule{"DroppedOrder", ARENITE_PUT(dropped, 2, 0u), {"tokenizer.dropped", "order", 2}},
        FileRule{"DroppedTooLarge",
                 ARENITE_PUT(dropped, 3, 0x110000u),
                 {"tokenizer.dropped", "order", 2}},
        FileRule{"PunctuationMissing",
                 ARENITE_COUNT(punctuation, 0),
                 {"tokenizer.punctuation", "missing"}},
        FileRule{"PunctuationOfAscii",
                 ARENITE_PUT(punctuation, 0, 0x7Fu),
                 {"tokenizer.punctuation", "order"}},
        FileRule{"FoldColumns", ARENITE_COUNT(fold_to, 27u), {"tokenizer.fold_to", "one thing"}},
        FileRule{"FoldOrder", ARENITE_PUT(fold_from, 1, 'A'), {"tokenizer.fold_from", "order", 1}},
        FileRule{"FoldFromTooLarge",
                 ARENITE_PUT(fold_from, kLastFold, 0x110000u),
                 {"tokenizer.fold_from", "none", kLastFold}},
        FileRule{"FoldToNone",
                 ARENITE_PUT(fold_to, 0, fold_of(0, 'a')),
                 {"tokenizer.fold_to", "becomes none"}},
        FileRule{"FoldToMoreThanItsBytes",
                 ARENITE_PUT(fold_to, 0, fold_of(2, 0)),
                 {"tokenizer.fold_to", "more than it has bytes"}},
        FileRule{"FoldOfABrokenByteToMore",
                 [](ModelSurgery& s) {
                   put(s, table(s).fold_from(), kLastFold, 0xFFFDu);
                   put(s, table(s).fold_to(), kLastFold, fold_of(2, 0));
                 },
                 {"tokenizer.fold_to", "more than it has bytes", kLastFold}},
        FileRule{"FoldToTooLarge",
                 ARENITE_PUT(fold_to, 0, fold_of(1, 0x110000)),
                 {"tokenizer.fold_to", "not there"}},
        FileRule{"FoldBehindTheSequences",
                 ARENITE_PUT(fold_to, kLastFold, fold_of(2, 1)),
                 {"tokenizer.fold_to", "not there", kLastFold}},
        FileRule{"FoldFarBehindTheSequences",
                 ARENITE_PUT(fold_to, kLastFold, fold_of(2, format::kFoldValueMask)),
                 {"tokenizer.fold_to", "not there", kLastFold}},
        FileRule{"FoldSequenceTooLarge",
                 ARENITE_PUT(fold_sequences, 1, 0x110000u),
                 {"tokenizer.fold_sequences", "none", 1}},
        FileRule{"Prefix", ARENITE_SET(prefix, 1), {"tokenizer.prefix", "no space"}},
        FileRule{"Pattern", ARENITE_SET(pattern, 5), {"tokenizer.pattern", "not cut"}},
        FileRule{"WholeId",
                 ARENITE_PUT(whole_tokens, 1, 9u),
                 {"tokenizer.whole_tokens", "not in the vocabulary", 1}}),
    rule_name<ModelSurgery>);

#undef ARENITE_PUT
#undef ARENITE_SET
#undef ARENITE_COUNT
#undef ARENITE_CLEAR

// What only words need is refused elsewhere, and the other way round.
TEST(WordPieceRules, RefuseTablesOfOtherKinds) {
  ModelSurgery pieces = pieces_file();
  set_choice(pieces, &TokenizerNumbers::kind, 3);
  set_choice(pieces, &TokenizerNumbers::prefix, 0);
  pieces.repair();
  expect_refusal(pieces.file(), {"tokenizer.characters", "looked up"});
}

}  // namespace
}  // namespace arenite::test
