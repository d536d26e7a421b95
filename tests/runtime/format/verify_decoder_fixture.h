// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of the verifier on decoders: two valid programs, to be changed in one place.
#ifndef ARENITE_TESTS_RUNTIME_VERIFY_DECODER_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_VERIFY_DECODER_FIXTURE_H_

#include <string>

#include "runtime/format/verify_fixture.h"
#include "support/decoder_factory.h"

namespace arenite::test {

// Slots: 0 residual (12), 1 normed, 2 queries, keys and values (36 + 12), 3 context (24), ...; 9
// selected and 10 logits have rows of outputs. Layer 0 has a window of 20.
enum Op : uint32_t {
  kEmbedding,
  kAttentionNorm,
  kQkv,
  kRope,
  kAttention,
  kOutput,
  kAttentionAdd,
  kMlpNorm,
  kGateUp,
  kActivation,
  kDown,
  kMlpAdd,
  kFinalNorm,
  kSelect,
  kLogits,
  kSoftCap,
};

inline DecoderShape gated_shape() {
  DecoderShape shape;
  shape.windows = {20};
  shape.soft_cap = 5.0;
  return shape;
}

// Layer norms and learned positions.
inline DecoderShape learned_shape() {
  DecoderShape shape = decoder_named("gpt2");
  shape.windows = {0};
  return shape;
}

inline format::OpView& op(convert::Program& program, uint32_t index) {
  return program.ops[index].body;
}

inline uint32_t tensor_of(const convert::Program& program, const std::string& name) {
  uint32_t index = 0;
  while (program.tensors.at(index).name != name) ++index;
  return index;
}

inline void set_tensor(convert::Program& program, const std::string& name, uint32_t outputs,
                       uint32_t inputs, format::Layout layout = format::Layout::kPlain) {
  convert::ProgramTensor& tensor = program.tensors[tensor_of(program, name)];
  tensor.outputs = outputs;
  tensor.inputs = inputs;
  tensor.layout = layout;
  tensor.weights.assign(size_t{outputs} * inputs, 1.0f);
}

inline void expect_decoder_refusal(const ProgramRule& rule, const DecoderShape& shape) {
  convert::Program program = decoder_program(shape);
  rule.break_it(program);
  expect_refusal(write_model(program, {Target::kPortable, Target::kArm64}).span(), rule.expected);
}

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_VERIFY_DECODER_FIXTURE_H_
