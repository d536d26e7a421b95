// SPDX-License-Identifier: Apache-2.0
// Reads the tokenizer of a model file as plain spans and hides FlatBuffers:
//   const TokenizerView view = tokenizer_view(file);
//   const std::string_view bytes = view.bytes(id);
//   const uint32_t first_merge = view.merge_begin[id];  // a row of merge_rights, merge_ranks, ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/token.h"
#include "core/needs.h"

namespace arenite::format {

// The lists of uint32 in the tokenizer of a model file, in their order there. Several lists of one
// length are the columns of a table. Ranges are pairs of first and last code point, increasing.
enum class TokenizerList : uint8_t {
  kEnds,             // tokens that end a text; the first is the end token that encoding adds
  kTokenOffsets,     // [vocab_size + 1], into token_bytes
  kByteTokens,       // [256], empty, or [512]: the second half is for the last byte of a piece
  kCharacters,       // code points, increasing; kLastCharacter more at the end of a piece
  kCharacterTokens,  // the token of each of them
  // Merges of the pair (left, right): rows [merge_begin[left], merge_begin[left + 1]), sorted by
  // right.
  kMergeBegin,
  kMergeRights,
  kMergeRanks,
  kMergeTokens,
  // Sorted by their bytes. A piece that equals one of these tokens is not merged; WordPiece and
  // Unigram look all tokens up here.
  kWholeTokens,
  kSpecials,      // tokens with a name, increasing
  kSpecialOrder,  // indexes into specials, sorted by the bytes of the tokens
  // Pre-tokenizer: the column of each character in the tables of `splits`. First those of ASCII,
  // four to an element; then code point << kColumnBits | column for each change from U+0080 on.
  kColumns,
  // The number of columns, then for each step: sum of SplitFlags, number of states, and the table
  // [states][columns] of next state << 1 | whether a match ends before the character. State 0 is
  // the end of a search, 1 its start; column 0 is the end of the text.
  kSplits,
  // Normalization: WordPiece uses all of these, the steps of other kinds only the fold lists.
  kDropped,        // ranges of characters that are removed, from U+0000 on
  kPunctuation,    // ranges of characters that are words by themselves, from U+0080 on
  kFoldFrom,       // code points that are replaced, increasing
  kFoldTo,         // count << 24 | the code point if count is 1, else its index in fold_sequences
  kFoldSequences,  // code points
  // Later lists: a file has all of them or none.
  kBefore,  // tokens that replace `bos` before a text, if there are several
  kAfter,   // tokens that replace the end token after a text, if there are several
  kSteps,   // of the normalizer, kStepNumbers elements each
  // Unigram: the scores of whole_tokens in their order, then that of an unknown character. Each is
  // a double in two elements, the lower half first.
  kScores,
  // SentencePiece's precompiled character map: a double array (trie) and the texts that it maps to.
  // SPEC.md describes its layout.
  kCharsmap,
  kGraphemes,  // (first, last, GraphemeClass) triples, if there is a charsmap
};
inline constexpr uint32_t kTokenizerLists = 25;
inline constexpr uint32_t kFirstTokenizerLists = 19;  // without the later lists
inline constexpr uint32_t kTokenizerListsLinked =
    linked(Need::kUnigram) ? kTokenizerLists : kFirstTokenizerLists;

// Ids and bits are part of the file format: never renumbered, never reused.
enum class TokenizerKind : uint8_t {
  kBytePairs,
  kSentencePieces,
  kCharacters,
  kWordPiece,
  kUnigram
};
inline constexpr uint32_t kTokenizerKinds = 5;

// A step of the pre-tokenizer splits a text into the matches of its table and the gaps between
// them.
enum SplitFlags : uint32_t {
  kDropMatches = 1,
  kDropGaps = 2,
  kOfBytes = 4,       // matches the byte-level alphabet's character of each byte
  kSkipFailures = 8,  // where a search fails, none succeeds before the character that ended it
  kPartsFollow = 16,  // its pieces are parts with their own prefix, which later steps split
  // The row of state 0 has the state that a search begins in, by the column of the character before
  // it; column 0 is the start of the text.
  kLooksBehind = 32,
  kSplitFlagsAll = 63,
};
inline constexpr uint32_t kSplitHeader = 2;  // elements of a step before its table
inline constexpr uint32_t kColumnBits = 8;
inline constexpr uint32_t kAsciiElements = 128 * kColumnBits / 32;

// A space put before a text, so that its first word looks like any other.
enum class Prefix : uint8_t { kNever, kAlways, kUnlessSpace };
inline constexpr uint32_t kPrefixes = 3;

// Encoding treats a character that has neither a token nor byte tokens (for WordPiece: a word
// without tokens) in one of these ways: it fails, drops the character, or writes unknown_token.
enum class Unknown : uint8_t { kRefuse, kDrop, kToken };
inline constexpr uint32_t kUnknowns = 3;

enum TokenizerFlags : uint32_t {
  kAddBos = 1,           // `bos` goes before each text
  kAddEnd = 2,           // the first of `ends` goes after each text
  kPrefixEveryPart = 4,  // text after a special token gets the prefix, too
  kFuseUnknown = 8,      // consecutive unknown characters become one token
  kDropFirstSpace = 16,  // decoding drops the first space of a text, which the prefix added
  kExpectsNfc = 32,      // trained on text in Unicode's normalization form C
  kSecondHasType1 = 64,  // in a pair, the second text and the end token after it have type 1
  // Only for WordPiece:
  kIdeographsAreWords = 128,  // each ideograph (utf8.h) is a word
  kDecomposeHangul = 256,     // syllables become their letters, as in normalization form D
  kCleansUp = 512,            // decoding puts no space before punctuation (text_stream.cc)
  kTokensAreApart = 1024,     // decoding puts a space before each token but the first
  // Each word between white space is a part with its own prefix; the white space is dropped.
  kWordsAreParts = 2048,
  kDropRepeats = 4096,    // decoding writes a token once where it is repeated, as for CTC
  kEndsAreSpaces = 8192,  // words end with tokens that end with a space; decoding drops the last
  kOtherTypes = 16384,  // a token around a text has a type other than 0 and 1, which is not stored
  // SentencePiece's ways: Unigram rounds its sums to floats, and unknown pieces in a row become one
  // token.
  kAsSentencePiece = 32768,
  kTokenizerFlagsAll = 65535,
};

enum SpecialFlags : uint8_t {
  kReadAlways = 1,       // recognised in every text, even if the caller does not read specials
  kEatsSpaceBefore = 2,  // a match includes the white space before it
  kEatsSpaceBehind = 4,  // a match includes the white space after it
  kIsText = 8,           // decoding always writes it
  kSingleWord = 16,      // only where no word character (TextStep::kWordCharacters) is beside it
  kNormalized = 32,      // found in the normalized text
  kSpecialFlagsAll = 63,
};

// The steps of the normalizer, which runs before the pre-tokenizer. A step is its kind and three
// parameters; unused ones are 0. {kReplace, 5, 2, 1} replaces each "``" by a quotation mark, if
// fold_sequences[5] to [7] are the three code points.
enum class TextStep : uint32_t {
  kFold,      // first, count: entries of fold_from; 1: also decomposes Hangul syllables
  kCharsmap,  // 1: maps the longest key, wherever a grapheme ends
  // A run of 0: U+0020, 1: any white space, else this code point; its least length; the code point
  // that it becomes.
  kShrink,
  // Strips white space: sum of 1 at the front, 2 at the end, 4 only U+0020, and U+2581 at the end.
  kStrip,
  kReplace,  // first, n, m: n code points from fold_sequences[first] on become the next m ones
  kPrepend,  // a code point that goes before a text, unless it is empty
  // Canonical ordering by the n numbers from fold_sequences[first] on: a code point, and the
  // combining class of it and of all up to the next one.
  kOrder,
  // Canonical composition by n such numbers: how many numbers of classes follow, these as above,
  // and then two code points, in increasing order of both, and what they become. Hangul is composed
  // by arithmetic.
  kCompose,
  kDrop,  // ranges of characters, n numbers from fold_sequences[first] on, that vanish
  // Tables of the search for special tokens, which change nothing:
  kWordCharacters,  // ranges of word characters: n numbers from fold_sequences[first] on
  kName,            // first, n, index: how texts write specials[index], in n code points
};
inline constexpr uint32_t kTextSteps = 11;
inline constexpr uint32_t kStepNumbers = 4;

enum class GraphemeClass : uint32_t { kOther, kExtend, kControl, kPrepend, kJoiner, kPictograph };
inline constexpr uint32_t kGraphemeClasses = 6;

inline constexpr uint32_t kNoRank = UINT32_MAX;

// With kEndsAreSpaces, the last character of a piece is looked up with this added.
inline constexpr uint32_t kLastCharacter = 0x110000;

// WordPiece tokens that continue a word begin with this.
inline constexpr std::string_view kContinuation = "##";

// fold_to[i] = count << kFoldCountShift | value; value is the only code point, or the index of the
// first in fold_sequences.
inline constexpr uint32_t kFoldCountShift = 24;
inline constexpr uint32_t kFoldValueMask = (1u << kFoldCountShift) - 1;

// Limits that keep the verifier's work small on hostile files; real tokenizers are far below them.
inline constexpr uint32_t kVocabularyMax = 1u << 20;
inline constexpr uint32_t kMergesMax = 1u << 22;
inline constexpr uint32_t kTokenBytesMax = 1024;
inline constexpr uint32_t kSpecialsMax = 1u << 14;
inline constexpr uint32_t kSpecialBytesMax = 256;
inline constexpr uint32_t kEndsMax = 64;
inline constexpr uint32_t kRangesMax = 4096;
inline constexpr uint32_t kColumnsMax = 1u << 14;  // elements of `columns`
inline constexpr uint32_t kSplitsMax = 1u << 20;   // elements of `splits`
inline constexpr uint32_t kSplitStepsMax = 6;
inline constexpr uint32_t kFoldsMax = 1u << 14;
inline constexpr uint32_t kWordCharactersMax = 1024;
inline constexpr uint32_t kPairSeparatorsMax = 2;
inline constexpr uint32_t kAroundMax = 8;  // tokens before and after a text together
inline constexpr uint32_t kStepsMax = 32;
inline constexpr uint32_t kCharsmapMax = 1u << 20;

// A tokenizer in a model file, which must outlive it. Owns nothing: all spans are bytes of the
// file. TokenizerList says what they hold.
struct TokenizerView {
  TokenizerKind kind = TokenizerKind::kBytePairs;
  Prefix prefix = Prefix::kNever;
  Unknown unknown = Unknown::kRefuse;
  uint32_t flags = 0;
  uint32_t bos = kNoToken;
  uint32_t unknown_token = kNoToken;
  std::span<const uint32_t> ends;
  std::span<const uint32_t> token_offsets;
  std::string_view token_bytes;
  std::span<const uint32_t> byte_tokens;
  std::span<const uint32_t> characters, character_tokens;
  std::span<const uint32_t> merge_begin, merge_rights, merge_ranks, merge_tokens;
  std::span<const uint32_t> whole_tokens;
  std::span<const uint32_t> specials;
  std::span<const uint8_t> special_flags;
  std::span<const uint32_t> special_order;
  std::span<const uint32_t> columns, splits;
  uint32_t pair_separators = 0;
  uint32_t word_characters_max = 0;
  std::span<const uint32_t> dropped, punctuation;
  std::span<const uint32_t> fold_from, fold_to, fold_sequences;
  std::span<const uint32_t> before, after, steps, scores, charsmap, graphemes;

  uint32_t vocab_size() const { return static_cast<uint32_t>(token_offsets.size() - 1); }
  bool has(TokenizerFlags flag) const { return (flags & flag) != 0; }
  const std::span<const uint32_t>& list(TokenizerList which) const;

  // The bytes of a token. REQUIRES: id < vocab_size(), and the offsets are verified.
  std::string_view bytes(uint32_t id) const {
    return {token_bytes.data() + token_offsets[id], token_offsets[id + 1] - token_offsets[id]};
  }
};

// These functions require bytes that passed FlatBuffers' structural verification (verify.h).
bool has_tokenizer(std::span<const std::byte> file);
// REQUIRES: has_tokenizer(file).
TokenizerKind tokenizer_kind(std::span<const std::byte> file);
// The number of lists. REQUIRES: has_tokenizer(file).
uint32_t tokenizer_lists(std::span<const std::byte> file);
// REQUIRES: has_tokenizer(file), with kFirstTokenizerLists or kTokenizerListsLinked lists.
TokenizerView tokenizer_view(std::span<const std::byte> file);

}  // namespace arenite::format
