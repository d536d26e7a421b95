// SPDX-License-Identifier: Apache-2.0
// Puts a program together op by op: what whole models have in common.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convert/graph/graph.h"
#include "convert/program/op_records.h"
#include "convert/program/program.h"

namespace arenite::convert {

// Weights are read when the writer packs them: the assembler keeps only how. They are those that
// the file holds (stored_weights.h), so that nothing is left to be multiplied in.
class ProgramAssembler {
 public:
  ProgramAssembler(const std::string& name, const std::string& architecture);

  Program& program() { return program_; }

  uint32_t add_slot(uint32_t width, bool per_output = false);
  format::ColumnView whole(uint32_t slot) const { return {slot, 0, program_.slots[slot].width}; }

  uint32_t add_tensor(ProgramTensor tensor);
  uint32_t add_vector(const std::string& name, std::vector<float> values);
  uint32_t add_table(const WeightRef& weight, uint32_t rows);  // its first rows, not packed
  // The rows of all parts below one another, with the bias of those that have one.
  uint32_t add_matrix(const std::string& name, const std::vector<LinearPart>& parts);
  uint32_t add_cache(const CacheShape& shape, uint32_t lookback);

  void add_op(const std::string& name, const format::OpView& body);
  void add_norm(const std::string& name, const NormSpec& norm, const format::ColumnView& input,
                const format::ColumnView& output, uint32_t groups = 1);
  void add_product(const std::string& name, const format::ColumnView& input,
                   const format::ColumnView& output, uint32_t matrix);  // of add_matrix
  void add_embedding(const std::string& name, const format::ColumnView& output,
                     const EmbeddingParts& parts);
  void add_attention(const std::string& name, const AttentionParts& parts);
  // Continues the op before where its columns and these lie side by side.
  void add_rope(const std::string& name, const format::ColumnView& input,
                const format::ColumnView& output, uint32_t heads, uint32_t angles);
  // `factor` may be absent; `parameter` is that of a function that has one.
  void add_activation(const std::string& name, Activation activation, float parameter,
                      const format::ColumnView& input, const format::ColumnView& factor,
                      const format::ColumnView& output);
  void add_sum(const std::string& name, const format::ColumnView& input,
               const format::ColumnView& other, const format::ColumnView& output);
  void add_select(const std::string& name, const format::ColumnView& input,
                  const format::ColumnView& output, SelectKind kind);

  Program finish();  // places the slots (planner.h)

 private:
  Program program_;
};

}  // namespace arenite::convert
