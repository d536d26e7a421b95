// SPDX-License-Identifier: Apache-2.0
// Text through the C interface: the same tokens, text and choices as through C++.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "arenite/arenite_text.h"
#include "arenite/sampler.h"
#include "arenite/text_stream.h"
#include "support/random.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

class CText : public testing::Test {
 protected:
  explicit CText(const convert::TokenizerSpec& spec = word_spec({"a", "cat", "##s", "sat"}))
      : file_(model_with(spec)), cpp_(spec) {
    arenite_model model;
    EXPECT_EQ(arenite_model_load(&model, file_.data(), file_.size(), nullptr, nullptr), ARENITE_OK);
    EXPECT_EQ(arenite_tokenizer_init(&c_, &model, nullptr), ARENITE_OK);
  }

  convert::AlignedBytes file_;
  TestTokenizer cpp_;
  arenite_tokenizer c_ = ARENITE_TOKENIZER_INIT;
};

std::string string_of(const arenite_text& text) { return std::string(text.data, text.bytes); }

TEST_F(CText, VocabularyIsTheSame) {
  ASSERT_EQ(arenite_tokenizer_vocab_size(&c_), cpp_->vocab_size());
  EXPECT_EQ(arenite_tokenizer_bos(&c_), cpp_->bos());
  EXPECT_EQ(arenite_tokenizer_end(&c_), cpp_->end());
  EXPECT_EQ(arenite_tokenizer_expects_nfc(&c_), cpp_->expects_nfc());
  for (TokenId id = 0; id <= cpp_->vocab_size(); ++id) {
    EXPECT_EQ(arenite_tokenizer_is_end(&c_, id), cpp_->is_end(id)) << id;
    EXPECT_EQ(arenite_tokenizer_is_special(&c_, id), cpp_->is_special(id)) << id;
    EXPECT_EQ(string_of(arenite_tokenizer_token_bytes(&c_, id)), cpp_->token_bytes(id)) << id;
  }
  EXPECT_EQ(arenite_tokenizer_find_special(&c_, "[SEP]", 5), cpp_->find_special("[SEP]"));
  EXPECT_EQ(arenite_tokenizer_find_special(&c_, "[NOT]", 5), ARENITE_NO_TOKEN);
}

TEST_F(CText, EncodesTheSameTokens) {
  const std::string text = "A cat sat cats";
  uint32_t ids[ARENITE_ENCODE_TOKENS_MAX(14)];
  size_t count = 0;
  arenite_encode_options options = ARENITE_ENCODE_OPTIONS_INIT;
  ASSERT_EQ(arenite_tokenizer_encode(&c_, text.data(), text.size(), &options, ids, std::size(ids),
                                     &count, nullptr),
            ARENITE_OK);
  EXPECT_EQ(std::vector(ids, ids + count), cpp_.encode(text));
  options.add_bos_and_end = false;
  ASSERT_EQ(arenite_tokenizer_encode(&c_, text.data(), text.size(), &options, ids, std::size(ids),
                                     &count, nullptr),
            ARENITE_OK);
  EXPECT_EQ(std::vector(ids, ids + count), cpp_.encode_bare(text));

  arenite_diagnostic why;
  count = 77;
  EXPECT_EQ(arenite_tokenizer_encode(&c_, text.data(), text.size(), nullptr, ids,
                                     std::size(ids) - 1, &count, &why),
            ARENITE_INVALID_ARGUMENT);
  EXPECT_NE(why.reason, nullptr);
  EXPECT_EQ(count, 77u) << "a failed call changes nothing";
}

TEST_F(CText, EncodesPairsWithTypes) {
  const std::string first = "a cat", second = "sat";
  std::vector<TokenId> expected(encode_tokens_max(8));
  std::vector<uint8_t> expected_types(encode_tokens_max(8));
  const auto expected_count = cpp_->encode_pair(first, second, {}, expected, expected_types);
  ASSERT_TRUE(expected_count.ok());
  expected.resize(*expected_count);
  expected_types.resize(*expected_count);

  uint32_t ids[ARENITE_ENCODE_TOKENS_MAX(8)];
  uint8_t types[10];
  size_t count = 0;
  arenite_encode_options options = ARENITE_ENCODE_OPTIONS_INIT;
  options.tokens_max = std::size(types);
  ASSERT_EQ(arenite_tokenizer_encode_pair(&c_, first.data(), first.size(), second.data(),
                                          second.size(), &options, ids, std::size(ids), types,
                                          std::size(types), &count, nullptr),
            ARENITE_OK);
  EXPECT_EQ(std::vector(ids, ids + count), expected);
  EXPECT_EQ(std::vector(types, types + count), expected_types);
  ASSERT_EQ(
      arenite_tokenizer_encode_pair(&c_, first.data(), first.size(), second.data(), second.size(),
                                    nullptr, ids, std::size(ids), nullptr, 0, &count, nullptr),
      ARENITE_OK);
  EXPECT_EQ(count, expected.size());
}

class CByteText : public CText {
 protected:
  CByteText() : CText(byte_spec({"sun"})) {}
};

