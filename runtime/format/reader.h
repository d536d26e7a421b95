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
#include "core/views.h"
#include "format/file_layout.h"
#include "format/op_table.h"

namespace arenite::format {

struct Model;  // the generated FlatBuffers table

struct SlotView {
  uint32_t width = 0;
  uint32_t offset = 0;      // floats per row before it in the area of its kind
  uint32_t first_op = 0;    // alive from here ...
  uint32_t last_op = 0;     // ... to here, both included
  uint32_t per_output = 0;  // 1: a row for each one that the call gives out, not for each token
};

// How the program is called.
struct SignatureView {
  uint32_t positions_max = 0;  // 0: any
  uint32_t vocab_size = 0;     // 0: the input is features
  uint32_t input_slot = 0;     // where features go; of no meaning for tokens
  uint32_t output_slot = 0;
  TensorType kv_cache = TensorType::kF32;  // of sessions that do not say
  uint32_t tokens_min = 0;                 // of a sequence; above 1: whole sequences alone
};

enum class Layout : uint32_t { kGemm, kPlain };

struct TensorShape {
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  TensorType type = TensorType::kF32;
  Layout layout = Layout::kGemm;
};

// Bytes of a tensor in a segment of this packing, which is that of its type.
constexpr Checked stored_bytes(const TensorShape& shape, Packing packing) {
  if (shape.layout == Layout::kPlain) {
    return Checked(shape.outputs) * plain_row_bytes(shape.type, shape.inputs);
  }
  return packed_weight_bytes(packing, shape.outputs, shape.inputs);
}

struct CacheView {
  CacheShape shape;
  uint32_t lookback = kUnlimited;  // positions before a query that must be held
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

// REQUIRES: the bytes passed FlatBuffers' structural verification (verify.h), and every index is
// below its count. Cheap to make and to copy.
class ModelReader {
 public:
  explicit ModelReader(std::span<const std::byte> file);

  const char* producer() const;
  const char* name() const;
  const char* architecture() const;
  uint32_t positions_max() const { return signature_->positions_max; }
  uint32_t vocab_size() const { return signature_->vocab_size; }
  uint32_t token_types() const;  // 0: the model knows none
  uint32_t prefix_rows() const;  // rows of constants that each sequence begins with
  // Of a sequence of positions_max() tokens; 0: any number.
  uint32_t rows_max() const {
    const uint32_t positions = positions_max();
    if constexpr (!linked(Need::kPrefix)) return positions;
    return positions == 0 ? 0 : static_cast<uint32_t>((Checked(positions) + prefix_rows()).value());
  }
  // Whether the input is images, which the first op cuts, and how it does.
  bool reads_images() const { return linked(OpKind::kPatches) && op(0).kind == OpKind::kPatches; }
  ImagePatches image_patches() const;  // REQUIRES: reads_images()
  // Where the features go that are fed, or the patches. REQUIRES: the input is no tokens.
  uint32_t input_slot_of_rows() const {
    return reads_images() ? op(0).views[kOutput].slot : input_slot();
  }
  bool pooled() const;      // selections give one row for each sequence
  uint32_t labels() const;  // 0, or one for each column that the model gives out
  const char* label(uint32_t index) const;
  uint32_t input_slot() const { return signature_->input_slot; }
  uint32_t output_slot() const { return signature_->output_slot; }
  TensorType kv_cache() const { return signature_->kv_cache; }
  uint32_t tokens_min() const { return signature_->tokens_min; }

  uint32_t slots() const { return slots_.count; }
  const SlotView& slot(uint32_t index) const { return slots_[index]; }
  uint32_t ops() const { return ops_.count; }
  const OpView& op(uint32_t index) const { return ops_[index]; }
  const char* op_name(uint32_t index) const;
  uint32_t tensors() const { return tensors_.count; }
  const TensorShape& tensor(uint32_t index) const { return tensors_[index]; }
  const char* tensor_name(uint32_t index) const;
  uint32_t caches() const { return caches_.count; }
  const CacheView& cache(uint32_t index) const { return caches_[index]; }
  uint32_t masks() const { return masks_.count; }
  const MaskRecord& mask_record(uint32_t index) const { return masks_[index]; }
  uint32_t mask_words() const;
  MaskView mask(uint32_t index) const;  // REQUIRES: verify_masks
  uint32_t hidden_states() const;
  const HiddenStateView& hidden_state(uint32_t index) const;
  uint32_t packed_count() const;
  const PackedView& packed(uint32_t index) const;
  SelfTestView self_test() const;

  // Places of all tensors of all targets: how many in all, and one of them.
  uint32_t tensor_offsets() const;
  const arenite::ArenaFormula& formula(uint32_t packed_index) const {
    return packed(packed_index).formula;
  }
  uint64_t tensor_offset(uint32_t packed_index, uint32_t tensor) const {
    return uint64_t{offsets_[packed_index * tensors() + tensor]} * kSegmentUnit;
  }

  // A tensor, where it lies in the file.
  WeightView weights(uint32_t packed_index, uint32_t tensor) const;

  uint32_t file_targets() const;  // bit set
  // No mask lets a query see a later key, and sequences may be of any number of tokens.
  bool causal() const;
  bool sees_everything() const;  // no mask hides anything, whatever the distance

 private:
  // A list of records.
  template <typename T>
  struct List {
    const T* data;
    uint32_t count;

    const T& operator[](uint32_t index) const { return data[index]; }
  };

  const std::byte* file_;
  const Model* model_;
  // What every step reads.
  const SignatureView* signature_;
  List<SlotView> slots_;
  List<OpView> ops_;
  List<TensorShape> tensors_;
  List<CacheView> caches_;
  List<MaskRecord> masks_;
  const uint32_t* offsets_;
};

// No row of the mask reaches beyond its own position.
bool is_causal(const MaskView& mask);

// What lies where in the segment of a self-test.

inline constexpr uint32_t kSelfTestTolerances = 2;  // of each op, and of the output

// Places in bytes, all multiples of 4:
//   0        what is fed: features, float32 [tokens, input_features]; or an image, float32
//            [channels, height, width]; or ids, uint32 [tokens]
//   types    where the model knows types: uint8 [tokens], and zeros up to a multiple of 4
//   ops      for each op two tolerances and then a digest for each row, all float32: of the prefix,
//            where there is one, then of the tokens
//   output   two tolerances and then the row that the last token gives, float32 [output_features];
//            and zeros up to a multiple of 64
// The first tolerance is for sessions that keep keys and values as the file says, the second for
// others.
struct SelfTestLayout {
  uint32_t rows = 0;  // tokens, and the prefix
  uint64_t types = 0;
  uint64_t ops = 0;
  uint64_t output = 0;
  uint64_t bytes = 0;  // of all; the largest number where sizes overflow

  uint64_t tolerances_of_op(uint32_t op) const {
    return ops + uint64_t{op} * (uint64_t{rows} + kSelfTestTolerances) * sizeof(float);
  }
  uint64_t digest_of(uint32_t op, uint32_t row) const {
    return tolerances_of_op(op) + (uint64_t{row} + kSelfTestTolerances) * sizeof(float);
  }
};

SelfTestLayout self_test_layout(const ModelReader& model, uint32_t tokens);

// A number that stands for a row: the sum of its elements, each times a weight of its own between
// -1 and 1. Rows that differ by d in length differ by about d / sqrt(3). The same bits everywhere.
float digest_of_row(std::span<const float> row);

}  // namespace arenite::format
