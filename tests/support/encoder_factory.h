// SPDX-License-Identifier: Apache-2.0
// Small encoders with random weights, made like the converter's: spec, program, file. The bytes are
// the same on every platform.
#ifndef ARENITE_TESTS_SUPPORT_ENCODER_FACTORY_H_
#define ARENITE_TESTS_SUPPORT_ENCODER_FACTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/files/memory.h"
#include "convert/program/program.h"
#include "convert/spec/model_spec.h"
#include "support/model_factory.h"

namespace arenite::test {

struct EncoderShape {
  std::string name = "bert";
  uint32_t vocab_size = 41;     // 0: features
  uint32_t input_features = 0;  // of features
  uint32_t token_types = 2;     // 0: none
  uint32_t embedding_dim = 12;  // other than model_dim: projected, as ELECTRA's
  uint32_t model_dim = 12;
  uint32_t heads = 3;
  uint32_t ffn_dim = 20;
  uint32_t layers = 2;
  uint32_t positions_max = 70;
  uint32_t position_offset = 0;
  std::optional<uint32_t> padding_id{};  // not counted in positions
  bool positions = true;                 // learned
  bool norm_first = false;
  Activation activation = Activation::kGeluErf;
  SelectKind pooling = SelectKind::kAsAsked;
  std::vector<SelectKind> more_pooling{};
  bool language_head = false;  // logits of the vocabulary, by the token embedding
  bool pooler = false;         // a square layer with tanh
  uint32_t classes = 0;        // 0: no classifier
  std::optional<Activation> class_activation{};
  bool normalize = false;
  bool causal = false;
  uint32_t window = 0;       // keys that a query sees before it, itself included; 0: all
  uint32_t array_flags = 0;  // of format::ArrayFlag
};

convert::TransformerSpec make_encoder(const EncoderShape& shape);
convert::Program encoder_program(const EncoderShape& shape);

// The model file, with the shape's name.
convert::AlignedBytes make_encoder_model(const EncoderShape& shape,
                                         const std::vector<Target>& targets = all_targets());

// One shape for each way in which encoders differ. All serve 70 positions.
std::vector<EncoderShape> all_encoders();
EncoderShape encoder_named(const std::string& name);

// One layer with as little of everything as there can be; for tests that damage every byte.
EncoderShape smallest_encoder();

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_ENCODER_FACTORY_H_
