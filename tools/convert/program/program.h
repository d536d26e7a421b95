// SPDX-License-Identifier: Apache-2.0
// The runtime program of a model, as the writer takes it: ops over activation slots, and unpacked
// tensors. Tensors only keep how to load their weights, with all factors folded in (weights.h), so
// that one tensor at a time is in memory.
//
//   Program program = compile(std::move(graph), "tiny");
//   AlignedBytes file = write_model(program, {target});
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
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
  // Without query and key, scores come from the mask alone; without key and value, stored ones are
  // read.
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

// Builders of op records (format/op_table.h) with named arguments.
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
                                SelectKind kind, uint32_t first_taken = 0) {
  return {format::OpKind::kSelect,
          {input, {}, {}, output},
          {static_cast<uint32_t>(kind), first_taken},
          {}};
}

inline format::OpView join_op(const format::ColumnView& first, const format::ColumnView& second,
                              const format::ColumnView& output) {
  return {format::OpKind::kJoin, {first, second, {}, output}, {}, {}};
}

// Encodes a property of windows; for images, lines are in the low half and columns in the high
// half.
inline uint32_t window_number(const Windows& windows, uint32_t columns, uint32_t WindowAxis::*of) {
  return windows.lines.*of | (columns == 0 ? 0 : windows.columns.*of << 16);
}

// `columns`: kernel width over an image, 0 for other rows.
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

inline format::OpView top_k_op(const format::ColumnView& input, const format::ColumnView& output) {
  return {format::OpKind::kTopK, {input, {}, {}, output}, {}, {}};
}

inline format::OpView experts_op(const format::ColumnView& input, const format::ColumnView& ids,
                                 const format::ColumnView& output, uint32_t tensor,
                                 uint32_t count) {
  return {format::OpKind::kExperts, {input, ids, {}, output}, {tensor, count}, {}};
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
  // If `weights` is empty, loads them at packing time, so that one tensor at a time is in memory.
  // Throws InputError.
  std::function<Floats()> load = {};
  // Replaces `weights` and `load` for every type but float32: the elements as stored.
  std::function<QuantizedMatrix()> load_quantized = {};
  // Replaces all of these, and the bias: weights that are already packed in a model file.
  std::optional<WeightView> packed = {};

  format::TensorShape shape() const { return {outputs, inputs, type, layout}; }
};

struct ProgramInput : format::InputView {
  std::string name;
  uint32_t tokens_step = 0;  // as in format::LengthLimits
};

// The ops from `first_op` to that of the next function, or to the end.
struct ProgramFunction {
  std::string name = "run";
  uint32_t first_op = 0;
  uint32_t inputs = 1;  // bit set of the inputs that it takes
  uint32_t output_slot = 0;
};

struct Program {
  std::string producer;      // from the file that it was read from, or empty
  std::string name;          // given by the person
  std::string architecture;  // the recognised architecture
  std::vector<ProgramInput> inputs = std::vector<ProgramInput>(1);
  std::vector<ProgramFunction> functions = std::vector<ProgramFunction>(1);
  TensorType kv_cache = TensorType::kF32;  // default of sessions
  uint32_t array_flags = 0;                // bit set of ArrayFlag
  std::vector<uint32_t> output_shape;      // as in Graph
  std::vector<std::string> arrays;         // encoded as Model.arrays
  std::vector<uint32_t> suppressed;        // encoded as Model.suppressed
  uint32_t samples = 0;                    // encoded as Model.samples
  std::vector<Axis> axes = {{}};           // row axes of slots; the first is input 0's
  std::vector<format::SlotView> slots;     // place_slots sets offset, first_op and last_op
  std::vector<ProgramOp> ops;
  std::vector<ProgramTensor> tensors;
  std::vector<format::CacheView> caches;
  std::vector<CompiledMask> masks;
  std::vector<uint32_t> taken_rows;  // the lists of selects, one after the other
  std::vector<format::HiddenStateView> hidden_states;
  std::vector<std::string> labels;         // of the output's columns, or empty
  std::optional<TokenizerSpec> tokenizer;  // after complete_tokenizer
  // Replaces `tokenizer`: a view of the tokenizer in a model file.
  std::optional<format::TokenizerView> stored_tokenizer;
  std::optional<SoundTable> sound;  // front end that computes the features of input 0

