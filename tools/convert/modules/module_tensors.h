// SPDX-License-Identifier: Apache-2.0
// The tensors of one module in a checkpoint: finds them under a common prefix, takes them one by
// one and says what is left over.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/modules/attention_module.h"

namespace arenite::convert {

class ModuleTensors {
 public:
  // The tensors of `checkpoint` whose names begin with `prefix`, which ends in a dot or is empty.
  ModuleTensors(const Checkpoint& checkpoint, std::string prefix);

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const std::string& file() const { return file_; }  // quoted, for messages
  const std::string& prefix() const { return prefix_; }

  bool has(std::string_view name) const;
  // The tensor <prefix>name, marked as used; nullptr if absent.
  const CheckpointTensor* take(const std::string& name);
  // Throws InputError if absent.
  const CheckpointTensor& require(const std::string& name);

  // <name>.weight [outputs, inputs] and <name>.bias [outputs], if there is one.
  Projection linear(const std::string& name);
  // The same from two tensors by their own names; an absent bias may be passed as "".
  Projection linear(const std::string& weight, const std::string& bias);

  // Names under the prefix that were not taken.
  std::vector<std::string> rest() const;

 private:
  const Checkpoint& checkpoint_;
  std::string file_;
  std::string prefix_;
  std::set<std::string> used_;
};

// [rows, columns] of a weight matrix. Throws InputError for another rank or a 0.
struct MatrixShape {
  uint32_t rows = 0;
  uint32_t columns = 0;
};
MatrixShape matrix_shape(const CheckpointTensor& tensor, const std::string& file);

// The values of a floating-point tensor. Throws InputError for whole numbers, NaN and infinities.
std::vector<float> weight_values(const CheckpointTensor& tensor, const std::string& file);

// "name [2, 3] F32" for each tensor, for messages.
std::string list_tensors(const Checkpoint& checkpoint);

}  // namespace arenite::convert
