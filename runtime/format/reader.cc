// SPDX-License-Identifier: Apache-2.0
#include "format/reader.h"

#include <algorithm>
#include <type_traits>

#include "core/views.h"
#include "format/op_table.h"
#include "format/schema.h"

namespace arenite::format {

namespace {

// A record as the plain struct that has the same numbers in the same order. Like the weights, it
// is read on little-endian CPUs only.
template <typename T, typename Record>
const T* plain(const Record* record) {
  static_assert(sizeof(T) == sizeof(Record) && alignof(T) <= alignof(Record));
  static_assert(std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>);
  return reinterpret_cast<const T*>(record);
}

template <typename T, typename Record>
const T* plain(const flatbuffers::Vector<const Record*>* list) {
  return plain<T>(reinterpret_cast<const Record*>(list->Data()));
}

// A string of a list that may be shorter than what it has names for.
const char* text(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names,
                 uint32_t index) {
  return index < names->size() ? names->Get(index)->c_str() : "";
}

}  // namespace

ModelReader::ModelReader(std::span<const std::byte> file)
    : file_(file.data()),
      model_(GetModel(file.data())),
      signature_(plain<SignatureView>(model_->signature())),
      slots_{plain<SlotView>(model_->slots()), model_->slots()->size()},
      ops_{plain<OpView>(model_->ops()), model_->ops()->size()},
      tensors_{plain<TensorShape>(model_->tensors()), model_->tensors()->size()},
      caches_{plain<CacheView>(model_->caches()), model_->caches()->size()},
      masks_{plain<MaskRecord>(model_->masks()), model_->masks()->size()},
      offsets_(model_->tensor_offsets()->data()) {}

const char* ModelReader::producer() const { return model_->producer()->c_str(); }
const char* ModelReader::name() const { return model_->name()->c_str(); }
const char* ModelReader::architecture() const { return model_->architecture()->c_str(); }

uint32_t ModelReader::token_types() const {
  uint32_t types = 0;
  for (uint32_t i = 0; i < ops(); ++i) {
    if (op(i).kind != OpKind::kEmbedding) continue;
    const uint32_t table = op(i).numbers[EmbeddingOp::kTypes];
    if (table == kAbsent) continue;
    const uint32_t rows = tensor(table).outputs;
    if (types == 0 || rows < types) types = rows;
  }
  return types;
}

uint32_t ModelReader::prefix_rows() const {
  if constexpr (!linked(Need::kPrefix)) return 0;
  Checked rows = 0;
  for (uint32_t i = 0; i < ops(); ++i) {
    if (op(i).kind != OpKind::kPrefix) continue;
    const uint32_t tensor = op(i).numbers[PrefixOp::kRows];
    if (tensor >= tensors()) continue;  // refused later
    const Checked end = Checked(op(i).numbers[PrefixOp::kFirstRow]) + tensors_[tensor].outputs;
    if (end.value() > rows.value()) rows = end;
  }
  // More are refused, and are no numbers to calculate with before that.
  return static_cast<uint32_t>(std::min<size_t>(rows.value(), kPrefixRowsMax + 1));
}

ImagePatches ModelReader::image_patches() const {
  using enum PatchesOp::Number;
  const uint32_t* const numbers = op(0).numbers;
  return {numbers[kChannels], numbers[kHeight], numbers[kWidth], numbers[kPatchHeight],
          numbers[kPatchWidth]};
}

bool ModelReader::pooled() const {
  for (uint32_t i = 0; i < ops(); ++i) {
    if (op(i).kind != OpKind::kSelect) continue;
    return op(i).choice<SelectKind>(SelectOp::kKind) != SelectKind::kAsAsked;
  }
  return false;
}

uint32_t ModelReader::labels() const { return model_->labels()->size(); }
const char* ModelReader::label(uint32_t index) const { return text(model_->labels(), index); }

const char* ModelReader::op_name(uint32_t index) const { return text(model_->op_names(), index); }

const char* ModelReader::tensor_name(uint32_t index) const {
  return text(model_->tensor_names(), index);
}

uint32_t ModelReader::mask_words() const { return model_->mask_words()->size(); }

MaskView ModelReader::mask(uint32_t index) const {
  const MaskRecord& record = mask_record(index);
  const uint32_t* const words = model_->mask_words()->data() + record.first_word;
  MaskView view;
  view.kind = static_cast<MaskKind>(record.kind);
  view.positions = record.positions;
  view.lookback = record.lookback;
  view.lookahead = record.lookahead;
  if (view.kind == MaskKind::kStrip) {
    view.values = {reinterpret_cast<const float*>(words), record.words};
  } else if (view.kind == MaskKind::kTiles) {
    const size_t tiles = size_t{view.tile_columns()} * view.tile_columns();
    const size_t map_words = (tiles + 1) / 2;
    const size_t rows = view.positions;
    view.map = {reinterpret_cast<const uint16_t*>(words), tiles};
    view.row_begin = {words + map_words, rows};
    view.row_end = {words + map_words + rows, rows};
    view.bits = {words + map_words + 2 * rows, record.words - map_words - 2 * rows};
  }
  return view;
}

uint32_t ModelReader::hidden_states() const { return model_->hidden_states()->size(); }

const HiddenStateView& ModelReader::hidden_state(uint32_t index) const {
  return plain<HiddenStateView>(model_->hidden_states())[index];
}

uint32_t ModelReader::packed_count() const { return model_->packed()->size(); }

const PackedView& ModelReader::packed(uint32_t index) const {
  return plain<PackedView>(model_->packed())[index];
}

SelfTestView ModelReader::self_test() const { return *plain<SelfTestView>(model_->self_test()); }

uint32_t ModelReader::tensor_offsets() const { return model_->tensor_offsets()->size(); }

WeightView ModelReader::weights(uint32_t packed_index, uint32_t index) const {
  const PackedView& stored = packed(packed_index);
  const TensorShape& shape = tensor(index);
  const bool is_packed = shape.layout == Layout::kGemm;
  return {file_ + stored.segment.begin() + tensor_offset(packed_index, index), shape.type,
          is_packed ? stored.packing(shape.type) : Packing{}, shape.outputs, shape.inputs};
}

uint32_t ModelReader::file_targets() const {
  uint32_t targets = 0;
  for (uint32_t i = 0; i < packed_count(); ++i) {
    targets |= bit(static_cast<Target>(packed(i).target));
  }
  return targets;
}

bool ModelReader::causal() const {
  if (pooled() || reads_images() || tokens_min() > 1) return false;
  for (uint32_t i = 0; i < masks(); ++i) {
    if (!is_causal(mask(i))) return false;
  }
  return true;
}

bool ModelReader::sees_everything() const {
  for (uint32_t i = 0; i < masks(); ++i) {
    const MaskRecord& record = mask_record(i);
    const bool all = record.kind == static_cast<uint32_t>(MaskKind::kBand) &&
                     record.lookback == kUnlimited && record.lookahead == kUnlimited;
    if (!all) return false;
  }
  return true;
}

bool is_causal(const MaskView& mask) {
  if (mask.kind != MaskKind::kTiles) return mask.lookahead == 0;
  for (uint32_t row = 0; row < mask.positions; ++row) {
    if (mask.row_end[row] > row + 1) return false;
  }
  return true;
}

namespace {

constexpr uint32_t kLinkedOps = [] {
  uint32_t count = 0;
  for (const OpRow& row : kAllOps) count += linked(row.kind) ? 1 : 0;
  return count;
}();
constexpr std::array<OpRow, kLinkedOps> kOps = [] {
  std::array<OpRow, kLinkedOps> rows = {};
  uint32_t count = 0;
  for (const OpRow& row : kAllOps) {
    if (linked(row.kind)) rows[count++] = row;
  }
  return rows;
}();

}  // namespace

const OpRow& row_of(OpKind kind) {
  if constexpr (kLinkedOps == kOpKinds) return kOps[static_cast<uint32_t>(kind)];
  const OpRow* row = kOps.data();
  while (row->kind != kind) ++row;
  return *row;
}

Access access_of(const OpView& op, uint32_t operand) {
  const OpRow& row = row_of(op.kind);
  const bool in_place =
      row.operands[kOutput].access == Access::kUpdate && op.views[kInput] == op.views[kOutput];
  const bool counts_as_output = in_place && operand == kInput;
  if (op.views[operand].width == 0 || counts_as_output) return Access::kNone;
  const Access access = row.operands[operand].access;
  return access == Access::kUpdate && !in_place ? Access::kWrite : access;
}

uint32_t number_of(const OpView& op, NumberType type) {
  for (uint32_t i = 0; i < kOpNumbers; ++i) {
    if (row_of(op.kind).numbers[i].type == type) return op.numbers[i];
  }
  return kAbsent;
}

SelfTestLayout self_test_layout(const ModelReader& model, uint32_t tokens) {
  constexpr uint64_t kWord = sizeof(float);
  const bool reads_tokens = model.vocab_size() != 0;
  const uint64_t input_width = reads_tokens ? 1 : model.slot(model.input_slot_of_rows()).width;
  const bool has_types = reads_tokens && model.token_types() != 0;
  Checked types = Checked(tokens) * input_width * kWord;
  if constexpr (linked(OpKind::kPatches)) {
    if (model.reads_images()) types = model.image_patches().pixels() * kWord;
  }
  const Checked ops = types + (has_types ? round_up(tokens, kWord) : Checked(0));
  const uint32_t rows = tokens + (linked(Need::kPrefix) ? model.prefix_rows() : 0);
  const Checked output = ops + (Checked(rows) + kSelfTestTolerances) * model.ops() * kWord;
  const Checked row = model.slot(model.output_slot()).width;
  const Checked end = round_up(output + (row + kSelfTestTolerances) * kWord, kSegmentUnit);
  return {rows, types.value(), ops.value(), output.value(), end.value()};
}

// The weights are the high bits of a linear congruential generator.
float digest_of_row(std::span<const float> row) {
  float sum = 0.0f;
  uint32_t state = 0;
  for (const float value : row) {
    state = state * 1664525u + 1013904223u;
    sum += value * (static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f);
  }
  return sum;
}

}  // namespace arenite::format
