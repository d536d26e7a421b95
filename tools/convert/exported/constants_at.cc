// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/constants_at.h"

#include <vector>

#include "convert/exported/affine.h"

namespace arenite::convert {

ConstantsAt::ConstantsAt(std::shared_ptr<const ExportedProgram> program, Lengths lengths)
    : program_(std::move(program)), lengths_(std::move(lengths)) {
  for (const ExportedNode& node : program_->nodes) {
    for (size_t i = 0; i < node.outputs.size(); ++i) makers_[node.outputs[i]] = {&node, i};
  }
}

Array ConstantsAt::get(uint32_t value) {
  const Argument result = compute(value);
  if (const Array* array = result.as<Array>()) return *array;
  throw NotRecognised("a constant is no tensor");
}

Argument ConstantsAt::compute(uint32_t value) {
  if (const auto known = known_.find(value); known != known_.end()) return known->second;
  for (const ExportedInput& input : program_->inputs) {
    if (input.value != value) continue;
    if (input.kind == InputKind::kUser) {
      return known_[value] = Argument(lengths_.side_constant(value));
    }
    return known_[value] = program_->load(input);
  }
  const Level level;
  const auto found = makers_.find(value);
  if (found == makers_.end()) throw NotRecognised("a constant is no value of the program");
  const ExportedNode* const node = found->second.first;
  const size_t output = found->second.second;
  if (node->call.op == "sym_size" && !node->call.arguments.empty()) {
    const auto* of = node->call.arguments[0].value.as<ValueRef>();
    const auto* dim = node->call.find("dim") ? node->call.find("dim")->as<int64_t>() : nullptr;
    if (of != nullptr && dim != nullptr) {
      const std::vector<Extent>& sizes = program_->values[of->value].sizes;
      const int64_t place = *dim < 0 ? *dim + static_cast<int64_t>(sizes.size()) : *dim;
      return known_[value] = Argument(lengths_.extent(sizes.at(static_cast<size_t>(place))));
    }
  }
  const OpCall call = bind(node->call, [&](uint32_t input) -> Argument {
    const bool is_shape_alone =
        node->call.op.starts_with("new_") || node->call.op.ends_with("_like");
    if (!is_shape_alone) return compute(input);
    const ExportedValue& of = program_->values[input];
    if (of.kind != ValueKind::kTensor) return compute(input);
    Shape shape;
    for (const Extent& extent : of.sizes) shape.push_back(lengths_.extent(extent));
    const size_t count = elements_of(shape);
    return Array::real(std::move(shape), Array::Reals(count, 0.0)).to(of.type);
  });
  budget_.live_elements = OpBudget{}.live_elements;
  const std::vector<Argument> results = apply_op(call, budget_);
  if (output >= results.size()) throw NotRecognised("a constant is no result of its op");
  return known_[value] = results[output];
}

}  // namespace arenite::convert
