// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/choose_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

const ExportedValue& output_of(const ExportedProgram& program, size_t index) {
  return program.values[program.outputs[index].as<ValueRef>()->value];
}

bool same_extent(const Extent& a, const Extent& b) {
  return a.size == b.size && a.symbol == b.symbol;
}

// Columns of one tensor after those of the others; `places` are of the program's outputs.
ChosenOutput side_by_side(std::shared_ptr<const ExportedProgram> program,
                          const std::vector<size_t>& places) {
  ExportedValue joined = output_of(*program, places[0]);
  joined.name = "outputs";
  int64_t columns = 0;
  Argument::List parts;
  ChosenOutput chosen;
  for (const size_t place : places) {
    const ExportedValue& part = output_of(*program, place);
    const std::vector<Extent>& sizes = part.sizes;
    const bool fits = !sizes.empty() && sizes.size() == joined.sizes.size() &&
                      sizes.back().is_fixed() &&
                      std::equal(sizes.begin(), sizes.end() - 1, joined.sizes.begin(), same_extent);
    if (!fits) {
      throw InputError(
          "{}: --output-index: {} and {} cannot stand side by side, since their rows differ: "
          "convert them to model files of their own",
          quote(program->source), shape_text(output_of(*program, places[0]).shape()),
          shape_text(part.shape()));
    }
    const int64_t end = columns + sizes.back().size;
    chosen.words += fmt::format("{}columns {} to {}", columns == 0 ? "" : ", ", columns, end - 1);
    columns = end;
    parts.emplace_back(*program->outputs[place].as<ValueRef>());
  }
  joined.sizes.back().size = columns;
  ExportedProgram all = *program;
  const auto value = static_cast<uint32_t>(all.values.size());
  all.values.push_back(std::move(joined));
  all.nodes.push_back(
      {{"cat", "default", {}, {{"tensors", std::move(parts)}, {"dim", int64_t{-1}}}, {}},
       {value},
       {}});
  all.outputs.emplace_back(ValueRef{value});
  chosen.index = all.outputs.size() - 1;
  chosen.program = std::make_shared<const ExportedProgram>(std::move(all));
  return chosen;
}

}  // namespace

ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted) {
  std::vector<size_t> tensors;
  for (size_t i = 0; i < program->outputs.size(); ++i) {
    const ValueRef* ref = program->outputs[i].as<ValueRef>();
    if (ref && program->values[ref->value].kind == ValueKind::kTensor) tensors.push_back(i);
  }
  std::vector<size_t> places;
  for (const uint32_t index : wanted.empty() ? std::vector<uint32_t>{0} : wanted) {
    if (index >= tensors.size()) {
      throw InputError("{}: --output-index {}: the model gives out {} tensor{}: expected 0 to {}",
                       quote(program->source), index, tensors.size(),
                       tensors.size() == 1 ? "" : "s", tensors.empty() ? 0 : tensors.size() - 1);
    }
    places.push_back(tensors[index]);
  }
  const size_t outputs = tensors.size();
  ChosenOutput chosen;
  if (places.size() > 1) {
    chosen = side_by_side(std::move(program), places);
    chosen.words = fmt::format("outputs {} of {} side by side: {}, --output-index",
                               fmt::join(wanted, ", "), outputs, chosen.words);
  } else {
    chosen = {std::move(program), places[0], 1, ""};
    if (outputs > 1) {
      chosen.words = fmt::format(
          "output {} of {}{}", wanted.empty() ? 0 : wanted[0], outputs,
          wanted.empty() ? ", the first: --output-index takes another" : ", --output-index");
    }
  }
  chosen.outputs = outputs;
  return chosen;
}

}  // namespace arenite::convert
