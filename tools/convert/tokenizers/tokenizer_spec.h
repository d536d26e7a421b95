// SPDX-License-Identifier: Apache-2.0
// A tokenizer as trained, whatever file it came from, and what the compiler makes of it: the tables
// of the model file.
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
  TokenId token = 0;  // what the two become
  uint32_t rank = 0;  // merged lowest first; equal ranks: leftmost first
};

// What WordPiece does to a text before it looks words up, as Hugging Face's BertNormalizer: in
// this order, each character on its own.
struct WordRules {
  bool drops_controls = true;
  bool strips_accents = true;  // of the canonical decomposition, nonspacing marks
  bool lowers_case = true;
};

// A step of the normalizer. Its kind says which members count.
struct TextChange {
  format::TextStep kind = format::TextStep::kFold;
  std::map<uint32_t, std::vector<uint32_t>> folds{};  // kFold: what characters become
  bool decomposes_hangul = false;                     // ... and syllables their letters
  bool all_spaces = false;                            // kShrink: not only U+0020
  uint32_t least = 1;                                 // ... in a run of so many
  uint32_t becomes = ' ';
  uint32_t sides = 0;                  // kStrip: 1 front, 2 end
  std::vector<uint32_t> from{}, to{};  // kReplace
};

struct TokenizerSpec {
  std::string origin;              // the file it was read from, for messages
  std::vector<std::string> notes;  // what a person should know of it: a line of the report each

  format::TokenizerKind kind = format::TokenizerKind::kBytePairs;
  format::Pattern pattern = format::Pattern::kNone;
  format::Prefix prefix = format::Prefix::kNever;
  format::Unknown unknown = format::Unknown::kRefuse;
  uint32_t flags = 0;  // format::TokenizerFlags
  TokenId bos = kNoToken;
  TokenId start = kNoToken;  // of what a decoder after an encoder writes
  TokenId unknown_token = kNoToken;
  std::vector<TokenId> ends;

  std::vector<std::string> tokens;         // the bytes that each stands for; empty: no such token
  std::vector<TokenId> byte_tokens;        // 256, or none; kNoToken where a byte has none
  std::map<uint32_t, TokenId> characters;  // by code point
  std::vector<TokenMerge> merges;
  std::vector<TokenId> whole_tokens;    // pieces that are one of them are not merged
  std::map<TokenId, uint8_t> specials;  // with their format::SpecialFlags

  // Unicode's letters and numbers as ranges, where the pattern asks for them: filled in by
  // complete_tokenizer if they are empty.
  std::vector<uint32_t> letters, numbers;

  // Around a text where there are several; `bos` and the first of `ends` are among them.
  std::vector<TokenId> before, after;

  uint32_t pair_separators = 0;  // end tokens between the two texts of a pair; 0: it takes no pairs

  // WordPiece. What the rules mean, as ranges and as what a character becomes, is filled in by
  // complete_tokenizer if `punctuation` is empty.
  uint32_t word_characters_max = 0;
  WordRules word_rules;
  std::vector<uint32_t> dropped, punctuation;
  std::map<uint32_t, std::vector<uint32_t>> folds;

  // What is done to texts of other kinds first (normalizer_steps.h).
  std::vector<TextChange> changes;
  std::vector<uint32_t> charsmap, graphemes;

  // Unigram: the score of each token, and of a character that has none.
  std::vector<double> scores;
  double unknown_score = 0.0;
};

// Fills in what the pattern needs of Unicode, adds notes, and checks the spec against the format's
// rules. Throws InputError that names the token.
void complete_tokenizer(TokenizerSpec& spec);

// Writes a completed tokenizer into a model's metadata.
flatbuffers::Offset<format::Tokenizer> write_tokenizer(flatbuffers::FlatBufferBuilder& builder,
                                                       const TokenizerSpec& spec);
// The same of one that was written before.
flatbuffers::Offset<format::Tokenizer> write_tokenizer(flatbuffers::FlatBufferBuilder& builder,
                                                       const format::TokenizerView& view);

// Adds notes: about text that is expected in form C, and about what becomes of characters that
// have neither a token nor tokens of their bytes.
void add_notes(TokenizerSpec& spec);

// Whose characters the tokenizer's classes hold, such as "letters and numbers of Unicode 16.0";
// empty for one that cuts texts without asking Unicode.
std::string describe_unicode(const TokenizerSpec& spec);

}  // namespace arenite::convert
