// SPDX-License-Identifier: Apache-2.0
// The runtime's program of a model, as the writer takes it: ops over activation slots, tensors not
// yet packed. Weights are read when the writer packs them: the program keeps only how. They are
// those that the file holds (weights.h), so that nothing is left to be multiplied in.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/graph/graph.h"
#include "convert/masks/masks.h"
#include "convert/quantize/quantizers.h"
#include "convert/sound/sound_parameters.h"
#include "convert/tokenizers/tokenizer_spec.h"
#include "core/cache_layout.h"
#include "core/packing.h"
#include "core/views.h"
#include "core/windows.h"
#include "format/op_table.h"
#include "format/reader.h"
#include "format/tokenizer_reader.h"

namespace arenite::convert {

struct AttentionParts {
  // Without query and key the mask alone decides; without key and value what is stored is read.
  format::ColumnView query, key, value, output;
  uint32_t cache = 0;
  uint32_t mask = 0;
  uint32_t terms = format::kAbsent;  // a tensor
  ScoreTerms terms_by = ScoreTerms::kSlopes;
  uint32_t sinks = format::kAbsent;  // a tensor
  float score_cap = 0.0f;
};

struct EmbeddingParts {
  uint32_t tokens = format::kAbsent;  // tensors
  uint32_t positions = format::kAbsent;
  uint32_t types = format::kAbsent;
  uint32_t position_offset = 0;
  uint32_t padding_id = format::kAbsent;
  float scale = 1.0f;
};

struct NormParts {
  NormKind kind = NormKind::kLayer;
  uint32_t groups = 1;
  uint32_t gain = format::kAbsent;  // tensors
  uint32_t bias = format::kAbsent;
  float epsilon = 0.0f;
};

// The records of ops (format/op_table.h), from arguments with names.
inline format::OpView linear_op(const format::ColumnView& input, const format::ColumnView& output,
                                uint32_t tensor) {
  return {format::OpKind::kLinear, {input, {}, {}, output}, {tensor}, {}};
}

inline format::OpView attention_op(const AttentionParts& parts) {
  return {
      format::OpKind::kAttention,
      {parts.query, parts.key, parts.value, parts.output},
      {parts.cache, parts.mask, parts.terms, static_cast<uint32_t>(parts.terms_by), parts.sinks},
      {parts.score_cap}};
}

inline format::OpView store_op(const format::ColumnView& key, const format::ColumnView& value,
                               uint32_t cache) {
  return {format::OpKind::kStore, {{}, key, value, {}}, {cache}, {}};
}

inline format::OpView embedding_op(const format::ColumnView& output, const EmbeddingParts& parts) {
  return {format::OpKind::kEmbedding,
          {{}, {}, {}, output},
          {parts.tokens, parts.positions, parts.types, parts.position_offset, parts.padding_id},
          {parts.scale}};
}

inline format::OpView norm_op(const format::ColumnView& input, const format::ColumnView& output,
                              const NormParts& parts) {
  return {format::OpKind::kNorm,
          {input, {}, {}, output},
          {static_cast<uint32_t>(parts.kind), parts.groups, parts.gain, parts.bias},
          {parts.epsilon}};
}

inline format::OpView rope_op(const format::ColumnView& input, const format::ColumnView& output,
                              uint32_t heads, uint32_t angles) {
  return {format::OpKind::kRope, {input, {}, {}, output}, {heads, angles}, {}};
}

inline format::OpView activation_op(Activation kind, float parameter,
                                    const format::ColumnView& input,
                                    const format::ColumnView& factor,
                                    const format::ColumnView& output) {
  return {format::OpKind::kActivation,
          {input, factor, {}, output},
          {static_cast<uint32_t>(kind)},
          {parameter}};
}

inline format::OpView sum_op(const format::ColumnView& input, const format::ColumnView& other,
                             const format::ColumnView& output) {
  return {format::OpKind::kAdd, {input, other, {}, output}, {}, {}};
}

inline format::OpView select_op(const format::ColumnView& input, const format::ColumnView& output,
                                SelectKind kind) {
  return {format::OpKind::kSelect, {input, {}, {}, output}, {static_cast<uint32_t>(kind)}, {}};
}

inline format::OpView join_op(const format::ColumnView& first, const format::ColumnView& second,
                              const format::ColumnView& output) {
  return {format::OpKind::kJoin, {first, second, {}, output}, {}, {}};
}

// A number of windows: of an image a half for lines and one for columns.
inline uint32_t window_number(const Windows& windows, uint32_t columns, uint32_t WindowAxis::*of) {
  return windows.lines.*of | (columns == 0 ? 0 : windows.columns.*of << 16);
}

// `columns` are those that a window sees of an image, 0 of other rows.
inline format::OpView convolution_op(const format::ColumnView& input,
                                     const format::ColumnView& output, uint32_t tensor,
                                     const Windows& windows, uint32_t columns) {
  return {format::OpKind::kConvolution,
          {input, {}, {}, output},
          {tensor, window_number(windows, columns, &WindowAxis::dilation),
           window_number(windows, columns, &WindowAxis::before), columns},
          {}};
}

inline format::OpView depthwise_op(const format::ColumnView& input,
                                   const format::ColumnView& output, uint32_t kernel, uint32_t bias,
                                   const Windows& windows, uint32_t columns) {
  return {format::OpKind::kDepthwise,
          {input, {}, {}, output},
          {kernel, window_number(windows, columns, &WindowAxis::dilation),
           window_number(windows, columns, &WindowAxis::before), columns, bias},
          {}};
}

inline format::OpView max_pool_op(const format::ColumnView& input, const format::ColumnView& output,
                                  const Windows& windows, uint32_t columns) {
  return {format::OpKind::kMaxPool,
          {input, {}, {}, output},
          {windows.kernel(), window_number(windows, columns, &WindowAxis::dilation),
           window_number(windows, columns, &WindowAxis::before), columns},
          {}};
}

struct ProgramOp {
  std::string name;
  format::OpView body;
};

struct ProgramTensor {
  std::string name;
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  std::vector<float> weights = {};  // [outputs, inputs]
  std::vector<float> bias = {};     // [outputs], or empty; none for rows
  format::Layout layout = format::Layout::kGemm;
  TensorType type = TensorType::kF32;
  // Where `weights` is empty: reads them when they are packed, so that one tensor at a time is in
  // memory. Throws InputError.
  std::function<std::vector<float>()> load = {};
  // Of every type but float32, instead: the numbers as they are stored.
  std::function<QuantizedMatrix()> load_quantized = {};
  // Instead of all these, the bias too: where they lie in a model file.
  std::optional<WeightView> packed = {};

