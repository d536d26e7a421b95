// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of encoder sessions: the models, once per kernel set, and their inputs.
#ifndef ARENITE_TESTS_RUNTIME_ENCODER_FIXTURE_H_
#define ARENITE_TESTS_RUNTIME_ENCODER_FIXTURE_H_

#include <string>
#include <vector>

#include "runtime/session/session_fixture.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/random.h"
#include "support/reference_models.h"

namespace arenite::test {

// Positions that every encoder serves.
inline constexpr uint32_t kEncoderPositions = 70;

// Tokens of one sequence or several, as ids with their types or as features.
struct EncoderInput {
  std::vector<TokenId> ids;
  std::vector<uint8_t> types;
  std::vector<float> features;
  uint32_t features_per_token = 0;  // 0: ids

  // Tokens [begin, begin + count).
  EncoderInput part(size_t begin, size_t count) const {
    EncoderInput some;
    some.features_per_token = features_per_token;
    const auto cut = [](const auto& from, size_t first, size_t number) {
      const auto start = from.begin() + static_cast<ptrdiff_t>(first);
      return std::vector(start, start + static_cast<ptrdiff_t>(number));
    };
    if (!ids.empty()) some.ids = cut(ids, begin, count);
    if (!types.empty()) some.types = cut(types, begin, count);
    const size_t width = features_per_token;
    if (width != 0) some.features = cut(features, begin * width, count * width);
    return some;
  }

  void append(const EncoderInput& other) {
    ids.insert(ids.end(), other.ids.begin(), other.ids.end());
    types.insert(types.end(), other.types.begin(), other.types.end());
    features.insert(features.end(), other.features.begin(), other.features.end());
  }
};

// How a batch stands in the caller's memory; as Batch and TokenBatch.
struct BatchForm {
  uint32_t sequences = 1;
  uint32_t tokens = 0;
  std::vector<uint32_t> lengths = {};
  std::vector<uint8_t> visible = {};
  bool back_to_back = false;
};

inline Result<Output> run_batch(Session& session, const EncoderInput& input, const BatchForm& form,
                                Diagnostic* why = nullptr) {
  if (input.features_per_token != 0) {
    return session.run(Batch{input.features, form.sequences, form.tokens, form.lengths,
                             form.visible, form.back_to_back},
                       why);
  }
  return session.run(TokenBatch{input.ids, form.sequences, form.tokens, form.lengths, form.visible,
                                form.back_to_back, input.types},
                     why);
}

class EncoderTest : public testing::TestWithParam<Target> {
 protected:
  static TestModel load(const EncoderShape& shape) {
    return TestModel(make_encoder_model(shape, {GetParam()}).span(), GetParam());
  }
  static TestModel load(const std::string& name) { return load(encoder_named(name)); }

  static EncoderInput input_for(const EncoderShape& shape, size_t tokens, uint64_t seed = 5) {
    EncoderInput input;
    input.features_per_token = shape.input_features;
    Random random(seed + 1);
    if (shape.vocab_size == 0) {
      input.features.resize(tokens * shape.input_features);
      random.fill(input.features, 1.0f);
      return input;
    }
    input.ids = random_ids(tokens, shape.vocab_size, seed);
    for (size_t i = 0; i < tokens && shape.token_types != 0; ++i) {
      input.types.push_back(static_cast<uint8_t>(random.below(shape.token_types)));
    }
    return input;
  }

  static convert::Evaluation reference(const convert::TransformerSpec& spec,
                                       const EncoderInput& input) {
    if (spec.vocab_size == 0) return reference_encoder(spec, input.features);
    return reference_encoder(spec, input.ids, input.types);
  }

  // Returns the results of a sequence in a batch of its own.
  static std::vector<float> alone(const Model& model, const EncoderInput& input) {
    const TestSession session(model, options_for(kEncoderPositions));
    const size_t tokens = input.features_per_token != 0
                              ? input.features.size() / input.features_per_token
                              : input.ids.size();
    BatchForm form;
    form.tokens = static_cast<uint32_t>(tokens);
    return values_of(run_batch(*session, input, form));
  }
};

}  // namespace arenite::test

#endif  // ARENITE_TESTS_RUNTIME_ENCODER_FIXTURE_H_
