// SPDX-License-Identifier: Apache-2.0
// Tokenizer files with many tokens, long tokens, nearly equal tokens, and many other entries.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "convert/scaling/reader_cases.h"
#include "convert/tokenizers/tokenizer_builders.h"
#include "convert/tokenizers/tokenizer_source.h"
#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::testing {
namespace {

using nlohmann::json;

using Merges = std::vector<std::pair<std::string, std::string>>;

void read_tokenizer(const std::filesystem::path& file) {
  convert::TokenizerSpec spec = convert::read_tokenizer(file);
  convert::complete_tokenizer(spec);
}

// "a", "b" and so on, all different, of eight letters.
std::string word(size_t i) {
  std::string text;
  for (int digit = 0; digit < 8; ++digit, i /= 26) text += static_cast<char>('a' + i % 26);
  return text;
}

// `count` texts that differ only at their end.
std::vector<std::string> near_words(size_t count, size_t bytes) {
  std::vector<std::string> words;
  for (size_t i = 0; i < count; ++i) words.push_back(std::string(bytes, 'a') + word(i));
  return words;
}

std::vector<std::string> words(size_t count) { return near_words(count, 0); }

// Merges that make "aa", "aab", "aaba", ... each longer by one letter.
Merges growing_merges(size_t count) {
  Merges merges;
  std::string token = "a";
  for (size_t i = 0; i < count; ++i) {
    const std::string letter(1, static_cast<char>('a' + i % 3));
    merges.emplace_back(token, letter);
    token += letter;
  }
  return merges;
}

// Returns merges of two letters, then merges of two such pairs, and so on.
Merges short_merges(size_t count) {
  Merges merges;
  std::vector<std::string> made;
  for (char letter = 'a'; letter <= 'z'; ++letter) made.emplace_back(1, letter);
  for (size_t left = 0; merges.size() < count; ++left) {
    for (size_t right = 0; right < 26 && merges.size() < count; ++right) {
      merges.emplace_back(made[left], made[right]);
      made.push_back(made[left] + made[right]);
    }
  }
  return merges;
}

InputFiles tokenizer_json(const json& root) { return {{"tokenizer.json", root.dump()}}; }

InputFiles many_added_tokens(size_t size) {
  json root = byte_level_json({});
  const size_t first = root["model"]["vocab"].size() + 1;
  for (size_t i = 0; i < size; ++i) {
    json token = root["added_tokens"][0];
    token["id"] = first + i;
    token["content"] = "<|" + word(i) + "|>";
    root["added_tokens"].push_back(std::move(token));
  }
  return tokenizer_json(root);
}

InputFiles with_config(InputFiles files, std::string name, const json& config) {
  files.emplace_back(std::move(name), config.dump());
  return files;
}

// Many tokens that end a text, in the config of the model.
InputFiles many_ends(size_t size) {
  std::vector<size_t> ids(size);
  for (size_t i = 0; i < size; ++i) ids[i] = i;
  return with_config(tokenizer_json(byte_level_json(short_merges(size))), "generation_config.json",
                     {{"eos_token_id", ids}});
}

InputFiles many_steps(size_t size) {
  json root = byte_level_json({});
  json steps = json::array();
  for (size_t i = 0; i < size; ++i) steps.push_back({{"type", "NFC"}});
  root["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  return tokenizer_json(root);
}

InputFiles sentence_pieces(const std::vector<std::string>& pieces) {
  SentencePieceFile file;
  file.pieces = llama_pieces(pieces);
  return {{"tokenizer.model", file.bytes()}};
}

InputFiles llama2c_tokenizer(const std::vector<std::string>& pieces) {
  return {{"tokenizer.bin", llama2c_file(llama_pieces(pieces))}};
}

// One long token among many short ones: the reader finds it by its hash.
std::vector<std::string> long_word(size_t size) {
  std::vector<std::string> tokens = near_words(100, 1);
  tokens.insert(tokens.end(), {"a", "aa", std::string(size, 'a')});
  return tokens;
}

// Each piece is a prefix of the next, and `size` others end in all of them: merges of a long piece
// are searched among all of its parts.
std::vector<std::string> held_pieces(size_t size) {
  std::vector<std::string> pieces;
  for (size_t length = 1; length <= 64; ++length) pieces.emplace_back(length, 'a');
  for (size_t i = 0; i < size; ++i) pieces.push_back(word(i) + "_" + std::string(1000, 'a'));
  return pieces;
}

InputFiles vocab_txt(const std::vector<std::string>& tokens) {
  std::string text = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const std::string& token : tokens) text += token + "\n";
  return {{"vocab.txt", text}};
}

// Repeats one token.
InputFiles same_lines(size_t size) { return vocab_txt(std::vector<std::string>(size, "a")); }

InputFiles added_tokens_json(size_t size) {
  json added = json::object();
  const std::vector<std::string> tokens = words(size);
  for (size_t i = 0; i < size; ++i) added[tokens[i]] = i + 5;
  return with_config(vocab_txt(tokens), "added_tokens.json", added);
}

InputFiles decoder_tokens(size_t size) {
  json added = json::object();
  const std::vector<std::string> tokens = words(size);
  for (size_t i = 0; i < size; ++i) {
    added[fmt::format("{}", i + 5)] = {{"content", tokens[i]}, {"special", true}};
  }
  return with_config(vocab_txt(tokens), "tokenizer_config.json", {{"added_tokens_decoder", added}});
}

InputFiles vocab_and_merges(const Merges& merges) {
  const json root = byte_level_json(merges);
  std::string lines = "#version: 0.2\n";
  for (const auto& [left, right] : merges) lines += left + " " + right + "\n";
  return {{"vocab.json", root["model"]["vocab"].dump()}, {"merges.txt", lines}};
}

template <typename Make, typename Parts>
ReaderCase of(const char* reader, const char* shape, size_t size, const Make& make,
              const Parts& parts) {
  return {reader, shape, size, [=](size_t n) { return make(parts(n)); }, read_tokenizer};
}

}  // namespace

