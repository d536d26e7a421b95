// SPDX-License-Identifier: Apache-2.0
// Reads the metadata of a model file and hides FlatBuffers. The records of the schema are
// FlatBuffers structs, which are read in place as plain structs with the same layout:
//   const ModelReader model(file);
//   const OpView& op = model.op(0);
//   const WeightView weights = model.weights(0, op.numbers[LinearOp::kTensor]);
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

struct Model;  // the FlatBuffers table that flatc generates

struct SlotView {
  uint32_t width = 0;
  uint32_t offset = 0;    // floats per row before this slot in the area of its axis
  uint32_t first_op = 0;  // the lifetime is ops [first_op, last_op]
  uint32_t last_op = 0;
  uint32_t axis = 0;
};

struct InputView {
  uint32_t axis = 0;
  uint32_t vocab_size = 0;     // 0: the input is features
  uint32_t slot = 0;           // receives features; unused if the input is tokens
  uint32_t positions_max = 0;  // most tokens of a sequence; 0: no limit
  uint32_t tokens_min = 0;     // fewest tokens of a sequence; above 1: only whole sequences
};

// The lengths of an input's sequences.
struct LengthLimits {
  uint32_t positions_max, tokens_min;
  uint32_t tokens_step;  // lengths are tokens_min plus multiples of it; 0 and 1: any
};

// Returns the largest length up to `tokens` that an input takes, or its shortest length if there is
// none. `Limits` has the fields of LengthLimits, as InputInfo does.
template <typename Limits>
constexpr uint32_t allowed_length(const Limits& input, uint32_t tokens) {
  const uint32_t least = input.tokens_min > 1 ? input.tokens_min : 1;
  if (input.positions_max != 0 && tokens > input.positions_max) tokens = input.positions_max;
  if (tokens <= least) return least;
  return input.tokens_step > 1 ? tokens - (tokens - least) % input.tokens_step : tokens;
}

// A call of a function runs the ops [first_op, first_op + ops).
struct FunctionView {
  uint32_t first_op = 0;
  uint32_t ops = 0;
  uint32_t inputs = 0;  // bit set of the inputs that it takes
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

// Bytes of a tensor in a segment. `packing` is that of the segment's target and the tensor's type.
inline Checked stored_bytes(const TensorShape& shape, Packing packing) {
  if (shape.layout == Layout::kPlain) {
    return Checked(shape.outputs) * plain_row_bytes(shape.type, shape.inputs);
  }
  return packed_weight_bytes(packing, shape.outputs, shape.inputs);
}

struct CacheView {
  CacheShape shape;
  uint32_t lookback = kUnlimited;  // positions before a query that the cache must hold
  uint32_t axis = 0;               // of keys and values

  friend bool operator==(const CacheView&, const CacheView&) = default;
};

// The header of a mask. Its lists are words [first_word, first_word + words) of the mask words.
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

// Offset and length are in units of kSegmentUnit bytes.
struct SegmentView {
  uint32_t offset = 0;
  uint32_t length = 0;
  uint32_t crc32c = 0;

  constexpr uint64_t begin() const { return uint64_t{offset} * kSegmentUnit; }
  constexpr uint64_t bytes() const { return uint64_t{length} * kSegmentUnit; }
  constexpr uint64_t end() const { return begin() + bytes(); }
};

struct SelfTestView {
  SegmentView segment;  // empty: the file has no self-test
  uint32_t tokens = 0;
};

struct PackedView {
  uint32_t target = 0;
  SegmentView segment;
  arenite::ArenaFormula formula;

  // REQUIRES: target < kTargets.
  constexpr Packing packing(TensorType type) const {
    return packing_of(static_cast<Target>(target), linked_type(type));
  }
};

// The maximum number of axes that this build can run. A build for models with one or two axes knows
// the number at compile time.
inline constexpr uint32_t kLinkedAxesMax = kAxesLinked                    ? kAxesMax
                                           : linked(Need::kSelectAsAsked) ? 2
                                                                          : 1;

inline constexpr uint32_t kLinkedInputsMax = kFunctionsLinked ? kInputsMax : 1;

// Returns the operand whose rows an op iterates over: its output, or the value of a store.
inline const ColumnView& rows_of(const OpView& op) {
  return linked(OpKind::kStore) && op.kind == OpKind::kStore ? op.views[kValue] : op.views[kOutput];
}

// Ops from first to last, inclusive.
struct OpRange {
  uint32_t first;
  uint32_t last;
};

// A read-only view of a model file, which must outlive it. Cheap to create and to copy; threads may
// share it.
// REQUIRES: the bytes passed FlatBuffers' structural verification (verify.h), and every index is
// below its count.
class ModelReader {
 public:
  explicit ModelReader(std::span<const std::byte> file);

