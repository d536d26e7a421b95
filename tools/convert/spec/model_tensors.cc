// SPDX-License-Identifier: Apache-2.0
// Checks names, shapes, types and values. Reordered copies exist only while a weight is loaded.
#include "convert/spec/model_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr size_t kMissingListed = 30;

// The values of `tensor`, which are to be weights.
template <typename Real>
std::vector<Real> require_finite(std::vector<Real> values, const StoredTensor& tensor) {
  const auto bad = std::ranges::find_if_not(
      values, [](Real value) { return std::isfinite(static_cast<float>(value)); });
  if (bad != values.end()) {
    throw InputError("{}: {} has the value {} at index {}: expected finite weights",
                     quote(tensor.file), quote(tensor.name), static_cast<float>(*bad),
                     bad - values.begin());
  }
  return values;
}

WeightRef weight_of(const StoredTensor& tensor, uint32_t rows, uint32_t columns) {
  WeightRef weight{.name = tensor.name, .rows = rows, .columns = columns, .load = [tensor] {
                     return require_finite(tensor.load(), tensor);
                   }};
  if (tensor.load_f64) {
    weight.load_f64 = [tensor] { return require_finite(tensor.load_f64(), tensor); };
  }
  weight.quantized = tensor.quantized;
  weight.load_quantized = tensor.load_quantized;
  return weight;
}

// Lets `change` work on all that `weight` loads. What is quantized is dropped.
template <typename Change>
void change_load(WeightRef& weight, const Change& change) {
  weight.quantized = {};
  weight.load_quantized = {};
  weight.load = [change, load = std::move(weight.load)] { return change(load()); };
  if (!weight.load_f64) return;
  weight.load_f64 = [change, load = std::move(weight.load_f64)] { return change(load()); };
}

// `shape` without extents of 1, as far as it has more than `rank` dimensions.
std::vector<uint64_t> squeezed(std::vector<uint64_t> shape, size_t rank) {
  while (shape.size() > rank) {
    const auto one = std::find(shape.begin(), shape.end(), 1u);
    if (one == shape.end()) break;
    shape.erase(one);
  }
  return shape;
}

ModelTensors::Shape sides_of(const StoredTensor& tensor, const std::vector<uint64_t>& shape) {
  if (shape.size() != 2 || shape[0] == 0 || shape[0] > kSideMax || shape[1] == 0 ||
      shape[1] > kSideMax) {
    throw InputError("{}: {} has shape {}: expected a matrix with sides of 1 to {}",
                     quote(tensor.file), quote(tensor.name), shape_text(tensor.shape), kSideMax);
  }
  return {static_cast<uint32_t>(shape[0]), static_cast<uint32_t>(shape[1])};
}

// The rows of `stored`, [rows, columns], that `order` names.
template <typename Number>
std::vector<Number> selected(const std::vector<Number>& stored, size_t columns,
                             const RowOrder& order) {
  std::vector<Number> values(order.size() * columns);
  for (size_t row = 0; row < order.size(); ++row) {
    std::copy_n(stored.begin() + static_cast<ptrdiff_t>(order[row] * columns), columns,
                values.begin() + static_cast<ptrdiff_t>(row * columns));
  }
  return values;
}

// What is quantized in the same way in all of `weights`, below one another, for `stacked`.
void stack_quantized(const std::vector<WeightRef>& weights, WeightRef& stacked) {
  stacked.quantized = {};
  stacked.load_quantized = {};
  const QuantizedForm& form = weights.front().quantized;
  const bool is_alike = std::ranges::all_of(weights, [&](const WeightRef& weight) {
    return weight.load_quantized && weight.quantized.type == form.type &&
           weight.quantized.scheme == form.scheme;
  });
  if (!is_alike) return;
  stacked.quantized = form;
  stacked.load_quantized = [weights] {
    QuantizedMatrix all = weights.front().load_quantized();
    for (const WeightRef& weight : std::span(weights).subspan(1)) {
      const QuantizedMatrix part = weight.load_quantized();
      all.rows += part.rows;
      all.values.insert(all.values.end(), part.values.begin(), part.values.end());
      all.scales.insert(all.scales.end(), part.scales.begin(), part.scales.end());
    }
    return all;
  };
}

