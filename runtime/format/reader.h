// SPDX-License-Identifier: Apache-2.0
// Reads the metadata of a model file. The records of the schema, which are FlatBuffers structs, are
// read where they lie, as plain structs of the same bytes; FlatBuffers does not show through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/arena_formula.h"
#include "arenite/target.h"
#include "core/cache_layout.h"
#include "core/packing.h"
#include "core/sound_table.h"
#include "core/views.h"
#include "core/windows.h"
#include "format/file_layout.h"
#include "format/op_table.h"

namespace arenite::format {

struct Model;  // the generated FlatBuffers table

struct SlotView {
  uint32_t width = 0;
  uint32_t offset = 0;    // floats per row before it in the area of its axis
  uint32_t first_op = 0;  // alive from here ...
  uint32_t last_op = 0;   // ... to here, both included
  uint32_t axis = 0;      // which rows it has
};

struct InputView {
  uint32_t axis = 0;           // of its tokens
  uint32_t vocab_size = 0;     // 0: the input is features
  uint32_t slot = 0;           // where features go; of no meaning for tokens
  uint32_t positions_max = 0;  // 0: any
  uint32_t tokens_min = 0;     // of a sequence; above 1: whole sequences alone
};

// The ops [first_op, first_op + ops), which a call runs.
struct FunctionView {
  uint32_t first_op = 0;
  uint32_t ops = 0;
  uint32_t inputs = 0;  // bit set of those that it takes
  uint32_t output_slot = 0;

  constexpr uint32_t end() const { return first_op + ops; }
  constexpr bool takes(uint32_t input) const { return (inputs >> input & 1) != 0; }
};

enum class Layout : uint32_t { kGemm, kPlain };

struct TensorShape {
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  TensorType type = TensorType::kF32;
  Layout layout = Layout::kGemm;
};

// Bytes of a tensor in a segment of this packing, which is that of its type.
inline Checked stored_bytes(const TensorShape& shape, Packing packing) {
  if (shape.layout == Layout::kPlain) {
    return Checked(shape.outputs) * plain_row_bytes(shape.type, shape.inputs);
  }
  return packed_weight_bytes(packing, shape.outputs, shape.inputs);
}

struct CacheView {
  CacheShape shape;
  uint32_t lookback = kUnlimited;  // positions before a query that must be held
  uint32_t axis = 0;               // of keys and values

  friend bool operator==(const CacheView&, const CacheView&) = default;
};

// The header of a mask; its lists are a part of the model's mask words.
struct MaskRecord {
  uint32_t kind = 0;  // a MaskKind
  uint32_t positions = 0;
  uint32_t lookback = kUnlimited;
  uint32_t lookahead = kUnlimited;
  uint32_t first_word = 0;
  uint32_t words = 0;
};

struct HiddenStateView {
  uint32_t op = 0;
  ColumnView view;
};

// Both places are counts of kSegmentUnit bytes.
struct SegmentView {
  uint32_t offset = 0;
  uint32_t length = 0;
  uint32_t crc32c = 0;

  constexpr uint64_t begin() const { return uint64_t{offset} * kSegmentUnit; }
  constexpr uint64_t bytes() const { return uint64_t{length} * kSegmentUnit; }
  constexpr uint64_t end() const { return begin() + bytes(); }
};

struct SelfTestView {
  SegmentView segment;  // without bytes: the file has no self-test
  uint32_t tokens = 0;
};

struct PackedView {
  uint32_t target = 0;
  SegmentView segment;
  arenite::ArenaFormula formula;

  // REQUIRES: a target that this version knows.
  constexpr Packing packing(TensorType type) const {
    return packing_of(static_cast<Target>(target), linked_type(type));
  }
};

// The most axes that a file may have: a build whose models have few knows it while it compiles.
inline constexpr uint32_t kLinkedAxesMax = kAxesLinked                    ? kAxesMax
                                           : linked(Need::kSelectAsAsked) ? 2
                                                                          : 1;

inline constexpr uint32_t kLinkedInputsMax = kFunctionsLinked ? kInputsMax : 1;

// The operand whose rows an op goes along: its output, or what it stores.
inline const ColumnView& rows_of(const OpView& op) {
  return linked(OpKind::kStore) && op.kind == OpKind::kStore ? op.views[kValue] : op.views[kOutput];
}

// Both included.
struct OpRange {
  uint32_t first;
  uint32_t last;
};

// REQUIRES: the bytes passed FlatBuffers' structural verification (verify.h), and every index is
// below its count. Cheap to make and to copy.
class ModelReader {
 public:
  explicit ModelReader(std::span<const std::byte> file);

