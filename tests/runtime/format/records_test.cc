// SPDX-License-Identifier: Apache-2.0
// The plain structs of reader.h have the layout of the schema's records, and FlatBuffers' verifier
// makes the schema safe to read in place.
#include <flatbuffers/reflection.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

#include "format/reader.h"
#include "model_generated.h"

namespace arenite::format {
namespace {

// Returns the bytes as another type.
template <typename To, typename From>
To as(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof(to));
  return to;
}

TEST(Records, OpsMatchTheSchema) {
  const View views[] = {{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {10, 11, 12}};
  const uint32_t numbers[] = {13, 14, 15, 16, 17};
  const float reals[] = {18.0f};
  const OpView op = as<OpView>(Op(3, views, numbers, reals));
  EXPECT_EQ(op.kind, OpKind::kNorm);
  for (uint32_t i = 0; i < kOperands; ++i) {
    EXPECT_EQ(op.views[i], (ColumnView{views[i].slot(), views[i].column(), views[i].width()}));
  }
  for (uint32_t i = 0; i < kOpNumbers; ++i) EXPECT_EQ(op.numbers[i], numbers[i]);
  for (uint32_t i = 0; i < kOpReals; ++i) EXPECT_EQ(op.reals[i], reals[i]);
}

TEST(Records, ProgramsMatchTheSchema) {
  const SlotView slot = as<SlotView>(Slot(1, 2, 3, 4, 5));
  EXPECT_EQ(slot.width, 1u);
  EXPECT_EQ(slot.offset, 2u);
  EXPECT_EQ(slot.first_op, 3u);
  EXPECT_EQ(slot.last_op, 4u);
  EXPECT_EQ(slot.axis, 5u);
  const auto axis = as<arenite::Axis>(Axis(4, 2, 1, 3, 6, -5));
  EXPECT_EQ(axis, (arenite::Axis{AxisKind::kAsked, 2, 1, 3, 6, -5}));
  const InputView input = as<InputView>(Input(1, 2, 3, 4, 5));
  EXPECT_EQ(input.axis, 1u);
  EXPECT_EQ(input.vocab_size, 2u);
  EXPECT_EQ(input.slot, 3u);
  EXPECT_EQ(input.positions_max, 4u);
  EXPECT_EQ(input.tokens_min, 5u);
  const FunctionView function = as<FunctionView>(Function(1, 2, 3, 4));
  EXPECT_EQ(function.first_op, 1u);
  EXPECT_EQ(function.ops, 2u);
  EXPECT_EQ(function.inputs, 3u);
  EXPECT_EQ(function.output_slot, 4u);
  const TensorShape tensor = as<TensorShape>(Tensor(1, 2, 3, 1));
  EXPECT_EQ(tensor.outputs, 1u);
  EXPECT_EQ(tensor.inputs, 2u);
  EXPECT_EQ(tensor.type, TensorType::kQ4);
  EXPECT_EQ(tensor.layout, Layout::kPlain);
  const CacheView cache = as<CacheView>(Cache(1, 2, 3, 4, 5));
  EXPECT_EQ(cache.shape.kv_heads, 1u);
  EXPECT_EQ(cache.shape.head_dim, 2u);
  EXPECT_EQ(cache.shape.value_dim, 3u);
  EXPECT_EQ(cache.lookback, 4u);
  EXPECT_EQ(cache.axis, 5u);
  const MaskRecord mask = as<MaskRecord>(Mask(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(mask.kind, 1u);
  EXPECT_EQ(mask.positions, 2u);
  EXPECT_EQ(mask.lookback, 3u);
  EXPECT_EQ(mask.lookahead, 4u);
  EXPECT_EQ(mask.first_word, 5u);
  EXPECT_EQ(mask.words, 6u);
  const HiddenStateView state = as<HiddenStateView>(HiddenState(1, View(2, 3, 4)));
  EXPECT_EQ(state.op, 1u);
  EXPECT_EQ(state.view, (ColumnView{2, 3, 4}));
}

TEST(Records, SegmentsMatchTheSchema) {
  const SelfTestView test = as<SelfTestView>(SelfTest(Segment(1, 2, 3), 4));
  EXPECT_EQ(test.segment.begin(), 64u);
  EXPECT_EQ(test.segment.bytes(), 128u);
  EXPECT_EQ(test.segment.end(), 192u);
  EXPECT_EQ(test.segment.crc32c, 3u);
  EXPECT_EQ(test.tokens, 4u);
  const CacheGroup groups[] = {{1, 15, {16, 17}, {18, 19}},
                               {2, 20, {21, 22}, {23, 24}},
                               {3, 25, {26, 27}, {28, 29}},
                               {4, 30, {31, 32}, {33, 34}}};
  const AxisBytes axes[] = {{35, 36}, {37, 38}, {39, 40}, {41, 42}, {43, 44},
                            {45, 46}, {47, 48}, {49, 50}, {51, 52}, {53, 54},
                            {55, 56}, {57, 58}, {59, 60}, {61, 62}, {63, 64}};
  const PackedView packed =
      as<PackedView>(Packed(3, Segment(5, 6, 7), ArenaFormula(axes, 11, 10, 12, 13, 14, groups)));
  EXPECT_EQ(packed.target, 3u);
  EXPECT_EQ(packed.segment.offset, 5u);
  for (uint32_t i = 0; i < kAxesMax; ++i) {
    EXPECT_EQ(packed.formula.axes[i].activations, axes[i].activations());
    EXPECT_EQ(packed.formula.axes[i].scratch, axes[i].scratch());
  }
  EXPECT_EQ(packed.formula.scratch_bytes_per_thread, 11u);
  EXPECT_EQ(packed.formula.history_bytes, 10u);
  EXPECT_EQ(packed.formula.nr, 12u);
  EXPECT_EQ(packed.formula.score_rows, 13u);
  EXPECT_EQ(packed.formula.group_count, 14u);
  for (uint32_t i = 0; i < kCacheGroupsMax; ++i) {
    const arenite::CacheGroup& group = packed.formula.groups[i];
    EXPECT_EQ(group.axis, groups[i].axis());
    EXPECT_EQ(group.lookback, groups[i].lookback());
    EXPECT_EQ(group.f32.per_panel, groups[i].f32().per_panel());
    EXPECT_EQ(group.f32.per_page, groups[i].f32().per_page());
    EXPECT_EQ(group.int8.per_panel, groups[i].int8().per_panel());
    EXPECT_EQ(group.int8.per_page, groups[i].int8().per_page());
  }
}

// Places as counts of 64 bytes reach 256 GB.
TEST(Records, SegmentsReachBeyond32Bits) {
  const SegmentView segment = {UINT32_MAX, UINT32_MAX, 0};
  EXPECT_EQ(segment.begin(), (uint64_t{1} << 38) - 64);
  EXPECT_EQ(segment.end(), (uint64_t{1} << 39) - 128);
}

// FlatBuffers and its verifier align the length of a list to 4 bytes, which is not enough for
// 8-byte elements. An absent field reads as 0.
TEST(Schema, HasNoWideNumbersAndNoDefaults) {
  std::ifstream file(ARENITE_SCHEMA_FILE, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  const reflection::Schema& schema = *reflection::GetSchema(bytes.data());
  uint32_t tables = 0;
  for (const reflection::Object* object : *schema.objects()) {
    SCOPED_TRACE(object->name()->str());
    tables += object->is_struct() ? 0 : 1;
    if (object->is_struct()) {
      EXPECT_LE(object->minalign(), 4);
    }
    for (const reflection::Field* field : *object->fields()) {
      SCOPED_TRACE(field->name()->str());
      EXPECT_EQ(field->default_integer(), 0);
      EXPECT_EQ(field->default_real(), 0.0);
      const reflection::BaseType type = field->type()->base_type();
      const bool is_list = type == reflection::Vector || type == reflection::String;
      const std::string name = field->name()->str();
      const bool is_optional = name == "tokenizer" || name == "sound" || name == "output_shape" ||
                               name == "arrays" || name == "taken_rows" || name == "tokens_steps" ||
                               name == "suppressed";
      if (!object->is_struct() && !is_optional && (is_list || type == reflection::Obj)) {
        EXPECT_TRUE(field->required());
      }
      for (const reflection::BaseType number : {type, field->type()->element()}) {
        if (number <= reflection::Double) {
          EXPECT_LE(flatbuffers::GetTypeSize(number), 4u);
        }
      }
    }
  }
  // Model, Sound, Tokenizer and its lists, which verification counts.
  EXPECT_EQ(tables, 4u);
}

// The name before the dot is the op. A row has no gaps, so the position of a field is its number.
TEST(OpTable, NamesFieldsAsTheListOfOpsIs) {
  for (const OpRow& row : kAllOps) {
    const auto belongs = [](const char* field) { return std::string(field).starts_with("ops."); };
    for (const OperandRow& operand : row.operands) {
      EXPECT_EQ(belongs(operand.field), operand.access != Access::kNone) << row.name;
    }
    bool ended = false;
    for (const NumberRow& number : row.numbers) {
      EXPECT_EQ(belongs(number.field), number.type != NumberType::kNone) << row.name;
      EXPECT_FALSE(ended && number.type != NumberType::kNone) << row.name;
      ended = number.type == NumberType::kNone;
    }
    for (const RealRow& real : row.reals) {
      EXPECT_EQ(belongs(real.field), real.type != RealType::kNone) << row.name;
    }
    EXPECT_EQ(row.functions > 1, row.numbers[0].type == NumberType::kChoice) << row.name;
  }
}

TEST(OpTable, FindsTheNamedNumbers) {
  const auto number = [](OpKind kind, uint32_t place) {
    return std::string(row_of(kind).numbers[place].field);
  };
  EXPECT_EQ(number(OpKind::kLinear, LinearOp::kTensor), "ops.tensor");
  EXPECT_EQ(number(OpKind::kAttention, AttentionOp::kCache), "ops.cache");
  EXPECT_EQ(number(OpKind::kAttention, AttentionOp::kMask), "ops.mask");
  EXPECT_EQ(number(OpKind::kAttention, AttentionOp::kTerms), "ops.terms");
  EXPECT_EQ(number(OpKind::kAttention, AttentionOp::kTermsBy), "ops.terms_by");
  EXPECT_EQ(number(OpKind::kAttention, AttentionOp::kSinks), "ops.sinks");
  EXPECT_STREQ(row_of(OpKind::kAttention).reals[AttentionOp::kScoreCap].field, "ops.score_cap");
  EXPECT_EQ(number(OpKind::kEmbedding, EmbeddingOp::kTokens), "ops.tokens");
  EXPECT_EQ(number(OpKind::kEmbedding, EmbeddingOp::kPositions), "ops.positions");
  EXPECT_EQ(number(OpKind::kEmbedding, EmbeddingOp::kTypes), "ops.types");
  EXPECT_EQ(number(OpKind::kEmbedding, EmbeddingOp::kPositionOffset), "ops.position_offset");
  EXPECT_EQ(number(OpKind::kEmbedding, EmbeddingOp::kPaddingId), "ops.padding_id");
  EXPECT_EQ(number(OpKind::kNorm, NormOp::kGroups), "ops.groups");
  EXPECT_EQ(number(OpKind::kNorm, NormOp::kGain), "ops.gain");
  EXPECT_EQ(number(OpKind::kNorm, NormOp::kBias), "ops.bias");
  EXPECT_EQ(number(OpKind::kRope, RopeOp::kHeads), "ops.heads");
  EXPECT_EQ(number(OpKind::kRope, RopeOp::kAngles), "ops.angles");
  EXPECT_EQ(number(OpKind::kConvolution, ConvolutionOp::kDilation), "ops.dilation");
  EXPECT_EQ(number(OpKind::kConvolution, ConvolutionOp::kBefore), "ops.before");
  EXPECT_EQ(number(OpKind::kDepthwise, DepthwiseOp::kKernel), "ops.kernel");
  EXPECT_EQ(number(OpKind::kDepthwise, DepthwiseOp::kBefore), "ops.before");
  EXPECT_EQ(number(OpKind::kDepthwise, DepthwiseOp::kBias), "ops.bias");
}

TEST(OpTable, KnowsOperandsUpdatedInPlace) {
  OpView op;
  op.kind = OpKind::kAdd;
  op.views[kInput] = op.views[kOutput] = {0, 0, 4};
  op.views[kOther] = {1, 0, 4};
  EXPECT_EQ(access_of(op, kInput), Access::kNone);
  EXPECT_EQ(access_of(op, kOther), Access::kRead);
  EXPECT_EQ(access_of(op, kOutput), Access::kUpdate);
  op.views[kOutput] = {2, 0, 4};
  EXPECT_EQ(access_of(op, kInput), Access::kRead);
  EXPECT_EQ(access_of(op, kOutput), Access::kWrite);
}

// The need of a function is its op's first one, and those that follow.
TEST(OpTable, NeedsAreNamedByTheirFunctions) {
  const auto first_and_last = [](OpKind kind) {
    const uint32_t first = static_cast<uint32_t>(row_of(kind).need);
    const auto full = [](uint32_t index) {
      const NeedName found = arenite::name(static_cast<Need>(index));
      return std::string(found.kind) + " " + found.name;
    };
    return full(first) + ", " + full(first + row_of(kind).functions - 1);
  };
  EXPECT_EQ(first_and_last(OpKind::kNorm), "norm layer, norm log_softmax");
  EXPECT_EQ(first_and_last(OpKind::kActivation), "activation relu, activation at_most");
  EXPECT_EQ(first_and_last(OpKind::kSelect), "select as_asked, select taken");
}

}  // namespace
}  // namespace arenite::format