  // Each returns the index of the added item.
  uint32_t add_slot(uint32_t width, uint32_t axis = 0);
  uint32_t add_tensor(ProgramTensor tensor);
  uint32_t add_vector(const std::string& tensor_name, std::vector<float> values);
  // Adds the first `rows` rows of a matrix, as plain rows.
  uint32_t add_table(const WeightRef& weight, uint32_t rows, TensorType type = TensorType::kF32);
  // Concatenates the rows of all parts, with their biases; a part without bias gets zeros if
  // another part has one.
  uint32_t add_matrix(const std::string& tensor_name, const std::vector<LinearPart>& parts);
  uint32_t add_cache(const CacheShape& shape, uint32_t lookback, uint32_t axis = 0);

  // Returns the axis whose rows an op iterates, whole or block by block.
  uint32_t axis_of_op(uint32_t index) const {
    const uint32_t axis = slots[format::rows_of(ops[index].body).slot].axis;
    return axes[axis].kind == AxisKind::kBlocks ? axes[axis].source : axis;
  }
  uint32_t end_of(uint32_t function) const;          // one past its last op
  uint32_t function_of_input(uint32_t input) const;  // the function that takes it

  format::ColumnView whole(uint32_t slot) const { return {slot, 0, slots[slot].width}; }

  void add_op(const std::string& op_name, const format::OpView& body);
  void add_norm(const std::string& op_name, const NormNode& norm, const format::ColumnView& input,
                const format::ColumnView& output);
  // Extends the previous op if its columns and these are adjacent.
  void add_rope(const std::string& op_name, const format::ColumnView& input,
                const format::ColumnView& output, uint32_t heads, uint32_t angles);
};

// Adds tensors that several ops may read, each once. Each member returns the index of the tensor.
class SharedTensors {
 public:
  explicit SharedTensors(Program& program) : program_(program) {}

  // The matrix of a layer, or that of an equal one, as some models run a layer several times.
  uint32_t matrix(const std::string& layer, const std::vector<LinearPart>& parts);
  // Angles [positions, rotary_dim]: for each position the cosines, then the sines, times the
  // magnitude of the rotation.
  uint32_t angles(const RopeSpec& rope, uint32_t positions);
  uint32_t terms(const AttentionBias& table);
  uint32_t sinks(const std::vector<double>& logits);

 private:
  Program& program_;
  std::map<std::string, std::vector<uint32_t>> matrices_;  // by the names of their weights
  std::vector<std::pair<AttentionBias, uint32_t>> tables_;
  std::map<std::vector<double>, uint32_t> sinks_;
  std::vector<std::pair<RopeSpec, uint32_t>> angles_;
};

// Whether two matrices are the same, with their biases. Loads both if they are alike.
bool have_equal_elements(const ProgramTensor& a, const ProgramTensor& b);

// Whether any weights or the caches are quantized.
bool has_quantization(const Program& program);

// Whether the program quantizes activations to int8: inputs of linear layers, or keys and values.
// Two computations that differ in the last bit of a float may then differ by a whole quantization
// step.
bool rounds_activations(const Program& program);

// ---- from a graph to its program ----

// Computes each slot's lifetime from the ops, then its offset: widest slot first, each at the
// lowest column without overlap with a slot alive at the same time. The greedy order does not
// always give the smallest arena, but for chains of ops, as here, it does. Checks its own result
// for overlaps.
void place_slots(Program& program);

// Runs row-by-row ops of an axis on one block of rows after the other, so that slots between them
// hold a single block. Keeps the change only if it reduces the memory for the longest sequence and
// increases that for short calls by at most a quarter. REQUIRES: place_slots.
void run_in_blocks(Program& program, uint32_t axis);

// Lowers a graph: chooses ops, shares memory, places slots. Nodes that have no runtime op because a
// pass was left out are emulated: a factor by an activation, a permutation by a product with a
// matrix of zeros and ones.
Program lower(Graph graph, const std::string& name);

// Runs all passes except the named ones, then lowers. Throws InputError for an unknown name.
Program compile(Graph graph, const std::string& name,
                const std::vector<std::string>& without_passes = {});

}  // namespace arenite::convert
