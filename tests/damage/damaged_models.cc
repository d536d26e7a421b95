// SPDX-License-Identifier: Apache-2.0
// Each model has one target, portable C++, whose memory accesses sanitizers can check.
#include "damage/damaged_models.h"

#include <utility>

#include "convert/check/pack_model.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "runtime/session/functions_fixture.h"
#include "runtime/session/mixture_fixture.h"
#include "runtime/session/windows_fixture.h"
#include "support/decoder_factory.h"
#include "support/encoder_factory.h"
#include "support/model_factory.h"
#include "support/tokenizer_model.h"

namespace arenite::test {
namespace {

DamagedModel attention() {
  ModuleSpec spec;
  spec.name = "attention";
  spec.features = spec.output_features = spec.heads = 3;
  spec.head_dim = spec.value_dim = 2;
  spec.positions_max = 34;  // more than a tile
  spec.masks = {buffer_where(spec.positions_max,
                             [](uint32_t query, uint32_t key) {
                               return key <= query && key / 23 == query / 23;
                             }),
                buffer_where(spec.positions_max,
                             [](uint32_t query, uint32_t key) {
                               return key <= query && (query - key) % 2 == 0;
                             }),
                convert::band_mask(5, 0, spec.positions_max)};
  spec.head_masks = {0, 1, 2};
  return {spec.name, make_model(spec, {Target::kPortable})};
}

// Its windows are small and its context is longer than two pages of the cache, so there are rings.
DamagedModel decoder() {
  convert::TokenizerSpec tokenizer =
      piece_spec({" the", " t", "he", " ", "t", "h", "e", "a", "b", "ab", "\xC3\xA9"}, false);
  tokenizer.flags |= format::kPrefixEveryPart;
  DecoderShape shape = smallest_decoder();
  shape.name = "decoder";
  shape.vocab_size = static_cast<uint32_t>(tokenizer.tokens.size());
  shape.positions_max = 1050;
  shape.windows = {3, 40};
  shape.activation = Activation::kRelu;
  convert::complete_tokenizer(tokenizer);
  convert::Program program = decoder_program(shape);
  program.tokenizer = std::move(tokenizer);
  return {shape.name, convert::write_model(program, {Target::kPortable})};
}

DamagedModel encoder() {
  convert::TokenizerSpec tokenizer = word_spec({"the", "a", "##b", "##bc", "[", "\xE6\x97\xA5"});
  EncoderShape shape = smallest_encoder();
  shape.name = "encoder";
  shape.vocab_size = static_cast<uint32_t>(tokenizer.tokens.size());
  shape.layers = 2;
  shape.pooling = SelectKind::kFirst;
  shape.pooler = true;
  shape.class_activation = Activation::kSigmoid;
  convert::complete_tokenizer(tokenizer);
  convert::Program program = encoder_program(shape);
  program.tokenizer = std::move(tokenizer);
  return {shape.name, convert::write_model(program, {Target::kPortable})};
}

// Keys and values of features, which a text sees.
DamagedModel functions() {
  const convert::Program program = convert::compile(functions_graph({}), "functions");
  return {program.name, convert::write_model(program, {Target::kPortable})};
}

// Convolutions over pixels, and the largest of windows.
DamagedModel image() {
  const convert::Program program = convert::compile(image_graph(kPooledStem), "image");
  return {program.name, convert::write_model(program, {Target::kPortable})};
}

// Experts in q8.
DamagedModel experts() {
  const convert::Program program = convert::compile(mixture(TensorType::kQ8), "experts");
  return {program.name, convert::write_model(program, {Target::kPortable})};
}

}  // namespace

std::vector<DamagedModel> damaged_models() {
  std::vector<DamagedModel> models;
  models.push_back(attention());
  models.push_back(decoder());
  models.push_back(encoder());
  models.push_back(functions());
  models.push_back(image());
  models.push_back(experts());
  return models;
}

}  // namespace arenite::test