  const char* producer() const;
  const char* name() const;
  const char* architecture() const;
  // In a build whose models have one input and one function, there is nothing to count.
  uint32_t inputs() const { return kFunctionsLinked ? stored_inputs() : 1; }
  uint32_t stored_inputs() const { return inputs_.count(); }
  const InputView& input(uint32_t index) const { return inputs_[index]; }
  const char* input_name(uint32_t index) const;
  uint32_t axis_of_input(uint32_t index) const { return kFunctionsLinked ? input(index).axis : 0; }
  uint32_t functions() const { return kFunctionsLinked ? stored_functions() : 1; }
  // Whether one function with one input is the whole program.
  bool has_one_function() const;
  uint32_t stored_functions() const { return functions_.count(); }
  const FunctionView& function(uint32_t index) const {
    return kFunctionsLinked ? find_function(index) : functions_[0];
  }
  const char* function_name(uint32_t index) const;
  // The function that an op is of, or takes an input. REQUIRES: verify_functions.
  uint32_t function_of_op(uint32_t op) const {
    return kFunctionsLinked ? find_function_of_op(op) : 0;
  }
  uint32_t function_of_input(uint32_t input) const {
    return kFunctionsLinked ? find_function_of_input(input) : 0;
  }
  uint32_t first_op(uint32_t of) const { return kFunctionsLinked ? function(of).first_op : 0; }
  uint32_t end_of_ops(uint32_t of) const { return kFunctionsLinked ? function(of).end() : ops(); }
  bool takes(uint32_t of, uint32_t input) const {
    return !kFunctionsLinked || function(of).takes(input);
  }
  // Inputs as a bit set: those whose tokens the rows of an axis come with, and those whose stored
  // keys and values a function reads without taking them.
  uint32_t inputs_of_axis(uint32_t axis) const {
    return kFunctionsLinked ? inputs_of(axes(), axis) : 1;
  }
  uint32_t inputs_read(uint32_t of) const;

  // Of one input.
  uint32_t positions_max(uint32_t of = 0) const { return input(of).positions_max; }
  uint32_t vocab_size(uint32_t of = 0) const { return input(of).vocab_size; }
  uint32_t input_slot(uint32_t of = 0) const { return input(of).slot; }
  uint32_t tokens_min(uint32_t of = 0) const { return input(of).tokens_min; }
  uint32_t token_types(uint32_t of = 0) const;  // 0: it knows none
  InputTokens positions() const;                // the longest sequences; 0: any
  InputTokens shortest() const;                 // sequences, at least 1
  // Whether an input is images: the features are their pixels, line by line.
  bool reads_images(uint32_t of = 0) const {
    return kWindowsLinked && axes_[axis_of_input(of)].is_image();
  }
  uint32_t labels() const;  // 0, or one for each column that the last function gives out
  const char* label(uint32_t index) const;
  uint32_t output_slot(uint32_t of = 0) const { return function(of).output_slot; }
  TensorType kv_cache() const;  // of sessions that do not say

