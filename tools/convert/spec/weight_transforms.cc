// SPDX-License-Identifier: Apache-2.0
// Wraps the loading of weights, so that no reordered copy exists before it is needed.
#include "convert/spec/weight_transforms.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

namespace arenite::convert {

RowOrder row_range(uint32_t first, uint32_t count) {
  RowOrder order(count);
  std::iota(order.begin(), order.end(), first);
  return order;
}

RowOrder halves_of_pairs(uint32_t heads, uint32_t head_dim, uint32_t rotary_dim) {
  RowOrder order;
  order.reserve(size_t{heads} * head_dim);
  for (uint32_t head = 0; head < heads; ++head) {
    for (uint32_t half = 0; half < 2; ++half) {
      for (uint32_t pair = 0; pair < rotary_dim / 2; ++pair) {
        order.push_back(head * head_dim + 2 * pair + half);
      }
    }
    for (uint32_t rest = rotary_dim; rest < head_dim; ++rest) {
      order.push_back(head * head_dim + rest);
    }
  }
  return order;
}

WeightRef held_weight(std::string name, uint32_t rows, uint32_t columns,
                      std::vector<float> values) {
  return {std::move(name), rows, columns, [values = std::move(values)] { return values; }};
}

WeightRef transpose(WeightRef weight) {
  const size_t rows = weight.rows;
  const size_t columns = weight.columns;
  std::swap(weight.rows, weight.columns);
  weight.load = [rows, columns, load = std::move(weight.load)] {
    const std::vector<float> stored = load();
    std::vector<float> values(stored.size());
    for (size_t row = 0; row < rows; ++row) {
      for (size_t column = 0; column < columns; ++column) {
        values[column * rows + row] = stored[row * columns + column];
      }
    }
    return values;
  };
  return weight;
}

WeightRef select_rows(WeightRef weight, RowOrder order) {
  weight.rows = static_cast<uint32_t>(order.size());
  weight.load = [columns = size_t{weight.columns}, order = std::move(order),
                 load = std::move(weight.load)] {
    const std::vector<float> stored = load();
    std::vector<float> values(order.size() * columns);
    for (size_t row = 0; row < order.size(); ++row) {
      std::copy_n(stored.begin() + static_cast<ptrdiff_t>(order[row] * columns), columns,
                  values.begin() + static_cast<ptrdiff_t>(row * columns));
    }
    return values;
  };
  return weight;
}

std::vector<float> select_rows(const std::vector<float>& vector, const RowOrder& order) {
  std::vector<float> values;
  if (vector.empty()) return values;
  values.reserve(order.size());
  for (const uint32_t row : order) values.push_back(vector[row]);
  return values;
}

LinearSpec select_rows(const LinearSpec& linear, const RowOrder& order) {
  return {select_rows(linear.weight, order), select_rows(linear.bias, order)};
}

LinearSpec stack_rows(std::vector<LinearSpec> parts) {
  LinearSpec stacked = parts.front();
  std::vector<std::function<std::vector<float>()>> loads = {std::move(parts.front().weight.load)};
  for (LinearSpec& part : std::span(parts).subspan(1)) {
    stacked.weight.rows += part.weight.rows;
    stacked.bias.insert(stacked.bias.end(), part.bias.begin(), part.bias.end());
    loads.push_back(std::move(part.weight.load));
  }
  stacked.weight.load = [loads = std::move(loads)] {
    std::vector<float> values;
    for (const auto& load : loads) {
      const std::vector<float> part = load();
      values.insert(values.end(), part.begin(), part.end());
    }
    return values;
  };
  return stacked;
}

}  // namespace arenite::convert