  const char* producer() const;
  const char* name() const;
  const char* architecture() const;
  // A build for models with a single function and input knows both counts at compile time.
  uint32_t inputs() const { return kFunctionsLinked ? stored_inputs() : 1; }
  uint32_t stored_inputs() const { return inputs_.count(); }
  const InputView& input(uint32_t index) const { return inputs_[index]; }
  const char* input_name(uint32_t index) const;
  uint32_t axis_of_input(uint32_t index) const { return kFunctionsLinked ? input(index).axis : 0; }
  uint32_t functions() const { return kFunctionsLinked ? stored_functions() : 1; }
  // Whether the program is a single function with a single input.
  bool has_one_function() const;
  uint32_t stored_functions() const { return functions_.count(); }
  const FunctionView& function(uint32_t index) const {
    return kFunctionsLinked ? find_function(index) : functions_[0];
  }
  const char* function_name(uint32_t index) const;
  // The function that contains an op, or takes an input. REQUIRES: verify_functions.
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
  // Bit sets of inputs. inputs_of_axis: inputs whose tokens have rows on an axis. The other: inputs
  // whose stored keys and values a function reads although it does not take the inputs.
  uint32_t inputs_of_axis(uint32_t axis) const {
    return kFunctionsLinked ? inputs_of(axes(), axis) : 1;
  }
  uint32_t inputs_read(uint32_t of) const;

  // From here to reads_images, `of` is the index of an input.
  uint32_t positions_max(uint32_t of = 0) const { return input(of).positions_max; }
  uint32_t vocab_size(uint32_t of = 0) const { return input(of).vocab_size; }
  uint32_t input_slot(uint32_t of = 0) const { return input(of).slot; }
  uint32_t tokens_min(uint32_t of = 0) const { return input(of).tokens_min; }
  uint32_t tokens_step(uint32_t of = 0) const {
    return linked(Need::kLengthSteps) ? stored_step(of) : 0;
  }
  uint32_t stored_step(uint32_t of) const;
  LengthLimits lengths(uint32_t of = 0) const {
    return {positions_max(of), tokens_min(of), tokens_step(of)};
  }
  // Whether the input only takes whole sequences.
  bool takes_whole_sequences(uint32_t of) const {
    return tokens_min(of) > 1 || tokens_step(of) > 1;
  }
  uint32_t token_types(uint32_t of = 0) const;  // types are below it; 0: no token types
  InputTokens positions() const;                // positions_max of each input
  InputTokens shortest() const;                 // tokens_min of each input, at least 1
  // Whether the features of an input are the pixels of images, line by line.
  bool reads_images(uint32_t of = 0) const {
    return kWindowsLinked && axes_[axis_of_input(of)].is_image();
  }
  uint32_t labels() const;  // 0, or the output features of the last function
  const char* label(uint32_t index) const;
  uint32_t output_slot(uint32_t of = 0) const { return function(of).output_slot; }
  TensorType kv_cache() const;  // the type of a session's caches unless the session chooses one

