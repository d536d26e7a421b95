// SPDX-License-Identifier: Apache-2.0
// Makes changes in place new values: views of what changed are taken anew, and what a changed view
// is a view of gets the new elements at their places.
#include "convert/exported/graph_reader.h"

#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

constexpr size_t kViewDepthMax = 512;
constexpr uint64_t kCopiedPartsMax = uint64_t{1} << 22;

}  // namespace

uint32_t Aliases::root(uint32_t value) const {
  const auto found = roots_.find(value);
  return found == roots_.end() ? value : found->second;
}

void Aliases::add_view(uint32_t value, uint32_t parent, OpCall call, int64_t part) {
  const auto above = views_.find(parent);
  const size_t depth = above == views_.end() ? 1 : above->second.depth + 1;
  if (depth > kViewDepthMax) {
    throw InputError("{}, {}: more than {} views of views", quote(program_.source), call.describe(),
                     kViewDepthMax);
  }
  take_copy(call);
  views_.emplace(value, View{parent, std::move(call), part, depth});
  roots_[value] = root(parent);
  // Taken of what the parent is now, it is as new as that.
  const auto version = versions_.find(root(parent));
  if (version != versions_.end()) states_[value] = {value, version->second};
}

// Calls are kept once more for each view: a file may not make much of few bytes so.
void Aliases::take_copy(const OpCall& call) {
  copied_ += 1 + call.stack_trace.size() / sizeof(Argument);
  for (const NamedArgument& argument : call.arguments) {
    const auto* list = argument.value.as<Argument::List>();
    copied_ += 1 + (list == nullptr ? 0 : list->size());
  }
  if (copied_ > kCopiedPartsMax) {
    throw InputError("{}: views and changes in place make more of it than of any model",
                     quote(program_.source));
  }
}

uint32_t Aliases::append(OpCall call, uint32_t like, int64_t part) {
  if (program_.nodes.size() >= kExportedNodesMax || program_.values.size() >= kExportedValuesMax) {
    throw InputError("{}: changes in place make more than {} nodes of it", quote(program_.source),
                     kExportedNodesMax);
  }
  take_copy(call);
  // Results that stand before the one that is asked for have no readers.
  std::vector<uint32_t> outputs;
  for (int64_t i = 0; i <= part; ++i) {
    outputs.push_back(static_cast<uint32_t>(program_.values.size()));
    program_.values.push_back(i == part ? program_.values[like] : ExportedValue());
  }
  const uint32_t value = outputs.back();
  program_.values[value].name += "_changed";
  program_.nodes.push_back({.call = std::move(call), .outputs = std::move(outputs)});
  return value;
}

uint32_t Aliases::current(uint32_t value) {
  const auto version = versions_.find(root(value));
  if (version == versions_.end()) return value;
  const auto state = states_.find(value);
  if (state != states_.end() && state->second.version == version->second) {
    return state->second.value;
  }
  const View& view = views_.at(value);  // a root is always current
  OpCall again = view.call;
  const uint32_t parent = current(view.parent);
  for (NamedArgument& argument : again.arguments) {
    if (argument.name == "self") argument.value = ValueRef{parent};
  }
  const uint32_t taken = append(std::move(again), value, view.part);
  states_[value] = {taken, version->second};
  return taken;
}

void Aliases::change(uint32_t value, uint32_t changed) {
  std::vector<std::pair<uint32_t, uint32_t>> now = {{value, changed}};
  for (auto view = views_.find(value); view != views_.end(); view = views_.find(value)) {
    OpCall scatter = view->second.call;
    scatter.view = std::exchange(scatter.op, "view_scatter");
    const uint32_t parent = view->second.parent;
    for (NamedArgument& argument : scatter.arguments) {
      if (argument.name == "self") argument.value = ValueRef{current(parent)};
    }
    scatter.arguments.push_back({"src", ValueRef{changed}});
    if (view->second.part != 0) scatter.arguments.push_back({"view_output", view->second.part});
    changed = append(std::move(scatter), parent, 0);
    value = parent;
    now.emplace_back(value, changed);
  }
  const uint64_t version = ++versions_[value];
  for (const auto& [old_value, new_value] : now) states_[old_value] = {new_value, version};
}

}  // namespace arenite::convert