  std::span<const arenite::Axis> axes() const { return {&axes_[0], axes_.count()}; }
  // In a build whose models have no others, all axes but the first are of rows that are asked for.
  AxisKind kind_of_axis(uint32_t axis) const {
    if constexpr (!kAxesLinked) return axis == 0 ? AxisKind::kInput : AxisKind::kAsked;
    return axes_[axis].kind;
  }
  uint32_t source_of_axis(uint32_t axis) const {
    if constexpr (!kAxesLinked) return 0;
    return axes_[axis].source;
  }
  // Which rows a view has, or what an op makes or stores.
  uint32_t axis_of(const ColumnView& view) const {
    if constexpr (kLinkedAxesMax == 1) return 0;
    return slot(view.slot).axis;
  }
  // Whether an axis has the rows of a block, and the axis that these are rows of; else itself.
  bool is_of_blocks(uint32_t axis) const {
    return linked(Need::kBlocks) && axes_[axis].kind == AxisKind::kBlocks;
  }
  uint32_t whole_axis(uint32_t axis) const {
    return is_of_blocks(axis) ? axes_[axis].source : axis;
  }
  // The axis of the blocks that an op has rows of; 0: of none.
  uint32_t blocks_of(const OpView& op) const;
  // The ops that run over a block, before all begin again with the next one: those around `op` that
  // have a slot of blocks alive between them.
  OpRange run_of_blocks(uint32_t op) const;
  // Whether an op has windows, and what these see. REQUIRES: verify_ops.
  bool has_windows(uint32_t index) const { return format::has_windows(op(index).kind); }
  Windows windows_of(const OpView& op) const;
  // What it keeps of each sequence in a function that is causal; 0 for other ops.
  Checked history_bytes(const OpView& op) const;
  uint32_t axis_of_op(uint32_t index) const { return axis_of(rows_of(op(index))); }
  AxisKind kind_of_slot(uint32_t index) const { return kind_of_axis(slot(index).axis); }
  // As rows_of_axes and area_of (arena_formula.h). REQUIRES: verify_axes.
  AxisRows rows_of_axes(const InputTokens& tokens, uint32_t sequences, bool all_rows) const;
  uint32_t area_of(uint32_t axis) const;
  // Rows of a sequence of so many tokens on an axis whose rows have positions.
  uint32_t rows_on(uint32_t axis, const InputTokens& tokens) const {
    if (!kAxesLinked || axes_[axis].kind == AxisKind::kInput) return tokens[source_of_axis(axis)];
    return rows_of_axes(tokens, 1, true)[axis];
  }
  uint32_t axis_of_cache(uint32_t index) const {
    if constexpr (!kAxesLinked) return 0;
    return cache(index).axis;
  }
  uint32_t slots() const { return slots_.count(); }
  const SlotView& slot(uint32_t index) const { return slots_[index]; }
  uint32_t ops() const { return ops_.count(); }
  const OpView& op(uint32_t index) const { return ops_[index]; }
  const char* op_name(uint32_t index) const;
  uint32_t tensors() const { return tensors_.count(); }
  const TensorShape& tensor(uint32_t index) const { return tensors_[index]; }
  const char* tensor_name(uint32_t index) const;
  uint32_t caches() const { return caches_.count(); }
  const CacheView& cache(uint32_t index) const { return caches_[index]; }
  // Of queries. REQUIRES: an attention op, whose cache has values.
  uint32_t heads_of(const OpView& op) const {
    return op.views[kOutput].width / cache(op.numbers[AttentionOp::kCache]).shape.value_dim;
  }
  uint32_t masks() const { return masks_.count(); }
  const MaskRecord& mask_record(uint32_t index) const { return masks_[index]; }
  uint32_t mask_words() const;
  MaskView mask(uint32_t index) const;  // REQUIRES: verify_masks
  uint32_t hidden_states() const;
  const HiddenStateView& hidden_state(uint32_t index) const;
  uint32_t packed_count() const { return packed_.count(); }
  const PackedView& packed(uint32_t index) const { return packed_[index]; }
  SelfTestView self_test() const;
  // Whether the file says how sound becomes the features of input 0, and how; else nothing.
  bool has_sound() const;
  SoundView sound() const;
  uint32_t sound_bytes() const;  // that a stream works in, of each sequence

  // Places of all tensors of all targets: how many in all, and one of them.
  uint32_t tensor_offsets() const { return offsets_.count(); }
  const arenite::ArenaFormula& formula(uint32_t packed_index) const {
    return packed(packed_index).formula;
  }
  uint64_t tensor_offset(uint32_t packed_index, uint32_t tensor) const {
    return uint64_t{offsets_[packed_index * tensors() + tensor]} * kSegmentUnit;
  }

  // A tensor, where it lies in the file.
  const std::byte* data(uint32_t packed_index, uint32_t tensor) const {
    return file_ + packed(packed_index).segment.begin() + tensor_offset(packed_index, tensor);
  }
  WeightView weights(uint32_t packed_index, uint32_t tensor) const;

  uint32_t file_targets() const;  // bit set
  // Whether convolutions of several rows do.
  bool sees_windows(uint32_t of = 0) const;
  // No row depends on later tokens, and sequences may be of any number of tokens.
  bool causal(uint32_t of = 0) const;
  // No mask hides anything, whatever the distance.
  bool sees_everything(uint32_t of = 0) const;
  // Whether a call says which rows of an input see which. REQUIRES: the file is verified.
  bool takes_pairs(uint32_t input = 0) const;

