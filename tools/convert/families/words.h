// SPDX-License-Identifier: Apache-2.0
// The names of tensors, taken apart into modules, words, and what a tensor is to its module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/families/part_names.h"

namespace arenite::convert {

struct TensorName {
  PartNames part;                       // without the prefix
  std::vector<std::string> components;  // of the module's path, in lower case
  std::vector<size_t> offsets;          // in the whole name, where each of them begins
  uint32_t rows = 0, columns = 0;       // 0 where it is no matrix
  uint32_t elements = 0;                // 0 where it is no vector
  bool is_weight = false;               // or the gain of a norm; otherwise a bias or a bare tensor

  bool is_matrix() const { return rows != 0; }
};

// What `tensor` is, whose name begins with `prefix`. A weight's bias is looked for in `store`.
TensorName take_apart(const StoredTensor& tensor, const std::string& prefix,
                      const TensorStore& store);

std::vector<std::string> words_of(std::string_view component);  // "out_proj" is out and proj
bool is_number(std::string_view component);
bool is_any(std::string_view word, std::span<const std::string_view> words);
bool has_any(std::span<const std::string> found, std::span<const std::string_view> words);

}  // namespace arenite::convert
