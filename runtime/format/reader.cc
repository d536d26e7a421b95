// SPDX-License-Identifier: Apache-2.0
// Translates FlatBuffers accessors into plain structs.
#include "format/reader.h"

#include <cstddef>
#include <cstring>
#include <iterator>
#include <type_traits>

#include "format/fields.h"
#include "model_generated.h"

namespace arenite::format {
namespace {

SegmentView segment_view(const Segment& segment) {
  return {segment.offset(), segment.bytes(), segment.crc32c()};
}

// A larger number becomes the largest, which no derived formula has.
uint32_t in_32_bits(uint64_t number) {
  return number < UINT32_MAX ? static_cast<uint32_t>(number) : UINT32_MAX;
}

ColumnView column_view(const View& view) { return {view.slot(), view.column(), view.width()}; }

// A member of OpView, and the field of an op that it is a copy of.
struct OpMember {
  OpKind kind;
  uint8_t entry;
  uint8_t bytes;
  uint16_t offset;
};
#define ARENITE_OP_MEMBER(kind, entry, member) \
  { OpKind::kind, entry, sizeof(OpView{}.member), offsetof(OpView, member) }
constexpr OpMember kOpMembers[] = {
    ARENITE_OP_MEMBER(kLinear, Linear::VT_INPUT, linear.input),
    ARENITE_OP_MEMBER(kLinear, Linear::VT_OUTPUT, linear.output),
    ARENITE_OP_MEMBER(kLinear, Linear::VT_TENSOR, linear.tensor),
    ARENITE_OP_MEMBER(kAttention, Attention::VT_QUERY, attention.query),
    ARENITE_OP_MEMBER(kAttention, Attention::VT_KEY, attention.key),
    ARENITE_OP_MEMBER(kAttention, Attention::VT_VALUE, attention.value),
    ARENITE_OP_MEMBER(kAttention, Attention::VT_OUTPUT, attention.output),
    ARENITE_OP_MEMBER(kAttention, Attention::VT_HEADS, attention.heads),
    ARENITE_OP_MEMBER(kAttention, Attention::VT_CACHE, attention.cache),
    ARENITE_OP_MEMBER(kAttention, Attention::VT_MASK, attention.mask),
    ARENITE_OP_MEMBER(kEmbedding, Embedding::VT_OUTPUT, embedding.output),
    ARENITE_OP_MEMBER(kEmbedding, Embedding::VT_TOKENS, embedding.tokens),
    ARENITE_OP_MEMBER(kEmbedding, Embedding::VT_POSITIONS, embedding.positions),
    ARENITE_OP_MEMBER(kEmbedding, Embedding::VT_POSITION_OFFSET, embedding.position_offset),
    ARENITE_OP_MEMBER(kEmbedding, Embedding::VT_SCALE, embedding.scale),
    ARENITE_OP_MEMBER(kEmbedding, Embedding::VT_TYPES, embedding.types),
    ARENITE_OP_MEMBER(kEmbedding, Embedding::VT_PADDING_ID, embedding.padding_id),
    ARENITE_OP_MEMBER(kNorm, Norm::VT_INPUT, norm.input),
    ARENITE_OP_MEMBER(kNorm, Norm::VT_OUTPUT, norm.output),
    ARENITE_OP_MEMBER(kNorm, Norm::VT_KIND, norm.kind),
    ARENITE_OP_MEMBER(kNorm, Norm::VT_GROUPS, norm.groups),
    ARENITE_OP_MEMBER(kNorm, Norm::VT_EPSILON, norm.epsilon),
    ARENITE_OP_MEMBER(kNorm, Norm::VT_GAIN, norm.gain),
    ARENITE_OP_MEMBER(kNorm, Norm::VT_BIAS, norm.bias),
    ARENITE_OP_MEMBER(kRope, Rope::VT_TARGET, rope.target),
    ARENITE_OP_MEMBER(kRope, Rope::VT_HEADS, rope.heads),
    ARENITE_OP_MEMBER(kRope, Rope::VT_ANGLES, rope.angles),
    ARENITE_OP_MEMBER(kActivation, Activation::VT_TARGET, activation.target),
    ARENITE_OP_MEMBER(kActivation, Activation::VT_FACTOR, activation.factor),
    ARENITE_OP_MEMBER(kActivation, Activation::VT_KIND, activation.kind),
    ARENITE_OP_MEMBER(kActivation, Activation::VT_CAP, activation.cap),
    ARENITE_OP_MEMBER(kAdd, Add::VT_TARGET, add.target),
    ARENITE_OP_MEMBER(kAdd, Add::VT_OTHER, add.other),
    ARENITE_OP_MEMBER(kSelect, Select::VT_INPUT, select.input),
    ARENITE_OP_MEMBER(kSelect, Select::VT_OUTPUT, select.output),
    ARENITE_OP_MEMBER(kSelect, Select::VT_KIND, select.kind),
};
#undef ARENITE_OP_MEMBER

// Where the members of each kind begin.
struct OpBegins {
  uint8_t of[static_cast<uint32_t>(OpKind::kSelect) + 2];
};
constexpr OpBegins find_op_begins() {
  OpBegins begins = {};
  for (const OpMember& member : kOpMembers) {
    for (uint32_t i = static_cast<uint32_t>(member.kind) + 1; i < std::size(begins.of); ++i) {
      ++begins.of[i];
    }
  }
  return begins;
}
constexpr OpBegins kOpBegins = find_op_begins();

// Copies of bytes are right where both sides are laid out alike.
static_assert(std::is_standard_layout_v<OpView> && sizeof(ColumnView) == sizeof(View));
constexpr OpKind kLastOpKind = OpKind::kSelect;
static_assert(static_cast<int>(kLastOpKind) == static_cast<int>(Body::MAX) &&
              static_cast<int>(OpKind::kLinear) == static_cast<int>(Body::Linear) &&
              static_cast<int>(OpKind::kAttention) == static_cast<int>(Body::Attention) &&
              static_cast<int>(OpKind::kEmbedding) == static_cast<int>(Body::Embedding) &&
              static_cast<int>(OpKind::kNorm) == static_cast<int>(Body::Norm) &&
              static_cast<int>(OpKind::kRope) == static_cast<int>(Body::Rope) &&
              static_cast<int>(OpKind::kActivation) == static_cast<int>(Body::Activation) &&
              static_cast<int>(OpKind::kAdd) == static_cast<int>(Body::Add));

// Element `index` of a list of structs.
template <typename T>
const T& element(const void* table, uint16_t entry, uint32_t index) {
  return list_field<T>(table, entry)[index];
}

// The same where T has numbers of 8 bytes: lists begin at a multiple of 4.
template <typename T>
T unaligned_element(const void* table, uint16_t entry, uint32_t index) {
  T value;
  std::memcpy(&value, field_target(table, entry) + sizeof(uint32_t) + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

ModelReader::ModelReader(std::span<const std::byte> file)
    : file_(file), model_(GetModel(file.data())) {}

const char* ModelReader::producer() const { return text_field(model_, Model::VT_PRODUCER); }
const char* ModelReader::name() const { return text_field(model_, Model::VT_NAME); }
const char* ModelReader::architecture() const { return text_field(model_, Model::VT_ARCHITECTURE); }
uint32_t ModelReader::positions_max() const {
  return number_field(model_, Model::VT_POSITIONS_MAX);
}
uint32_t ModelReader::vocab_size() const { return number_field(model_, Model::VT_VOCAB_SIZE); }

uint32_t ModelReader::token_types() const {
  uint32_t types = 0;
  for (uint32_t i = 0; i < ops(); ++i) {
    const OpView view = op(i);
    if (view.kind != OpKind::kEmbedding || view.embedding.types == kNoTensor) continue;
    const uint32_t rows = tensor(view.embedding.types).outputs;
    if (types == 0 || rows < types) types = rows;
  }
  return types;
}

bool ModelReader::pooled() const {
  for (uint32_t i = 0; i < ops(); ++i) {
    const OpView view = op(i);
    if (view.kind == OpKind::kSelect) return view.select.kind != SelectKind::kAsAsked;
  }
  return false;
}

uint32_t ModelReader::labels() const { return list_length(model_, Model::VT_LABELS); }
const char* ModelReader::label(uint32_t index) const {
  return list_text(model_, Model::VT_LABELS, index);
}

uint32_t ModelReader::input_slot() const { return number_field(model_, Model::VT_INPUT_SLOT); }
uint32_t ModelReader::output_slot() const { return number_field(model_, Model::VT_OUTPUT_SLOT); }

uint32_t ModelReader::slots() const { return list_length(model_, Model::VT_SLOTS); }

SlotView ModelReader::slot(uint32_t index) const {
  const Slot& slot = element<Slot>(model_, Model::VT_SLOTS, index);
  return {slot.width(), slot.column(), slot.first_op(), slot.last_op(), slot.per_output() != 0};
}

uint32_t ModelReader::ops() const { return list_length(model_, Model::VT_OPS); }

OpView ModelReader::op(uint32_t index) const {
  const uint8_t* const op = list_target(model_, Model::VT_OPS, index);
  const uint8_t* const body = field_target(op, Op::VT_BODY);
  OpView view;
  const uint8_t kind = byte_field(op, Op::VT_BODY_TYPE);
  if (kind > static_cast<uint8_t>(kLastOpKind)) return view;
  view.kind = static_cast<OpKind>(kind);
  for (uint32_t i = kOpBegins.of[kind]; i < kOpBegins.of[kind + 1]; ++i) {
    const OpMember& member = kOpMembers[i];
    const uint8_t* const place = field_place(body, member.entry);
    if (place == nullptr) continue;  // which leaves the default, the same as the schema's
    std::byte* const to = reinterpret_cast<std::byte*>(&view) + member.offset;
    if (member.bytes == sizeof(uint8_t)) {
      std::memcpy(to, place, sizeof(uint8_t));
    } else if (member.bytes == sizeof(uint32_t)) {
      std::memcpy(to, place, sizeof(uint32_t));
    } else {
      std::memcpy(to, place, sizeof(View));
    }
  }
  return view;
}

Uses OpView::uses() const {
  Uses uses;
  const auto add_use = [&](const ColumnView& view, Access access, Message field) {
    if (view.width != 0) uses.list[uses.count++] = {view, access, field};
  };
  switch (kind) {
    case OpKind::kNone:
      break;
    case OpKind::kLinear:
      add_use(linear.input, Access::kRead, "linear.input");
      add_use(linear.output, Access::kWrite, "linear.output");
      break;
    case OpKind::kAttention:
      add_use(attention.query, Access::kRead, "attention.query");
      add_use(attention.key, Access::kRead, "attention.key");
      add_use(attention.value, Access::kRead, "attention.value");
      add_use(attention.output, Access::kWrite, "attention.output");
      break;
    case OpKind::kEmbedding:
      add_use(embedding.output, Access::kWrite, "embedding.output");
      break;
    case OpKind::kNorm:
      if (norm.input == norm.output) {
        add_use(norm.output, Access::kUpdate, "norm.output");
        break;
      }
      add_use(norm.input, Access::kRead, "norm.input");
      add_use(norm.output, Access::kWrite, "norm.output");
      break;
    case OpKind::kRope:
      add_use(rope.target, Access::kUpdate, "rope.target");
      break;
    case OpKind::kActivation:
      add_use(activation.factor, Access::kRead, "activation.factor");
      add_use(activation.target, Access::kUpdate, "activation.target");
      break;
    case OpKind::kAdd:
      add_use(add.other, Access::kRead, "add.other");
      add_use(add.target, Access::kUpdate, "add.target");
      break;
    case OpKind::kSelect:
      add_use(select.input, Access::kRead, "select.input");
      add_use(select.output, Access::kWrite, "select.output");
      break;
  }
  return uses;
}

const char* ModelReader::op_name(uint32_t index) const {
  return text_field(list_target(model_, Model::VT_OPS, index), Op::VT_NAME);
}

uint32_t ModelReader::tensors() const { return list_length(model_, Model::VT_TENSORS); }

TensorShape ModelReader::tensor(uint32_t index) const {
  const Tensor& tensor = element<Tensor>(model_, Model::VT_TENSORS, index);
  return {tensor.outputs(), tensor.inputs(), static_cast<Layout>(tensor.layout())};
}

const char* ModelReader::tensor_name(uint32_t index) const {
  const bool has_name = index < list_length(model_, Model::VT_TENSOR_NAMES);
  return has_name ? list_text(model_, Model::VT_TENSOR_NAMES, index) : "";
}

uint32_t ModelReader::caches() const { return list_length(model_, Model::VT_CACHES); }

CacheShape ModelReader::cache(uint32_t index) const {
  const Cache& cache = element<Cache>(model_, Model::VT_CACHES, index);
  return {cache.kv_heads(), cache.head_dim(), cache.value_dim()};
}

uint32_t ModelReader::cache_behind(uint32_t index) const {
  return element<Cache>(model_, Model::VT_CACHES, index).behind();
}

uint32_t ModelReader::masks() const { return list_length(model_, Model::VT_MASKS); }

MaskView ModelReader::mask(uint32_t index) const {
  const uint8_t* const mask = list_target(model_, Model::VT_MASKS, index);
  const uint8_t* const body = field_target(mask, Mask::VT_BODY);
  MaskView view;
  view.positions = number_field(mask, Mask::VT_POSITIONS);
  switch (static_cast<MaskBody>(byte_field(mask, Mask::VT_BODY_TYPE))) {
    case MaskBody::BandMask:
      view.kind = MaskKind::kBand;
      view.behind = number_field(body, BandMask::VT_BEHIND);
      view.ahead = number_field(body, BandMask::VT_AHEAD);
      break;
    case MaskBody::StripMask:
      view.kind = MaskKind::kStrip;
      view.behind = number_field(body, StripMask::VT_BEHIND);
      view.ahead = number_field(body, StripMask::VT_AHEAD);
      view.values = list_field<float>(body, StripMask::VT_VALUES);
      break;
    case MaskBody::TileMask:
      view.kind = MaskKind::kTiles;
      view.map = list_field<uint16_t>(body, TileMask::VT_MAP);
      view.bits = list_field<uint32_t>(body, TileMask::VT_BITS);
      view.row_begin = list_field<uint32_t>(body, TileMask::VT_ROW_BEGIN);
      view.row_end = list_field<uint32_t>(body, TileMask::VT_ROW_END);
      break;
    case MaskBody::NONE:
      break;
  }
  return view;
}

bool ModelReader::mask_known(uint32_t index) const {
  const uint8_t* const mask = list_target(model_, Model::VT_MASKS, index);
  const auto kind = static_cast<MaskBody>(byte_field(mask, Mask::VT_BODY_TYPE));
  return kind == MaskBody::BandMask || kind == MaskBody::StripMask || kind == MaskBody::TileMask;
}

uint32_t ModelReader::hidden_states() const { return list_length(model_, Model::VT_HIDDEN_STATES); }

HiddenStateView ModelReader::hidden_state(uint32_t index) const {
  const HiddenState& state = element<HiddenState>(model_, Model::VT_HIDDEN_STATES, index);
  return {state.op(), column_view(state.view())};
}

SelfTestView ModelReader::self_test() const {
  const uint8_t* const place = field_place(model_, Model::VT_SELF_TEST);
  if (place == nullptr) return {};
  const auto& test = *reinterpret_cast<const SelfTest*>(place);
  return {segment_view(test.segment()), test.tokens()};
}

uint32_t ModelReader::packed_count() const { return list_length(model_, Model::VT_PACKED); }

PackedView ModelReader::packed(uint32_t index) const {
  const uint8_t* const packed = list_target(model_, Model::VT_PACKED, index);
  const auto& segment = *reinterpret_cast<const Segment*>(field_place(packed, Packed::VT_SEGMENT));
  const auto& formula =
      *reinterpret_cast<const format::ArenaFormula*>(field_place(packed, Packed::VT_FORMULA));
  PackedView view;
  view.target = byte_field(packed, Packed::VT_TARGET);
  view.packing = {Family::kF32Gemm, byte_field(packed, Packed::VT_NR),
                  byte_field(packed, Packed::VT_MR)};
  view.segment = segment_view(segment);
  view.formula.activation_bytes_per_token = in_32_bits(formula.activation_bytes_per_token());
  view.formula.activation_bytes_per_output = in_32_bits(formula.activation_bytes_per_output());
  view.formula.nr = formula.nr();
  view.formula.score_rows = formula.score_rows();
  for (uint32_t i = 0; i < cache_groups(index) && i < kCacheGroupsMax; ++i) {
    const auto group = unaligned_element<format::CacheGroup>(packed, Packed::VT_CACHE_GROUPS, i);
    view.formula.groups[i] = {group.behind(), TensorType::kF32, in_32_bits(group.bytes_per_panel()),
                              in_32_bits(group.bytes_per_page())};
    view.formula.group_count = i + 1;
  }
  return view;
}

uint32_t ModelReader::cache_groups(uint32_t packed_index) const {
  return list_length(list_target(model_, Model::VT_PACKED, packed_index), Packed::VT_CACHE_GROUPS);
}

uint32_t ModelReader::tensor_offsets(uint32_t packed_index) const {
  return list_length(list_target(model_, Model::VT_PACKED, packed_index),
                     Packed::VT_TENSOR_OFFSETS);
}

uint64_t ModelReader::tensor_offset(uint32_t packed_index, uint32_t tensor) const {
  const uint8_t* const packed = list_target(model_, Model::VT_PACKED, packed_index);
  return unaligned_element<uint64_t>(packed, Packed::VT_TENSOR_OFFSETS, tensor);
}

WeightView ModelReader::weights(uint32_t packed_index, uint32_t index) const {
  const uint8_t* const packed = list_target(model_, Model::VT_PACKED, packed_index);
  const auto& segment = *reinterpret_cast<const Segment*>(field_place(packed, Packed::VT_SEGMENT));
  const TensorShape shape = tensor(index);
  WeightView view;
  view.data = file_.data() + segment.offset() + tensor_offset(packed_index, index);
  if (shape.layout == Layout::kGemm) {
    view.packing = {Family::kF32Gemm, byte_field(packed, Packed::VT_NR),
                    byte_field(packed, Packed::VT_MR)};
  }
  view.rows = shape.outputs;
  view.columns = shape.inputs;
  return view;
}

uint32_t ModelReader::file_targets() const {
  uint32_t targets = 0;
  for (uint32_t i = 0; i < packed_count(); ++i) {
    const uint8_t* const packed = list_target(model_, Model::VT_PACKED, i);
    targets |= bit(static_cast<Target>(byte_field(packed, Packed::VT_TARGET)));
  }
  return targets;
}

bool ModelReader::causal() const {
  for (uint32_t i = 0; i < masks(); ++i) {
    if (!is_causal(mask(i))) return false;
  }
  return true;
}

bool ModelReader::sees_everything() const {
  for (uint32_t i = 0; i < masks(); ++i) {
    const MaskView view = mask(i);
    const bool all =
        view.kind == MaskKind::kBand && view.behind == kUnlimited && view.ahead == kUnlimited;
    if (!all) return false;
  }
  return true;
}

bool is_causal(const MaskView& mask) {
  if (mask.kind != MaskKind::kTiles) return mask.ahead == 0;
  for (uint32_t row = 0; row < mask.positions; ++row) {
    if (mask.row_end[row] > row + 1) return false;
  }
  return true;
}

}  // namespace arenite::format