std::vector<ReaderCase> tokenizer_cases() {
  const auto near = [](size_t size) { return near_words(size, 200); };
  const auto json_of = [](const Merges& merges) { return tokenizer_json(byte_level_json(merges)); };
  const auto low_line_of = [](const std::vector<std::string>& tokens) {
    return tokenizer_json(low_line_json(tokens, {}));
  };
  const char* const kJson = "tokenizer.json";
  const char* const kModel = "tokenizer.model";
  const char* const kBin = "tokenizer.bin";
  const char* const kTxt = "vocab.txt";
  const char* const kTwo = "vocab.json, merges.txt";
  return {
      of(kJson, "many merges", 2000, json_of, short_merges),
      of(kJson, "merges of growing tokens", 200, json_of, growing_merges),
      of(kJson, "many tokens", 2000, low_line_of, words),
      of(kJson, "many long near-equal tokens", 500, low_line_of, near),
      of(kJson, "a long token", 100'000, low_line_of, long_word),
      {kJson, "many added tokens", 1000, many_added_tokens, read_tokenizer},
      {kJson, "many tokens that end a text", 2000, many_ends, read_tokenizer},
      {kJson, "many steps", 2000, many_steps, read_tokenizer},
      of(kModel, "many pieces", 2000, sentence_pieces, words),
      of(kModel, "many long near-equal pieces", 200, sentence_pieces, near),
      of(kModel, "a long piece", 20'000, sentence_pieces, long_word),
      of(kModel, "pieces that hold each other", 200, sentence_pieces, held_pieces),
      of(kBin, "many tokens", 2000, llama2c_tokenizer, words),
      of(kBin, "many long near-equal tokens", 200, llama2c_tokenizer, near),
      of(kBin, "a long token", 20'000, llama2c_tokenizer, long_word),
      of(kBin, "tokens that hold each other", 200, llama2c_tokenizer, held_pieces),
      of(kTxt, "many tokens", 5000, vocab_txt, words),
      of(kTxt, "many long near-equal tokens", 500, vocab_txt, near),
      of(kTxt, "a long token", 100'000, vocab_txt, long_word),
      {kTxt, "one token many times", 10'000, same_lines, read_tokenizer},
      {kTxt, "many added tokens", 2000, added_tokens_json, read_tokenizer},
      {kTxt, "many tokens in the config", 2000, decoder_tokens, read_tokenizer},
      of(kTwo, "many merges", 2000, vocab_and_merges, short_merges),
      of(kTwo, "merges of growing tokens", 200, vocab_and_merges, growing_merges),
  };
}

}  // namespace arenite::testing
