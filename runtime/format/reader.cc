// SPDX-License-Identifier: Apache-2.0
// Translates FlatBuffers accessors into plain structs.
#include "format/reader.h"

#include <cstring>

#include "format/fields.h"
#include "model_generated.h"

namespace arenite::format {
namespace {

SegmentView segment_view(const Segment& segment) {
  return {segment.offset(), segment.bytes(), segment.crc32c()};
}

ColumnView column_view(const View* view) { return {view->slot(), view->column(), view->width()}; }

// Columns in a field of an op; none if it is absent.
ColumnView columns(const void* op, uint16_t entry) {
  const uint8_t* const view = field_place(op, entry);
  return view == nullptr ? ColumnView{} : column_view(reinterpret_cast<const View*>(view));
}

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

SelectKind ModelReader::select_kind() const {
  for (uint32_t i = 0; i < ops(); ++i) {
    const OpView view = op(i);
    if (view.kind == OpKind::kSelect) return view.select.kind;
  }
  return SelectKind::kAsAsked;
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
  switch (static_cast<Body>(byte_field(op, Op::VT_BODY_TYPE))) {
    case Body::Linear:
      view.kind = OpKind::kLinear;
      view.linear = {columns(body, Linear::VT_INPUT), columns(body, Linear::VT_OUTPUT),
                     number_field(body, Linear::VT_TENSOR)};
      break;
    case Body::Attention:
      view.kind = OpKind::kAttention;
      view.attention = {
          columns(body, Attention::VT_QUERY),      columns(body, Attention::VT_KEY),
          columns(body, Attention::VT_VALUE),      columns(body, Attention::VT_OUTPUT),
          number_field(body, Attention::VT_HEADS), number_field(body, Attention::VT_CACHE),
          number_field(body, Attention::VT_MASK)};
      break;
    case Body::Embedding:
      view.kind = OpKind::kEmbedding;
      view.embedding = {columns(body, Embedding::VT_OUTPUT),
                        number_field(body, Embedding::VT_TOKENS, kNoTensor),
                        number_field(body, Embedding::VT_POSITIONS, kNoTensor),
                        number_field(body, Embedding::VT_POSITION_OFFSET),
                        float_field(body, Embedding::VT_SCALE, 1.0f),
                        number_field(body, Embedding::VT_TYPES, kNoTensor)};
      break;
    case Body::Norm:
      view.kind = OpKind::kNorm;
      view.norm = {columns(body, Norm::VT_INPUT),
                   columns(body, Norm::VT_OUTPUT),
                   static_cast<NormKind>(byte_field(body, Norm::VT_KIND)),
                   number_field(body, Norm::VT_GROUPS, 1),
                   float_field(body, Norm::VT_EPSILON),
                   number_field(body, Norm::VT_GAIN, kNoTensor),
                   number_field(body, Norm::VT_BIAS, kNoTensor)};
      break;
    case Body::Rope:
      view.kind = OpKind::kRope;
      view.rope = {columns(body, Rope::VT_TARGET), number_field(body, Rope::VT_HEADS),
                   number_field(body, Rope::VT_ANGLES)};
      break;
    case Body::Activation:
      view.kind = OpKind::kActivation;
      view.activation = {columns(body, Activation::VT_TARGET), columns(body, Activation::VT_FACTOR),
                         static_cast<ActivationKind>(byte_field(body, Activation::VT_KIND)),
                         float_field(body, Activation::VT_CAP)};
      break;
    case Body::Add:
      view.kind = OpKind::kAdd;
      view.add = {columns(body, Add::VT_TARGET), columns(body, Add::VT_OTHER)};
      break;
    case Body::Select:
      view.kind = OpKind::kSelect;
      view.select = {columns(body, Select::VT_INPUT), columns(body, Select::VT_OUTPUT),
                     static_cast<SelectKind>(byte_field(body, Select::VT_KIND))};
      break;
    case Body::NONE:
      break;
  }
  return view;
}

Uses OpView::uses() const {
  Uses uses;
  const auto add_use = [&](const ColumnView& view, Access access, Words field) {
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
  return {state.op(), column_view(&state.view())};
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
  view.formula.activation_bytes_per_token = formula.activation_bytes_per_token();
  view.formula.activation_bytes_per_output = formula.activation_bytes_per_output();
  view.formula.nr = formula.nr();
  view.formula.score_rows = formula.score_rows();
  for (uint32_t i = 0; i < cache_groups(index) && i < kCacheGroupsMax; ++i) {
    const auto group = unaligned_element<format::CacheGroup>(packed, Packed::VT_CACHE_GROUPS, i);
    view.formula.groups[i] = {group.behind(), group.bytes_per_panel(), group.bytes_per_page()};
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

const float* ModelReader::weights(uint32_t packed_index, uint32_t tensor) const {
  const uint8_t* const packed = list_target(model_, Model::VT_PACKED, packed_index);
  const auto& segment = *reinterpret_cast<const Segment*>(field_place(packed, Packed::VT_SEGMENT));
  const uint64_t offset = segment.offset() + tensor_offset(packed_index, tensor);
  return reinterpret_cast<const float*>(file_.data() + offset);
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