template <typename Load>
auto below_one_another(const std::vector<WeightRef>& weights, const Load& load) {
  auto values = load(weights.front());
  for (const WeightRef& weight : std::span(weights).subspan(1)) {
    const auto rows = load(weight);
    values.insert(values.end(), rows.begin(), rows.end());
  }
  return values;
}

}  // namespace

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

WeightRef transpose(WeightRef weight) {
  const size_t rows = weight.rows;
  const size_t columns = weight.columns;
  std::swap(weight.rows, weight.columns);
  change_load(weight, [rows, columns](const auto& stored) {
    auto values = stored;
    constexpr size_t kStrip = 16;  // rows that stay in the cache until their line is written
    for (size_t first = 0; first < rows; first += kStrip) {
      const size_t end = std::min(rows, first + kStrip);
      for (size_t column = 0; column < columns; ++column) {
        for (size_t row = first; row < end; ++row) {
          values[column * rows + row] = stored[row * columns + column];
        }
      }
    }
    return values;
  });
  return weight;
}

WeightRef select_rows(WeightRef weight, RowOrder order) {
  weight.rows = static_cast<uint32_t>(order.size());
  const WeightRef whole = weight;
  change_load(weight, [columns = weight.columns, order](const auto& stored) {
    return selected(stored, columns, order);
  });
  if (!whole.load_quantized) return weight;
  weight.quantized = whole.quantized;
  weight.load_quantized = [load = whole.load_quantized, order = std::move(order)] {
    QuantizedMatrix matrix = load();
    matrix.scales = selected(matrix.scales, matrix.scales.size() / matrix.rows, order);
    matrix.values = selected(matrix.values, matrix.columns, order);
    matrix.rows = static_cast<uint32_t>(order.size());
    return matrix;
  };
  return weight;
}

std::vector<double> select_rows(const std::vector<double>& vector, const RowOrder& order) {
  std::vector<double> values;
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
  std::vector<WeightRef> weights = {std::move(parts.front().weight)};
  for (LinearSpec& part : std::span(parts).subspan(1)) {
    stacked.weight.rows += part.weight.rows;
    stacked.bias.insert(stacked.bias.end(), part.bias.begin(), part.bias.end());
    weights.push_back(std::move(part.weight));
  }
  stack_quantized(weights, stacked.weight);
  const bool is_exact = std::ranges::none_of(
      weights, [](const WeightRef& weight) { return static_cast<bool>(weight.load_f64); });
  stacked.weight.load = [weights] {
    return below_one_another(weights, [](const WeightRef& weight) { return weight.load(); });
  };
  stacked.weight.load_f64 = {};
  if (!is_exact) {
    stacked.weight.load_f64 = [weights] {
      return below_one_another(weights, [](const WeightRef& weight) { return weight.exact(); });
    };
  }
  return stacked;
}

const StoredTensor& ModelTensors::require(const std::string& name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  throw InputError("{}: tensor {} is missing; the file has:\n{}", quote(source()),
                   quote(full_name(name)), list_tensors(store_.tensors()));
}

ModelTensors::Shape ModelTensors::shape_of(const std::string& name) const {
  const StoredTensor& tensor = require(name);
  return sides_of(tensor, squeezed(tensor.shape, 2));
}

const StoredTensor* ModelTensors::take(const std::string& name, const std::vector<uint64_t>& shape,
                                       Presence presence) {
  if (presence == Presence::kNone) return nullptr;
  const StoredTensor* tensor = buffer(name);
  if (tensor == nullptr) {
    if (presence == Presence::kRequired) {
      missing_.push_back(fmt::format("{} {}", quote(full_name(name)), shape_text(shape)));
    }
    return nullptr;
  }
  if (squeezed(tensor->shape, shape.size()) != shape) {
    throw InputError("{}: {} has shape {}: expected {}", quote(tensor->file), quote(tensor->name),
                     shape_text(tensor->shape), shape_text(shape));
  }
  if (!tensor->is_real) {
    throw InputError("{}: {} is of type {}: expected floating-point weights, F64, F32, F16 or BF16",
                     quote(tensor->file), quote(tensor->name), tensor->type);
  }
  return tensor;
}

const StoredTensor* ModelTensors::buffer(const std::string& name) {
  const StoredTensor* tensor = find(name);
  if (tensor != nullptr) taken_.insert(tensor->name);
  return tensor;
}