  std::span<const arenite::Axis> axes() const { return {&axes_[0], axes_.count()}; }
  // In builds without kAxesLinked, all axes but the first are of kind kAsked.
  AxisKind kind_of_axis(uint32_t axis) const {
    if constexpr (!kAxesLinked) return axis == 0 ? AxisKind::kInput : AxisKind::kAsked;
    return axes_[axis].kind;
  }
  uint32_t source_of_axis(uint32_t axis) const {
    if constexpr (!kAxesLinked) return 0;
    return axes_[axis].source;
  }
  uint32_t axis_of(const ColumnView& view) const {
    if constexpr (kLinkedAxesMax == 1) return 0;
    return slot(view.slot).axis;
  }
  // is_of_blocks: whether an axis is of kind kBlocks, so that its rows are a block of the source
  // axis. whole_axis returns the source of such an axis, and any other axis itself.
  bool is_of_blocks(uint32_t axis) const {
    return linked(Need::kBlocks) && axes_[axis].kind == AxisKind::kBlocks;
  }
  uint32_t whole_axis(uint32_t axis) const {
    return is_of_blocks(axis) ? axes_[axis].source : axis;
  }
  // Returns the kBlocks axis among the axes of an op's operands; 0 if there is none.
  uint32_t blocks_of(const OpView& op) const;
  // Returns the ops that run over one block before all of them run over the next: the smallest
  // range around `op` that does not split the lifetime of any slot on a kBlocks axis.
  OpRange run_of_blocks(uint32_t op) const;
  // Whether an op has windows, and their geometry. REQUIRES: verify_ops.
  bool has_windows(uint32_t index) const { return format::has_windows(op(index).kind); }
  Windows windows_of(const OpView& op) const;
  // Bytes of earlier input rows that an op with windows keeps for each sequence of a causal
  // function; 0 for other ops.
  Checked history_bytes(const OpView& op) const;
  uint32_t axis_of_op(uint32_t index) const { return axis_of(rows_of(op(index))); }
  AxisKind kind_of_slot(uint32_t index) const { return kind_of_axis(slot(index).axis); }
  // These call rows_of_axes and area_of of arena_formula.h. REQUIRES: verify_axes.
  AxisRows rows_of_axes(const InputTokens& tokens, uint32_t sequences, bool all_rows) const;
  uint32_t area_of(uint32_t axis) const;
  // Returns the rows on `axis` of a sequence with these tokens. REQUIRES: its rows have positions.
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
  // The query heads of an attention op. REQUIRES: value_dim of its cache is not 0.
  uint32_t heads_of(const OpView& op) const {
    return op.views[kOutput].width / cache(op.numbers[AttentionOp::kCache]).shape.value_dim;
  }
  uint32_t masks() const { return masks_.count(); }
  const MaskRecord& mask_record(uint32_t index) const { return masks_[index]; }
  uint32_t mask_words() const;
  // Returns the list of a select that takes rows, followed by the lists of later ones; empty beyond
  // the last list.
  std::span<const uint32_t> taken_rows(uint32_t first) const;
  MaskView mask(uint32_t index) const;  // REQUIRES: verify_masks accepted the mask's record
  uint32_t hidden_states() const;
  const HiddenStateView& hidden_state(uint32_t index) const;
  uint32_t packed_count() const { return packed_.count(); }
  const PackedView& packed(uint32_t index) const { return packed_[index]; }
  SelfTestView self_test() const;
  // Whether the file has a front end that turns sound into the features of input 0; without one,
  // sound() returns a view without parameters, and sound_bytes() 0.
  bool has_sound() const;
  SoundView sound() const;
  uint32_t sound_bytes() const;  // work space of a stream, for each sequence

  uint32_t tensor_offsets() const { return offsets_.count(); }  // of all targets together
  const arenite::ArenaFormula& formula(uint32_t packed_index) const {
    return packed(packed_index).formula;
  }
  // Bytes from the start of the target's segment.
  uint64_t tensor_offset(uint32_t packed_index, uint32_t tensor) const {
    return uint64_t{offsets_[packed_index * tensors() + tensor]} * kSegmentUnit;
  }

  // The first byte of a tensor in the file.
  const std::byte* data(uint32_t packed_index, uint32_t tensor) const {
    return file_ + packed(packed_index).segment.begin() + tensor_offset(packed_index, tensor);
  }
  WeightView weights(uint32_t packed_index, uint32_t tensor) const;

  uint32_t file_targets() const;  // bit set of Target
  // Whether an op of a function has windows of more than one row.
  bool sees_windows(uint32_t of = 0) const;
  // Whether no row of a function depends on later tokens and its sequences may have any length, so
  // that it can run step by step.
  bool causal(uint32_t of = 0) const;
  // Whether no mask of a function hides any key, and no row depends on its neighbours, so that
  // there are no windows and no axes of kind kTurns.
  bool sees_everything(uint32_t of = 0) const;
  // Whether each call passes a mask of pairs for an input. REQUIRES: the file is verified.
  bool takes_pairs(uint32_t input = 0) const;

