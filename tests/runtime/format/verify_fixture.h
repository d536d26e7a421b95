// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the verifier: one valid model, to be changed in one place.
#ifndef ARENITE_TESTS_RUNTIME_VERIFY_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_VERIFY_FIXTURE_H_

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "convert/modules/attention_modules.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "support/model_factory.h"
#include "support/model_surgery.h"
#include "support/test_session.h"

namespace arenite::test {

// The expected contents of a refusal. `words` is a part of the reason.
struct Expected {
  const char* field;
  const char* words;
  uint32_t index = 0;
  std::optional<std::pair<uint64_t, uint64_t>> numbers{};  // found, expected; where they matter
  Status status = Status::kBadModel;
};

inline void expect_refusal(std::span<const std::byte> file, const Expected& expected) {
  Diagnostic why;
  const Status status = Model::load(file, &why).status();
  EXPECT_EQ(status, expected.status) << describe(status, why);
  ASSERT_NE(why.field, nullptr) << describe(status, why);
  EXPECT_STREQ(why.field, expected.field) << describe(status, why);
  EXPECT_NE(std::string(why.reason).find(expected.words), std::string::npos)
      << describe(status, why);
  EXPECT_EQ(why.index, expected.index) << describe(status, why);
  if (!expected.numbers) return;
  EXPECT_EQ(why.found, expected.numbers->first) << describe(status, why);
  EXPECT_EQ(why.expected, expected.numbers->second) << describe(status, why);
}

// A rule of the verifier, and a change that violates this rule and none before it.
template <typename Subject>
struct Rule {
  const char* name;  // of the test
  std::function<void(Subject&)> break_it;
  Expected expected;
};

template <typename Subject>
std::string rule_name(const testing::TestParamInfo<Rule<Subject>>& info) {
  return info.param.name;
}

using ProgramRule = Rule<convert::Program>;
using FileRule = Rule<ModelSurgery>;

// Slots: 0 input (6), 1 query, key and value (26), 2 context (6), 3 output (4).
// Ops: 0 qkv, 1 attention, 2 output. Tensors: 0 qkv, 1 output.
inline convert::Program sound_program(const std::string& spec = "causal") {
  return compile(build_graph(make_module(spec_named(spec))), spec);
}

// `file` is sound.
inline void expect_file_refusal(const FileRule& rule, ModelSurgery file) {
  rule.break_it(file);
  file.repair();
  expect_refusal(file.file(), rule.expected);
}

inline void expect_program_refusal(const ProgramRule& rule, const std::string& spec) {
  convert::Program program = sound_program(spec);
  rule.break_it(program);
  expect_refusal(write_model(program, {Target::kPortable, Target::kArm64}).span(), rule.expected);
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_VERIFY_FIXTURE_H_
