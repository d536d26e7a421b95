// SPDX-License-Identifier: Apache-2.0
// A tokenizer as trained, independent of the file format, and its compilation to the tables of the
// model file.
//
//   TokenizerSpec spec = read_tokenizer(file);
//   complete_tokenizer(spec);
//   write_tokenizer(builder, spec);
#pragma once

#include <flatbuffers/flatbuffers.h>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arenite/token.h"
#include "format/tokenizer_reader.h"

namespace arenite::format {
struct Tokenizer;  // the generated FlatBuffers table
}

namespace arenite::convert {

struct TokenMerge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId token = 0;  // the result of merging both
  uint32_t rank = 0;  // lowest first; equal ranks: leftmost first
};

// Normalization before WordPiece lookup, as in Hugging Face's BertNormalizer: in this order, on
// each character separately.
struct WordRules {
  bool drops_controls = true;
  bool strips_accents = true;  // canonical decomposition without nonspacing marks
  bool lowers_case = true;
};

// How a step of the pre-tokenizer divides a text by the matches of its expression. All but kAlone
// need an expression of a single set of characters.
enum class SplitManner : uint8_t {
  kAlone,         // each match and each gap is a piece
  kRuns,          // adjacent matches are one piece
  kWithNext,      // a match and the gap after it are one piece
  kWithPrevious,  // a gap and the match after it are one piece
};

struct SplitStep {
  std::string expression;  // in Oniguruma's syntax
  uint32_t flags = 0;      // format::SplitFlags
  SplitManner manner = SplitManner::kAlone;

  friend bool operator==(const SplitStep&, const SplitStep&) = default;
};

// Expressions of published tokenizers.
inline constexpr const char* kGpt2Split =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr const char* kLlama3Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kQwen2Split =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr const char* kDigitSplit = R"(\p{N})";
// A piece begins with each space, or U+2581 that stands for one.
inline constexpr const char* kSpaceSplit = "[ \u2581]";
// Properties that only the converter knows: the word characters of Hugging Face's Whitespace, and
// the punctuation of its Punctuation and BERT's.
inline constexpr const char* kWhitespaceWord = "WhitespaceWord";
inline constexpr const char* kWordPunctuation = "WordPunctuation";

// A step of the normalizer. `kind` determines which members apply.
struct TextChange {
  format::TextStep kind = format::TextStep::kFold;
  std::map<uint32_t, std::vector<uint32_t>> folds{};  // kFold: replacement of each character
  bool decomposes_hangul = false;                     // ... and Hangul syllables become jamo
  bool maps_longest = false;                          // kCharsmap: as SentencePiece
  uint32_t of = 0;     // kShrink: 0 U+0020, 1 all white space, or this
  uint32_t least = 1;  // ... in runs of at least this many
  uint32_t becomes = ' ';
  uint32_t sides = 0;                  // kStrip: 1 front, 2 end, 4 only U+0020
  std::vector<uint32_t> from{}, to{};  // kReplace; kDrop has ranges in `from`
};

struct TokenizerSpec {
  std::string origin;              // file it was read from, for messages
  std::vector<std::string> notes;  // for the report, a line each

  format::TokenizerKind kind = format::TokenizerKind::kBytePairs;
  format::Prefix prefix = format::Prefix::kNever;
  format::Unknown unknown = format::Unknown::kRefuse;
  uint32_t flags = 0;  // format::TokenizerFlags
  TokenId bos = kNoToken;
  TokenId start = kNoToken;  // start token of a decoder after an encoder
  TokenId unknown_token = kNoToken;
  std::vector<TokenId> ends;

  std::vector<std::string> tokens;         // bytes of each token; empty: no such token
  std::vector<TokenId> byte_tokens;        // [256], [512] with word ends, or empty; may be kNoToken
  std::map<uint32_t, TokenId> characters;  // by code point
  std::vector<TokenMerge> merges;
  std::vector<TokenId> whole_tokens;             // pieces that equal one of these are not merged
  std::map<TokenId, uint8_t> specials;           // with their format::SpecialFlags
  std::map<TokenId, std::string> special_names;  // in texts, where not the token's bytes

  // The pre-tokenizer. complete_tokenizer compiles the tables.
  std::vector<SplitStep> splits;
  std::vector<uint32_t> columns, split_tables;
  // Ranges that are \p{L} and \p{N} from U+0080 on; those of utf8proc if empty.
  std::vector<uint32_t> letters, numbers;

  // Tokens around a text, if there are several; they include `bos` and the first of `ends`.
  std::vector<TokenId> before, after;

  // Tokens that a model shall never write, and those with which no text shall begin.
  std::vector<TokenId> suppressed, suppressed_first;

  // End tokens between the texts of a pair; 0: pairs are not supported.
  uint32_t pair_separators = 0;

  // WordPiece. complete_tokenizer derives the tables from the rules if `punctuation` is empty.
  uint32_t word_characters_max = 0;
  WordRules word_rules;
  std::vector<uint32_t> dropped, punctuation;
  std::map<uint32_t, std::vector<uint32_t>> folds;

  // Text changes of tokenizers other than WordPiece (text_changes.h).
  std::vector<TextChange> changes;
  std::vector<uint32_t> charsmap, graphemes;

  // Unigram: the score of each token, and of characters without a token.
  std::vector<double> scores;
  double unknown_score = 0.0;
};

// Compiles the pre-tokenizer's tables, fills in Unicode tables, adds notes, and checks the spec
// against the format's limits. Throws InputError that names the token.
void complete_tokenizer(TokenizerSpec& spec);

// Writes a completed tokenizer into a model's metadata.
flatbuffers::Offset<format::Tokenizer> write_tokenizer(flatbuffers::FlatBufferBuilder& builder,
                                                       const TokenizerSpec& spec);
// Writes the tokenizer of a model file again.
flatbuffers::Offset<format::Tokenizer> write_tokenizer(flatbuffers::FlatBufferBuilder& builder,
                                                       const format::TokenizerView& view);

// Adds notes: whether text must be in normalization form C, and how characters without a token or
// byte tokens are encoded.
void add_notes(TokenizerSpec& spec);

// Describes the Unicode version of the tokenizer's character classes, such as "character
// classes of Unicode 16.0"; empty if it uses none.
std::string describe_unicode(const TokenizerSpec& spec);

}  // namespace arenite::convert
