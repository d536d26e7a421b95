// SPDX-License-Identifier: Apache-2.0
// Checks the message of a refused call, and that the session continues as if the call had not been
// made.
#ifndef ARENITE_TESTS_RUNTIME_FAILURE_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_FAILURE_FIXTURE_H_

#include <functional>
#include <string>
#include <vector>

#include "runtime/session/session_fixture.h"

namespace arenite::test {

struct Refusal {
  Status status;
  const char* field;
  uint32_t index = 0;
  uint64_t found = 0;
  uint64_t expected = 0;
};

inline void expect_refusal(const Refusal& refusal, Status status, const Diagnostic& why) {
  EXPECT_EQ(status, refusal.status);
  ASSERT_NE(why.reason, nullptr);
  EXPECT_STREQ(why.field, refusal.field) << why.reason;
  EXPECT_EQ(why.index, refusal.index) << why.reason;
  EXPECT_EQ(why.found, refusal.found) << why.reason;
  EXPECT_EQ(why.expected, refusal.expected) << why.reason;
}

// Expects that a call with `input`, which is too long, is refused.
template <typename T>
using FailingCall = std::function<Result<Output>(Session&, std::span<const T> input, Diagnostic*)>;

inline constexpr uint32_t kPositions = 20;
inline constexpr uint32_t kHeld = 12;
inline constexpr uint32_t kSequences = 2;
inline constexpr uint32_t kTokensMax = 30;

// Two sequences of kHeld tokens each; the call fails as expected; then both go on to
// kPositions with the bits of one pass. `tokens` are those of both, one after the other.
template <typename T>
void expect_failure_that_changes_nothing(const Model& model, SessionOptions options,
                                         const std::vector<T>& tokens, const std::vector<T>& input,
                                         const Refusal& refusal, const FailingCall<T>& call) {
  constexpr uint32_t kRest = kPositions - kHeld;
  const size_t in = tokens.size() / (kSequences * kPositions);
  const size_t out = model.output_features();
  const TestSession whole(model, options);
  const std::vector<float> all = whole.run(tokens, kSequences);
  options.tokens_max = kTokensMax;
  const TestSession session(model, options);
  session.run(tokens, kSequences, std::vector(kSequences, kHeld));

  Diagnostic why;
  const Status status = call(*session, input, &why).status();
  expect_refusal(refusal, status, why);

  std::vector<T> rest;
  for (uint32_t i = 0; i < kSequences; ++i) {
    EXPECT_EQ(session->positions(i), kHeld);
    const auto part = std::span(tokens).subspan((i * kPositions + kHeld) * in, kRest * in);
    rest.insert(rest.end(), part.begin(), part.end());
  }
  const std::vector<float> found = session.step(rest, kSequences);
  for (uint32_t i = 0; i < kSequences; ++i) {
    EXPECT_TRUE(same_bits(rows(found, out, i * kRest, kRest),
                          rows(all, out, i * kPositions + kHeld, kRest)));
  }
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_FAILURE_FIXTURE_H_
