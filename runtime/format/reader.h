// SPDX-License-Identifier: Apache-2.0
// Reads the metadata of a model file as plain structs. FlatBuffers does not show through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arenite/target.h"
#include "core/arena_formula.h"
#include "core/mask_view.h"
#include "core/packing.h"

namespace arenite::format {

struct Model;  // the generated FlatBuffers table

// Columns [column, column + width) of a slot; width 0: absent.
struct ColumnView {
  uint32_t slot = 0;
  uint32_t column = 0;
  uint32_t width = 0;
};

struct SlotView {
  uint32_t width = 0;
  uint32_t column = 0;    // floats per token before it in the activation area
  uint32_t first_op = 0;  // alive from here ...
  uint32_t last_op = 0;   // ... to here, both included
};

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

enum class OpKind : uint8_t { kNone, kLinear, kAttention };

struct OpView {
  OpKind kind = OpKind::kNone;
  LinearOp linear;        // of kind kLinear
  AttentionOp attention;  // of kind kAttention

  const ColumnView& output() const {
    return kind == OpKind::kLinear ? linear.output : attention.output;
  }
};

struct TensorShape {
  uint32_t outputs = 0;
  uint32_t inputs = 0;
};

struct SegmentView {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t crc32c = 0;
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
  uint32_t masks() const;
  MaskView mask(uint32_t index) const;  // REQUIRES: mask_known(index)
  bool mask_known(uint32_t index) const;
  uint32_t packed_count() const;
  PackedView packed(uint32_t index) const;
  uint32_t tensor_offsets(uint32_t packed_index) const;  // how many
  uint64_t tensor_offset(uint32_t packed_index, uint32_t tensor) const;

  // The packed weights of a tensor, where they lie in the file.
  const float* weights(uint32_t packed_index, uint32_t tensor) const;

  uint32_t file_targets() const;  // bit set
  bool causal() const;            // no mask lets a query see a later key

 private:
  std::span<const std::byte> file_;
  const Model* model_;
};

// No row of the mask reaches beyond its own position.
bool is_causal(const MaskView& mask);

}  // namespace arenite::format
