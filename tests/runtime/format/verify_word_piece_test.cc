// SPDX-License-Identifier: Apache-2.0
// The verifier's rules about WordPiece and pairs, each violated alone.
#include <gtest/gtest.h>

#include "runtime/format/verify_tokenizer_fixture.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

using enum format::TokenizerList;

// Folded: A to Z, U+00C9 and U+0130, the last one to a sequence.
constexpr uint32_t kLastFold = 27;

ModelSurgery words_file() { return ModelSurgery(model_with(word_spec({"a", "##b"})).span()); }

ModelSurgery three_pieces_file() {
  return ModelSurgery(model_with(piece_spec({"ab", "a", "b"}, false)).span());
}

uint32_t fold_of(uint32_t count, uint32_t value) {
  return count << format::kFoldCountShift | value;
}

class WordRulesOfFiles : public testing::TestWithParam<FileRule> {};

TEST_P(WordRulesOfFiles, EachBrokenRuleIsRefused) { expect_file_refusal(GetParam(), words_file()); }

TEST(WordPieceRules, AcceptIntactFiles) { EXPECT_TRUE(Model::load(words_file().file()).ok()); }

TEST(WordPieceRules, AllowFoldsToAsManyCodePointsAsBytes) {
  const ModelSurgery surgery = changed(words_file(), put(kFoldTo, kLastFold, fold_of(2, 0)));
  EXPECT_TRUE(Model::load(surgery.file()).ok());
}

// The tokenizer splits into characters and has no other table of WordPiece.
TEST(WordPieceRules, AllowFoldsForWordPieceOnly) {
  const Change change =
      all_of({choose(&TokenizerNumbers::kind, 2), choose(&TokenizerNumbers::word_characters_max, 0),
              resize(kPunctuation, 0), resize(kDropped, 0)});
  expect_refusal(changed(words_file(), change).file(), {"tokenizer.fold_from", "has no such list"});
}

INSTANTIATE_TEST_SUITE_P(
    All, WordRulesOfFiles,
    testing::Values(
        FileRule{"KindWithoutWords",
                 choose(&TokenizerNumbers::kind, 2),
                 {"tokenizer.word_characters_max", "larger than"}},
        FileRule{"WordCharactersNone",
                 choose(&TokenizerNumbers::word_characters_max, 0),
                 {"tokenizer.word_characters_max",
                  "no characters",
                  0,
                  {{0, format::kWordCharactersMax}}}},
        FileRule{"WordCharactersTooMany",
                 choose(&TokenizerNumbers::word_characters_max, format::kWordCharactersMax + 1),
                 {"tokenizer.word_characters_max",
                  "larger than",
                  0,
                  {{format::kWordCharactersMax + 1, format::kWordCharactersMax}}}},
        FileRule{"Separators",
                 choose(&TokenizerNumbers::pair_separators, 3),
                 {"tokenizer.pair_separators", "larger than"}},
        FileRule{"SeparatorsWithoutEnd",
                 all_of({choose(&TokenizerNumbers::flags, format::kAddBos), resize(kEnds, 0)}),
                 {"tokenizer.pair_separators", "larger than"}},
        FileRule{"DroppedOdd", resize(kDropped, 3), {"tokenizer.dropped", "ranges"}},
        FileRule{"DroppedOrder", put(kDropped, 2, 0), {"tokenizer.dropped", "order", 2}},
        FileRule{"DroppedTooLarge", put(kDropped, 3, 0x110000), {"tokenizer.dropped", "order", 2}},
        FileRule{
            "PunctuationMissing", resize(kPunctuation, 0), {"tokenizer.punctuation", "missing"}},
        FileRule{
            "PunctuationOfAscii", put(kPunctuation, 0, 0x7F), {"tokenizer.punctuation", "order"}},
        FileRule{"FoldColumns", resize(kFoldTo, 27), {"tokenizer.fold_to", "not as long"}},
        FileRule{"FoldOrder", put(kFoldFrom, 1, 'A'), {"tokenizer.fold_from", "sorted", 1}},
        FileRule{"FoldFromTooLarge",
                 put(kFoldFrom, kLastFold, 0x110000),
                 {"tokenizer.fold_from", "out of range", kLastFold}},
        FileRule{
            "FoldToNone", put(kFoldTo, 0, fold_of(0, 'a')), {"tokenizer.fold_to", "folds to none"}},
        FileRule{"FoldToMoreThanItsBytes",
                 put(kFoldTo, 0, fold_of(2, 0)),
                 {"tokenizer.fold_to", "to too many"}},
        FileRule{
            "FoldOfABrokenByteToMore",
            all_of({put(kFoldFrom, kLastFold, 0xFFFD), put(kFoldTo, kLastFold, fold_of(2, 0))}),
            {"tokenizer.fold_to", "to too many", kLastFold}},
        FileRule{"FoldToTooLarge",
                 put(kFoldTo, 0, fold_of(1, 0x110000)),
                 {"tokenizer.fold_to", "does not exist", 0, {{0x110000, 0x10FFFF}}}},
        FileRule{"FoldBehindTheSequences",
                 put(kFoldTo, kLastFold, fold_of(2, 1)),
                 {"tokenizer.fold_to", "does not exist", kLastFold}},
        FileRule{"FoldFarBehindTheSequences",
                 put(kFoldTo, kLastFold, fold_of(2, format::kFoldValueMask)),
                 {"tokenizer.fold_to", "does not exist", kLastFold}},
        FileRule{"FoldSequenceTooLarge",
                 put(kFoldSequences, 1, 0x110000),
                 {"tokenizer.fold_sequences", "out of range", 1, {{0x110000, 0x10FFFF}}}},
        FileRule{"Prefix",
                 choose(&TokenizerNumbers::prefix, 1),
                 {"tokenizer.prefix", "larger than", 0, {{1, 0}}}},
        FileRule{"Flags",
                 choose(&TokenizerNumbers::flags, format::kTokenizerFlagsAll + 1),
                 {"tokenizer.flags", "larger than"}},
        FileRule{"WholeId",
                 put(kWholeTokens, 1, 9),
                 {"tokenizer.whole_tokens", "not in the vocabulary", 1}}),
    rule_name<ModelSurgery>);

// Tables of WordPiece are refused in other kinds, and theirs in WordPiece.
TEST(WordPieceRules, RefuseTablesOfOtherKinds) {
  const Change change =
      all_of({choose(&TokenizerNumbers::kind, 3), choose(&TokenizerNumbers::prefix, 0),
              choose(&TokenizerNumbers::word_characters_max, 1)});
  const uint32_t characters = list_of(three_pieces_file(), kCharacters)->size();
  expect_refusal(changed(three_pieces_file(), change).file(),
                 {"tokenizer.characters", "has no such list", 0, {{characters, 0}}});
}

}  // namespace
}  // namespace arenite::test
