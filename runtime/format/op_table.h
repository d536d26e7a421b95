// SPDX-License-Identifier: Apache-2.0
// The one table of ops: what the record of each kind holds. Reader, verifier, needs, planner,
// self-test and `arenite inspect` go by it; runtime/DESIGN.md says what else makes an op.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "core/message.h"
#include "core/needs.h"
#include "core/op_kinds.h"

namespace arenite::format {

// Columns [column, column + width) of a slot; width 0: absent.
struct ColumnView {
  uint32_t slot = 0;
  uint32_t column = 0;
  uint32_t width = 0;

  friend constexpr bool operator==(const ColumnView&, const ColumnView&) = default;
};

enum class OpKind : uint32_t {
  kLinear,
  kAttention,
  kEmbedding,
  kNorm,
  kRope,
  kActivation,
  kAdd,
  kSelect,
  kJoin,
  kConvolution,
  kDepthwise,
  kMaxPool,
  kStore,
};
inline constexpr uint32_t kOpKinds = 13;

// Places of an op's operands: what it reads comes first, what it makes last.
enum Operand : uint8_t {
  kInput = 0,
  kOther = 1,
  kOutput = 3,
  kFactor = 1,  // of an activation
  kQuery = 0,   // of attention
  kKey = 1,     // and of a store
  kValue = 2,
};
inline constexpr uint32_t kOperands = 4;

// Places of an op's numbers.
struct LinearOp {
  enum Number : uint8_t { kTensor };
};
struct AttentionOp {
  enum Number : uint8_t { kCache, kMask, kTerms, kTermsBy, kSinks };
  enum Real : uint8_t { kScoreCap };
};
struct EmbeddingOp {
  enum Number : uint8_t { kTokens, kPositions, kTypes, kPositionOffset, kPaddingId };
  enum Real : uint8_t { kScale };
};
struct NormOp {
  enum Number : uint8_t { kKind, kGroups, kGain, kBias };
  enum Real : uint8_t { kEpsilon };
};
struct RopeOp {
  enum Number : uint8_t { kHeads, kAngles };
};
struct ActivationOp {
  enum Number : uint8_t { kKind };
  enum Real : uint8_t { kParameter };
};
struct SelectOp {
  enum Number : uint8_t { kKind };
};
struct ConvolutionOp {
  enum Number : uint8_t { kTensor, kDilation, kBefore, kColumns };
};
struct DepthwiseOp {
  enum Number : uint8_t { kKernel, kDilation, kBefore, kColumns, kBias };
};
struct MaxPoolOp {
  enum Number : uint8_t { kKernel, kDilation, kBefore, kColumns };
};
struct StoreOp {
  enum Number : uint8_t { kCache };
};
inline constexpr uint32_t kOpNumbers = 5;
inline constexpr uint32_t kOpReals = 1;

// A number that names nothing: no tensor, no token.
inline constexpr uint32_t kAbsent = UINT32_MAX;

// An op, as its record in the file lies there. What an op does not have is zero.
struct OpView {
  OpKind kind = OpKind::kLinear;
  ColumnView views[kOperands] = {};
  uint32_t numbers[kOpNumbers] = {};
  float reals[kOpReals] = {};

