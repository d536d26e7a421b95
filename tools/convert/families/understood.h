// SPDX-License-Identifier: Apache-2.0
// A state dict's model as it is understood, before its weights are taken: names, sizes, and what no
// tensor says.
#pragma once

#include <cstdint>
#include <optional>

#include "convert/families/part_names.h"
#include "convert/families/state_dicts.h"
#include "convert/spec/model_tensors.h"

namespace arenite::convert {

// A program that state dicts come from, known by a part of its layers.
struct Program {
  const char* name;          // for people
  const char* architecture;  // in model files
  const char* key;           // the end of a tensor's name
  const char* published;     // what it computes as its author published it, as options
  bool is_torch = false;     // around torch.nn.TransformerEncoder, which says nothing of masks
  // Gains are of (x - mean) / (deviation + epsilon), and the deviation is that of a sample.
  bool has_sample_norm = false;
};

// A language model gives logits of its vocabulary for each token: a decoder. Others are encoders.
struct Understood {
  LayerNames layers;
  OuterNames outer;
  Program program;
  bool is_decoder = false;

  uint32_t model_dim = 0, ffn_dim = 0, heads = 0;
  uint32_t vocab_size = 0;     // 0: it reads features
  uint32_t positions_max = 0;  // 0: any number
  Activation activation = Activation::kGeluErf;
  bool norm_first = true;
  NormKind norm_kind = NormKind::kLayer;
  double epsilon = 0.0;
  BandChoice mask;
  std::optional<double> score_scale;  // nullopt: 1/sqrt(head_dim)
  double embedding_scale = 1.0;
  RopeChoice rope_choice = RopeChoice::kNone;
  double rope_theta = 0.0;
  FusedOrder fused_order;
  std::optional<PoolingChoice> pooling;

  bool has_tokens() const { return !outer.tokens.empty(); }
  bool is_fused() const { return !layers.fused.empty(); }
};

// Puts all questions to `answers`. Masks in buffers are taken. Throws InputError, MissingAnswers
// among them.
Understood understand(ModelTensors& tensors, TrainingFacts& facts, StateDictAnswers& answers,
                      LayerNames layers, OuterNames outer);

// A buffer of radians per position; nullptr: there is none.
const StoredTensor* find_frequencies(const ModelTensors& tensors);

}  // namespace arenite::convert