 private:
  // A list in the file: a count, then as many records.
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
  // Whether test(mask index) holds for the masks of all attention ops of a function whose keys are
  // on the axis of their queries. In a program of one function it tests all masks of the file.
  template <typename Test>
  bool all_masks(uint32_t of, Test test) const;
  // Calls visit(axis of queries, axis of keys) for each attention op of a function that reads the
  // cache of a store op.
  template <typename Visit>
  void for_each_read(uint32_t of, Visit visit) const;

  const std::byte* file_;
  const Model* model_;
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

// Whether every query sees every key, at any distance.
inline bool shows_everything(const MaskRecord& mask) {
  return mask.kind == static_cast<uint32_t>(MaskKind::kBand) && mask.lookback == kUnlimited &&
         mask.lookahead == kUnlimited;
}
// Whether each call passes the keys that a query sees. In builds without pair masks the result is
// false at compile time.
inline bool is_pairs(const MaskView& mask) {
  return linked(Need::kPairMask) && mask.kind == MaskKind::kPairs;
}
// Whether no query sees a key after its own position.
bool is_causal(const MaskView& mask);

// Tolerances stored for each op, and for each output.
inline constexpr uint32_t kSelfTestTolerances = 2;

// The layout of a self-test's segment. Offsets are bytes from its start, all multiples of 4:
//   inputs   for each input its features, float32 [self_test_feature_rows(), features]; or its ids,
//            uint32 [tokens], then at `types`, if it has token types, uint8 [tokens] and zeros up
//            to a multiple of 4
//   ops      for each op two tolerances, then a digest of each of its rows; float32 [2 + rows]
//   outputs  for each function two tolerances, then the output for the last token; float32
//            [2 + output_features]
//   bytes    the end, after zeros up to a multiple of 64
// The first tolerance is for sessions whose caches have the type that the file names, the second
// for other sessions.
struct SelfTestLayout {
  uint32_t rows[kAxesLinked ? kAxesMax : 1] = {};  // of each axis
  uint64_t inputs[kLinkedInputsMax] = {};
  uint64_t types[kLinkedInputsMax] = {};
  uint64_t ops = 0;
  uint64_t outputs[kFunctionsLinked ? kFunctionsMax : 1] = {};
  uint64_t bytes = 0;  // SIZE_MAX if a size overflows

  uint32_t rows_of_op(const ModelReader& model, uint32_t op) const {
    return rows[kAxesLinked ? model.whole_axis(model.axis_of_op(op)) : 0];
  }
  // Returns the offset of an op's tolerances, which its digests follow; for op == model.ops(), the
  // end of the last op's digests.
  uint64_t tolerances_of_op(const ModelReader& model, uint32_t op) const {
    uint64_t numbers = uint64_t{op} * kSelfTestTolerances;
    for (uint32_t i = 0; i < op; ++i) numbers += rows_of_op(model, i);
    return ops + numbers * sizeof(float);
  }
};

SelfTestLayout self_test_layout(const ModelReader& model, uint32_t tokens);

// Returns the tokens of an input in a self-test of `tokens` tokens: exactly `tokens` for input 0;
// for other inputs the nearest length that the input takes, which is the whole image for images.
uint32_t self_test_tokens(const ModelReader& model, uint32_t input, uint32_t tokens);

// Rows of features that a self-test stores for an input and repeats: a whole image would be larger
// than many models. The number is odd, so that the rows of a tile differ.
inline constexpr uint32_t kSelfTestFeatureRows = 5;
inline uint32_t self_test_feature_rows(const ModelReader& model, uint32_t input, uint32_t tokens) {
  return model.tokens_min(input) > kSelfTestFeatureRows ? kSelfTestFeatureRows : tokens;
}

// digest = sum over i of weight(i) * row[i], with pseudo-random weights in [-1, 1]. The digests of
// two rows at Euclidean distance d differ by about d / sqrt(3). Bit-identical on all platforms.
float digest_of_row(std::span<const float> row);

}  // namespace arenite::format
