// SPDX-License-Identifier: Apache-2.0
// Turns an op of the file into a call of its function: resolves activations, weights and caches.
#include <algorithm>

#include "ops/attention.h"
#include "ops/convolution.h"
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

  // No data if the operand is absent.
  ConstMatrix input(format::Operand operand = format::kInput) const {
    return constant(state.activation(op.views[operand]));
  }

  // Axis of the output. Without other axes in the build, all rows with positions are on axis 0.
  uint32_t axis() const {
    return kAxesLinked ? state.rows_of_block(state.reader.axis_of(op.views[format::kOutput])) : 0;
  }
  // The second operand, which may have one row per sequence.
  OtherRows other() const {
    const ConstMatrix matrix = input(format::kOther);
    if (!kPoolsLinked || matrix.data == nullptr) return matrix;
    const uint32_t own = state.rows_of_block(state.reader.axis_of(op.views[format::kOther]));
    if (own == axis()) return matrix;
    return {matrix, state.sequences(axis()), state.sequences(own)};
  }
  // No data if the tensor is absent.
  WeightView tensor(uint32_t number) const { return state.tensor(op.numbers[number]); }
  // The elements of a float32 tensor; null if absent.
  const float* floats(uint32_t number) const { return state.floats(op.numbers[number]); }
};

void run_linear(const OpCall& call) {
  if constexpr (kRowsAreIntegers) {
    const WeightView weights = call.tensor(format::LinearOp::kTensor);
    if (integers::has_linear(weights)) {
      return integers::linear(call.input(), weights, call.output, call.state.scratch(),
                              call.state.parallel);
    }
  }
  linear(call.state.kernels, call.input(), call.tensor(format::LinearOp::kTensor), call.output,
         call.state.scratch(), call.state.parallel);
}

// Returns a view of a table of attention biases. Keys of another axis have one for each head.
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

// Biases per query follow the queries in the columns of the same rows.
[[maybe_unused]] inline LinkedQueryTerms query_terms(const Attention& attention, ScoreTerms by) {
  const uint32_t width = attention.heads * attention.shape.head_dim;
  const uint32_t columns = attention.query.columns - width;
  const uint32_t count = columns / attention.heads;
  const ConstMatrix rows = {attention.query.data + width, attention.query.rows, columns,
                            attention.query.stride};
  return {rows, count, by == ScoreTerms::kQueries ? count / 2 : count - 1};
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
  if constexpr (linked(Need::kQueryTerms)) {
    if (is_of_queries(terms_by)) attention.query_terms = query_terms(attention, terms_by);
  }
  attention.output = call.output;
  attention.scratch = state.scratch();
  attention.queries = state.sequences(call.axis());
  take_keys(call, cache, attention);
  return attention;
}

void run_attention(const OpCall& call) {
  const Attention attention = attention_of(call);
  if constexpr (kRowsAreIntegers) {
    if (integers::has_attention(call.state.kernels, attention)) {
      return integers::attention(call.state.kernels, attention, call.state.parallel);
    }
  }
  arenite::attention(call.state.kernels, attention, call.state.parallel);
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

inline void run_norm(const OpCall& call) {
  using enum format::NormOp::Number;
  const NormWeights weights = {call.op.choice<NormKind>(kKind),
                               call.op.reals[format::NormOp::kEpsilon], call.floats(kGain),
                               call.floats(kBias)};
  if constexpr (kRowsAreIntegers) {
    if (integers::has_norm(weights.kind)) {
      return integers::norm(weights, call.op.numbers[kGroups], call.input(), call.output,
                            call.state.parallel);
    }
  }
  norm(call.state.kernels, weights, call.op.numbers[kGroups], call.input(), call.output,
       call.state.parallel);
}

inline void run_rope(const OpCall& call) {
  const WeightView angles = call.tensor(format::RopeOp::kAngles);
  if constexpr (kRowsAreIntegers) {
    return integers::rope(call.input(), call.op.numbers[format::RopeOp::kHeads], angles.f32(),
                          angles.columns, call.state.step_rows(call.axis()), call.output,
                          call.state.parallel);
  }
  rope(call.state.kernels, call.input(), call.op.numbers[format::RopeOp::kHeads], angles.f32(),
       angles.columns, call.state.step_rows(call.axis()), call.output, call.state.parallel);
}

inline void run_activation(const OpCall& call) {
  const auto function = call.op.choice<Activation>(format::ActivationOp::kKind);
  if constexpr (kRowsAreIntegers) {
    if (integers::has_activation(function)) {
      return integers::activation(function, call.input(), call.other(), call.output,
                                  call.state.parallel);
    }
  }
  activation(call.state.kernels, function, call.op.reals[format::ActivationOp::kParameter],
             call.input(), call.other(), call.output, call.state.parallel);
}

void run_add(const OpCall& call) {
  if constexpr (kRowsAreIntegers) {
    return integers::add(call.input(), call.other(), call.output, call.state.parallel);
  }
  add(call.state.kernels, call.input(), call.other(), call.output, call.state.parallel);
}

inline void run_select(const OpCall& call) {
  SessionState& state = call.state;
  if constexpr (kRowsAreIntegers && linked(Need::kSelectMean)) {
    if (call.op.choice<SelectKind>(format::SelectOp::kKind) == SelectKind::kMean) {
      const auto rows = [&](format::Operand operand) {
        return state.sequences(state.reader.axis_of(call.op.views[operand]));
      };
      return integers::mean(call.input(), rows(format::kInput), rows(format::kOutput), call.output,
                            state.parallel);
    }
  }
  const uint32_t from = state.reader.axis_of(call.op.views[format::kInput]);
  StepRows rows = state.step_rows(from);
  rows.outputs = state.outputs_on(from);
  select(state.kernels, call.op.choice<SelectKind>(format::SelectOp::kKind), call.input(), rows,
         state.sequences(state.reader.axis_of(call.op.views[format::kOutput])), call.output,
         state.parallel,
         state.reader.taken_rows(call.op.numbers[format::SelectOp::kFirstTaken]).data());
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

// Whether an op reads and writes integer rows directly.
inline bool takes_integers(const OpCall& call) {
  switch (call.op.kind) {
    case format::OpKind::kLinear:
      return integers::has_linear(call.tensor(format::LinearOp::kTensor));
    case format::OpKind::kAttention:
      return integers::has_attention(call.state.kernels, attention_of(call));
    case format::OpKind::kNorm:
      return integers::has_norm(call.op.choice<NormKind>(format::NormOp::kKind));
    case format::OpKind::kActivation:
      return integers::has_activation(call.op.choice<Activation>(format::ActivationOp::kKind));
    case format::OpKind::kSelect: {  // most kinds copy
      const auto kind = call.op.choice<SelectKind>(format::SelectOp::kKind);
      return kind == SelectKind::kMean ||
             (!makes_a_row_of_several(kind) && kind != SelectKind::kTransposed);
    }
    default:
      return call.op.kind == format::OpKind::kAdd || call.op.kind == format::OpKind::kRope ||
             call.op.kind == format::OpKind::kJoin;
  }
}

// Converts the first `operands` operands of an op that takes floats: its inputs, or inputs and
// output. Overlapping columns of several operands are converted once.
[[maybe_unused]] inline void convert_operands(SessionState& state, uint32_t index,
                                              uint32_t operands, void (*convert)(const Matrix&)) {
  const format::OpView& op = state.reader.op(index);
  if (takes_integers(OpCall(state, op))) return;
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
  }
}

}  // namespace arenite
