// SPDX-License-Identifier: Apache-2.0
// Ways in which files store a weight differently from [outputs, inputs], undone when it is loaded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Source rows, in the order in which they are wanted.
using RowOrder = std::vector<uint32_t>;

// Rows [first, first + count).
RowOrder row_range(uint32_t first, uint32_t count);

// Rows of query or key heads whose first rotary_dim elements are made for rotation of neighbours
// (2i, 2i + 1), in the order for rotation of halves (i, i + rotary_dim / 2). REQUIRES: rotary_dim
// is even and at most head_dim.
RowOrder halves_of_pairs(uint32_t heads, uint32_t head_dim, uint32_t rotary_dim);

// A weight whose values are in memory already.
WeightRef held_weight(std::string name, uint32_t rows, uint32_t columns, std::vector<float> values);

// [columns, rows] of `weight`: for layers that keep [inputs, outputs], as GPT-2's Conv1D does.
WeightRef transpose(WeightRef weight);

// The rows of `weight`, or the elements of a vector, that `order` names. An empty vector, which
// stands for none, stays empty. REQUIRES: every row exists.
WeightRef select_rows(WeightRef weight, RowOrder order);
std::vector<float> select_rows(const std::vector<float>& vector, const RowOrder& order);
LinearSpec select_rows(const LinearSpec& linear, const RowOrder& order);

// The rows of all `parts` below one another. REQUIRES: they are of the same width, and all of them
// have a bias or none has.
LinearSpec stack_rows(std::vector<LinearSpec> parts);

}  // namespace arenite::convert
