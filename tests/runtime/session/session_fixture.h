// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of sessions: the models, once per kernel set.
#ifndef ARENITE_TESTS_RUNTIME_SESSION_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_SESSION_FIXTURE_H_

#include <string>

#include "support/compare.h"
#include "support/kernel_sets.h"
#include "support/model_factory.h"
#include "support/test_session.h"

namespace arenite::test {

class SessionTest : public testing::TestWithParam<Target> {
 protected:
  TestModel load(const std::string& spec) const { return load(spec_named(spec)); }
  TestModel load(const ModuleSpec& spec) const {
    return TestModel(make_model(spec).span(), GetParam());
  }
  // [rows, input_features], the same for the same seed.
  static std::vector<float> features(const Model& model, size_t rows, uint64_t seed = 7) {
    return random_floats(rows * model.input_features(), seed);
  }
};

// Rows [begin, begin + count) of a dense matrix.
inline std::span<const float> rows(std::span<const float> matrix, size_t width, size_t begin,
                                   size_t count) {
  return matrix.subspan(begin * width, count * width);
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_SESSION_FIXTURE_H_
