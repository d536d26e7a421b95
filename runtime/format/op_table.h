// SPDX-License-Identifier: Apache-2.0
// The table of ops: which operands and parameters the record of each kind has. Reader, verifier,
// needs, planner, self-test and `arenite inspect` all use this table; ops/README.md lists the other
// parts of an op. A linear op in a file and its reading:
//   views {input} {} {} {output}, numbers {7}
//   op.views[kInput]                  the columns that the op reads
//   op.numbers[LinearOp::kTensor]     7: the index of its weights in ModelReader::tensor()
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "core/message.h"
#include "core/needs.h"
#include "core/op_kinds.h"

namespace arenite::format {

// Columns [column, column + width) of a slot. Width 0 means that the operand is absent.
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
  kTopK,
  kExperts,
};
inline constexpr uint32_t kOpKinds = 15;

// Indices into OpView::views: inputs first, the output last.
enum Operand : uint8_t {
  kInput = 0,
  kOther = 1,
  kOutput = 3,
  kFactor = 1,  // activation
  kIds = 1,     // experts
  kQuery = 0,   // attention
  kKey = 1,     // attention, store
  kValue = 2,   // attention, store
};
inline constexpr uint32_t kOperands = 4;

// Indices of each kind's parameters: Number into OpView::numbers, Real into OpView::reals.
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
  enum Number : uint8_t { kKind, kFirstTaken };
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
inline constexpr uint32_t kExpertsMax = 1u << 23;  // ids are floats
struct ExpertsOp {
  enum Number : uint8_t { kTensor, kCount };
};
inline constexpr uint32_t kOpNumbers = 5;
inline constexpr uint32_t kOpReals = 1;

// The value of a parameter that refers to no tensor and no token.
inline constexpr uint32_t kAbsent = UINT32_MAX;

// The record of an op, with the same layout as in the file. Fields that its kind lacks are zero.
struct OpView {
  OpKind kind = OpKind::kLinear;
  ColumnView views[kOperands] = {};
  uint32_t numbers[kOpNumbers] = {};
  float reals[kOpReals] = {};

  // Returns a parameter as an enumerator, such as the function of its kind that the op computes.
  template <typename Kind, typename Number>
  constexpr Kind choice(Number number) const {
    return static_cast<Kind>(numbers[number]);
  }
};

// How an op uses the columns of an operand. kWrite fills columns that are still empty. kUpdate is
// like kWrite, or changes the input in place if input and output are the same columns.
enum class Access : uint8_t { kNone, kRead, kWrite, kUpdate };

enum class NumberType : uint8_t {
  kNone,
  kCount,
  kChoice,         // a function of the op's kind; below OpRow::functions
  kMatrix,         // tensor of layout gemm
  kVector,         // tensor of one plain row, or a table of plain rows that is read in place
  kPositionTable,  // tensor of plain rows, one for each position or token type
  kTable,          // tensor of either layout, one row for each token of the vocabulary
  kCache,
  kMask,
};

constexpr bool is_tensor(NumberType type) {
  return type >= NumberType::kMatrix && type <= NumberType::kTable;
}

enum class RealType : uint8_t { kNone, kFinite, kPositive };

// The axes that the operands of an op may be on.
enum class AxisRule : uint8_t {
  kSame,       // all on the axis of the output
  kPositions,  // like kSame; the rows of the axis have positions, so it is not of kind kAsked
  kBroadcast,  // like kSame, but the second operand may be on an axis of kind kOne
  kOwn,        // the check of the op's kind in verify_ops.cc decides
};

// The scratch that an op needs. kScores: rows of attention scores, for each thread. kQuantizedRows:
// the input rows in int8, if the weights are q8 or q4. kWindows: pointers to the rows of each
// window, for each thread. kExperts: experts_scratch.
enum class Scratch : uint8_t { kNone, kScores, kQuantizedRows, kWindows, kExperts };

// An optional operand may have width 0, an optional parameter may be kAbsent.
inline constexpr bool kOptional = true;

struct OperandRow {
  // "ops.", then the operand's name: for diagnostics and `arenite inspect`.
  [[no_unique_address]] Message field = "";
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
  Need need;  // need of the op, or of its first function; those of the other functions follow
  uint8_t functions = 1;
  AxisRule axes = AxisRule::kSame;
  Scratch scratch = Scratch::kNone;
  OperandRow operands[kOperands];
  // Not = {}: Clang 19 then inserts bytes before these arrays in a table and misreads later rows.
  NumberRow numbers[kOpNumbers] = {{}};
  RealRow reals[kOpReals] = {{}};
};

