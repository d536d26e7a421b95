// SPDX-License-Identifier: Apache-2.0
// Translates FlatBuffers accessors into plain structs.
#include "format/reader.h"

#include <cstring>

#include "model_generated.h"

namespace arenite::format {
namespace {

ColumnView column_view(const View* view) {
  if (view == nullptr) return {};
  return {view->slot(), view->column(), view->width()};
}

SegmentView segment_view(const Segment& segment) {
  return {segment.offset(), segment.bytes(), segment.crc32c()};
}

const char* text(const flatbuffers::String* string) {
  return string == nullptr ? "" : string->c_str();
}

template <typename Vector>
uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

template <typename T>
std::span<const T> elements(const flatbuffers::Vector<T>* vector) {
  if (vector == nullptr) return {};
  return {vector->data(), vector->size()};
}

}  // namespace

ModelReader::ModelReader(std::span<const std::byte> file)
    : file_(file), model_(GetModel(file.data())) {}

const char* ModelReader::producer() const { return text(model_->producer()); }
const char* ModelReader::name() const { return text(model_->name()); }
const char* ModelReader::architecture() const { return text(model_->architecture()); }
uint32_t ModelReader::positions_max() const { return model_->positions_max(); }
uint32_t ModelReader::vocab_size() const { return model_->vocab_size(); }

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

uint32_t ModelReader::labels() const { return count(model_->labels()); }
const char* ModelReader::label(uint32_t index) const { return text(model_->labels()->Get(index)); }

uint32_t ModelReader::input_slot() const { return model_->input_slot(); }
uint32_t ModelReader::output_slot() const { return model_->output_slot(); }

uint32_t ModelReader::slots() const { return count(model_->slots()); }

SlotView ModelReader::slot(uint32_t index) const {
  const Slot* slot = model_->slots()->Get(index);
  return {slot->width(), slot->column(), slot->first_op(), slot->last_op(),
          slot->per_output() != 0};
}

uint32_t ModelReader::ops() const { return count(model_->ops()); }

OpView ModelReader::op(uint32_t index) const {
  const Op* op = model_->ops()->Get(index);
  OpView view;
  if (const Linear* linear = op->body_as_Linear()) {
    view.kind = OpKind::kLinear;
    view.linear = {column_view(linear->input()), column_view(linear->output()), linear->tensor()};
  } else if (const Attention* attention = op->body_as_Attention()) {
    view.kind = OpKind::kAttention;
    view.attention = {column_view(attention->query()),
                      column_view(attention->key()),
                      column_view(attention->value()),
                      column_view(attention->output()),
                      attention->heads(),
                      attention->cache(),
                      attention->mask()};
  } else if (const Embedding* embedding = op->body_as_Embedding()) {
    view.kind = OpKind::kEmbedding;
    view.embedding = {column_view(embedding->output()), embedding->tokens(), embedding->positions(),
                      embedding->position_offset(),     embedding->scale(),  embedding->types()};
  } else if (const Norm* norm = op->body_as_Norm()) {
    view.kind = OpKind::kNorm;
    view.norm = {column_view(norm->input()),
                 column_view(norm->output()),
                 static_cast<NormKind>(norm->kind()),
                 norm->groups(),
                 norm->epsilon(),
                 norm->gain(),
                 norm->bias()};
  } else if (const Rope* rope = op->body_as_Rope()) {
    view.kind = OpKind::kRope;
    view.rope = {column_view(rope->target()), rope->heads(), rope->angles()};
  } else if (const Activation* activation = op->body_as_Activation()) {
    view.kind = OpKind::kActivation;
    view.activation = {column_view(activation->target()), column_view(activation->factor()),
                       static_cast<ActivationKind>(activation->kind()), activation->cap()};
  } else if (const Add* add = op->body_as_Add()) {
    view.kind = OpKind::kAdd;
    view.add = {column_view(add->target()), column_view(add->other())};
  } else if (const Select* select = op->body_as_Select()) {
    view.kind = OpKind::kSelect;
    view.select = {column_view(select->input()), column_view(select->output()),
                   static_cast<SelectKind>(select->kind())};
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
  return text(model_->ops()->Get(index)->name());
}

uint32_t ModelReader::tensors() const { return count(model_->tensors()); }

TensorShape ModelReader::tensor(uint32_t index) const {
  const Tensor* tensor = model_->tensors()->Get(index);
  return {tensor->outputs(), tensor->inputs(), static_cast<Layout>(tensor->layout())};
}

const char* ModelReader::tensor_name(uint32_t index) const {
  return index < count(model_->tensor_names()) ? text(model_->tensor_names()->Get(index)) : "";
}

uint32_t ModelReader::caches() const { return count(model_->caches()); }

CacheShape ModelReader::cache(uint32_t index) const {
  const Cache* cache = model_->caches()->Get(index);
  return {cache->kv_heads(), cache->head_dim(), cache->value_dim()};
}

uint32_t ModelReader::cache_behind(uint32_t index) const {
  return model_->caches()->Get(index)->behind();
}

uint32_t ModelReader::masks() const { return count(model_->masks()); }

MaskView ModelReader::mask(uint32_t index) const {
  const Mask* mask = model_->masks()->Get(index);
  MaskView view;
  view.positions = mask->positions();
  if (const BandMask* band = mask->body_as_BandMask()) {
    view.kind = MaskKind::kBand;
    view.behind = band->behind();
    view.ahead = band->ahead();
  } else if (const StripMask* strip = mask->body_as_StripMask()) {
    view.kind = MaskKind::kStrip;
    view.behind = strip->behind();
    view.ahead = strip->ahead();
    view.values = elements(strip->values());
  } else if (const TileMask* tiles = mask->body_as_TileMask()) {
    view.kind = MaskKind::kTiles;
    view.map = elements(tiles->map());
    view.bits = elements(tiles->bits());
    view.row_begin = elements(tiles->row_begin());
    view.row_end = elements(tiles->row_end());
  }
  return view;
}

bool ModelReader::mask_known(uint32_t index) const {
  const MaskBody kind = model_->masks()->Get(index)->body_type();
  return kind == MaskBody::BandMask || kind == MaskBody::StripMask || kind == MaskBody::TileMask;
}

uint32_t ModelReader::hidden_states() const { return count(model_->hidden_states()); }

HiddenStateView ModelReader::hidden_state(uint32_t index) const {
  const HiddenState* state = model_->hidden_states()->Get(index);
  return {state->op(), column_view(&state->view())};
}

SelfTestView ModelReader::self_test() const {
  const SelfTest* test = model_->self_test();
  if (test == nullptr) return {};
  return {segment_view(test->segment()), test->tokens()};
}

uint32_t ModelReader::packed_count() const { return count(model_->packed()); }

PackedView ModelReader::packed(uint32_t index) const {
  const Packed* packed = model_->packed()->Get(index);
  const format::ArenaFormula* formula = packed->formula();
  PackedView view;
  view.target = packed->target();
  view.packing = {Family::kF32Gemm, packed->nr(), packed->mr()};
  view.segment = segment_view(*packed->segment());
  view.formula.activation_bytes_per_token = formula->activation_bytes_per_token();
  view.formula.activation_bytes_per_output = formula->activation_bytes_per_output();
  view.formula.nr = formula->nr();
  view.formula.score_rows = formula->score_rows();
  for (uint32_t i = 0; i < cache_groups(index) && i < kCacheGroupsMax; ++i) {
    // FlatBuffers verifies that a list begins at a multiple of 4, not of 8.
    format::CacheGroup group;
    std::memcpy(&group, packed->cache_groups()->Data() + i * sizeof(group), sizeof(group));
    view.formula.groups[i] = {group.behind(), group.bytes_per_panel(), group.bytes_per_page()};
    view.formula.group_count = i + 1;
  }
  return view;
}

uint32_t ModelReader::cache_groups(uint32_t packed_index) const {
  return count(model_->packed()->Get(packed_index)->cache_groups());
}

uint32_t ModelReader::tensor_offsets(uint32_t packed_index) const {
  return count(model_->packed()->Get(packed_index)->tensor_offsets());
}

uint64_t ModelReader::tensor_offset(uint32_t packed_index, uint32_t tensor) const {
  // FlatBuffers verifies that a list begins at a multiple of 4, not of 8.
  uint64_t offset;
  const uint8_t* const offsets = model_->packed()->Get(packed_index)->tensor_offsets()->Data();
  std::memcpy(&offset, offsets + size_t{tensor} * sizeof(offset), sizeof(offset));
  return offset;
}

const float* ModelReader::weights(uint32_t packed_index, uint32_t tensor) const {
  const uint64_t segment_offset = model_->packed()->Get(packed_index)->segment()->offset();
  const uint64_t offset = segment_offset + tensor_offset(packed_index, tensor);
  return reinterpret_cast<const float*>(file_.data() + offset);
}

uint32_t ModelReader::file_targets() const {
  uint32_t targets = 0;
  for (uint32_t i = 0; i < packed_count(); ++i) {
    targets |= bit(static_cast<Target>(model_->packed()->Get(i)->target()));
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
