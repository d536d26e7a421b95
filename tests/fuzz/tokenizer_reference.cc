// SPDX-License-Identifier: Apache-2.0
// A fuzz target: any vocabulary over few letters, and texts. The runtime must give the tokens of
// the slow definition, pair by pair or word by word.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/choices.h"
#include "fuzz/require.h"
#include "reference/bpe.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

constexpr uint32_t kMergesMax = 60;
constexpr uint32_t kWordsMax = 30;
constexpr uint32_t kTexts = 6;
constexpr uint32_t kTextBytesMost = 60;
constexpr size_t kTokenBytesMost = 16;
constexpr char kLetters[] = {'a', 'b', 'c', 'd', ' '};

std::string any_text(uint32_t bytes_max, uint32_t letters, Choices& choices) {
  std::string text(choices.below(bytes_max + 1), ' ');
  for (char& c : text) c = kLetters[choices.below(letters)];
  return text;
}

// Merges of tokens that are there already; some ranks are equal, some pairs make the same token.
convert::TokenizerSpec any_pairs(Choices& choices) {
  convert::TokenizerSpec spec = byte_spec({});
  const uint32_t letters = 2 + choices.below(3);
  std::map<std::string, TokenId> ids;
  std::vector<TokenId> parts;
  for (uint32_t i = 0; i < letters; ++i) {
    parts.push_back(static_cast<uint8_t>(kLetters[i]));
    ids[std::string(1, kLetters[i])] = parts.back();
  }
  std::map<std::pair<TokenId, TokenId>, bool> seen;
  for (uint32_t merges = choices.below(kMergesMax + 1); merges > 0; --merges) {
    const TokenId left = parts[choices.below(static_cast<uint32_t>(parts.size()))];
    const TokenId right = parts[choices.below(static_cast<uint32_t>(parts.size()))];
    const std::string whole = spec.tokens[left] + spec.tokens[right];
    if (std::exchange(seen[{left, right}], true) || whole.size() > kTokenBytesMost) continue;
    if (!ids.contains(whole)) {
      ids[whole] = static_cast<TokenId>(spec.tokens.size());
      spec.tokens.push_back(whole);
      parts.push_back(ids[whole]);
    }
    spec.merges.push_back({left, right, ids[whole], choices.below(32)});
  }
  return spec;
}

void compare_pairs(Choices& choices) {
  const convert::TokenizerSpec spec = any_pairs(choices);
  const TestTokenizer tokenizer(spec);
  reference::BpeMerges merges;
  for (const convert::TokenMerge& merge : spec.merges) {
    merges[{merge.left, merge.right}] = {merge.rank, merge.token};
  }
  for (uint32_t i = 0; i < kTexts; ++i) {
    const std::string text = any_text(kTextBytesMost, 5, choices);
    const std::vector<TokenId> bytes(text.begin(), text.end());
    const std::vector<TokenId> expected = reference::merge_pairs(merges, bytes);
    require(tokenizer.encode_bare(text) == expected, "pairs are merged as defined");
    require(tokenizer.decode(expected) == text, "tokens stand for the text");
  }
}

// The longest word of the vocabulary that the rest begins with, again and again; or one unknown.
void cut_word(const std::map<std::string, TokenId>& vocabulary, const std::string& word,
              TokenId unknown, std::vector<TokenId>& ids) {
  std::vector<TokenId> pieces;
  for (size_t begin = 0; begin < word.size();) {
    size_t length = word.size() - begin;
    auto found = vocabulary.end();
    for (; length > 0; --length) {
      found = vocabulary.find((begin == 0 ? "" : "##") + word.substr(begin, length));
      if (found != vocabulary.end()) break;
    }
    if (length == 0) {
      ids.push_back(unknown);
      return;
    }
    pieces.push_back(found->second);
    begin += length;
  }
  ids.insert(ids.end(), pieces.begin(), pieces.end());
}

void compare_words(Choices& choices) {
  constexpr TokenId kUnknown = 1;
  std::map<std::string, TokenId> vocabulary;
  std::vector<std::string> words = {"a", "##a"};
  for (uint32_t i = choices.below(kWordsMax + 1); i > 0; --i) {
    std::string word = choices.below(2) == 0 ? "" : "##";
    word += static_cast<char>('a' + choices.below(4));
    for (uint32_t more = choices.below(6); more > 0; --more) word += kLetters[choices.below(4)];
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  for (TokenId id = 0; id < words.size(); ++id) vocabulary[words[id]] = 4 + id;
  const TestTokenizer tokenizer(word_spec(words));
  for (uint32_t i = 0; i < kTexts; ++i) {
    const std::string text = any_text(kTextBytesMost, 5, choices);
    std::vector<TokenId> expected;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(' ', begin), text.size());
      if (end > begin) cut_word(vocabulary, text.substr(begin, end - begin), kUnknown, expected);
      begin = end + 1;
    }
    require(tokenizer.encode_bare(text) == expected, "words are cut as defined");
  }
}

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  Choices choices({data, size});
  if (choices.below(3) == 0) {
    compare_words(choices);
  } else {
    compare_pairs(choices);
  }
  return 0;
}
