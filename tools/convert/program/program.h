// SPDX-License-Identifier: Apache-2.0
// A model as the writer takes it: ops over activation slots, tensors not yet packed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/masks/mask_compiler.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "core/packing.h"
#include "format/reader.h"

namespace arenite::convert {

struct ProgramOp {
  std::string name;
  format::OpView body;
};

struct ProgramTensor {
  std::string name;
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  std::vector<float> weights;  // [outputs, inputs]
  std::vector<float> bias;     // [outputs], or empty; none for rows
  format::Layout layout = format::Layout::kGemm;
  TensorType type = TensorType::kF32;
  // Where `weights` is empty: reads them when they are packed, so that one tensor at a time is in
  // memory. Throws InputError.
  std::function<std::vector<float>()> load = {};

  format::TensorShape shape() const { return {outputs, inputs, type, layout}; }
};

struct Program {
  std::string name;          // given by the person
  std::string architecture;  // what was recognised
  uint32_t positions_max = 0;
  uint32_t vocab_size = 0;  // 0: the input is features
  uint32_t input_slot = 0;
  uint32_t output_slot = 0;
  std::vector<format::SlotView> slots;  // offset, first_op and last_op are the planner's
  std::vector<ProgramOp> ops;
  std::vector<ProgramTensor> tensors;
  std::vector<format::CacheView> caches;
  std::vector<CompiledMask> masks;
  std::vector<format::HiddenStateView> hidden_states;
  std::vector<std::string> labels;         // of the columns given out, or none
  std::optional<TokenizerSpec> tokenizer;  // completed (tokenizer_compiler.h)
};

}  // namespace arenite::convert