// Optional features of attention and selects. A build without such a feature declares no parameter
// for it. A file must then have zero there, or kAbsent for sinks; the general check refuses other
// values.
inline constexpr NumberRow kTermsByRow = linked(Need::kScoreTables) || linked(Need::kQueryTerms)
                                             ? NumberRow{"ops.terms_by", NumberType::kCount}
                                             : NumberRow{};
inline constexpr NumberRow kTakenRow =
    linked(Need::kSelectTaken) ? NumberRow{"ops.taken", NumberType::kCount} : NumberRow{};
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
     .numbers = {{"ops.rows", NumberType::kChoice}, kTakenRow}},
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
    {.kind = OpKind::kTopK,
     .name = "top_k",
     .need = Need::kTopK,
     .operands = {{"ops.input", Access::kRead}, {}, {}, {"ops.output", Access::kWrite}}},
    {.kind = OpKind::kExperts,
     .name = "experts",
     .need = Need::kExperts,
     .scratch = Scratch::kExperts,
     .operands = {{"ops.input", Access::kRead},
                  {"ops.ids", Access::kRead},
                  {},
                  {"ops.output", Access::kWrite}},
     .numbers = {{"ops.tensor", NumberType::kMatrix}, {"ops.experts", NumberType::kCount}}},
};

constexpr bool rows_are_in_order() {
  for (uint32_t i = 0; i < kOpKinds; ++i) {
    if (static_cast<uint32_t>(kAllOps[i].kind) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

constexpr bool known(OpKind kind) { return static_cast<uint32_t>(kind) < kOpKinds; }

// Whether an op can run over one block of rows after the other: each of its output rows depends
// only on the input rows of the same index, on stored keys and values, and on its own position.
constexpr bool runs_in_blocks(const OpView& op) {
  const bool is_by_row = op.kind == OpKind::kLinear || op.kind == OpKind::kNorm ||
                         op.kind == OpKind::kRope || op.kind == OpKind::kActivation ||
                         op.kind == OpKind::kAdd || op.kind == OpKind::kStore ||
                         op.kind == OpKind::kTopK || op.kind == OpKind::kExperts;
  return is_by_row || (op.kind == OpKind::kAttention && op.views[kValue].width == 0) ||
         (op.kind == OpKind::kEmbedding && op.numbers[EmbeddingOp::kTokens] == kAbsent);
}

constexpr bool has_windows(OpKind kind) {
  return kind == OpKind::kConvolution || kind == OpKind::kDepthwise || kind == OpKind::kMaxPool;
}

// Whether this build has at least one function of an op's kind.
constexpr bool linked(OpKind kind) {
  const OpRow& row = kAllOps[static_cast<uint32_t>(kind)];
  const uint32_t first = static_cast<uint32_t>(row.need);
  for (uint32_t i = first; i < first + row.functions; ++i) {
    if (arenite::linked(static_cast<Need>(i))) return true;
  }
  return false;
}

// The needs of one kind of op: function i needs first + i, for i < functions. kOpNeeds lists all
// kinds, linked or not, because a file may have any.
struct OpNeeds {
  Need first;
  uint8_t functions;
};
inline constexpr std::array<OpNeeds, kOpKinds> kOpNeeds = [] {
  std::array<OpNeeds, kOpKinds> needs = {};
  for (uint32_t i = 0; i < kOpKinds; ++i) needs[i] = {kAllOps[i].need, kAllOps[i].functions};
  return needs;
}();

// Returns the row of a kind. Out of line, so that a program has the rows and their strings once,
// and only those of linked kinds. REQUIRES: known(kind) and linked(kind).
const OpRow& row_of(OpKind kind);

// Returns how an op uses an operand: kNone if it is absent. An op in place has kUpdate for the
// output and kNone for the input. REQUIRES: known(op.kind).
Access access_of(const OpView& op, uint32_t operand);

// Returns the op's first parameter of this type; kAbsent if its kind has none.
// REQUIRES: known(op.kind).
uint32_t number_of(const OpView& op, NumberType type);

}  // namespace arenite::format