  format::TensorShape shape() const { return {outputs, inputs, type, layout}; }
};

struct ProgramInput : format::InputView {
  std::string name;
};

// From its first op to that of the next function, or to the end.
struct ProgramFunction {
  std::string name = "run";
  uint32_t first_op = 0;
  uint32_t inputs = 1;  // bit set of those that it takes
  uint32_t output_slot = 0;
};

struct Program {
  std::string producer;      // of the file that it was read from; empty: none
  std::string name;          // given by the person
  std::string architecture;  // what was recognised
  std::vector<ProgramInput> inputs = std::vector<ProgramInput>(1);
  std::vector<ProgramFunction> functions = std::vector<ProgramFunction>(1);
  TensorType kv_cache = TensorType::kF32;  // of sessions that do not say
  uint32_t array_flags = 0;                // of ArrayFlag
  std::vector<uint32_t> output_shape;      // as Graph has it
  std::vector<std::string> arrays;         // as Model.arrays has them
  std::vector<Axis> axes = {{}};           // what rows slots have; the first is that of input 0
  std::vector<format::SlotView> slots;     // offset, first_op and last_op are place_slots'
  std::vector<ProgramOp> ops;
  std::vector<ProgramTensor> tensors;
  std::vector<format::CacheView> caches;
  std::vector<CompiledMask> masks;
  std::vector<format::HiddenStateView> hidden_states;
  std::vector<std::string> labels;         // of the columns given out, or none
  std::optional<TokenizerSpec> tokenizer;  // completed (complete_tokenizer)
  // Instead, the tokenizer of a model file, where it lies.
  std::optional<format::TokenizerView> stored_tokenizer;
  std::optional<SoundTable> sound;  // that the features of input 0 are made of

  // Each returns the number of what it adds.
  uint32_t add_slot(uint32_t width, uint32_t axis = 0);
  uint32_t add_tensor(ProgramTensor tensor);
  uint32_t add_vector(const std::string& tensor_name, std::vector<float> values);
  // The first rows of a matrix, not packed.
  uint32_t add_table(const WeightRef& weight, uint32_t rows, TensorType type = TensorType::kF32);
  // The rows of all parts below one another, with the bias of those that have one.
  uint32_t add_matrix(const std::string& tensor_name, const std::vector<LinearPart>& parts);
  uint32_t add_cache(const CacheShape& shape, uint32_t lookback, uint32_t axis = 0);

  // The axis whose rows an op goes along, block by block or at once.
  uint32_t axis_of_op(uint32_t index) const {
    const uint32_t axis = slots[format::rows_of(ops[index].body).slot].axis;
    return axes[axis].kind == AxisKind::kBlocks ? axes[axis].source : axis;
  }
  uint32_t end_of(uint32_t function) const;          // one beyond its last op
  uint32_t function_of_input(uint32_t input) const;  // that takes it

  format::ColumnView whole(uint32_t slot) const { return {slot, 0, slots[slot].width}; }

  void add_op(const std::string& op_name, const format::OpView& body);
  void add_norm(const std::string& op_name, const NormNode& norm, const format::ColumnView& input,
                const format::ColumnView& output);
  // Continues the op before where its columns and these lie side by side.
  void add_rope(const std::string& op_name, const format::ColumnView& input,
                const format::ColumnView& output, uint32_t heads, uint32_t angles);
};

// Whether any weights are not float32, or what caches keep.
bool has_few_bits(const Program& program);

// Whether numbers are rounded to int8 while the program runs: what is multiplied with weights, or
// keys and values. Two computations that differ in the last bit of a number may then differ by a
// whole step in what is left of it.
bool rounds_activations(const Program& program);

// ---- from a graph to its program ----

// Computes each slot's lifetime from the ops, then its place: widest first, each at the lowest
// column where no slot that is alive at the same time lies. Greedy, so not always the smallest
// arena; for chains of ops, as here, it is. Checks its own result for overlaps.
void place_slots(Program& program);

// Ops that work row by row on an axis run over one block of its rows after the other, and what lies
// between them has the rows of a block alone, if that takes less memory for the longest sequence
// and at most a quarter more in short calls. REQUIRES: place_slots.
void run_in_blocks(Program& program, uint32_t axis);

// The program of a graph: chooses ops, shares memory, places it. What the runtime has no op for,
// because a pass was left out, is made of other ops: a factor by an activation, a permutation by a
// product with a matrix of zeros and ones.
Program lower(Graph graph, const std::string& name);

// The same after all passes but those named. Throws InputError for a name that no pass has.
Program compile(Graph graph, const std::string& name,
                const std::vector<std::string>& without_passes = {});

}  // namespace arenite::convert
