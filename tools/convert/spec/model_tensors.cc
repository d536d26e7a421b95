// SPDX-License-Identifier: Apache-2.0
// Checks names, shapes, types and values. Reordered copies exist only while a weight is loaded.
#include "convert/spec/model_tensors.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "convert/files/error.h"
#include "convert/files/thread_pool.h"

namespace arenite::convert {
namespace {

constexpr size_t kMissingListed = 30;
constexpr size_t kTransposedAtOnce = size_t{1} << 18;  // elements of a task

// The last row is for bare parameters.
const PartNames kLeaves[] = {{".weight", ".bias"}, {"_weight", "_bias"}, {".scale", ".shift"},
                             {".gamma", ".beta"},  {".a_2", ".b_2"},     {"", ""}};

// Returns the values of `tensor`, to be used as weights.
template <typename Values>
Values require_finite(Values values, const StoredTensor& tensor) {
  const auto bad = std::ranges::find_if_not(
      values, [](auto value) { return std::isfinite(static_cast<float>(value)); });
  if (bad != values.end()) {
    throw InputError("{} has the value {} at index {}: expected finite weights", place_of(tensor),
                     static_cast<float>(*bad), bad - values.begin());
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

// Applies `change` to everything that `weight` loads, and drops its quantized form.
template <typename Change>
void change_load(WeightRef& weight, const Change& change) {
  weight.quantized = {};
  weight.load_quantized = {};
  weight.load = [change, load = std::move(weight.load)] { return change(load()); };
  if (!weight.load_f64) return;
  weight.load_f64 = [change, load = std::move(weight.load_f64)] { return change(load()); };
}

// Drops extents of 1 from `shape`, as long as it has more than `rank` dimensions.
std::vector<uint64_t> squeezed(std::vector<uint64_t> shape, size_t rank) {
  while (shape.size() > rank) {
    const auto one = std::find(shape.begin(), shape.end(), 1u);
    if (one == shape.end()) break;
    shape.erase(one);
  }
  return shape;
}

// Returns the rows of `stored`, [rows, columns], that `order` selects.
template <typename Numbers>
auto selected(const Numbers& stored, size_t columns, const RowOrder& order) {
  std::vector<std::decay_t<decltype(stored[0])>> values;
  values.reserve(order.size() * columns);
  for (const size_t row : order) {
    const auto first = stored.begin() + static_cast<ptrdiff_t>(row * columns);
    values.insert(values.end(), first, first + static_cast<ptrdiff_t>(columns));
  }
  return values;
}

// Sets the quantized form of `stacked` to the concatenated rows, if all `weights` have the same
// form.
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
auto stacked_values(const std::vector<WeightRef>& weights, const Load& load) {
  const auto first = load(weights.front());
  std::vector values(first.begin(), first.end());
  for (const WeightRef& weight : std::span(weights).subspan(1)) {
    const auto rows = load(weight);
    values.insert(values.end(), rows.begin(), rows.end());
  }
  return values;
}

Sides sides_of(const StoredTensor& tensor, const std::vector<uint64_t>& shape) {
  const auto is_fine = [](uint64_t side) { return side >= 1 && side <= kSideMax; };
  if (shape.size() == 2 && std::ranges::all_of(shape, is_fine)) {
    return {static_cast<uint32_t>(shape[0]), static_cast<uint32_t>(shape[1])};
  }
  throw InputError("{} has shape {}: expected a matrix with sides of 1 to {}", place_of(tensor),
                   shape_text(tensor.shape), kSideMax);
}

}  // namespace

std::span<const PartNames> part_leaves() { return kLeaves; }

std::string place_of(const StoredTensor& tensor) {
  return fmt::format("{}: {}", quote(tensor.file), quote(tensor.name));
}

Sides sides_of(const StoredTensor& tensor) { return sides_of(tensor, tensor.shape); }

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
    std::vector<std::decay_t<decltype(stored[0])>> values(stored.size());
    constexpr size_t kStrip = 16;  // rows that stay in the cache until their line is written
    const size_t columns_at_once = std::max<size_t>(1, kTransposedAtOnce / rows);
    const size_t tasks = (columns + columns_at_once - 1) / columns_at_once;
    on_all_cores(static_cast<uint32_t>(tasks), [&](uint32_t task) {
      const size_t begin = task * columns_at_once;
      const size_t end = std::min(columns, begin + columns_at_once);
      for (size_t strip = 0; strip < rows; strip += kStrip) {
        for (size_t column = begin; column < end; ++column) {
          for (size_t row = strip; row < std::min(rows, strip + kStrip); ++row) {
            values[column * rows + row] = stored[row * columns + column];
          }
        }
      }
    });
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
    return stacked_values(weights, [](const WeightRef& weight) { return weight.load(); });
  };
  stacked.weight.load_f64 = {};
  if (!is_exact) {
    stacked.weight.load_f64 = [weights] {
      return stacked_values(weights, [](const WeightRef& weight) { return weight.exact(); });
    };
  }
  return stacked;
}

const StoredTensor& ModelTensors::require(const std::string& name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  throw InputError("{}: tensor {} is missing; the file has:\n{}", quote(source()),
                   quote(full_name(name)), list_tensors(store_.tensors()));
}

Sides ModelTensors::shape_of(const std::string& name) const {
  const StoredTensor& tensor = require(name);
  return sides_of(tensor, squeezed(tensor.shape, 2));
}

const StoredTensor* ModelTensors::take(const std::string& name, const std::vector<uint64_t>& shape,
                                       Presence presence) {
  if (presence == Presence::kNone || name.empty()) return nullptr;
  const StoredTensor* tensor = buffer(name);
  if (tensor == nullptr) {
    if (presence == Presence::kRequired) {
      missing_.push_back(fmt::format("{} {}", quote(full_name(name)), shape_text(shape)));
    }
    return nullptr;
  }
  if (squeezed(tensor->shape, shape.size()) != shape) {
    throw InputError("{} has shape {}: expected {}", place_of(*tensor), shape_text(tensor->shape),
                     shape_text(shape));
  }
  if (!tensor->is_real) {
    throw InputError("{} is of type {}: expected floating-point weights, F64, F32, F16 or BF16",
                     place_of(*tensor), tensor->type);
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

PartNames ModelTensors::part(const std::string& name) const {
  for (const PartNames& leaf : kLeaves) {
    if (!has(name + leaf.weight)) continue;
    return {name + leaf.weight, leaf.bias.empty() ? "" : name + leaf.bias};
  }
  return {name + kLeaves[0].weight, name + kLeaves[0].bias};
}

LinearSpec ModelTensors::linear(const std::string& name, uint32_t outputs, uint32_t inputs,
                                Presence bias) {
  const PartNames names = part(name);
  return {matrix(names.weight, outputs, inputs), vector(names.bias, outputs, bias)};
}

LinearSpec ModelTensors::linear(const std::string& name) {
  // No config tells which extent of 1 is superfluous, so none is dropped.
  const Sides shape = sides_of(require(part(name).weight));
  return linear(name, shape.rows, shape.columns, Presence::kIfStored);
}

LinearSpec ModelTensors::conv1d(const std::string& name, uint32_t outputs, uint32_t inputs,
                                Presence bias) {
  const PartNames names = part(name);
  const StoredTensor* weight = find(names.weight);
  if (weight != nullptr && weight->is_by_outputs) return linear(name, outputs, inputs, bias);
  return {transpose(matrix(names.weight, inputs, outputs)), vector(names.bias, outputs, bias)};
}

LinearSpec ModelTensors::stacked(const PartNames& names, uint32_t count, uint32_t outputs,
                                 uint32_t inputs, bool are_inputs_first) {
  const uint64_t first = are_inputs_first ? inputs : outputs;
  const uint64_t second = are_inputs_first ? outputs : inputs;
  const StoredTensor* weight = take(names.weight, {count, first, second}, Presence::kRequired);
  const StoredTensor* bias = take(names.bias, {count, outputs}, Presence::kRequired);
  const uint32_t rows = count * outputs;
  LinearSpec all = {{.name = full_name(names.weight), .rows = rows, .columns = inputs, .load = {}}};
  if (bias != nullptr) all.bias = weight_of(*bias, 1, rows).exact();
  if (weight == nullptr) return all;
  all.weight = weight_of(*weight, rows, inputs);
  if (!are_inputs_first) return all;
  change_load(all.weight, [rows, outputs, inputs](const auto& stored) {
    std::vector values(stored.begin(), stored.end());
    for (size_t row = 0; row < rows; ++row) {
      const size_t begin = row / outputs * outputs * inputs + row % outputs;
      for (size_t i = 0; i < inputs; ++i) values[row * inputs + i] = stored[begin + i * outputs];
    }
    return values;
  });
  return all;
}

NormSpec ModelTensors::norm(const std::string& name, uint32_t features, double epsilon,
                            NormKind kind, Presence bias) {
  const PartNames names = part(name);
  return {.name = full_name(names.weight),
          .kind = kind,
          .gain = vector(names.weight, features),
          .bias = vector(names.bias, features, bias),
          .epsilon = epsilon};
}

WeightRef ModelTensors::tied(const std::vector<std::string>& names, uint32_t rows,
                             uint32_t columns) {
  std::optional<WeightRef> first;
  Floats values;  // of the first, once there is another
  for (const std::string& name : names) {
    if (!has(name)) continue;
    const WeightRef weight = matrix(name, rows, columns);
    if (first && values.empty()) values = first->load();
    if (first && values != weight.load()) {
      throw InputError(
          "{}: {} and {} differ, though the model ties them: expected equal tensors, or "
          "tie_word_embeddings false in the config",
          quote(source()), quote(first->name), quote(weight.name));
    }
    if (!first) first = weight;
  }
  return first ? *first : matrix(names.front(), rows, columns);
}

LinearSpec ModelTensors::convolution(const std::string& name, uint32_t outputs, uint32_t inputs,
                                     const std::vector<uint64_t>& kernel, Presence bias) {
  std::vector<uint64_t> shape = {outputs, inputs};
  shape.insert(shape.end(), kernel.begin(), kernel.end());
  const auto places = static_cast<uint32_t>(
      std::accumulate(kernel.begin(), kernel.end(), uint64_t{1}, std::multiplies<>()));
  LinearSpec linear = {
      {.name = full_name(name), .rows = outputs, .columns = places * inputs, .load = {}},
      vector(name + ".bias", outputs, bias)};
  const StoredTensor* tensor = take(name + ".weight", shape, Presence::kRequired);
  if (tensor == nullptr) return linear;
  linear.weight = weight_of(*tensor, outputs, places * inputs);
  change_load(linear.weight, [=](const auto& stored) {
    std::vector values(stored.begin(), stored.end());
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t place = i % places, input = i / places % inputs, output = i / places / inputs;
      values[(output * places + place) * inputs + input] = stored[i];
    }
    return values;
  });
  return linear;
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

namespace {

class LayerReader {
 public:
  LayerReader(ModelTensors& tensors, const TransformerSpec& spec, const LayerNames& names,
              const LayerSettings& settings, std::string list, uint32_t index)
      : tensors_(tensors),
        spec_(spec),
        names_(names),
        settings_(settings),
        list_(std::move(list)),
        prefix_(fmt::format("{}{}.", list_, index)),
        is_first_(index == 0),
        has_experts_(settings.experts.count != 0 &&
                     (settings.lacks_experts.empty() || !settings.lacks_experts[index])) {}

  LayerSpec run() {
    LayerSpec layer;
    layer.parallel_residual = settings_.is_parallel;
    if (!is_first_ || !settings_.lacks_first_norm) {
      layer.attention_norm = norm(names_.attention_norm);
    }
    read_attention(layer);
    if (settings_.has_head_norms) {
      const bool of_rows = settings_.has_row_norms;
      layer.query_norm = norm(names_.query_norm, (of_rows ? spec_.heads : 1) * spec_.head_dim);
      layer.key_norm = norm(names_.key_norm, (of_rows ? spec_.kv_heads : 1) * spec_.head_dim);
    }
    layer.attention_out_norm = norm(names_.attention_out_norm);
    layer.mlp_norm = norm(names_.mlp_norm);
    layer.mlp_out_norm = norm(names_.mlp_out_norm);
    if (has_experts_) {
      read_experts(layer);
    } else {
      read_mlp(layer);
    }
    if (names_.sinks != nullptr) layer.sinks = tensors_.vector(prefix_ + names_.sinks, spec_.heads);
    return layer;
  }

  LayerSpec attention_alone() {
    LayerSpec layer;
    layer.attention_norm = norm(names_.attention_norm);
    read_attention(layer);
    return layer;
  }

 private:
  // Makes an optional bias required in all layers if the first layer has it, and absent otherwise.
  Presence as_in_first(const std::string& part, Presence bias) const {
    if (bias != Presence::kIfStored) return bias;
    const std::string name = tensors_.part(fmt::format("{}0.{}", list_, part)).bias;
    return !name.empty() && tensors_.has(name) ? Presence::kRequired : Presence::kNone;
  }

  std::optional<NormSpec> norm(const char* part) {
    if (part == nullptr) return std::nullopt;
    return norm(part, spec_.model_dim);
  }
  NormSpec norm(const std::string& part, uint32_t features) {
    return read_norm(tensors_, names_, settings_, prefix_ + part, features,
                     as_in_first(part, settings_.norm_bias));
  }

  LinearSpec linear(const std::string& part, uint32_t outputs, uint32_t inputs, Presence bias) {
    bias = as_in_first(part, bias);
    return names_.keeps_inputs_first ? tensors_.conv1d(prefix_ + part, outputs, inputs, bias)
                                     : tensors_.linear(prefix_ + part, outputs, inputs, bias);
  }

  // Reads one projection, or stacks those of all heads.
  LinearSpec projection(const char* part, uint32_t rows, Presence bias) {
    if (std::string_view(part).find("{}") == std::string_view::npos) {
      return linear(part, rows, spec_.model_dim, bias);
    }
    std::vector<LinearSpec> heads;
    for (uint32_t i = 0; i < rows / spec_.head_dim; ++i) {
      heads.push_back(
          linear(fmt::format(fmt::runtime(part), i), spec_.head_dim, spec_.model_dim, bias));
    }
    return heads.size() == 1 ? std::move(heads[0]) : stack_rows(std::move(heads));
  }

  void read_attention(LayerSpec& layer) {
    const uint32_t query_rows = spec_.heads * spec_.head_dim;
    read_projections(layer, query_rows);
    layer.output = linear(names_.output, spec_.model_dim, query_rows, settings_.output_bias);
  }

  void read_projections(LayerSpec& layer, uint32_t query_rows) {
    const uint32_t key_rows = spec_.kv_heads * spec_.head_dim;
    const Presence bias = settings_.qkv_bias;
    if (names_.fused == nullptr) {
      layer.query = projection(names_.query, query_rows, bias);
      layer.key = projection(names_.key, key_rows, names_.lacks_key_bias ? Presence::kNone : bias);
      layer.value = projection(names_.value, key_rows, bias);
      return;
    }
    const LinearSpec fused = projection(names_.fused, query_rows + 2 * key_rows, bias);
    if (names_.fused_rows == FusedRows::kBlocks) {
      return split_fused(layer, fused, query_rows, key_rows);
    }
    layer.query = select_rows(fused, rows_of_heads(0, group()));
    layer.key = select_rows(fused, rows_of_heads(group(), 1));
    layer.value = select_rows(fused, rows_of_heads(group() + 1, 1));
  }

  // Returns how many query heads share a key head.
  uint32_t group() const { return spec_.heads / spec_.kv_heads; }

  // Each key head has a group of queries before it, and its value after it. Returns the rows of
  // `count` heads from `first` on in each group.
  RowOrder rows_of_heads(uint32_t first, uint32_t count) const {
    RowOrder order;
    order.reserve(size_t{spec_.kv_heads} * count * spec_.head_dim);
    for (uint32_t head = 0; head < spec_.kv_heads; ++head) {
      for (uint32_t i = 0; i < count * spec_.head_dim; ++i) {
        order.push_back((head * (group() + 2) + first) * spec_.head_dim + i);
      }
    }
    return order;
  }

  void read_mlp(LayerSpec& layer) {
    const Presence bias = settings_.mlp_bias;
    const uint32_t width = spec_.ffn_dim;
    if (names_.has_gate_in_up) {
      const LinearSpec both = linear(names_.up, 2 * width, spec_.model_dim, bias);
      layer.gate = select_rows(both, row_range(0, width));
      layer.up = select_rows(both, row_range(width, width));
    } else {
      if (names_.gate != nullptr) layer.gate = linear(names_.gate, width, spec_.model_dim, bias);
      layer.up = linear(names_.up, width, spec_.model_dim, bias);
    }
    layer.down = linear(names_.down, spec_.model_dim, width, bias);
  }

  // Reads the projection of all experts.
  LinearSpec of_experts(const std::string& part, uint32_t outputs, uint32_t inputs) {
    const uint32_t count = settings_.experts.count;
    if (part.find("{}") == std::string::npos) {
      const std::string bias = names_.has_expert_bias ? prefix_ + part + "_bias" : "";
      return tensors_.stacked({prefix_ + part, bias}, count, outputs, inputs,
                              names_.has_gates_between);
    }
    std::vector<LinearSpec> experts;
    for (uint32_t i = 0; i < count; ++i) {
      experts.push_back(
          linear(fmt::format(fmt::runtime(part), i), outputs, inputs, Presence::kNone));
    }
    return stack_rows(std::move(experts));
  }

  void read_experts(LayerSpec& layer) {
    const uint32_t width = settings_.expert_width, inputs = spec_.model_dim;
    ExpertsSpec& experts = layer.experts.emplace(settings_.experts);
    const Presence bias = names_.has_expert_bias ? Presence::kRequired : Presence::kNone;
    experts.router = linear(names_.router, experts.count, inputs, bias);
    if (names_.expert_gate != nullptr) {
      experts.gate = of_experts(names_.expert_gate, width, inputs);
      experts.up = of_experts(names_.expert_up, width, inputs);
    } else {
      const LinearSpec both = of_experts(names_.expert_up, 2 * width, inputs);
      RowOrder gates, others;
      for (uint32_t row = 0; row < both.outputs(); ++row) {
        const bool is_gate = names_.has_gates_between ? row % 2 == 0 : row / width % 2 == 0;
        (is_gate ? gates : others).push_back(row);
      }
      experts.gate = select_rows(both, gates);
      experts.up = select_rows(both, others);
    }
    experts.down = of_experts(names_.expert_down, inputs, width);
    if (names_.shared == nullptr) return;
    const auto shared = [&](const char* part, uint32_t outputs, uint32_t from) {
      return linear(names_.shared + std::string(part), outputs, from, Presence::kNone);
    };
    layer.gate = shared(".gate_proj", settings_.shared_width, inputs);
    layer.up = shared(".up_proj", settings_.shared_width, inputs);
    layer.down = shared(".down_proj", inputs, settings_.shared_width);
    layer.shared_gate = shared("_gate", 1, inputs);
  }

  ModelTensors& tensors_;
  const TransformerSpec& spec_;
  const LayerNames& names_;
  const LayerSettings& settings_;
  const std::string list_, prefix_;
  const bool is_first_;
  const bool has_experts_;
};

}  // namespace

NormSpec read_norm(ModelTensors& tensors, const LayerNames& names, const LayerSettings& settings,
                   const std::string& name, uint32_t features, std::optional<Presence> bias) {
  const bool has_bias = names.norm == NormKind::kLayer;
  if (settings.has_plain_norms) {
    return {.name = tensors.full_name(name),
            .kind = names.norm,
            .gain = std::vector<double>(features, 1.0),
            .bias = {},
            .epsilon = settings.epsilon};
  }
  NormSpec norm = tensors.norm(name, features, settings.epsilon, names.norm,
                               has_bias ? bias.value_or(settings.norm_bias) : Presence::kNone);
  norm.gain_plus_one = settings.gain_plus_one;
  if (!settings.has_sample_norm) return norm;
  // The sample deviation divides by n - 1. Near a deviation of 1, an epsilon added to it equals
  // twice that epsilon added to the variance.
  const double sample = std::sqrt((features - 1.0) / features);
  for (double& gain : norm.gain) gain *= sample;
  norm.epsilon = 2.0 * settings.epsilon;
  return norm;
}

void read_layers(ModelTensors& tensors, TransformerSpec& spec, const LayerNames& names,
                 const LayerSettings& settings, const std::string& list, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    spec.layers.push_back(LayerReader(tensors, spec, names, settings, list, i).run());
    if (!settings.rotations.empty()) spec.layers[i].rotation = settings.rotations[i];
    const uint32_t window = settings.windows.empty() ? 0 : settings.windows[i];
    if (window < spec.positions_max) spec.layers[i].window = window;
  }
}

std::vector<LayerSpec> read_attentions(ModelTensors& tensors, const TransformerSpec& spec,
                                       const LayerNames& names, const LayerSettings& settings,
                                       const std::string& list, uint32_t count) {
  std::vector<LayerSpec> layers;
  for (uint32_t i = 0; i < count; ++i) {
    layers.push_back(LayerReader(tensors, spec, names, settings, list, i).attention_alone());
  }
  return layers;
}

}  // namespace arenite::convert
