// SPDX-License-Identifier: Apache-2.0
// Reads the tokenizer of a model file as plain spans. FlatBuffers does not show through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/token.h"
#include "core/needs.h"

namespace arenite::format {

// The lists of numbers in the tokenizer of a model file, in their order there. Lists that belong
// together are the columns of one table.

enum class TokenizerList : uint8_t {
  kEnds,          // tokens that end a text, the first one is the end token proper
  kTokenOffsets,  // into token_bytes; vocabulary + 1
  kByteTokens,    // 256, or none
  kCharacters,    // code points, increasing
  kCharacterTokens,
  // Merges of (left, right): rows merge_begin[left] .. merge_begin[left + 1], by right.
  kMergeBegin,
  kMergeRights,
  kMergeRanks,
  kMergeTokens,
  // By their bytes: a piece that is one of them is not merged; WordPiece looks all words up here.
  kWholeTokens,
  kSpecials,      // tokens with a name, increasing
  kSpecialOrder,  // indexes into specials, by their bytes
  kLetters,       // first, last, first, last, ... from 128 on
  kNumbers,
  // WordPiece: what becomes of a text's characters before it is cut into words.
  kDropped,        // ranges from 0 on
  kPunctuation,    // ranges from 128 on; each character of them is a word
  kFoldFrom,       // code points that become others, increasing
  kFoldTo,         // 2^24 * their number + the one, or the place of the first in
  kFoldSequences,  // code points
  // Lists that came later; a file has all of them or none.
  kBefore,  // tokens that go before a text, where they are several
  kAfter,   // tokens that go after it, the same
  kSteps,   // of the normalizer: kStepNumbers each
  // Unigram: the scores of whole_tokens, in their order, then that of an unknown character; each is
  // a double's lower and upper half.
  kScores,
  // A double array and the texts that it leads to, as SentencePiece writes them (normalizer.h).
  kCharsmap,
  kGraphemes,  // first, last and GraphemeClass, where there is a charsmap
};
inline constexpr uint32_t kTokenizerLists = 25;
inline constexpr uint32_t kFirstTokenizerLists = 19;  // without those that came later
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

enum class Pattern : uint8_t { kNone, kGpt2, kLlama3, kQwen2, kDigits, kSpaces, kClip, kWords };
inline constexpr uint32_t kPatterns = 8;
inline constexpr uint32_t kPatternsLinked = linked(Need::kUnigram) ? kPatterns : 6;

// Whether it tells letters and numbers apart.
constexpr bool asks_for_classes(Pattern pattern) {
  return pattern != Pattern::kNone && pattern != Pattern::kSpaces && pattern != Pattern::kWords;
}

// A space put before a text, so that its first word looks like any other.
enum class Prefix : uint8_t { kNever, kAlways, kUnlessSpace };
inline constexpr uint32_t kPrefixes = 3;

// What a character is that neither a token nor bytes can stand for; with WordPiece, a word.
enum class Unknown : uint8_t { kRefuse, kDrop, kToken };
inline constexpr uint32_t kUnknowns = 3;

enum TokenizerFlags : uint32_t {
  kAddBos = 1,           // before each text
  kAddEnd = 2,           // the first of `ends`, after each text
  kPrefixEveryPart = 4,  // also what follows a special token gets the prefix
  kFuseUnknown = 8,      // unknown characters in a row are one token
  kDropFirstSpace = 16,  // decoding leaves out the space that a prefix has put there
  kExpectsNfc = 32,      // trained on text in Unicode's normalization form C
  kSecondHasType1 = 64,  // of a pair's texts, with the end token after it; else all have type 0
  // With WordPiece:
  kIdeographsAreWords = 128,  // each ideograph (utf8.h) is a word
  kDecomposeHangul = 256,     // syllables become their letters, as in normalization form D
  kCleansUp = 512,            // decoding puts no space before punctuation (text_stream.cc)
  kTokenizerFlagsAll = 1023,
};

enum SpecialFlags : uint8_t {
  kReadAlways = 1,  // recognised in every text, not only where the caller allows it
  kEatsSpaceBefore = 2,
  kEatsSpaceBehind = 4,
  kIsText = 8,  // decoding never leaves it out
  kSpecialFlagsAll = 15,
};

// What is done to a text before it is cut, step by step. A step is its kind and three numbers.
enum class TextStep : uint32_t {
  kFold,      // places of fold_from: first, count; 1: decomposes Hangul
  kCharsmap,  // none
  kShrink,    // a run of white space: 0 only U+0020, 1 all; the shortest run; becomes this
  kStrip,     // white space: 1 at the front, 2 at the end
  kReplace,   // places of fold_sequences: first, how many are replaced; by how many that follow
};
inline constexpr uint32_t kTextSteps = 5;
inline constexpr uint32_t kStepNumbers = 4;

enum class GraphemeClass : uint32_t { kOther, kExtend, kControl, kPrepend, kJoiner, kPictograph };
inline constexpr uint32_t kGraphemeClasses = 6;

inline constexpr uint32_t kNoRank = UINT32_MAX;

// What begins a WordPiece token that goes on within a word.
inline constexpr std::string_view kContinuation = "##";

// An element of fold_to: how many code points, and the only one, or where they begin.
inline constexpr uint32_t kFoldCountShift = 24;
inline constexpr uint32_t kFoldValueMask = (1u << kFoldCountShift) - 1;

// Limits that keep the verifier's work small on hostile files; far above real tokenizers.
inline constexpr uint32_t kVocabularyMax = 1u << 20;
inline constexpr uint32_t kMergesMax = 1u << 22;
inline constexpr uint32_t kTokenBytesMax = 1024;
inline constexpr uint32_t kSpecialsMax = 1u << 14;
inline constexpr uint32_t kSpecialBytesMax = 256;
inline constexpr uint32_t kEndsMax = 64;
inline constexpr uint32_t kRangesMax = 4096;
inline constexpr uint32_t kFoldsMax = 1u << 14;
inline constexpr uint32_t kWordCharactersMax = 1024;
inline constexpr uint32_t kPairSeparatorsMax = 2;
inline constexpr uint32_t kAroundMax = 8;  // tokens before and after a text, together
inline constexpr uint32_t kStepsMax = 32;
inline constexpr uint32_t kCharsmapMax = 1u << 20;

// All spans lie in the file; TokenizerList says what they hold.
struct TokenizerView {
  TokenizerKind kind = TokenizerKind::kBytePairs;
  Pattern pattern = Pattern::kNone;
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
  std::span<const uint32_t> letters, numbers;
  uint32_t pair_separators = 0;
  uint32_t word_characters_max = 0;
  std::span<const uint32_t> dropped, punctuation;
  std::span<const uint32_t> fold_from, fold_to, fold_sequences;
  std::span<const uint32_t> before, after, steps, scores, charsmap, graphemes;

  uint32_t vocab_size() const { return static_cast<uint32_t>(token_offsets.size() - 1); }
  bool has(TokenizerFlags flag) const { return (flags & flag) != 0; }
  const std::span<const uint32_t>& list(TokenizerList which) const;

  // What a token stands for. REQUIRES: id < vocab_size(), and the offsets are verified.
  std::string_view bytes(uint32_t id) const {
    return {token_bytes.data() + token_offsets[id], token_offsets[id + 1] - token_offsets[id]};
  }
};

// REQUIRES for all: the bytes passed FlatBuffers' structural verification (verify.h).
bool has_tokenizer(std::span<const std::byte> file);
// REQUIRES for these: has_tokenizer(file).
TokenizerKind tokenizer_kind(std::span<const std::byte> file);
uint32_t tokenizer_lists(std::span<const std::byte> file);  // how many there are
// REQUIRES: kTokenizerLists of them.
TokenizerView tokenizer_view(std::span<const std::byte> file);

}  // namespace arenite::format
