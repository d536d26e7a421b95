// SPDX-License-Identifier: Apache-2.0
// Turns an op of the file into a call of its function: resolves activations, weights and caches.
#include <algorithm>

#include "ops/attention.h"
#include "ops/convolution.h"
#include "ops/experts.h"
#include "ops/integer_rows.h"
#include "ops/linear.h"
#include "ops/row_ops.h"
#include "session/session_state.h"

namespace arenite {
namespace {

ConstMatrix constant(const Matrix& matrix) {
  return {matrix.data, matrix.rows, matrix.columns, matrix.stride};
}

struct OpCall {
  OpCall(SessionState& state_in, const format::OpView& op_in)
      : state(state_in), op(op_in), output(state.activation(op.views[format::kOutput])) {}

  SessionState& state;
  const format::OpView& op;
  Matrix output;

  // Returns a view without data if the operand is absent.
  ConstMatrix input(format::Operand operand = format::kInput) const {
    return constant(state.activation(op.views[operand]));
  }

  // Returns the axis of the output. In builds without other axes, all rows with positions are on
  // axis 0.
  uint32_t axis() const {
    return kAxesLinked ? state.rows_of_block(state.reader.axis_of(op.views[format::kOutput])) : 0;
  }
  // Returns the second operand, which may have one row per sequence.
  OtherRows other() const {
    const ConstMatrix matrix = input(format::kOther);
    if (!kPoolsLinked || matrix.data == nullptr) return matrix;
    const uint32_t own = state.rows_of_block(state.reader.axis_of(op.views[format::kOther]));
    if (own == axis()) return matrix;
    return {matrix, state.sequences(axis()), state.sequences(own)};
  }
  // Returns a view without data if the tensor is absent.
  WeightView tensor(uint32_t number) const { return state.tensor(op.numbers[number]); }
  // Returns the elements of a float32 tensor; null if absent.
  const float* floats(uint32_t number) const { return state.floats(op.numbers[number]); }
};

void run_linear(const OpCall& call) {
  linear(call.state.kernels, call.input(), call.tensor(format::LinearOp::kTensor), call.output,
         call.state.scratch(), call.state.parallel);
}

// Returns a view of a table of attention biases. For keys of another axis, each head has its own
// table.
LinkedScoreTable score_table(const OpCall& call, uint32_t heads, bool is_cross) {
  using enum format::AttentionOp::Number;
  const WeightView table = call.tensor(kTerms);
  if (call.op.choice<ScoreTerms>(kTermsBy) == ScoreTerms::kDistances) {
    return LinkedScoreTable::by_distance(table.f32(), table.columns / 2 + 1);
  }
  const bool by_head = is_cross || table.rows != table.columns;
  const uint32_t queries = by_head ? table.rows / heads : table.rows;
  return LinkedScoreTable::by_pair(table.f32(), queries, table.columns, by_head);
}

// Returns the columns of `rows` from `first` on.
[[maybe_unused]] inline ConstMatrix columns_from(const ConstMatrix& rows, uint32_t first) {
  return {rows.data + first, rows.rows, rows.columns - first, rows.stride};
}

// Biases of queries and of keys follow these in the columns of the same rows.
[[maybe_unused]] inline LinkedQueryTerms query_terms(const Attention& attention, ScoreTerms by) {
  const uint32_t dim = attention.shape.head_dim;
  const ConstMatrix rows = columns_from(attention.query, attention.heads * dim);
  const uint32_t count = rows.columns / attention.heads;
  const uint32_t centre = by == ScoreTerms::kQueriesBefore ? count - 1 : count / 2;
  if (by != ScoreTerms::kQueriesAndKeys) return {rows, count, centre, {}, 0};
  const ConstMatrix key_rows = columns_from(attention.key, attention.shape.kv_heads * dim);
  return {rows, count, centre, key_rows, key_rows.columns / attention.heads};
}

// Sets keys and values: new rows and the cache.
void take_keys(const OpCall& call, uint32_t cache, Attention& attention) {
  SessionState& state = call.state;
  attention.cache_positions = state.cache_positions(cache);
  attention.key = call.input(format::kKey);
  attention.value = call.input(format::kValue);
  attention.kv_type = state.layout.kv_type;
  attention.cache = state.cache(cache);
  const uint32_t axis = state.reader.axis_of_cache(cache);
  const bool is_new = attention.value.data != nullptr;
  attention.keys = state.sequences(is_new ? state.rows_of_block(axis) : axis);
}

Attention attention_of(const OpCall& call) {
  SessionState& state = call.state;
  const uint32_t cache = call.op.numbers[format::AttentionOp::kCache];
  Attention attention;
  attention.heads = state.reader.heads_of(call.op);
  attention.shape = state.reader.cache(cache).shape;
  attention.mask = state.reader.mask(call.op.numbers[format::AttentionOp::kMask]);
  const auto terms_by = call.op.choice<ScoreTerms>(format::AttentionOp::kTermsBy);
  if (linked(Need::kScoreTables) && is_table(terms_by)) {
    const uint32_t axis = state.reader.axis_of(call.op.views[format::kOutput]);
    const bool is_cross =
        linked(Need::kStore) && state.reader.axis_of_cache(cache) != state.reader.whole_axis(axis);
    attention.table = score_table(call, attention.heads, is_cross);
  } else {
    attention.slopes = call.floats(format::AttentionOp::kTerms);
  }
  if constexpr (linked(Need::kScoreCap)) {
    attention.score_cap = call.op.reals[format::AttentionOp::kScoreCap];
  }
  if constexpr (linked(Need::kSinks)) {
    attention.sinks = call.floats(format::AttentionOp::kSinks);
  }
  if constexpr (linked(Need::kPairMask)) {
    if (format::is_pairs(attention.mask)) {
      const uint32_t input = kFunctionsLinked ? state.reader.source_of_axis(call.axis()) : 0;
      attention.pairs = {state.fed_to(input).pairs, state.fed_to(input).stride};
    }
  }
  attention.query = call.input(format::kQuery);
  attention.output = call.output;
  attention.scratch = state.scratch();
  attention.queries = state.sequences(call.axis());
  take_keys(call, cache, attention);
  if constexpr (linked(Need::kQueryTerms)) {
    if (is_of_queries(terms_by)) attention.query_terms = query_terms(attention, terms_by);
  }
  return attention;
}

void run_attention(const OpCall& call) {
  attention(call.state.kernels, attention_of(call), call.state.parallel);
}

[[maybe_unused]] inline void run_store(const OpCall& call) {
  const uint32_t cache = call.op.numbers[format::StoreOp::kCache];
  Attention attention;
  attention.shape = call.state.reader.cache(cache).shape;
  attention.heads = attention.shape.kv_heads;
  take_keys(call, cache, attention);
  arenite::attention(call.state.kernels, attention, call.state.parallel);
}

// Functions that a build may lack are inline: when unused they emit no code even without
// optimization, and a bundle needs no file for their callees.
inline void run_embedding(const OpCall& call) {
  using enum format::EmbeddingOp::Number;
  const uint32_t* const numbers = call.op.numbers;
  const Embedding embedding = {call.tensor(kTokens),    call.op.reals[format::EmbeddingOp::kScale],
                               call.tensor(kPositions), numbers[kPositionOffset],
                               call.tensor(kTypes),     numbers[kPaddingId]};
  SessionState& state = call.state;
  uint32_t input = 0;  // input of the ids, if the op looks up tokens
  if (kFunctionsLinked && state.reader.kind_of_axis(call.axis()) == AxisKind::kInput) {
    input = state.reader.source_of_axis(call.axis());
  }
  arenite::embedding(state.kernels, embedding, state.fed_to(input).tokens,
                     state.step_rows(call.axis()), call.output, state.parallel);
}

inline NormWeights norm_weights(const OpCall& call) {
  using enum format::NormOp::Number;
  return {call.op.choice<NormKind>(kKind), call.op.reals[format::NormOp::kEpsilon],
          call.floats(kGain), call.floats(kBias)};
}

inline void run_norm(const OpCall& call) {
  norm(call.state.kernels, norm_weights(call), call.op.numbers[format::NormOp::kGroups],
       call.input(), call.output, call.state.parallel);
}

inline void run_rope(const OpCall& call) {
  const WeightView angles = call.tensor(format::RopeOp::kAngles);
  build_rows::rope(call.state.kernels, call.input(), call.op.numbers[format::RopeOp::kHeads],
                   angles.f32(), angles.columns, call.state.step_rows(call.axis()), call.output,
                   call.state.parallel);
}

inline Activation activation_of(const OpCall& call) {
  return call.op.choice<Activation>(format::ActivationOp::kKind);
}

inline void run_activation(const OpCall& call) {
  activation(call.state.kernels, activation_of(call),
             call.op.reals[format::ActivationOp::kParameter], call.input(), call.other(),
             call.output, call.state.parallel);
}

void run_add(const OpCall& call) {
  build_rows::add(call.state.kernels, call.input(), call.other(), call.output, call.state.parallel);
}

inline void run_select(const OpCall& call) {
  SessionState& state = call.state;
  const uint32_t from = state.reader.axis_of(call.op.views[format::kInput]);
  StepRows rows = state.step_rows(from);
  rows.outputs = state.outputs_on(from);
  select(state.kernels, call.op.choice<SelectKind>(format::SelectOp::kKind), call.input(), rows,
         state.sequences(state.reader.axis_of(call.op.views[format::kOutput])), call.output,
         state.parallel,
         state.reader.taken_rows(call.op.numbers[format::SelectOp::kFirstTaken]).data());
}

inline void run_experts(const OpCall& call) {
  experts(call.state.kernels, call.input(), call.input(format::kIds),
          call.tensor(format::ExpertsOp::kTensor), call.op.numbers[format::ExpertsOp::kCount],
          call.output, call.state.scratch(), call.state.parallel);
}

void run_join(const OpCall& call) {
  const auto rows = [&](format::Operand operand) {
    return call.state.sequences(call.state.reader.axis_of(call.op.views[operand]));
  };
  join(call.input(), rows(format::kInput), call.input(format::kOther), rows(format::kOther),
       rows(format::kOutput), call.output, call.state.parallel);
}

// Computes windows over rows of this call and earlier ones. Out of line, since attention needs the
// most stack.
[[maybe_unused, gnu::noinline]] inline void run_windows(const OpCall& call) {
  SessionState& state = call.state;
  const uint32_t from = state.reader.axis_of(call.op.views[format::kInput]);
  const WindowInput input = {call.input(), state.sequences(from), state.sequences(call.axis()),
                             state.history(call.op)};
  const Windows windows = state.reader.windows_of(call.op);
  if (format::linked(format::OpKind::kConvolution) &&
      call.op.kind == format::OpKind::kConvolution) {
    convolution(state.kernels, windows, input, call.tensor(format::ConvolutionOp::kTensor),
                call.output, state.scratch(), state.parallel);
  } else if (format::linked(format::OpKind::kMaxPool) && call.op.kind == format::OpKind::kMaxPool) {
    max_pool(windows, input, call.output, state.scratch(), state.parallel);
  } else if constexpr (format::linked(format::OpKind::kDepthwise)) {
    depthwise_convolution(
        state.kernels, windows, input,
        {call.floats(format::DepthwiseOp::kKernel), call.floats(format::DepthwiseOp::kBias)},
        call.output, state.scratch(), state.parallel);
  }
  if (input.earlier.data == nullptr) return;
  keep_rows(input.rows, input.sequences, input.earlier, state.parallel);
}

// The rows that an op takes in a build with integer rows: floats, to which its operands are
// converted; integers, if it has an integer version; or those of the build, if it only copies them
// or there is no other version.
enum class Takes : uint8_t { kFloats, kIntegers, kRowsOfBuild };

// Returns which rows an op takes, and runs it if these are integers and `runs` is set.
[[maybe_unused]] inline Takes on_integers(const OpCall& call, bool runs) {
  using format::linked;
  using format::OpKind;
  SessionState& state = call.state;
  const ParallelFor& parallel = state.parallel;
  bool is_one = false;
  switch (call.op.kind) {
    case OpKind::kLinear: {
      const WeightView weights = call.tensor(format::LinearOp::kTensor);
      is_one = integers::has_linear(weights);
      if (!is_one || !runs) break;
      integers::linear(call.input(), weights, call.output, state.scratch(), parallel);
      break;
    }
    case OpKind::kAttention: {
      const Attention attention = attention_of(call);
      is_one = integers::has_attention(state.kernels, attention);
      if (is_one && runs) integers::attention(state.kernels, attention, parallel);
      break;
    }
    case OpKind::kNorm: {
      const NormWeights weights = norm_weights(call);
      is_one = linked(OpKind::kNorm) && integers::has_norm(weights.kind);
      if (!is_one || !runs) break;
      integers::norm(weights, call.op.numbers[format::NormOp::kGroups], call.input(), call.output,
                     parallel);
      break;
    }
    case OpKind::kActivation: {
      const Activation function = activation_of(call);
      is_one = linked(OpKind::kActivation) && integers::has_activation(function);
      if (!is_one || !runs) break;
      integers::activation(function, call.input(), call.other(), call.output, parallel);
      break;
    }
    case OpKind::kSelect: {
      const auto kind = call.op.choice<SelectKind>(format::SelectOp::kKind);
      is_one = linked(Need::kSelectMean) && kind == SelectKind::kMean;
      const bool copies = !makes_a_row_of_several(kind) && kind != SelectKind::kTransposed;
      if (!is_one) return copies ? Takes::kRowsOfBuild : Takes::kFloats;
      if (!runs) break;
      const auto rows = [&](format::Operand operand) {
        return state.sequences(state.reader.axis_of(call.op.views[operand]));
      };
      integers::mean(call.input(), rows(format::kInput), rows(format::kOutput), call.output,
                     parallel);
      break;
    }
    case OpKind::kAdd:
    case OpKind::kRope:
    case OpKind::kJoin:
      return Takes::kRowsOfBuild;
    default:
      break;
  }
  return is_one ? Takes::kIntegers : Takes::kFloats;
}

// Converts the first `operands` operands of an op that takes floats: its inputs, or inputs and
// output. Overlapping columns of several operands are converted once.
[[maybe_unused]] inline void convert_operands(SessionState& state, uint32_t index,
                                              uint32_t operands, void (*convert)(const Matrix&)) {
  const format::OpView& op = state.reader.op(index);
  if (on_integers(OpCall(state, op), false) != Takes::kFloats) return;
  format::ColumnView parts[format::kOperands];
  uint32_t count = 0;
  for (uint32_t i = 0; i < operands; ++i) {
    format::ColumnView part = op.views[i];
    if (part.width == 0) continue;
    for (uint32_t k = 0; k < count;) {
      const format::ColumnView& other = parts[k];
      const uint32_t begin = std::min(part.column, other.column);
      const uint32_t end = std::max(part.column + part.width, other.column + other.width);
      if (part.slot != other.slot || end - begin >= part.width + other.width) {
        ++k;
        continue;
      }
      part = {part.slot, begin, end - begin};
      parts[k] = parts[--count];
      k = 0;
    }
    parts[count++] = part;
  }
  for (uint32_t i = 0; i < count; ++i) convert(state.activation(parts[i]));
}

}  // namespace

void begin_op(SessionState& state, uint32_t index) {
  if constexpr (kRowsAreIntegers) {
    convert_operands(state, index, format::kOutput, integers::to_floats);
  }
}

void end_op(SessionState& state, uint32_t index) {
  if constexpr (kRowsAreIntegers) {
    convert_operands(state, index, format::kOperands, integers::from_floats);
  }
}

// An op that is not linked is never called: load refuses files that need it.
void run_op(SessionState& state, uint32_t index) {
  using format::linked;
  using format::OpKind;
  const OpCall call(state, state.reader.op(index));
  if constexpr (kRowsAreIntegers) {
    if (on_integers(call, true) == Takes::kIntegers) return;
  }
  switch (call.op.kind) {
    case OpKind::kLinear:
      if constexpr (linked(OpKind::kLinear)) run_linear(call);
      return;
    case OpKind::kAttention:
      if constexpr (linked(OpKind::kAttention)) run_attention(call);
      return;
    case OpKind::kEmbedding:
      if constexpr (linked(OpKind::kEmbedding)) run_embedding(call);
      return;
    case OpKind::kNorm:
      if constexpr (linked(OpKind::kNorm)) run_norm(call);
      return;
    case OpKind::kRope:
      if constexpr (linked(OpKind::kRope)) run_rope(call);
      return;
    case OpKind::kActivation:
      if constexpr (linked(OpKind::kActivation)) run_activation(call);
      return;
    case OpKind::kAdd:
      if constexpr (linked(OpKind::kAdd)) run_add(call);
      return;
    case OpKind::kSelect:
      if constexpr (linked(OpKind::kSelect)) run_select(call);
      return;
    case OpKind::kJoin:
      if constexpr (linked(OpKind::kJoin)) run_join(call);
      return;
    case OpKind::kConvolution:
    case OpKind::kDepthwise:
    case OpKind::kMaxPool:
      if constexpr (kWindowsLinked) run_windows(call);
      return;
    case OpKind::kStore:
      if constexpr (linked(OpKind::kStore)) run_store(call);
      return;
    case OpKind::kTopK:
      if constexpr (linked(OpKind::kTopK)) top_k(call.input(), call.output, call.state.parallel);
      return;
    case OpKind::kExperts:
      if constexpr (linked(OpKind::kExperts)) run_experts(call);
      return;
  }
}

}  // namespace arenite
