// SPDX-License-Identifier: Apache-2.0
// Layers are found by what their ops are, not by their names: an exported program has names of its
// author. Of all periods the one that leaves out most ops is taken, then the parts around it.
#include "cli/drawn_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/report_facts.h"

namespace arenite::tool {
namespace {

// The same for ops of the same kind that read and write rows of the same widths.
using Shape = std::vector<uint32_t>;

Shape shape_of(const format::OpView& op) {
  Shape shape = {static_cast<uint32_t>(op.kind)};
  for (const format::ColumnView& view : op.views) shape.push_back(view.width);
  return shape;
}

// Ops [begin, begin + times * period) are `times` as many alike, and so they are from each of the
// `slack` ops after begin on.
struct Run {
  size_t begin = 0;
  size_t period = 0;
  size_t times = 1;
  size_t slack = 0;

  size_t left_out() const { return (times - 1) * period; }
};

Run longest_run(const std::vector<uint32_t>& shapes, size_t begin, size_t end) {
  Run best;
  for (size_t period = 1; 2 * period <= end - begin; ++period) {
    size_t equal = 0;  // ops in a row that are as those a period later
    for (size_t i = begin; i + period < end; ++i) {
      equal = shapes[i] == shapes[i + period] ? equal + 1 : 0;
      const Run run = {i + 1 - equal, period, equal / period + 1, equal % period};
      const bool goes_on = run.begin == best.begin && period == best.period;
      if (run.left_out() > best.left_out() || goes_on) best = run;
    }
  }
  return best;
}

void add_all(size_t begin, size_t end, DrawnOps& drawn) {
  for (size_t i = begin; i < end; ++i) drawn.ops.push_back(static_cast<uint32_t>(i));
}

class Folder {
 public:
  explicit Folder(const ModelFacts& model) : model_(model) {
    std::vector<Shape> known;
    for (const OpFacts& op : model.ops) {
      const Shape shape = shape_of(op.op);
      const auto found = std::ranges::find(known, shape);
      shapes_.push_back(static_cast<uint32_t>(found - known.begin()));
      if (found == known.end()) known.push_back(shape);
    }
  }

  void fold(size_t begin, size_t end, DrawnOps& drawn) const {
    const Run run = longest_run(shapes_, begin, end);
    if (run.times == 1) return add_all(begin, end, drawn);
    const size_t start = start_of(run);
    fold(begin, start, drawn);
    const size_t first = drawn.ops.size();
    add_all(start, start + run.period, drawn);
    drawn.repeats.push_back({first, drawn.ops.size(), static_cast<uint32_t>(run.times)});
    fold(start + run.times * run.period, end, drawn);
  }

 private:
  // Where a layer begins by its name, if there is a choice.
  size_t start_of(const Run& run) const {
    for (size_t i = run.begin; i <= run.begin + run.slack; ++i) {
      const std::string layer = split_op_name(model_.ops[i].name).layer;
      const bool is_first = i == 0 || split_op_name(model_.ops[i - 1].name).layer != layer;
      if (is_first && !layer.empty()) return i;
    }
    return run.begin;
  }

  const ModelFacts& model_;
  std::vector<uint32_t> shapes_;  // for each op an index of those that there are
};

}  // namespace

DrawnOps ops_to_draw(const ModelFacts& model, size_t ops_max) {
  DrawnOps drawn;
  if (model.ops.size() <= ops_max) {
    add_all(0, model.ops.size(), drawn);
    return drawn;
  }
  Folder(model).fold(0, model.ops.size(), drawn);
  return drawn;
}

std::optional<DrawnSpan> drawn_span(const DrawnOps& drawn, const format::SlotView& slot) {
  const auto first = std::ranges::lower_bound(drawn.ops, slot.first_op);
  const auto end = std::ranges::upper_bound(drawn.ops, slot.last_op);
  if (first >= end) return std::nullopt;
  return DrawnSpan{static_cast<size_t>(first - drawn.ops.begin()),
                   static_cast<size_t>(end - drawn.ops.begin()) - 1};
}

std::string describe(const DrawnOps& drawn, const DrawnOps::Repeat& repeat) {
  const uint32_t first = drawn.ops[repeat.begin];
  const uint32_t count = static_cast<uint32_t>(repeat.end - repeat.begin);
  const uint32_t end = first + count;
  return fmt::format("ops {} to {} are drawn once: ops {} to {} repeat them {}", first, end - 1,
                     end, first + count * repeat.times - 1,
                     repeat.times == 2 ? "once" : fmt::format("{} times", repeat.times - 1));
}

}  // namespace arenite::tool
