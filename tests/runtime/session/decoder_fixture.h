// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of decoder sessions: the models, once per kernel set.
#ifndef ARENITE_TESTS_RUNTIME_DECODER_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_DECODER_FIXTURE_H_

#include <string>
#include <vector>

#include "runtime/session/session_fixture.h"
#include "support/decoder_factory.h"
#include "support/slow_builds.h"

namespace arenite::test {

// Positions that every decoder serves.
inline constexpr uint32_t kDecoderPositions = 70;

// Positions that ring_decoder() is given: its ring of two pages wraps around, in an emulator once.
inline constexpr uint32_t kRingDecoderPositions = 2 * kPagePositions + (kEmulated ? 300 : 1324);

class DecoderTest : public testing::TestWithParam<Target> {
 protected:
  static TestModel load(const DecoderShape& shape) {
    return TestModel(make_decoder_model(shape, {GetParam()}).span(), GetParam());
  }
  static TestModel load(const std::string& name) { return load(decoder_named(name)); }
  static std::vector<TokenId> ids(const Model& model, size_t count, uint64_t seed = 5) {
    return random_ids(count, model.vocab_size(), seed);
  }
};

inline SessionOptions all_outputs(SessionOptions options) {
  options.outputs = Outputs::kAll;
  return options;
}

// Returns elements [begin, begin + count).
inline std::span<const TokenId> part(std::span<const TokenId> ids, size_t begin, size_t count) {
  return ids.subspan(begin, count);
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_DECODER_FIXTURE_H_