 private:
  // A list of records, which follow their count.
  template <typename T>
  class List {
   public:
    explicit List(const uint32_t* list) : data_(reinterpret_cast<const T*>(list + 1)) {}
    uint32_t count() const { return reinterpret_cast<const uint32_t*>(data_)[-1]; }
    const T& operator[](uint32_t index) const { return data_[index]; }

   private:
    const T* data_;
  };

  const FunctionView& find_function(uint32_t index) const;
  uint32_t find_function_of_op(uint32_t op) const;
  uint32_t find_function_of_input(uint32_t input) const;
  // Whether test(mask) holds for all masks by which queries of a function see rows of their own
  // axis; where there is one function, for all that there are.
  template <typename Test>
  bool all_masks(uint32_t of, Test test) const;
  // Calls visit(axis of queries, axis of keys) for each attention op of a function that reads keys
  // and values which another op has stored.
  template <typename Visit>
  void for_each_read(uint32_t of, Visit visit) const;

  const std::byte* file_;
  const Model* model_;
  // What every step reads.
  List<InputView> inputs_;
  List<FunctionView> functions_;
  List<arenite::Axis> axes_;
  List<SlotView> slots_;
  List<OpView> ops_;
  List<TensorShape> tensors_;
  List<CacheView> caches_;
  List<MaskRecord> masks_;
  List<PackedView> packed_;
  List<uint32_t> offsets_;
};

// To every query, whatever the distance.
inline bool shows_everything(const MaskRecord& mask) {
  return mask.kind == static_cast<uint32_t>(MaskKind::kBand) && mask.lookback == kUnlimited &&
         mask.lookahead == kUnlimited;
}
// Which keys a query sees is said by each call. The compiler knows the answer in most builds.
inline bool is_pairs(const MaskView& mask) {
  return linked(Need::kPairMask) && mask.kind == MaskKind::kPairs;
}
// No row of the mask reaches beyond its own position.
bool is_causal(const MaskView& mask);

// What lies where in the segment of a self-test.

inline constexpr uint32_t kSelfTestTolerances = 2;  // of each op, and of the output

// Places in bytes, all multiples of 4:
//   0        what each input is fed: features, float32 [tokens, features]; or ids, uint32 [tokens],
//            and then, where it knows types, uint8 [tokens], and zeros up to a multiple of 4
//   ops      for each op two tolerances and then a digest for each of its rows, all float32
//   output   of each function two tolerances and then the row that the last token gives, float32
//            [output_features]; and zeros up to a multiple of 64
// The first tolerance is for sessions that keep keys and values as the file says, the second for
// others.
struct SelfTestLayout {
  uint32_t rows[kAxesLinked ? kAxesMax : 1] = {};  // of each axis
  uint64_t inputs[kLinkedInputsMax] = {};
  uint64_t types[kLinkedInputsMax] = {};
  uint64_t ops = 0;
  uint64_t outputs[kFunctionsLinked ? kFunctionsMax : 1] = {};
  uint64_t bytes = 0;  // of all; the largest number where sizes overflow

  uint32_t rows_of_op(const ModelReader& model, uint32_t op) const {
    return rows[kAxesLinked ? model.whole_axis(model.axis_of_op(op)) : 0];
  }
  // Of all ops at least their number: where the output begins.
  uint64_t tolerances_of_op(const ModelReader& model, uint32_t op) const {
    uint64_t numbers = uint64_t{op} * kSelfTestTolerances;
    for (uint32_t i = 0; i < op; ++i) numbers += rows_of_op(model, i);
    return ops + numbers * sizeof(float);
  }
};

SelfTestLayout self_test_layout(const ModelReader& model, uint32_t tokens);

// Tokens that an input is fed in a test of so many: those, unless its sequences are longer or
// shorter, or images.
uint32_t self_test_tokens(const ModelReader& model, uint32_t input, uint32_t tokens);

// A number that stands for a row: the sum of its elements, each times a weight of its own between
// -1 and 1. Rows that differ by d in length differ by about d / sqrt(3). The same bits everywhere.
float digest_of_row(std::span<const float> row);

}  // namespace arenite::format
