// SPDX-License-Identifier: Apache-2.0
// Compares small tokenizers with the settings of published ones with Hugging Face's library, and
// those of SentencePiece's files with that, on the same texts (data/make_library_cases.py,
// tests/tokenizers/make_kinds.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "convert/tokenizers/tokenizer_readers.h"
#include "convert/tokenizers/unicode_library.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/tokenizer_model.h"

namespace arenite::testing {
namespace {

using nlohmann::json;
using test::TestTokenizer;

constexpr EncodeOptions kAllSpecials = {.read_specials = true};

json cases_in(const char* name) {
  std::ifstream in(project_folder() / "tests/convert/tokenizers/data" / name);
  return json::parse(in);
}

TestTokenizer tokenizer_of(const json& root) {
  const TempFolder folder;
  return TestTokenizer(
      convert::read_hf_tokenizer_json(folder.write("tokenizer.json", root.dump())));
}

// A text may become longer than its span: it is then refused, and a larger span is enough.
std::vector<TokenId> encode(const TestTokenizer& tokenizer, const std::string& given,
                            const EncodeOptions& options = kAllSpecials) {
  const std::string text = tokenizer->expects_nfc() ? convert::to_nfc(given) : given;
  std::vector<TokenId> ids(encode_tokens_max(text.size()));
  Diagnostic why;
  Result<size_t> count = tokenizer->encode(text, options, ids, &why);
  if (!count.ok()) {
    EXPECT_STREQ(why.field, "out") << text;
    ids.resize(16 * ids.size());
    count = tokenizer->encode(text, options, ids, &why);
  }
  EXPECT_TRUE(count.ok()) << text;
  ids.resize(count.ok() ? *count : 0);
  return ids;
}

// Bytes that are no UTF-8 pass through a TextStream; the library writes U+FFFD for them.
std::string as_the_library_writes(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

TEST(LibraryCases, GiveTheSameIdsAndTexts) {
#ifndef ARENITE_HAVE_UTF8PROC
  GTEST_SKIP() << "this build lacks utf8proc";
#endif
  const json all = cases_in("library_cases.json");
  json tokenizers = cases_in("kind_cases.json").at("tokenizers");
  ASSERT_FALSE(tokenizers.empty());
  for (const json& item : all.at("tokenizers")) tokenizers.push_back(item);
  for (const json& item : tokenizers) {
    const auto texts = item.value("texts", all.at("texts")).get<std::vector<std::string>>();
    ASSERT_FALSE(texts.empty());
    const TestTokenizer tokenizer = tokenizer_of(item.at("json"));
    for (size_t i = 0; i < texts.size(); ++i) {
      const json& expected = item.at("cases").at(i);
      const auto ids = expected.at(0).get<std::vector<TokenId>>();
      EXPECT_EQ(encode(tokenizer, texts[i]), ids) << item.at("name") << ": " << json(texts[i]);
      // Version 0.23 writes special tokens as text here, earlier ones and the runtime do not.
      if (item.at("name") == "llama_2_normalized") continue;
      EXPECT_EQ(as_the_library_writes(tokenizer.decode(ids)), as_the_library_writes(expected.at(1)))
          << item.at("name") << ": " << json(texts[i]);
    }
  }
}

TEST(LibraryCases, GiveTheSameIdsAndTextsForSentencePieceFiles) {
  for (const json& item : cases_in("piece_cases.json")) {
    const auto hexadecimal = item.at("model").get<std::string>();
    std::string bytes;
    for (size_t i = 0; i < hexadecimal.size(); i += 2) {
      bytes += static_cast<char>(std::stoi(hexadecimal.substr(i, 2), nullptr, 16));
    }
    const TempFolder folder;
    convert::TokenizerSpec spec =
        convert::read_sentencepiece_model(folder.write("tokenizer.model", bytes));
    spec.flags &= ~uint32_t{format::kAddBos};
    const TestTokenizer tokenizer(spec);
    const auto texts = item.at("texts").get<std::vector<std::string>>();
    ASSERT_FALSE(texts.empty());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto ids = item.at("ids").at(i).get<std::vector<TokenId>>();
      EXPECT_EQ(encode(tokenizer, texts[i], {}), ids) << item.at("name") << ": " << json(texts[i]);
      if (item.at("decoded").at(i).is_null()) continue;  // an unknown piece
      EXPECT_EQ(as_the_library_writes(tokenizer.decode(ids)),
                as_the_library_writes(item.at("decoded").at(i)))
          << item.at("name") << ": " << json(texts[i]);
    }
  }
}

}  // namespace
}  // namespace arenite::testing
