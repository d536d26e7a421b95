// SPDX-License-Identifier: Apache-2.0
// Ops on constants, and ops whose result depends on nothing but shapes.
#include <algorithm>

#include "convert/exported/call_arguments.h"
#include "convert/exported/reducer.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

Array zeros(const Shape& shape, ElementType type) {
  return Array::boolean(shape, Array::Bools(elements_of(shape), 0)).to(type);
}

// How many positions a constant has that is cut or looked up by them.
int64_t positions_of(const OpCall& call, const Array& result, const Lengths& lengths) {
  if (call.op == "slice") {
    const CallArguments arguments(call);
    const Array& self = arguments.array("self");
    const size_t dim = arguments.dimension("dim", 0, self.rank());
    const int64_t start = arguments.integer("start", 0);
    // A part that begins at 0, is as long as the input, and is not all of it.
    const int64_t extent = result.shape()[dim];
    const bool is_cut = extent == lengths.tokens() || extent == lengths.rows();
    return start == 0 && is_cut && extent < self.shape()[dim] ? self.shape()[dim] : 0;
  }
  return 0;
}

// The rows that positions look up: consecutive ones.
int64_t positions_of_rows(const Array& table, const Array& ids) {
  const Array::Integers rows = ids.to_integers();
  for (size_t i = 1; i < rows.size(); ++i) {
    if (rows[i] != rows[i - 1] + 1) return 0;
  }
  return rows.size() < 2 ? 0 : table.shape()[0] - rows[0];
}

}  // namespace

Array Reducer::array_of(const Reduced& value) const {
  if (const auto* constant = std::get_if<ConstantRef>(&value)) return (*constant)->array();
  if (const auto* function = std::get_if<FunctionRef>(&value)) require_no_ids(**function);
  throw NotRecognised(
      "its mask, or another constant that it takes, is computed of the model's numbers: give a "
      "mask "
      "of padding as a second input, as in def forward(self, x, padding_mask)");
}

// Ops whose result depends on nothing but shapes and types.
bool Reducer::is_about_shapes(const Operation& operation, std::vector<Reduced>& results) {
  const OpCall& call = operation.call;
  const CallArguments arguments(call);
  if (is_one_of(call.op, {"sym_size", "size"}) && call.find("dim") != nullptr) {
    const Shape shape = shape_of(operation.inputs.at(0));
    const size_t dim = arguments.dimension("dim", 0, shape.size());
    results = {Argument(shape[dim])};
    return true;
  }
  if (call.op == "sym_numel" || call.op == "numel") {
    results = {Argument(static_cast<int64_t>(elements_of(shape_of(operation.inputs.at(0)))))};
    return true;
  }
  if (!call.op.starts_with("new_") &&
      !is_one_of(call.op, {"zeros_like", "ones_like", "full_like", "empty_like"})) {
    return false;
  }
  const OpCall dummy = bind(call, [&](uint32_t index) -> Argument {
    return zeros(shape_of(operation.inputs[index]), operation.types[index]);
  });
  budget_.live_elements = OpBudget{}.live_elements;
  for (const Argument& result : apply_op(dummy, budget_)) results.emplace_back(result);
  return true;
}

std::vector<Reduced> Reducer::constants_of(const Operation& operation, const ExportedNode& node) {
  const OpCall call = with_arrays(operation);
  int64_t positions_max = 0;
  bool is_large = false;
  size_t depth = 0;
  for (const Reduced& input : operation.inputs) {
    const auto* constant = std::get_if<ConstantRef>(&input);
    if (constant == nullptr) continue;
    positions_max = tighter(positions_max, (*constant)->positions_max);
    is_large = is_large || (*constant)->is_large();
    depth = std::max(depth, (*constant)->depth + 1);
  }
  const auto movements = is_large ? movements_of(call) : std::nullopt;
  if (is_large && depth > kExportedLevelsMax) {
    throw NotRecognised("so many ops on large constants, one within the other, are not supported");
  }
  std::vector<Reduced> results;
  for (size_t i = 0; i < node.outputs.size() && is_large; ++i) {
    const ExportedValue& value = program_->values[node.outputs[i]];
    Shape shape;
    for (const Extent& extent : value.sizes) shape.push_back(lengths_.extent(extent));
    if (movements) shape = movements->at(i).shape;
    auto constant =
        std::make_shared<Constant>(node.outputs[i], shape, value.type, [operation, i]() -> Array {
          const OpCall whole = bind(operation.call, [&](uint32_t index) -> Argument {
            return std::get<ConstantRef>(operation.inputs[index])->array();
          });
          OpBudget budget;
          return apply_for_array(whole, budget, i);
        });
    if (call.op == "slice" && !shape.empty()) {
      positions_max =
          tighter(positions_max, positions_of(call, Array::of_shape(shape, value.type), lengths_));
    }
    constant->positions_max = positions_max;
    constant->depth = depth;
    results.emplace_back(ConstantRef(std::move(constant)));
  }
  if (is_large) {
    if (const Reduced* table = operation.value("weight");
        table && call.op == "embedding" && operation.value("indices") != nullptr) {
      const auto& rows = std::get<ConstantRef>(results[0]);
      const int64_t limit = positions_of_rows(Array::of_shape(shape_of(*table), ElementType::kF32),
                                              array_of(*operation.value("indices")));
      const_cast<Constant&>(*rows).positions_max = tighter(rows->positions_max, limit);
    }
    return results;
  }
  budget_.live_elements = OpBudget{}.live_elements;
  for (const Argument& result : apply_op(call, budget_)) {
    const Array* array = result.as<Array>();
    if (array == nullptr) {
      results.emplace_back(result);
      continue;
    }
    int64_t limit = tighter(positions_max, positions_of(call, *array, lengths_));
    if (call.op == "embedding") {
      const CallArguments arguments(call);
      limit =
          tighter(limit, positions_of_rows(arguments.array("weight"), arguments.array("indices")));
    }
    auto constant = std::make_shared<Constant>(node.outputs.at(results.size()), *array);
    constant->positions_max = limit;
    results.emplace_back(ConstantRef(std::move(constant)));
  }
  return results;
}

}  // namespace arenite::convert
