// SPDX-License-Identifier: Apache-2.0
// The named tensors of a model, over however many files of whatever format they are spread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "convert/files/checkpoint.h"

namespace arenite::convert {

struct StoredTensor {
  std::string name;
  std::string type;                          // as its format calls it: "BF16", "Q8_0"
  bool is_real = true;                       // false: whole numbers or bool, so no weights
  std::vector<uint64_t> shape;               // outermost dimension first
  std::function<std::vector<float>()> load;  // all elements in row-major order; owns its file
  std::string file;                          // for messages
};

class TensorStore {
 public:
  explicit TensorStore(std::string source) : source_(std::move(source)) {}

  const std::string& source() const { return source_; }  // file or folder, for messages
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;  // nullptr when absent

  // Throws InputError when there is a tensor of this name already.
  void add(StoredTensor tensor);

  // All tensors of `checkpoint`.
  void add(const std::shared_ptr<const Checkpoint>& checkpoint);

  // The same without what programs that wrap a whole model put in front of all names.
  TensorStore unwrapped() const;

 private:
  std::string source_;
  std::vector<StoredTensor> tensors_;
  std::map<std::string, size_t, std::less<>> indexes_;
};

// "  'name' [2, 3] F32" a line for each tensor, the first ones of many, for messages.
std::string list_tensors(const std::vector<StoredTensor>& tensors);

// "[2, 3]"
std::string shape_text(const std::vector<uint64_t>& shape);

}  // namespace arenite::convert
