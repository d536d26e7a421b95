// SPDX-License-Identifier: Apache-2.0
// Small decoders with random weights, made like the converter's: spec, program, file. The bytes are
// the same on every platform.
#ifndef ARENITE_TESTS_SUPPORT_DECODER_FACTORY_H_
#define ARENITE_TESTS_SUPPORT_DECODER_FACTORY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "arenite/token.h"
#include "convert/files/memory.h"
#include "convert/program/program.h"
#include "convert/spec/model_spec.h"
#include "support/model_factory.h"

namespace arenite::test {

struct DecoderShape {
  std::string name = "llama";
  uint32_t vocab_size = 37;
  uint32_t model_dim = 12;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 6;
  uint32_t rotary_dim = 6;  // 0: learned positions instead
  uint32_t ffn_dim = 20;
  uint32_t positions_max = 70;
  std::vector<uint32_t> windows = {0, 0};  // one for each layer; 0: none
  NormKind norm = NormKind::kRms;
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool bias = false;
  bool tied = false;             // the output projection is the token embedding
  bool parallel = false;         // attention and MLP read the same norm
  bool head_norms = false;       // of queries and keys
  double embedding_scale = 0.0;  // 0: none
  double soft_cap = 0.0;         // 0: none
  TensorType weights = TensorType::kF32;
  TensorType output = TensorType::kF32;  // and the embedding
  TensorType kv_cache = TensorType::kF32;

  // Whether activations are quantized to int8 at run time.
  bool rounds_rows() const {
    return weights == TensorType::kQ8 || weights == TensorType::kQ4 ||
           kv_cache == TensorType::kInt8;
  }
};

convert::TransformerSpec make_decoder(const DecoderShape& shape);
// Returns the graph after all passes, with weight types chosen.
convert::Graph decoder_graph(const DecoderShape& shape);
convert::Program decoder_program(const DecoderShape& shape);

// The model file, with the shape's name.
convert::AlignedBytes make_decoder_model(const DecoderShape& shape,
                                         const std::vector<Target>& targets = all_targets());

// One shape for each way in which decoders differ. All serve 70 positions, two pages with "ring".
std::vector<DecoderShape> all_decoders();
DecoderShape decoder_named(const std::string& name);

// One layer with as little of everything as there can be.
DecoderShape smallest_decoder();

// A window of 100 tokens in one layer of two, and a context of more than two pages of the cache.
DecoderShape ring_decoder();
DecoderShape int8_ring_decoder();  // the same with keys and values in int8

// Ids below the vocabulary, the same for the same seed.
std::vector<TokenId> random_ids(size_t count, uint32_t vocab_size, uint64_t seed = 5);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_SUPPORT_DECODER_FACTORY_H_
