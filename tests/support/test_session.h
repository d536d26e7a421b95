// SPDX-License-Identifier: Apache-2.0
// Models and sessions in guarded memory. A failure here is not the subject of a test, so it throws.
#ifndef ARENITE_TESTS_SUPPORT_TEST_SESSION_H_
#define ARENITE_TESTS_SUPPORT_TEST_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arenite/session.h"
#include "support/guarded_buffer.h"

namespace arenite::test {

// "invalid argument: ..." as describe writes it.
std::string describe(Status status, const Diagnostic& why);

// A copy of a model file next to a guard page, loaded for one target.
class TestModel {
 public:
  TestModel(std::span<const std::byte> file, Target target, Guard guard = Guard::kBehind);

  const Model& operator*() const { return model_; }
  const Model* operator->() const { return &model_; }
  const GuardedBuffer& memory() const { return memory_; }

 private:
  GuardedBuffer memory_;
  Model model_;
};

// A session in an arena of exactly the planned size next to a guard page. Before create the arena
// is full of 0xFF, as a float not a number, or of another byte: NaN leads some ops to a way of
// their own, which is right where a number would not be.
class TestSession {
 public:
  TestSession(const Model& model, const SessionOptions& options, Guard guard = Guard::kBehind,
              uint8_t fill = 0xFF);

  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_; }
  const GuardedBuffer& arena() const { return arena_; }

  // Copies of what the session puts out. `features` are [sequences, tokens, input_features].
  std::vector<float> run(std::span<const float> features, uint32_t sequences = 1,
                         std::span<const uint32_t> lengths = {}) const;
  std::vector<float> step(std::span<const float> features, uint32_t sequences = 1,
                          std::span<const uint32_t> lengths = {}) const;
  // Feeds one sequence `tokens` at a time.
  std::vector<float> steps_of(uint32_t tokens, std::span<const float> features) const;

  // For models that read tokens; `ids` are [sequences, tokens].
  std::vector<float> run(std::span<const TokenId> ids, uint32_t sequences = 1,
                         std::span<const uint32_t> lengths = {}) const;
  std::vector<float> step(std::span<const TokenId> ids, uint32_t sequences = 1,
                          std::span<const uint32_t> lengths = {}) const;
  std::vector<float> steps_of(uint32_t tokens, std::span<const TokenId> ids) const;

 private:
  Batch batch(std::span<const float> features, uint32_t sequences,
              std::span<const uint32_t> lengths) const;

  GuardedBuffer arena_;
  uint32_t input_features_;
  Session* session_ = nullptr;
};

// The values of an output that must be there.
std::vector<float> values_of(const Result<Output>& output, const Diagnostic& why = {});

SessionOptions options_for(uint32_t positions_max, uint32_t sequences_max = 1);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_TEST_SESSION_H_
