// SPDX-License-Identifier: Apache-2.0
// Compares the pre-tokenization of every code point with Hugging Face's library
// (data/make_unicode_digests.py).
#include "convert/tokenizers/unicode_library.h"
#include "convert/tokenizers/split_tables.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "core/utf8.h"
#include "support/test_data.h"
#include "support/tokenizer_model.h"
#include "text/pre_tokenizer.h"

namespace arenite::testing {
namespace {

#ifdef ARENITE_HAVE_UTF8PROC

using nlohmann::json;

json read_digests() {
  std::ifstream in(project_folder().string() +
                   "/tests/convert/tokenizers/data/unicode_digests.json");
  return json::parse(in);
}

std::string utf8_of(uint32_t code_point) {
  char form[kUtf8BytesMax];
  return {form, encode_utf8(code_point, form)};
}

// The digest of what `cut` makes of each character of a plane.
std::string digest_of_plane(uint32_t plane, const std::function<std::string(std::string)>& cut) {
  uint64_t digest = 0xCBF29CE484222325u;
  for (uint32_t code_point = plane << 16; code_point < (plane + 1) << 16; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    for (const char byte : cut(utf8_of(code_point)) + "\n") {
      digest = (digest ^ static_cast<uint8_t>(byte)) * 0x100000001B3u;
    }
  }
  return fmt::format("{:016x}", digest);
}

// The characters of planes 0 and 1 are tokens, at the start of a word and within.
convert::TokenizerSpec characters_spec(const std::string& rules) {
  convert::TokenizerSpec spec;
  spec.origin = "characters";
  spec.kind = format::TokenizerKind::kWordPiece;
  spec.unknown = format::Unknown::kToken;
  spec.unknown_token = 0;
  spec.word_characters_max = 100;
  spec.word_rules = {rules[0] == '1', rules[2] == '1', rules[3] == '1'};
  if (rules[1] == '1') spec.flags |= format::kIdeographsAreWords;
  spec.tokens = {"[UNK]"};
  for (uint32_t code_point = 0; code_point < 0x20000; ++code_point) {
    if (code_point >= 0xD800 && code_point <= 0xDFFF) continue;
    spec.tokens.push_back(utf8_of(code_point));
    spec.tokens.push_back("##" + utf8_of(code_point));
  }
  for (TokenId id = 0; id < spec.tokens.size(); ++id) spec.whole_tokens.push_back(id);
  return spec;
}

// The words that the tokens make, with spaces between.
std::string words_of(const Tokenizer& tokenizer, const std::string& text) {
  TokenId ids[128];
  const Result<size_t> count = tokenizer.encode(text, {}, ids);
  std::string words;
  for (size_t i = 0; i < *count; ++i) {
    const std::string_view token = tokenizer.token_bytes(ids[i]);
    const bool goes_on = token.size() > 2 && token.starts_with("##");
    if (!goes_on && i > 0) words += ' ';
    words += goes_on ? token.substr(2) : token;
  }
  return words;
}

TEST(UnicodeLibrary, WordsAreCutAndFoldedAsTheLibraryDoes) {
  const json expected = read_digests().at("words");
  ASSERT_EQ(expected.size(), 16u);
  for (const auto& [rules, planes] : expected.items()) {
    if (kSanitized && rules != "1111") continue;  // which run all that the others do
    const test::TestTokenizer tokenizer(characters_spec(rules));
    for (const auto& [plane, digest] : planes.items()) {
      const std::string found = digest_of_plane(
          static_cast<uint32_t>(std::stoul(plane)), [&](const std::string& character) {
            return words_of(*tokenizer, "a" + character + "b " + character);
          });
      EXPECT_EQ(found, digest) << "rules " << rules << ", plane " << plane;
    }
  }
}

TEST(UnicodeLibrary, PatternsCutAsTheLibraryDoes) {
  const json expected = read_digests().at("patterns");
  for (const auto& [name, planes] : expected.items()) {
    if (kSanitized && name != "o200k") continue;
    convert::TokenizerSpec spec;
    spec.splits = {{planes.at("expression").get<std::string>()}};
    convert::compile_splits(spec);
    format::TokenizerView view;
    view.columns = spec.columns;
    view.splits = spec.split_tables;
    for (const auto& [plane, digest] : planes.at("planes").items()) {
      const std::string found = digest_of_plane(
          static_cast<uint32_t>(std::stoul(plane)), [&](const std::string& character) {
            const std::string text =
                "a" + character + "b1" + character + "2 " + character + "x" + character + "\n";
            const text::Part part(text, false);
            text::PreTokenizer pre_tokenizer(view, part);
            std::string lengths;
            for (text::Piece piece; pre_tokenizer.next(piece);) {
              lengths += (lengths.empty() ? "" : " ") + std::to_string(piece.end - piece.begin);
            }
            return lengths;
          });
      EXPECT_EQ(found, digest) << name << ", plane " << plane;
    }
  }
}

std::string without_marks(const std::vector<uint32_t>& code_points) {
  std::string text;
  for (const uint32_t code_point : code_points) {
    if (!convert::is_mark(code_point)) text += utf8_of(code_point);
  }
  return text;
}

TEST(UnicodeLibrary, CharactersChangeAsTheLibraryChangesThem) {
  const auto all = [](const std::vector<uint32_t>& code_points) {
    std::string text;
    for (const uint32_t code_point : code_points) text += utf8_of(code_point);
    return text;
  };
  const std::map<std::string, std::function<std::string(uint32_t)>> changes = {
      {"lowercase", [&](uint32_t c) { return all(convert::lower_cases(c)); }},
      {"strip", [](uint32_t c) { return without_marks({c}); }},
      {"nfd", [](uint32_t c) { return without_marks(convert::full_decomposition(c, false)); }},
      {"nfkd", [](uint32_t c) { return without_marks(convert::full_decomposition(c, true)); }},
  };
  const json expected = read_digests().at("changes");
  ASSERT_EQ(expected.size(), changes.size());
  for (const auto& [name, planes] : expected.items()) {
    const auto& change = changes.at(name);
    for (const auto& [plane, digest] : planes.items()) {
      const std::string found = digest_of_plane(
          static_cast<uint32_t>(std::stoul(plane)), [&](const std::string& character) {
            const uint32_t code_point = decode_utf8(character).value;
            return convert::is_hangul_syllable(code_point) ? character : change(code_point);
          });
      EXPECT_EQ(found, digest) << name << ", plane " << plane;
    }
  }
}

// The line by which the difference was found: a Gurmukhi sign that is punctuation since 11.0.
TEST(UnicodeLibrary, KnowsThePunctuationOfUnicode8) {
  using convert::WordCategory;
  EXPECT_EQ(convert::word_category(0x0A76), WordCategory::kOther);
  EXPECT_EQ(convert::word_category(0x0964), WordCategory::kPunctuation);
  EXPECT_EQ(convert::word_category(0x166D), WordCategory::kPunctuation);  // a symbol since 12.0
  EXPECT_EQ(convert::word_category(0x1E944), WordCategory::kOther);       // a mark since 9.0
  EXPECT_EQ(convert::lower_case(0x16EA0), 0x16EBBu);                      // since 17.0
}

TEST(UnicodeLibrary, NormalizesWhatIsUtf8) {
  EXPECT_EQ(convert::to_nfc("plain"), "plain");
  EXPECT_EQ(convert::to_nfc(""), "");
  EXPECT_EQ(convert::to_nfc("e\xCC\x81\xFF"
                            "a\xCC\x8A\xC3"),
            "\xC3\xA9\xFF\xC3\xA5\xC3");
  EXPECT_EQ(convert::to_nfc(std::string("e\0\xCC\x81", 4)), std::string("e\0\xCC\x81", 4));
  EXPECT_EQ(convert::to_nfc("\xE2\x84\xAB"), "\xC3\x85");  // the angstrom sign is a letter
}

#else

TEST(UnicodeLibrary, SaysThatItIsMissing) {
  EXPECT_THROW(convert::to_nfc("x"), std::runtime_error);
}

#endif  // ARENITE_HAVE_UTF8PROC

}  // namespace
}  // namespace arenite::testing
