// SPDX-License-Identifier: Apache-2.0
// Runs decoders with published or precomputed results through a session.
#ifndef ARENITE_TESTS_GOLDEN_DECODER_CASE_H_
#define ARENITE_TESTS_GOLDEN_DECODER_CASE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "arenite/tokenizer.h"
#include "convert/files/memory.h"
#include "support/test_session.h"

namespace arenite::test {

// A decoder converted for one target. Its tokenizer is the file `tokenizer`, or the one in the
// model's folder if there is any.
class DecoderCase {
 public:
  // Takes a file that was converted already.
  DecoderCase(std::span<const std::byte> file, Target target) : model_(file, target) {}
  DecoderCase(const std::filesystem::path& model, Target target,
              const std::filesystem::path& tokenizer = {});

  const Model& model() const { return *model_; }

  // With the tokens that begin and end a text, as the model was trained.
  std::vector<TokenId> encode(const std::string& text) const;
  std::string decode(std::span<const TokenId> ids) const;

 private:
  convert::AlignedBytes file_;
  TestModel model_;
};

// Results of one sequence, rows in the order of its tokens.
struct DecoderRun {
  std::vector<float> logits;                      // [tokens, vocabulary]
  std::vector<std::vector<float>> hidden_states;  // layers + 1 times [tokens, model_dim]
};

// Feeds the tokens `chunk` at a time into a session that holds just them.
DecoderRun run_in_chunks(const Model& model, std::span<const TokenId> ids, uint32_t chunk);

// The token of the largest logit, the first one of several.
TokenId best_token(std::span<const float> logits);

// Returns the prompt and the model's greedy continuation, up to `tokens_max` ids in all or to a
// token of `ends`, which is not included.
std::vector<TokenId> continue_greedily(const Model& model, std::vector<TokenId> prompt,
                                       size_t tokens_max, std::span<const TokenId> ends = {});

// Sum of -log p of each token but the first.
double negative_log_likelihood(const Model& model, std::span<const TokenId> ids);

nlohmann::json read_json(const std::filesystem::path& file);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_GOLDEN_DECODER_CASE_H_
