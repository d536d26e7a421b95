// SPDX-License-Identifier: Apache-2.0
// Runs a converted model in this process, and says what it is fed: the same on every run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arenite/session.h"
#include "arenite/target.h"
#include "arenite/token.h"
#include "convert/check/converted_session.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"

namespace arenite::convert {

// A session of a file that was just converted, on one target. Whatever fails is a bug of the
// converter: std::logic_error.
class CheckSession {
 public:
  CheckSession(const AlignedBytes& file, Target target, uint32_t positions, Outputs outputs,
               KvType kv_cache = KvType::kOfModel);

  Session& session() { return *session_; }
  const Model& model() const { return model_; }

  // The rows that one sequence gives in one pass, [rows, features].
  std::vector<float> run(const Batch& batch);
  std::vector<float> run(const TokenBatch& batch);

  void reset() { session_->reset(); }
  // Feeds one token and throws unless its rows are `expected`, [rows, features], bit for bit.
  void step(std::span<const float> features, std::span<const float> expected);
  void step(TokenId id, std::span<const float> expected);

 private:
  // Throws where the call failed.
  std::vector<float> rows_of(const Result<Output>& output, const Diagnostic& why, const char* call,
                             uint64_t tokens, bool begins) const;

  Model model_;
  Outputs outputs_;
  ConvertedSession session_;
};

// Features that look like normalised activations: zero mean, unit variance.
std::vector<float> features_to_check(size_t count);

// So many ids spread over a vocabulary.
std::vector<TokenId> spread_tokens(uint32_t count, uint32_t vocab_size);

// `wanted` tokens, or a context's positions if these are fewer (0: any number), or more where a
// mask shows one of the queries nothing but later keys.
uint32_t token_count_for(uint32_t wanted, const Program& program);

// Types of tokens as a pair of texts has them, one half each; none for a model without types.
std::vector<uint8_t> types_to_check(uint32_t count, uint32_t token_types);

}  // namespace arenite::convert