WeightRef ModelTensors::matrix(const std::string& name, uint32_t rows, uint32_t columns) {
  const StoredTensor* tensor = take(name, {rows, columns}, Presence::kRequired);
  if (tensor != nullptr) return weight_of(*tensor, rows, columns);
  return {.name = full_name(name), .rows = rows, .columns = columns, .load = {}};
}

std::vector<double> ModelTensors::vector(const std::string& name, uint32_t elements,
                                         Presence presence) {
  const StoredTensor* tensor = take(name, {elements}, presence);
  return tensor == nullptr ? std::vector<double>() : weight_of(*tensor, 1, elements).exact();
}

LinearSpec ModelTensors::linear(const std::string& name, uint32_t outputs, uint32_t inputs,
                                Presence bias) {
  return {matrix(name + ".weight", outputs, inputs), vector(name + ".bias", outputs, bias)};
}

LinearSpec ModelTensors::linear(const std::string& name) {
  // No config says which extent of 1 is one too many, so none is.
  const StoredTensor& weight = require(name + ".weight");
  const Shape shape = sides_of(weight, weight.shape);
  return linear(name, shape.rows, shape.columns, Presence::kIfStored);
}

LinearSpec ModelTensors::conv1d(const std::string& name, uint32_t outputs, uint32_t inputs,
                                Presence bias) {
  const StoredTensor* weight = find(name + ".weight");
  if (weight != nullptr && weight->is_by_outputs) return linear(name, outputs, inputs, bias);
  return {transpose(matrix(name + ".weight", inputs, outputs)),
          vector(name + ".bias", outputs, bias)};
}

NormSpec ModelTensors::layer_norm(const std::string& name, uint32_t features, double epsilon,
                                  Presence bias) {
  const bool is_old = has(name + ".gamma");  // as BERT's first program calls them
  const std::string gain = name + (is_old ? ".gamma" : ".weight");
  return {.name = full_name(gain),
          .kind = NormKind::kLayer,
          .gain = vector(gain, features),
          .bias = vector(name + (is_old ? ".beta" : ".bias"), features, bias),
          .epsilon = epsilon};
}

NormSpec ModelTensors::rms_norm(const std::string& name, uint32_t features, double epsilon) {
  return {.name = full_name(name + ".weight"),
          .kind = NormKind::kRms,
          .gain = vector(name + ".weight", features),
          .bias = {},
          .epsilon = epsilon};
}

WeightRef ModelTensors::tied_embedding(const std::string& embedding, const std::string& head,
                                       uint32_t rows, uint32_t columns) {
  if (!has(head)) return matrix(embedding, rows, columns);
  if (!has(embedding)) return matrix(head, rows, columns);
  WeightRef weight = matrix(embedding, rows, columns);
  if (weight.load() != matrix(head, rows, columns).load()) {
    throw InputError(
        "{}: {} and {} differ, though the model ties them: expected equal tensors, or "
        "tie_word_embeddings false in the config",
        quote(source()), quote(full_name(embedding)), quote(full_name(head)));
  }
  return weight;
}

void ModelTensors::pass_over_all(std::string_view prefix) {
  for (const StoredTensor& tensor : store_.tensors()) {
    if (tensor.name.starts_with(full_name(prefix))) taken_.insert(tensor.name);
  }
}

std::vector<std::string> ModelTensors::rest() const {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : store_.tensors()) {
    if (tensor.name.starts_with(prefix_) && !taken_.contains(tensor.name)) {
      names.push_back(tensor.name);
    }
  }
  return names;
}

void ModelTensors::finish() {
  std::vector<StoredTensor> unknown;
  for (const StoredTensor& tensor : store_.tensors()) {
    if (!taken_.contains(tensor.name)) unknown.push_back(tensor);
  }
  if (missing_.empty() && unknown.empty()) return;
  std::string problem;
  if (!missing_.empty()) {
    const size_t listed = std::min(missing_.size(), kMissingListed);
    problem = fmt::format(
        "{} tensors are missing:\n  {}{}", missing_.size(),
        fmt::join(missing_.begin(), missing_.begin() + static_cast<ptrdiff_t>(listed), "\n  "),
        listed < missing_.size() ? "\n  ..." : "");
  }
  if (!unknown.empty()) {
    problem += fmt::format("{}{} tensors have no place in this model:\n{}",
                           problem.empty() ? "" : "\nand ", unknown.size(), list_tensors(unknown));
  }
  throw InputError("{}: {}", quote(source()), problem);
}

}  // namespace arenite::convert