  // The number that says which of several functions the op is.
  template <typename Kind, typename Number>
  constexpr Kind choice(Number number) const {
    return static_cast<Kind>(numbers[number]);
  }
};

// How an op uses columns. kWrite fills columns that held nothing; kUpdate may also change the
// input's in place, where both are the same columns.
enum class Access : uint8_t { kNone, kRead, kWrite, kUpdate };

enum class NumberType : uint8_t {
  kNone,
  kCount,
  kChoice,         // one of as many functions as the op has
  kMatrix,         // a tensor of layout gemm
  kVector,         // a tensor of one plain row, or a table that is read where it lies
  kPositionTable,  // a tensor of plain rows, one for each position or type of a token
  kTable,          // a tensor of either layout, with a row for each token of the vocabulary
  kCache,
  kMask,
};

constexpr bool is_tensor(NumberType type) {
  return type >= NumberType::kMatrix && type <= NumberType::kTable;
}

enum class RealType : uint8_t { kNone, kFinite, kPositive };

// Which axes the operands of an op are on.
enum class AxisRule : uint8_t {
  kSame,       // all on the output's
  kPositions,  // the same, whose rows have positions: not those that are asked for
  kBroadcast,  // the same, but a second operand may have a row for each sequence
  kOwn,        // as the op's own check says
};

// What an op asks for beside its operands: rows of scores for each thread; where its weights are q8
// or q4, the input's rows in int8; or lists of the rows that windows see, for each thread.
enum class Scratch : uint8_t { kNone, kScores, kQuantizedRows, kWindows };

// An operand may then have no width, a number be kAbsent.
inline constexpr bool kOptional = true;

struct OperandRow {
  [[no_unique_address]] Message field =
      "";  // for messages; what follows the dot is the operand's name
  Access access = Access::kNone;
  bool optional = false;
};

struct NumberRow {
  [[no_unique_address]] Message field = "";
  NumberType type = NumberType::kNone;
  bool optional = false;
};

struct RealRow {
  [[no_unique_address]] Message field = "";
  RealType type = RealType::kNone;
};

struct OpRow {
  OpKind kind;
  [[no_unique_address]] Message name = "";
  Need need;  // of the op; or of the first of its functions, the others following it
  uint8_t functions = 1;
  AxisRule axes = AxisRule::kSame;
  Scratch scratch = Scratch::kNone;
  OperandRow operands[kOperands];
  // With = {} Clang 19 puts bytes before them in a table, so that later rows are read amiss.
  NumberRow numbers[kOpNumbers] = {{}};
  RealRow reals[kOpReals] = {{}};
};

// Of attention. In a build without them they are what an op has not: files must then say zero, or
// kAbsent of what is optional, and all else is refused with no check of its own.
inline constexpr NumberRow kTermsByRow = linked(Need::kScoreTables) || linked(Need::kQueryTerms)
                                             ? NumberRow{"ops.terms_by", NumberType::kCount}
                                             : NumberRow{};
inline constexpr NumberRow kSinksRow = {
    "ops.sinks", linked(Need::kSinks) ? NumberType::kVector : NumberType::kNone, kOptional};
inline constexpr RealRow kScoreCapRow =
    linked(Need::kScoreCap) ? RealRow{"ops.score_cap", RealType::kFinite} : RealRow{};

inline constexpr OpRow kAllOps[kOpKinds] = {
    {.kind = OpKind::kLinear,
     .name = "linear",
     .need = Need::kLinear,
     .scratch = Scratch::kQuantizedRows,
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kWrite}},
     .numbers = {{"ops.tensor", NumberType::kMatrix}}},
    {.kind = OpKind::kAttention,
     .name = "attention",
     .need = Need::kAttention,
     .axes = AxisRule::kPositions,
     .scratch = Scratch::kScores,
     .operands = {{"ops.query", Access::kRead, kOptional},
                  {"ops.key", Access::kRead, kOptional},
                  {"ops.value", Access::kRead, linked(Need::kStore)},
                  {"ops.output", Access::kWrite}},
     .numbers = {{"ops.cache", NumberType::kCache},
                 {"ops.mask", NumberType::kMask},
                 {"ops.terms", NumberType::kVector, kOptional},
                 kTermsByRow,
                 kSinksRow},
     .reals = {kScoreCapRow}},
    {.kind = OpKind::kEmbedding,
     .name = "embedding",
     .need = Need::kEmbedding,
     .axes = AxisRule::kPositions,
     .operands = {{}, {}, {}, {"ops.output", Access::kWrite}},
     .numbers = {{"ops.tokens", NumberType::kTable, kOptional},
                 {"ops.positions", NumberType::kPositionTable, kOptional},
                 {"ops.types", NumberType::kPositionTable, kOptional},
                 {"ops.position_offset", NumberType::kCount},
                 {"ops.padding_id", NumberType::kCount, kOptional}},
     .reals = {{"ops.scale", RealType::kFinite}}},
    {.kind = OpKind::kNorm,
     .name = "norm",
     .need = Need::kLayerNorm,
     .functions = std::size(kNormNames),
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kUpdate}},
     .numbers = {{"ops.norm", NumberType::kChoice},
                 {"ops.groups", NumberType::kCount},
                 {"ops.gain", NumberType::kVector, kOptional},
                 {"ops.bias", NumberType::kVector, kOptional}},
     .reals = {{"ops.epsilon", RealType::kPositive}}},
    {.kind = OpKind::kRope,
     .name = "rope",
     .need = Need::kRope,
     .axes = AxisRule::kPositions,
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kUpdate}},
     .numbers = {{"ops.heads", NumberType::kCount}, {"ops.angles", NumberType::kPositionTable}}},
    {.kind = OpKind::kActivation,
     .name = "activation",
     .need = Need::kRelu,
     .functions = std::size(kActivationNames),
     .axes = AxisRule::kBroadcast,
     .operands = {{"ops.input", Access::kRead},
                  {"ops.factor", Access::kRead, kOptional},
                  {},
                  {"ops.output", Access::kUpdate}},
     .numbers = {{"ops.function", NumberType::kChoice}},
     .reals = {{"ops.parameter", RealType::kFinite}}},
    {.kind = OpKind::kAdd,
     .name = "add",
     .need = Need::kAdd,
     .axes = AxisRule::kBroadcast,
     .operands = {{"ops.input", Access::kRead},
                  {"ops.other", Access::kRead},
                  {},
                  {"ops.output", Access::kUpdate}}},
    {.kind = OpKind::kSelect,
     .name = "select",
     .need = Need::kSelectAsAsked,
     .functions = std::size(kSelectNames),
     .axes = AxisRule::kOwn,
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kWrite}},
     .numbers = {{"ops.rows", NumberType::kChoice}}},
    {.kind = OpKind::kJoin,
     .name = "join",
     .need = Need::kJoin,
     .axes = AxisRule::kOwn,
     .operands = {{"ops.input", Access::kRead},
                  {"ops.other", Access::kRead},
                  {},
                  {"ops.output", Access::kWrite}}},
    {.kind = OpKind::kConvolution,
     .name = "convolution",
     .need = Need::kConvolution,
     .axes = AxisRule::kOwn,
     .scratch = Scratch::kWindows,
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kWrite}},
     .numbers = {{"ops.tensor", NumberType::kMatrix},
                 {"ops.dilation", NumberType::kCount},
                 {"ops.before", NumberType::kCount},
                 {"ops.columns", NumberType::kCount}}},
    {.kind = OpKind::kDepthwise,
     .name = "depthwise",
     .need = Need::kDepthwise,
     .axes = AxisRule::kOwn,
     .scratch = Scratch::kWindows,
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kWrite}},
     .numbers = {{"ops.kernel", NumberType::kVector},
                 {"ops.dilation", NumberType::kCount},
                 {"ops.before", NumberType::kCount},
                 {"ops.columns", NumberType::kCount},
                 {"ops.bias", NumberType::kVector}}},
    {.kind = OpKind::kMaxPool,
     .name = "max_pool",
     .need = Need::kMaxPool,
     .axes = AxisRule::kOwn,
     .scratch = Scratch::kWindows,
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kWrite}},
     .numbers = {{"ops.kernel", NumberType::kCount},
                 {"ops.dilation", NumberType::kCount},
                 {"ops.before", NumberType::kCount},
                 {"ops.columns", NumberType::kCount}}},
    {.kind = OpKind::kStore,
     .name = "store",
     .need = Need::kStore,
     .axes = AxisRule::kPositions,
     .operands = {{}, {"ops.key", Access::kRead, kOptional}, {"ops.value", Access::kRead}, {}},
     .numbers = {{"ops.cache", NumberType::kCache}}},
};

