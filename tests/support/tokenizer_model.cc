// SPDX-License-Identifier: Apache-2.0
// Builds specs, files and loaded tokenizers.
#include "support/tokenizer_model.h"
#include "arenite/text_stream.h"

#include <fmt/format.h>

#include <stdexcept>
#include <unordered_map>

#include "convert/modules/attention_modules.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "convert/tokenizers/subwords.h"
#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "support/model_factory.h"
#include "unicode_classes.h"

namespace arenite::test {

convert::AlignedBytes model_with(convert::TokenizerSpec spec) {
  if (!spec.splits.empty() && spec.letters.empty()) use_python_classes(spec);
  convert::complete_tokenizer(spec);
  convert::Program program = convert::compile(convert::build_graph(make_module({})), "tokens");
  program.tokenizer = std::move(spec);
  return write_model(program, {Target::kPortable});
}

TestTokenizer::TestTokenizer(const convert::TokenizerSpec& spec, Guard guard)
    : model_(model_with(spec).span(), Target::kPortable, guard) {
  Diagnostic why;
  const Result<Tokenizer> tokenizer = Tokenizer::of(*model_, &why);
  if (!tokenizer.ok()) throw std::runtime_error(describe(tokenizer.status(), why));
  tokenizer_ = *tokenizer;
}

std::vector<TokenId> TestTokenizer::encode(std::string_view text,
                                           const EncodeOptions& options) const {
  const GuardedBuffer memory(encode_tokens_max(text.size()) * sizeof(TokenId), alignof(TokenId));
  const std::span<TokenId> out(reinterpret_cast<TokenId*>(memory.data()),
                               encode_tokens_max(text.size()));
  Diagnostic why;
  const Result<size_t> count = tokenizer_.encode(text, options, out, &why);
  if (!count.ok()) throw std::runtime_error(describe(count.status(), why));
  return {out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*count)};
}

std::vector<TokenId> TestTokenizer::encode_bare(std::string_view text) const {
  return encode(text, {.add_bos_and_end = false});
}

std::string TestTokenizer::decode(const std::vector<TokenId>& ids,
                                  const DecodeOptions& options) const {
  TextStream stream(tokenizer_, options);
  std::string text;
  const auto add = [&](const TextParts& parts) {
    text += parts.head;
    text += parts.tail;
  };
  for (const TokenId id : ids) add(stream.next(id));
  add(stream.finish());
  return text;
}

std::vector<std::string> TestTokenizer::texts(const std::vector<TokenId>& ids) const {
  std::vector<std::string> texts;
  for (const TokenId id : ids) texts.emplace_back(tokenizer_.token_bytes(id));
  return texts;
}

void use_python_classes(convert::TokenizerSpec& spec) {
  spec.letters.assign(std::begin(kLetters), std::end(kLetters));
  spec.numbers.assign(std::begin(kNumbers), std::end(kNumbers));
}

std::vector<convert::SplitStep> space_splits() {
  return {{convert::kSpaceSplit, 0, convert::SplitManner::kWithNext}};
}

convert::TokenizerSpec byte_spec(const std::vector<std::string>& words,
                                 std::vector<convert::SplitStep> splits) {
  convert::TokenizerSpec spec;
  spec.origin = "bytes";
  spec.kind = format::TokenizerKind::kBytePairs;
  spec.splits = std::move(splits);
  std::unordered_map<std::string, TokenId> ids;
  const auto add = [&](const std::string& text) {
    ids[text] = static_cast<TokenId>(spec.tokens.size());
    spec.tokens.push_back(text);
  };
  for (int byte = 0; byte < 256; ++byte) {
    spec.byte_tokens.push_back(static_cast<TokenId>(byte));
    add(std::string(1, static_cast<char>(byte)));
  }
  for (const std::string& word : words) {
    for (size_t length = 2; length <= word.size(); ++length) {
      const std::string whole = word.substr(0, length);
      if (ids.contains(whole)) continue;
      const TokenId left = ids.at(word.substr(0, length - 1));
      const TokenId right = ids.at(word.substr(length - 1, 1));
      add(whole);
      spec.merges.push_back({left, right, ids.at(whole), static_cast<uint32_t>(ids.size())});
    }
  }
  return spec;
}

