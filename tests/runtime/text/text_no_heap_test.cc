// SPDX-License-Identifier: Apache-2.0
// Text takes no heap: from a loaded model to the next token and back to text.
#include <gtest/gtest.h>

#include "arenite/sampler.h"
#include "arenite/text_stream.h"
#include "support/malloc_trap.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

// Encodes, samples and decodes, in a scope in which an allocation ends the process.
size_t live(const Model& model, std::string_view text, std::span<TokenId> ids,
            std::span<const float> logits, std::span<Candidate> scratch) {
  const NoHeapScope no_heap;
  Diagnostic why;
  const Result<Tokenizer> tokenizer = Tokenizer::of(model, &why);
  if (!tokenizer.ok()) return 0;
  const Result<size_t> count = tokenizer->encode(text, {.read_specials = true}, ids, &why);
  (void)tokenizer->encode(text, {}, ids.first(1), &why);
  (void)tokenizer->encode_pair(text.substr(0, 8), text.substr(8), {.tokens_max = 9}, ids, {}, &why);
  (void)tokenizer->find_special("<s>");
  const Result<Sampler> sampler = Sampler::create(
      {.repetition_penalty = 1.2f, .temperature = 0.8f, .top_k = 40, .top_p = 0.9f, .min_p = 0.01f},
      &why);
  if (!count.ok() || !sampler.ok()) return 0;
  Sampler copy = *sampler;
  TextStream stream(*tokenizer);
  size_t bytes = 0;
  for (int i = 0; i < 20; ++i) {
    const Result<TokenId> id = copy.sample(logits, ids.first(*count), scratch, &why);
    if (!id.ok()) return 0;
    const TextParts parts = stream.next(*id);
    bytes += parts.head.size() + parts.tail.size();
  }
  (void)copy.sample(logits, {}, scratch.first(1), &why);
  return bytes + stream.finish().head.size();
}

// The vocabulary has as many words as there are logits.
convert::TokenizerSpec many_words() {
  std::vector<std::string> words = {"a", "##b", "the"};
  for (int i = 0; i < 300; ++i) words.push_back("word" + std::to_string(i));
  return word_spec(words);
}

TEST(TextNoHeap, IsTouchedFromTextToTokensAndBack) {
  if (!NoHeapScope::traps_malloc()) GTEST_SKIP() << "this build cannot see calls of malloc";
  for (const convert::TokenizerSpec& spec : {byte_spec({" the", "abc"}, {{convert::kLlama3Split}}),
                                             piece_spec({" ", "a", "b"}, true), many_words()}) {
    const TestModel model(model_with(spec).span(), Target::kPortable);
    const std::string text = "the abc's 123 \xE6\x97\xA5 abcabcabc <s>";
    std::vector<TokenId> ids(encode_tokens_max(text.size()));
    std::vector<float> logits(300);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 17);
    std::vector<Candidate> scratch(40);
    EXPECT_GT(live(*model, text, ids, logits, scratch), 0u);
  }
}

}  // namespace
}  // namespace arenite::test