constexpr bool rows_are_in_order() {
  for (uint32_t i = 0; i < kOpKinds; ++i) {
    if (static_cast<uint32_t>(kAllOps[i].kind) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

constexpr bool known(OpKind kind) { return static_cast<uint32_t>(kind) < kOpKinds; }

// Whether an op makes each row of rows in the same place alone, of keys that are stored or of its
// position, so that it may run over one block of rows after the other.
constexpr bool runs_in_blocks(const OpView& op) {
  const bool is_by_row = op.kind == OpKind::kLinear || op.kind == OpKind::kNorm ||
                         op.kind == OpKind::kRope || op.kind == OpKind::kActivation ||
                         op.kind == OpKind::kAdd || op.kind == OpKind::kStore;
  return is_by_row || (op.kind == OpKind::kAttention && op.views[kValue].width == 0) ||
         (op.kind == OpKind::kEmbedding && op.numbers[EmbeddingOp::kTokens] == kAbsent);
}

constexpr bool has_windows(OpKind kind) {
  return kind == OpKind::kConvolution || kind == OpKind::kDepthwise || kind == OpKind::kMaxPool;
}

// Whether this build has any function of an op.
constexpr bool linked(OpKind kind) {
  const OpRow& row = kAllOps[static_cast<uint32_t>(kind)];
  const uint32_t first = static_cast<uint32_t>(row.need);
  for (uint32_t i = first; i < first + row.functions; ++i) {
    if (arenite::linked(static_cast<Need>(i))) return true;
  }
  return false;
}

// What an op needs: `first`, or of `functions` one of those that follow it. Of all ops, as files
// may have any.
struct OpNeeds {
  Need first;
  uint8_t functions;
};
inline constexpr std::array<OpNeeds, kOpKinds> kOpNeeds = [] {
  std::array<OpNeeds, kOpKinds> needs = {};
  for (uint32_t i = 0; i < kOpKinds; ++i) needs[i] = {kAllOps[i].need, kAllOps[i].functions};
  return needs;
}();

// The row of an op. Out of line, so that the rows and their words are in a program once, and there
// only those of ops that the build has. REQUIRES: known(kind) and linked(kind).
const OpRow& row_of(OpKind kind);

// How an op uses one of its operands: kNone where that is absent. Columns that are changed in place
// are used once, by the output. REQUIRES: known(op.kind).
Access access_of(const OpView& op, uint32_t operand);

// The first of an op's numbers that is of this type; kAbsent if there is none.
// REQUIRES: known(op.kind).
uint32_t number_of(const OpView& op, NumberType type);

}  // namespace arenite::format
