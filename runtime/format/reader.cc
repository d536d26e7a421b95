// SPDX-License-Identifier: Apache-2.0
#include "format/reader.h"

#include <algorithm>
#include <bitset>
#include <type_traits>

#include "core/views.h"
#include "format/op_table.h"
#include "format/schema.h"

namespace arenite::format {

namespace {

// Returns a record as the plain struct with the same fields in the same order. This works only on
// little-endian CPUs, which the weights require, too.
template <typename T, typename Record>
const T* plain(const Record* record) {
  static_assert(sizeof(T) == sizeof(Record) && alignof(T) <= alignof(Record));
  static_assert(std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>);
  return reinterpret_cast<const T*>(record);
}

// Returns the list of a field that every file has: its count, then its elements. Out of line, which
// keeps the code of the many callers small.
[[gnu::noinline]] const uint32_t* list_at(const Model* model, flatbuffers::voffset_t field) {
  return reinterpret_cast<const flatbuffers::Table*>(model)->GetPointer<const uint32_t*>(field);
}

// Returns the list of a field whose records are read as plain structs of type T.
template <typename T, typename Record>
const uint32_t* records(const Model* model, flatbuffers::voffset_t field) {
  static_assert(sizeof(T) == sizeof(Record) && alignof(T) <= alignof(Record));
  static_assert(std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>);
  return list_at(model, field);
}

// Returns the name at `index`; "" where the list of names is shorter.
const char* text(const flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>* names,
                 uint32_t index) {
  return index < names->size() ? names->Get(index)->c_str() : "";
}

}  // namespace

ModelReader::ModelReader(std::span<const std::byte> file)
    : file_(file.data()),
      model_(GetModel(file.data())),
      inputs_(records<InputView, Input>(model_, Model::VT_INPUTS)),
      functions_(records<FunctionView, Function>(model_, Model::VT_FUNCTIONS)),
      axes_(records<arenite::Axis, Axis>(model_, Model::VT_AXES)),
      slots_(records<SlotView, Slot>(model_, Model::VT_SLOTS)),
      ops_(records<OpView, Op>(model_, Model::VT_OPS)),
      tensors_(records<TensorShape, Tensor>(model_, Model::VT_TENSORS)),
      caches_(records<CacheView, Cache>(model_, Model::VT_CACHES)),
      masks_(records<MaskRecord, Mask>(model_, Model::VT_MASKS)),
      packed_(records<PackedView, Packed>(model_, Model::VT_PACKED)),
      offsets_(list_at(model_, Model::VT_TENSOR_OFFSETS)) {}

const char* ModelReader::producer() const { return model_->producer()->c_str(); }
const char* ModelReader::name() const { return model_->name()->c_str(); }
const char* ModelReader::architecture() const { return model_->architecture()->c_str(); }

bool ModelReader::has_one_function() const {
  if (((stored_inputs() ^ 1) | (stored_functions() ^ 1)) != 0) return false;
  const FunctionView& all = functions_[0];
  return (all.first_op | input(0).axis | (all.ops ^ ops()) | (all.inputs ^ 1)) == 0;
}
const char* ModelReader::input_name(uint32_t index) const {
  return text(model_->input_names(), index);
}
const FunctionView& ModelReader::find_function(uint32_t index) const {
  static constexpr FunctionView kNone;
  return index < stored_functions() ? functions_[index] : kNone;  // verify_counts refuses 0
}
const char* ModelReader::function_name(uint32_t index) const {
  return text(model_->function_names(), index);
}
TensorType ModelReader::kv_cache() const { return static_cast<TensorType>(model_->kv_cache()); }

uint32_t ModelReader::find_function_of_op(uint32_t op) const {
  uint32_t of = 0;
  while (of + 1 < functions() && op >= function(of).end()) ++of;
  return of;
}

uint32_t ModelReader::find_function_of_input(uint32_t input) const {
  uint32_t of = 0;
  while (of + 1 < functions() && !takes(of, input)) ++of;
  return of;
}

template <typename Visit>
void ModelReader::for_each_read(uint32_t of, Visit visit) const {
  if constexpr (!linked(OpKind::kStore)) return;
  for (uint32_t i = first_op(of); i < end_of_ops(of) && i < ops(); ++i) {
    const OpView& own = op(i);
    if (own.kind != OpKind::kAttention || own.views[kValue].width != 0) continue;
    const uint32_t index = own.numbers[AttentionOp::kCache];
    const uint32_t slot = own.views[kOutput].slot;
    if (index < caches() && slot < slots() && slots_[slot].axis < axes_.count()) {
      visit(whole_axis(slots_[slot].axis), cache(index).axis);
    }
  }
}

uint32_t ModelReader::blocks_of(const OpView& op) const {
  for (const ColumnView& view : op.views) {
    if (view.width != 0 && is_of_blocks(axis_of(view))) return axis_of(view);
  }
  return 0;
}

OpRange ModelReader::run_of_blocks(uint32_t op) const {
  OpRange run = {op, op};
  for (uint32_t i = 0; i < slots();) {
    const SlotView& own = slot(i++);
    if (!is_of_blocks(own.axis) || own.first_op > run.last || own.last_op < run.first) continue;
    if (own.first_op >= run.first && own.last_op <= run.last) continue;
    run = {std::min(run.first, own.first_op), std::max(run.last, own.last_op)};
    i = 0;
  }
  return run;
}

uint32_t ModelReader::inputs_read(uint32_t of) const {
  uint32_t read = 0;
  if constexpr (kFunctionsLinked) {
    if (function(of).inputs + 1 == uint32_t{1} << inputs()) return 0;  // it takes all
    for_each_read(of, [&](uint32_t, uint32_t keys) { read |= inputs_of_axis(keys); });
    read &= ~function(of).inputs;
  }
  return read;
}

InputTokens ModelReader::positions() const {
  InputTokens tokens = input(0).positions_max;
  for (uint32_t i = 1; i < inputs(); ++i) tokens.of[i] = input(i).positions_max;
  return tokens;
}

InputTokens ModelReader::shortest() const {
  InputTokens tokens = 1;
  for (uint32_t i = 0; i < inputs(); ++i) tokens.of[i] = std::max(input(i).tokens_min, uint32_t{1});
  return tokens;
}

uint32_t ModelReader::token_types(uint32_t of) const {
  uint32_t types = 0;
  for (uint32_t i = 0; i < ops(); ++i) {
    if (op(i).kind != OpKind::kEmbedding) continue;
    const uint32_t table = op(i).numbers[EmbeddingOp::kTypes];
    if (table == kAbsent || (kFunctionsLinked && axis_of_op(i) != input(of).axis)) continue;
    const uint32_t rows = tensor(table).outputs;
    if (types == 0 || rows < types) types = rows;
  }
  return types;
}

// Without kAxesLinked there are only the axis of the input and one of kind kAsked.
AxisRows ModelReader::rows_of_axes(const InputTokens& tokens, uint32_t sequences,
                                   bool all_rows) const {
  if constexpr (kAxesLinked) return arenite::rows_of_axes(axes(), tokens, sequences, all_rows);
  AxisRows rows;
  rows.of[0] = tokens[0];
  if constexpr (kLinkedAxesMax > 1) rows.of[1] = all_rows ? tokens[0] : sequences;
  return rows;
}

uint32_t ModelReader::area_of(uint32_t axis) const {
  return linked(Need::kJoin) ? arenite::area_of(axes(), axis) : axis;
}

uint32_t ModelReader::labels() const { return *list_at(model_, Model::VT_LABELS); }
const char* ModelReader::label(uint32_t index) const { return text(model_->labels(), index); }

const char* ModelReader::op_name(uint32_t index) const { return text(model_->op_names(), index); }

const char* ModelReader::tensor_name(uint32_t index) const {
  return text(model_->tensor_names(), index);
}

uint32_t ModelReader::stored_step(uint32_t of) const {
  if (model_->tokens_steps() == nullptr) return 0;
  const List<uint32_t> steps(list_at(model_, Model::VT_TOKENS_STEPS));
  return of < steps.count() ? steps[of] : 0;
}

std::span<const uint32_t> ModelReader::taken_rows(uint32_t first) const {
  if (!linked(Need::kSelectTaken) || model_->taken_rows() == nullptr) return {};
  const uint32_t* const list = list_at(model_, Model::VT_TAKEN_ROWS);
  return first < *list ? std::span(list + 1 + first, *list - first) : std::span<const uint32_t>();
}

uint32_t ModelReader::mask_words() const { return *list_at(model_, Model::VT_MASK_WORDS); }

MaskView ModelReader::mask(uint32_t index) const {
  const MaskRecord& record = mask_record(index);
  const uint32_t* const words = list_at(model_, Model::VT_MASK_WORDS) + 1 + record.first_word;
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

uint32_t ModelReader::hidden_states() const { return *list_at(model_, Model::VT_HIDDEN_STATES); }

const HiddenStateView& ModelReader::hidden_state(uint32_t index) const {
  return List<HiddenStateView>(
      records<HiddenStateView, HiddenState>(model_, Model::VT_HIDDEN_STATES))[index];
}

SelfTestView ModelReader::self_test() const { return *plain<SelfTestView>(model_->self_test()); }

WeightView ModelReader::weights(uint32_t packed_index, uint32_t index) const {
  const TensorShape& shape = tensor(index);
  const bool is_packed = shape.layout == Layout::kGemm;
  return {data(packed_index, index), shape.type,
          is_packed ? packed(packed_index).packing(shape.type) : Packing{}, shape.outputs,
          shape.inputs};
}

uint32_t ModelReader::file_targets() const {
  uint32_t targets = 0;
  for (uint32_t i = 0; i < packed_count(); ++i) {
    targets |= bit(static_cast<Target>(packed(i).target));
  }
  return targets;
}

namespace {

// Returns the windows along one direction of an image, lines or columns. Sets `after` to the
// padding that `windows` windows over `rows` rows need.
WindowAxis along(uint32_t kernel, uint32_t stride, uint32_t dilation, uint32_t before,
                 uint32_t rows, uint32_t windows) {
  WindowAxis axis = {kernel, stride, dilation, before, 0};
  const int64_t after = axis.reaches_beyond(rows, windows);
  axis.after = after > 0 ? static_cast<uint32_t>(after) : 0;
  return axis;
}

// Parameters of image windows: the low 16 bits are for lines, the high 16 bits for columns.
constexpr uint32_t low(uint32_t number) { return number & 0xFFFFu; }
constexpr uint32_t high(uint32_t number) { return number >> 16; }

Windows image_windows(const arenite::Axis& from, const arenite::Axis& to, uint32_t stride,
                      uint32_t kernel, const uint32_t* numbers) {
  const uint32_t width = from.other, columns = numbers[ConvolutionOp::kColumns];
  if (width == 0 || to.other == 0 || columns == 0) return {};  // the verifier refuses these
  const uint32_t dilation = numbers[ConvolutionOp::kDilation];
  const uint32_t before = numbers[ConvolutionOp::kBefore];
  return {along(kernel / columns, low(stride), low(dilation), low(before), from.rows / width,
                to.rows / to.other),
          along(columns, high(stride), high(dilation), high(before), width, to.other), width};
}

}  // namespace

Windows ModelReader::windows_of(const OpView& op) const {
  static_assert(uint32_t{ConvolutionOp::kDilation} == DepthwiseOp::kDilation &&
                uint32_t{ConvolutionOp::kBefore} == DepthwiseOp::kBefore &&
                uint32_t{ConvolutionOp::kColumns} == DepthwiseOp::kColumns &&
                uint32_t{MaxPoolOp::kDilation} == DepthwiseOp::kDilation &&
                uint32_t{MaxPoolOp::kBefore} == DepthwiseOp::kBefore &&
                uint32_t{MaxPoolOp::kColumns} == DepthwiseOp::kColumns);
  const ColumnView& input = op.views[kInput];
  const uint32_t index = op.numbers[ConvolutionOp::kTensor];
  const bool is_pool = op.kind == OpKind::kMaxPool;
  const bool is_sound = input.width != 0 && input.slot < slots() &&
                        op.views[kOutput].slot < slots() && (is_pool || index < tensors());
  if (!is_sound) return {};  // the verifier refuses these
  const bool is_depthwise = op.kind == OpKind::kDepthwise;
  const uint32_t from = axis_of(input);
  const uint32_t to = axis_of(op.views[kOutput]);
  const uint32_t kernel = is_pool        ? op.numbers[MaxPoolOp::kKernel]
                          : is_depthwise ? tensor(index).outputs
                                         : tensor(index).inputs / input.width;
  if (from < axes_.count() && to < axes_.count() && axes_[from].is_image()) {
    constexpr uint32_t kEach = 0x10001;
    return image_windows(axes_[from], axes_[to], from == to ? kEach : axes_[to].stride, kernel,
                         op.numbers);
  }
  WindowAxis lines;
  lines.kernel = kernel;
  lines.dilation = op.numbers[ConvolutionOp::kDilation];
  lines.before = op.numbers[ConvolutionOp::kBefore];
  // On the same axis there is one window for each row; otherwise the output's axis defines the
  // windows.
  const arenite::Axis same = {.stride = 1, .window = 1};
  const arenite::Axis& axis = from == to || to >= axes_.count() ? same : axes_[to];
  lines.stride = axis.stride;
  lines.after = lines.span() - lines.before - static_cast<uint32_t>(axis.window);
  return {lines, {}, 1};
}

Checked ModelReader::history_bytes(const OpView& op) const {
  if (!format::has_windows(op.kind)) return 0;
  return arenite::history_bytes(windows_of(op).lookback(), op.views[kInput].width);
}

bool ModelReader::has_sound() const {
  return reinterpret_cast<const flatbuffers::Table*>(model_)->CheckField(Model::VT_SOUND);
}

SoundView ModelReader::sound() const {
  if (!has_sound()) return {};
  const auto& filters = *model_->sound()->filters();
  const auto& tables = *model_->sound()->tables();
  return {reinterpret_cast<const arenite::SoundNumbers*>(model_->sound()->numbers()),
          {filters.data(), filters.size()},
          {tables.data(), tables.size()}};
}

uint32_t ModelReader::sound_bytes() const {
  if (!has_sound()) return 0;
  static_assert(sizeof(arenite::SoundNumbers) == sizeof(SoundNumbers));
  const auto& numbers = *reinterpret_cast<const arenite::SoundNumbers*>(model_->sound()->numbers());
  const uint32_t index = input_slot();
  const uint32_t width = index < slots() ? slot(index).width : 0;  // of ids the slot is unused
  return sound_floats(numbers, width) * uint32_t{sizeof(float)};
}

bool ModelReader::sees_windows(uint32_t of) const {
  for (uint32_t i = first_op(of); kWindowsLinked && i < end_of_ops(of) && i < ops(); ++i) {
    if (has_windows(i) && windows_of(op(i)).kernel() != 1) return true;
  }
  return false;
}

template <typename Test>
bool ModelReader::all_masks(uint32_t of, Test test) const {
  std::bitset<kMasksMax> used;
  const bool all = functions() == 1;
  for (uint32_t i = first_op(of); !all && i < end_of_ops(of) && i < ops(); ++i) {
    const OpView& own = op(i);
    if (own.kind != OpKind::kAttention) continue;
    const uint32_t index = own.numbers[AttentionOp::kCache];
    const uint32_t mask = own.numbers[AttentionOp::kMask];
    const bool is_sound = own.views[kOutput].slot < slots() && index < caches() && mask < masks();
    if (!is_sound || axis_of_op(i) >= axes_.count()) continue;
    if (whole_axis(axis_of_op(i)) == cache(index).axis) used[mask % kMasksMax] = true;
  }
  for (uint32_t i = 0; i < masks(); ++i) {
    if ((all || used[i % kMasksMax]) && !test(i)) return false;
  }
  return true;
}

// Constant rows precede the first token, so a concat of rows is causal only with constants in
// front. If the function takes the input of keys on another axis, these are the keys of the whole
// sequence.
bool ModelReader::causal(uint32_t of) const {
  for (uint32_t i = 0; i < inputs(); ++i) {
    if (takes(of, i) && takes_whole_sequences(i)) return false;
  }
  for (uint32_t i = 0; kAxesLinked && i < axes_.count(); ++i) {
    if (kFunctionsLinked && (inputs_of_axis(i) & function(of).inputs) == 0) continue;
    const bool begins_with_tokens =
        axes_[i].kind == AxisKind::kJoined && axes_[axes_[i].source].kind != AxisKind::kConstants;
    const bool is_of_all = axes_[i].kind == AxisKind::kOne || axes_[i].kind == AxisKind::kWindows ||
                           axes_[i].is_image();
    if (is_of_all || begins_with_tokens) return false;
  }
  for (uint32_t i = first_op(of); kWindowsLinked && i < end_of_ops(of) && i < ops(); ++i) {
    if (has_windows(i) && !windows_of(op(i)).is_causal()) return false;
  }
  bool sees_whole_sequences = false;
  if constexpr (kFunctionsLinked) {
    for_each_read(of, [&](uint32_t queries, uint32_t keys) {
      const bool is_own = (inputs_of_axis(keys) & function(of).inputs) != 0;
      sees_whole_sequences = sees_whole_sequences || (is_own && queries != keys);
    });
  }
  return !sees_whole_sequences && all_masks(of, [&](uint32_t i) { return is_causal(mask(i)); });
}

bool ModelReader::takes_pairs(uint32_t input) const {
  if constexpr (!linked(Need::kPairMask)) return false;
  const auto is_pairs = [&](uint32_t mask) {
    return mask_record(mask).kind == static_cast<uint32_t>(MaskKind::kPairs);
  };
  uint32_t left = masks();  // most models have no pairs, and then no op is looked at
  while (left != 0 && !is_pairs(left - 1)) --left;
  for (uint32_t i = 0; left != 0 && i < ops(); ++i) {
    if (op(i).kind == OpKind::kAttention && is_pairs(op(i).numbers[AttentionOp::kMask]) &&
        axis_of_op(i) == axis_of_input(input)) {
      return true;
    }
  }
  return false;
}

bool ModelReader::sees_everything(uint32_t of) const {
  if (kWindowsLinked && sees_windows(of)) return false;
  for (uint32_t i = 0; linked(Need::kSelectTurns) && i < axes_.count(); ++i) {
    if (axes_[i].kind == AxisKind::kTurns) return false;  // its rows cannot have gaps
  }
  return all_masks(of, [&](uint32_t i) { return shows_everything(mask_record(i)); });
}

bool is_causal(const MaskView& mask) {
  if (is_pairs(mask)) return false;
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

uint32_t self_test_tokens(const ModelReader& model, uint32_t input, uint32_t tokens) {
  return input == 0 ? tokens : allowed_length(model.lengths(input), tokens);
}

SelfTestLayout self_test_layout(const ModelReader& model, uint32_t tokens) {
  constexpr uint64_t kWord = sizeof(float);
  SelfTestLayout layout;
  InputTokens counts;
  Checked end = 0;
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    const uint32_t own = counts.of[i] = self_test_tokens(model, i, tokens);
    const bool reads_tokens = model.vocab_size(i) != 0;
    const uint64_t width = reads_tokens ? 1 : model.slot(model.input_slot(i)).width;
    layout.inputs[i] = end.value();
    end = end + Checked(reads_tokens ? own : self_test_feature_rows(model, i, own)) * width * kWord;
    layout.types[i] = end.value();
    if (reads_tokens && model.token_types(i) != 0) end = end + round_up(own, kWord);
  }
  layout.ops = end.value();
  layout.rows[0] = counts[0];
  if constexpr (kAxesLinked) {
    std::ranges::copy(model.rows_of_axes(counts, 1, true).of, layout.rows);
  }
  end = layout.tolerances_of_op(model, model.ops());
  for (uint32_t i = 0; i < model.functions(); ++i) {
    layout.outputs[i] = end.value();
    const Checked row = model.slot(model.output_slot(i)).width;
    end = end + (row + kSelfTestTolerances) * kWord;
  }
  layout.bytes = round_up(end, kSegmentUnit).value();
  return layout;
}

// weight(i) = s(i) * 2^-31, where s(0) = 1013904223 and s(i + 1) = 1664525 s(i) + 1013904223 modulo
// 2^32 (a linear congruential generator), read as a signed number.
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