convert::TokenizerSpec piece_spec(const std::vector<std::string>& pieces, bool byte_fallback) {
  using convert::PieceType;
  std::vector<convert::SentencePiece> all = {{"<unk>", 0.0f, PieceType::kUnknown},
                                             {"<s>", 0.0f, PieceType::kControl},
                                             {"</s>", 0.0f, PieceType::kControl}};
  for (int byte = 0; byte_fallback && byte < 256; ++byte) {
    all.push_back({fmt::format("<0x{:02X}>", byte), 0.0f, PieceType::kByte});
  }
  float score = 0.0f;
  for (const std::string& piece : pieces) all.push_back({piece, score -= 1.0f, PieceType::kNormal});
  convert::TokenizerSpec spec;
  spec.origin = "pieces";
  fill_sentence_pieces(spec, all, false);
  spec.unknown = format::Unknown::kToken;
  spec.prefix = format::Prefix::kAlways;
  spec.flags = format::kAddBos | format::kDropFirstSpace | format::kFuseUnknown;
  spec.bos = 1;
  spec.ends = {2};
  return spec;
}

convert::TokenizerSpec word_spec(const std::vector<std::string>& words) {
  convert::TokenizerSpec spec;
  spec.origin = "words";
  spec.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]"};
  spec.tokens.insert(spec.tokens.end(), words.begin(), words.end());
  for (TokenId id = 0; id < 4; ++id) spec.specials[id] = 0;
  convert::fill_word_pieces(spec, 1);
  convert::put_bert_tokens_around(spec, 2, 3);
  spec.flags |= format::kIdeographsAreWords | format::kDecomposeHangul;
  spec.word_characters_max = convert::kBertWordCharactersMax;
  for (uint32_t letter = 'A'; letter <= 'Z'; ++letter) spec.folds[letter] = {letter | 0x20};
  spec.folds[0xC9] = {'e'};
  spec.folds[0x130] = {'i', 0x307};
  spec.dropped = {0, 0, 0x301, 0x301};
  spec.punctuation = {0x201C, 0x201D};
  return spec;
}

convert::TokenizerSpec unigram_spec() {
  convert::TokenizerSpec spec;
  spec.origin = "unigram";
  spec.kind = format::TokenizerKind::kUnigram;
  spec.splits = space_splits();
  spec.prefix = format::Prefix::kUnlessSpace;
  spec.unknown = format::Unknown::kToken;
  spec.unknown_token = 0;
  spec.tokens = {"<unk>", " ", "a", "b", " a"};
  spec.whole_tokens = {1, 2, 3, 4};
  spec.scores = {0.0, -1.0, -2.0, -3.0, -1.5};
  spec.unknown_score = -13.0;
  spec.before = {2, 3};
  spec.bos = 2;
  spec.flags = format::kAddBos | format::kPrefixEveryPart | format::kWordsAreParts;
  spec.changes.resize(5);  // the kinds whose tables are small
  for (uint32_t i = 0; i < spec.changes.size(); ++i) {
    spec.changes[i].kind = static_cast<format::TextStep>(i);
  }
  spec.changes[0].folds = {{'A', {'a'}}, {'C', {}}, {'D', {'a', 'b'}}};
  spec.changes[4].from = {'x', 'y'};
  spec.changes[4].to = {'b'};
  spec.charsmap = {1, 1, 0, 0};  // one unit, which leads nowhere, and an empty text
  spec.graphemes = {0x300, 0x36F, 1, 0x600, 0x605, 3};
  return spec;
}

}  // namespace arenite::test