// A stream is plain bytes and may be copied.
TEST_F(CByteText, StreamsWholeCharacters) {
  arenite_text_stream stream;
  arenite_text_stream_init(&stream, &c_, nullptr);
  const std::vector<TokenId> ids = cpp_.encode_bare("sun\xC3\xA9\xE2\x82");
  std::string text;
  for (const TokenId id : ids) {
    arenite_text_stream copy = stream;
    const arenite_text_parts parts = arenite_text_stream_next(&copy, id);
    text += string_of(parts.head) + string_of(parts.tail);
    stream = copy;
  }
  EXPECT_EQ(text, "sun\xC3\xA9");
  const arenite_text_parts rest = arenite_text_stream_finish(&stream);
  EXPECT_EQ(string_of(rest.head) + string_of(rest.tail), "\xE2\x82");
}

// The work space may begin anywhere, and is used to its last byte at most.
TEST(CStopStrings, EndTheSameTextsAtTheSamePlaces) {
  const std::vector<std::string_view> stops = {"abba", "aab", "", "ba!"};
  std::vector<arenite_text> c_stops;
  for (const std::string_view stop : stops) c_stops.push_back({stop.data(), stop.size()});
  const size_t bytes = arenite_stop_strings_bytes_needed(c_stops.data(), c_stops.size());
  EXPECT_EQ(bytes, alignof(std::string_view) - 1 + stops.size() * sizeof(std::string_view) +
                       StopStrings::bytes_needed(stops));
  Random random(7);
  for (size_t round = 0; round < 200; ++round) {
    std::vector<char> cpp_space(StopStrings::bytes_needed(stops));
    StopStrings cpp(stops, cpp_space);
    std::vector<char> space(bytes + round % 16);
    arenite_stop_strings c;
    arenite_stop_strings_init(&c, c_stops.data(), c_stops.size(), space.data() + round % 16, bytes);
    for (size_t piece = 0; piece < 6; ++piece) {
      std::string text(random.below(4), 'a');
      for (char& byte : text) byte = "ab!"[random.below(3)];
      const TextParts expected = cpp.next(text);
      const arenite_text_parts parts = arenite_stop_strings_next(&c, text.data(), text.size());
      EXPECT_EQ(string_of(parts.head), expected.head);
      EXPECT_EQ(string_of(parts.tail), expected.tail);
      EXPECT_EQ(arenite_stop_strings_stopped(&c), cpp.stopped());
    }
    EXPECT_EQ(string_of(arenite_stop_strings_finish(&c)), cpp.finish());
    EXPECT_FALSE(arenite_stop_strings_stopped(&c));
  }
  EXPECT_EQ(arenite_stop_strings_bytes_needed(nullptr, 0), alignof(std::string_view) - 1);
}

TEST(CSampler, PicksTheSameTokens) {
  const std::vector<float> logits = {0.5f, 2.0f, 1.5f, -1.0f, 1.9f};
  const std::vector<TokenId> recent = {1};
  SamplerOptions cpp_options;
  cpp_options.repetition_penalty = 1.2f;
  cpp_options.temperature = 0.8f;
  cpp_options.top_k = 4;
  cpp_options.top_p = 0.95f;
  cpp_options.min_p = 0.01f;
  cpp_options.seed = 11;
  Sampler cpp = *Sampler::create(cpp_options);
  const arenite_sampler_options options = {1.2f, 0.8f, 4, 0.95f, 0.01f, 11};
  arenite_sampler sampler;
  ASSERT_EQ(arenite_sampler_init(&sampler, &options, nullptr), ARENITE_OK);
  ASSERT_EQ(arenite_sampler_candidates_needed(&sampler, logits.size()), 4u);
  arenite_candidate scratch[4];
  Candidate cpp_scratch[4];
  for (int i = 0; i < 50; ++i) {
    uint32_t token = ARENITE_NO_TOKEN;
    ASSERT_EQ(arenite_sampler_sample(&sampler, logits.data(), logits.size(), recent.data(), 1,
                                     scratch, 4, &token, nullptr),
              ARENITE_OK);
    ASSERT_EQ(token, *cpp.sample(logits, recent, cpp_scratch)) << i;
  }
  EXPECT_EQ(arenite_sampler_draws(&sampler), 50u);
  arenite_sampler_set_draws(&sampler, 3);
  EXPECT_EQ(arenite_sampler_draws(&sampler), 3u);
}

TEST(CSampler, RefusesOptionsOutOfRange) {
  arenite_sampler_options options = ARENITE_SAMPLER_OPTIONS_INIT;
  arenite_sampler sampler;
  arenite_diagnostic why;
  EXPECT_EQ(arenite_sampler_init(&sampler, &options, &why), ARENITE_OK);
  EXPECT_EQ(why.reason, nullptr);
  options.top_p = 0.0f;
  EXPECT_EQ(arenite_sampler_init(&sampler, &options, &why), ARENITE_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(why.field, "top_p"), nullptr);
}

}  // namespace
}  // namespace arenite::test
