// SPDX-License-Identifier: Apache-2.0
// Constants as weights: as they are stored, or computed when somebody loads them.
#include "convert/exported/recover/constant.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

constexpr size_t kBlock = 16;  // numbers of a line of cache

// In blocks, so that a line of cache that was read or written once is not needed again.
template <typename T>
std::vector<T> turned(const std::vector<T>& values, size_t rows, size_t columns) {
  std::vector<T> result(values.size());
  for (size_t row = 0; row < rows; row += kBlock) {
    for (size_t column = 0; column < columns; column += kBlock) {
      for (size_t c = column; c < std::min(columns, column + kBlock); ++c) {
        for (size_t r = row; r < std::min(rows, row + kBlock); ++r) {
          result[c * rows + r] = values[r * columns + c];
        }
      }
    }
  }
  return result;
}

template <typename T>
void require_finite(const std::vector<T>& values, const std::string& name) {
  if (std::ranges::all_of(values, [](T value) { return std::isfinite(value); })) return;
  throw InputError("tensor {} has infinities or NaN: expected finite weights", quote(name));
}

// The first name of those that share their elements, as tied weights do.
const ExportedInput& first_of_storage(const ExportedProgram& program, const ExportedInput& input) {
  for (const ExportedInput& other : program.inputs) {
    if (other.kind != InputKind::kUser && other.storage == input.storage) return other;
  }
  return input;
}

template <typename T>
std::vector<T> with_columns_of(const std::vector<T>& values, const std::vector<uint32_t>& order) {
  std::vector<T> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t column = i % order.size();
    result[i - column + order[column]] = values[i];
  }
  return result;
}

}  // namespace

void set_exact(WeightRef& weight, std::function<std::vector<double>()> exact) {
  weight.load = [exact] {
    const std::vector<double> values = exact();
    return std::vector<float>(values.begin(), values.end());
  };
  weight.load_f64 = std::move(exact);
}

WeightRef with_columns(const WeightRef& weight, const std::vector<uint32_t>& order) {
  WeightRef result;
  result.name = weight.name + ".reordered";
  result.rows = weight.rows;
  result.columns = weight.columns;
  result.load = [load = weight.load, order] { return with_columns_of(load(), order); };
  if (weight.load_f64) {
    result.load_f64 = [load = weight.load_f64, order] { return with_columns_of(load(), order); };
  }
  return result;
}

std::string name_of(const ExportedProgram& program, const Constant& constant) {
  return constant.value() == kNoValue ? "constant" : program.values[constant.value()].name;
}

ConstantRef with_shape(const ConstantRef& constant, const Shape& shape) {
  return std::make_shared<const Constant>(
      constant->value(), shape, constant->type(),
      [constant, shape] { return constant->array().with_shape(shape); });
}

WeightRef weight_of(const std::shared_ptr<const ExportedProgram>& program,
                    const ConstantRef& constant, bool transposed) {
  const Shape& shape = constant->shape();
  if (shape.size() != 2) {
    throw NotRecognised(fmt::format("its weight is {}: expected a matrix", shape_text(shape)));
  }
  const auto first = static_cast<uint32_t>(shape[0]);
  const auto second = static_cast<uint32_t>(shape[1]);
  WeightRef weight;
  weight.rows = transposed ? second : first;
  weight.columns = transposed ? first : second;
  if (constant->stored != nullptr) {
    weight.name = first_of_storage(*program, *constant->stored).name;
    const StoredTensor* tensor = &program->tensor(*constant->stored);
    const auto arranged = [=](auto values) {
      require_finite(values, tensor->name);
      return transposed ? turned(values, first, second) : values;
    };
    weight.load = [program, tensor, arranged] { return arranged(tensor->load()); };
    if (tensor->load_f64) {
      weight.load_f64 = [program, tensor, arranged] { return arranged(tensor->load_f64()); };
    }
    return weight;
  }
  weight.name = name_of(*program, *constant);
  const uint64_t most = std::max(kExportedElementsMax, program->largest_weight());
  set_exact(weight, [constant, transposed, first, second, most, name = weight.name] {
    const ElementLimit limit(most);
    std::vector<double> values = constant->array().to_reals();
    require_finite(values, name);
    return transposed ? turned(values, first, second) : values;
  });
  return weight;
}

}  // namespace arenite::convert
