// SPDX-License-Identifier: Apache-2.0
// Reads the metadata of a model file as plain structs. FlatBuffers does not show through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/arena_formula.h"
#include "arenite/target.h"
#include "core/mask_view.h"
#include "core/message.h"
#include "core/op_kinds.h"
#include "core/packing.h"
#include "core/weights.h"

namespace arenite::format {

struct Model;  // the generated FlatBuffers table

// Columns [column, column + width) of a slot; width 0: absent.
struct ColumnView {
  uint32_t slot = 0;
  uint32_t column = 0;
  uint32_t width = 0;

  friend constexpr bool operator==(const ColumnView&, const ColumnView&) = default;
};

struct SlotView {
  uint32_t width = 0;
  uint32_t column = 0;      // floats per row before it in the area of its kind
  uint32_t first_op = 0;    // alive from here ...
  uint32_t last_op = 0;     // ... to here, both included
  bool per_output = false;  // a row for each one that the call gives out, not for each token
};

inline constexpr uint32_t kNoTensor = UINT32_MAX;
inline constexpr uint32_t kNoPadding = UINT32_MAX;

struct LinearOp {
  ColumnView input, output;
  uint32_t tensor = 0;
};

struct AttentionOp {
  ColumnView query, key, value, output;  // query and key absent: the mask alone gives the scores
  uint32_t heads = 0;
  uint32_t cache = 0;
  uint32_t mask = 0;
};

struct EmbeddingOp {
  ColumnView output;
  uint32_t tokens = kNoTensor;
  uint32_t positions = kNoTensor;
  uint32_t position_offset = 0;
  float scale = 1.0f;
  uint32_t types = kNoTensor;
  uint32_t padding_id = kNoPadding;
};

struct NormOp {
  ColumnView input, output;
  NormKind kind = NormKind::kLayer;
  uint32_t groups = 1;
  float epsilon = 0.0f;
  uint32_t gain = kNoTensor;
  uint32_t bias = kNoTensor;
};

struct RopeOp {
  ColumnView target;
  uint32_t heads = 0;
  uint32_t angles = 0;
};

using ActivationKind = arenite::Activation;  // the schema has an Activation of its own

struct ActivationOp {
  ColumnView target, factor;  // factor may be absent
  ActivationKind kind = ActivationKind::kRelu;
  float cap = 0.0f;
};

struct AddOp {
  ColumnView target, other;
};

struct SelectOp {
  ColumnView input, output;
  SelectKind kind = SelectKind::kAsAsked;
};

enum class OpKind : uint8_t {
  kNone,
  kLinear,
  kAttention,
  kEmbedding,
  kNorm,
  kRope,
  kActivation,
  kAdd,
  kSelect,
};

// How an op uses columns. kWrite fills columns that held nothing; kUpdate changes them in place.
enum class Access : uint8_t { kRead, kWrite, kUpdate };

struct Use {
  ColumnView view;
  Access access = Access::kRead;
  Message field = "";  // for messages
};

struct Uses {
  Use list[4];
  uint32_t count = 0;

  const Use* begin() const { return list; }
  const Use* end() const { return list + count; }
};

struct OpView {
  OpKind kind = OpKind::kNone;
  LinearOp linear;  // of each kind, the member of its name
  AttentionOp attention;
  EmbeddingOp embedding;
  NormOp norm;
  RopeOp rope;
  ActivationOp activation;
  AddOp add;
  SelectOp select;

  // The columns that the op uses; absent ones are left out.
  Uses uses() const;
};

enum class Layout : uint32_t { kGemm, kRows };

struct TensorShape {
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  Layout layout = Layout::kGemm;
};

// Bytes of a tensor in a segment of this packing.
constexpr Checked stored_bytes(const TensorShape& shape, Packing packing) {
  if (shape.layout == Layout::kRows) {
    return Checked(shape.outputs) * shape.inputs * sizeof(float);
  }
  return packed_weight_bytes(packing, shape.outputs, shape.inputs);
}

struct HiddenStateView {
  uint32_t op = 0;
  ColumnView view;
};

struct SegmentView {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
};

struct SelfTestView {
  SegmentView segment;  // without bytes: the file has no self-test
  uint32_t tokens = 0;
};

struct PackedView {
  uint8_t target = 0;
  Packing packing;
  SegmentView segment;
  ArenaFormula formula;
};

// REQUIRES: the bytes passed FlatBuffers' structural verification (verify.h), and every index is
// below its count. Cheap to make and to copy.
class ModelReader {
 public:
  explicit ModelReader(std::span<const std::byte> file);

  const char* producer() const;
  const char* name() const;
  const char* architecture() const;
  uint32_t positions_max() const;
  uint32_t vocab_size() const;   // 0: the input is features
  uint32_t token_types() const;  // 0: the model knows none
  bool pooled() const;           // selections give one row for each sequence
  uint32_t labels() const;       // 0, or one for each column that the model gives out
  const char* label(uint32_t index) const;
  uint32_t input_slot() const;
  uint32_t output_slot() const;

  uint32_t slots() const;
  SlotView slot(uint32_t index) const;
  uint32_t ops() const;
  OpView op(uint32_t index) const;
  const char* op_name(uint32_t index) const;
  uint32_t tensors() const;
  TensorShape tensor(uint32_t index) const;
  const char* tensor_name(uint32_t index) const;
  uint32_t caches() const;
  CacheShape cache(uint32_t index) const;
  uint32_t cache_behind(uint32_t index) const;  // positions that must be held before a query
  uint32_t masks() const;
  MaskView mask(uint32_t index) const;  // REQUIRES: mask_known(index)
  bool mask_known(uint32_t index) const;
  uint32_t hidden_states() const;
  HiddenStateView hidden_state(uint32_t index) const;
  uint32_t packed_count() const;
  PackedView packed(uint32_t index) const;
  uint32_t cache_groups(uint32_t packed_index) const;    // how many are stored
  uint32_t tensor_offsets(uint32_t packed_index) const;  // how many
  uint64_t tensor_offset(uint32_t packed_index, uint32_t tensor) const;

  SelfTestView self_test() const;

  // A tensor, where it lies in the file.
  WeightView weights(uint32_t packed_index, uint32_t tensor) const;

  uint32_t file_targets() const;  // bit set
  bool causal() const;            // no mask lets a query see a later key
  bool sees_everything() const;   // no mask hides anything, whatever the distance

 private:
  std::span<const std::byte> file_;
  const Model* model_;
};

// No row of the mask reaches beyond its own position.
bool is_causal(const MaskView& mask);

}  // namespace arenite::format
