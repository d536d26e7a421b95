// SPDX-License-Identifier: Apache-2.0
// Builders of ops and tensors, and the placement of slots: greedy by width, quadratic in the number
// of slots.
#include "convert/program/program.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "convert/quantize/quantizers.h"

namespace arenite::convert {
namespace {

using format::ColumnView;
using format::OpView;

std::vector<float> floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

uint32_t Program::end_of(uint32_t function) const {
  const bool is_last = function + 1 == functions.size();
  return is_last ? static_cast<uint32_t>(ops.size()) : functions[function + 1].first_op;
}

uint32_t Program::function_of_input(uint32_t input) const {
  uint32_t of = 0;
  while (of + 1 < functions.size() && (functions[of].inputs >> input & 1) == 0) ++of;
  return of;
}

uint32_t Program::add_slot(uint32_t width, uint32_t axis) {
  format::SlotView slot;
  slot.width = width;
  slot.axis = axis;
  slots.push_back(slot);
  return static_cast<uint32_t>(slots.size() - 1);
}

uint32_t Program::add_tensor(ProgramTensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<uint32_t>(tensors.size() - 1);
}

uint32_t Program::add_vector(const std::string& tensor_name, std::vector<float> values) {
  return add_tensor({.name = tensor_name,
                     .outputs = 1,
                     .inputs = static_cast<uint32_t>(values.size()),
                     .weights = std::move(values),
                     .layout = format::Layout::kPlain});
}

uint32_t Program::add_table(const WeightRef& weight, uint32_t rows, TensorType type) {
  ProgramTensor tensor = {.name = weight.name,
                          .outputs = rows,
                          .inputs = weight.columns,
                          .layout = format::Layout::kPlain,
                          .type = type};
  if (type == TensorType::kF32) {
    tensor.load = [weight, rows] {
      std::vector<float> values = weight.load().copy();
      values.resize(size_t{rows} * weight.columns);
      return values;
    };
  } else {
    tensor.load_quantized = [weight, rows] { return weight.load_quantized().part(0, rows); };
  }
  return add_tensor(std::move(tensor));
}

uint32_t Program::add_matrix(const std::string& tensor_name, const std::vector<LinearPart>& parts) {
  ProgramTensor tensor;
  tensor.name = tensor_name;
  tensor.type = parts[0].storage.type;
  tensor.inputs = parts[0].linear.inputs();
  const bool has_bias =
      std::ranges::any_of(parts, [](const LinearPart& part) { return !part.linear.bias.empty(); });
  std::vector<WeightRef> weights;
  for (const LinearPart& part : parts) {
    const LinearSpec& linear = part.linear;
    tensor.outputs += linear.outputs();
    weights.push_back(linear.weight);
    if (!has_bias) continue;
    tensor.bias.insert(tensor.bias.end(), linear.bias.begin(), linear.bias.end());
    tensor.bias.resize(tensor.outputs, 0.0f);
  }
  if (tensor.type == TensorType::kF32) {
    tensor.load = [weights]() -> Floats {
      if (weights.size() == 1) return weights[0].load();
      std::vector<float> all = weights[0].load().copy();
      for (const WeightRef& weight : std::span(weights).subspan(1)) {
        const Floats rows = weight.load();
        all.insert(all.end(), rows.begin(), rows.end());
      }
      return all;
    };
  } else {
    tensor.load_quantized = [weights] {
      QuantizedMatrix all = weights[0].load_quantized();
      for (const WeightRef& weight : std::span(weights).subspan(1)) {
        all.append(weight.load_quantized());
      }
      return all;
    };
  }
  return add_tensor(std::move(tensor));
}

uint32_t Program::add_cache(const CacheShape& shape, uint32_t lookback, uint32_t axis) {
  caches.push_back({shape, lookback, axis});
  return static_cast<uint32_t>(caches.size() - 1);
}

void Program::add_op(const std::string& op_name, const OpView& body) {
  ops.push_back({op_name, body});
}

void Program::add_norm(const std::string& op_name, const NormNode& norm, const ColumnView& input,
                       const ColumnView& output) {
  const NormSpec& spec = norm.norm;
  NormParts parts{.kind = spec.kind,
                  .groups = input.width / static_cast<uint32_t>(spec.gain.size()),
                  .epsilon = static_cast<float>(spec.epsilon)};
  parts.gain = add_vector(op_name + ".gain", floats(spec.gain));
  if (!spec.bias.empty()) parts.bias = add_vector(op_name + ".bias", floats(spec.bias));
  add_op(op_name, norm_op(input, output, parts));
}

void Program::add_rope(const std::string& op_name, const ColumnView& input,
                       const ColumnView& output, uint32_t heads, uint32_t angles) {
  if (!ops.empty() && ops.back().body.kind == format::OpKind::kRope) {
    OpView& before = ops.back().body;
    ColumnView& from = before.views[format::kInput];
    ColumnView& to = before.views[format::kOutput];
    uint32_t& heads_before = before.numbers[format::RopeOp::kHeads];
    const auto adjoins = [](const ColumnView& first, const ColumnView& second) {
      return first.slot == second.slot && first.column + first.width == second.column;
    };
    if (adjoins(from, input) && adjoins(to, output) &&
        before.numbers[format::RopeOp::kAngles] == angles &&
        from.width / heads_before == input.width / heads) {
      from.width += input.width;
      to.width += output.width;
      heads_before += heads;
      return;
    }
  }
  add_op(op_name, rope_op(input, output, heads, angles));
}

uint32_t SharedTensors::matrix(const std::string& layer, const std::vector<LinearPart>& parts) {
  std::string names;
  for (const LinearPart& part : parts) names += part.linear.weight.name + '\n';
  const uint32_t added = program_.add_matrix(layer, parts);
  if (parts[0].linear.weight.name.empty()) return added;
  std::vector<uint32_t>& known = matrices_[names];
  const auto equal = std::ranges::find_if(known, [&](uint32_t other) {
    return have_equal_elements(program_.tensors[other], program_.tensors[added]);
  });
  if (equal != known.end()) {
    program_.tensors.pop_back();
    return *equal;
  }
  known.push_back(added);
  return added;
}

uint32_t SharedTensors::angles(const RopeSpec& rope, uint32_t positions) {
  const auto known = std::ranges::find_if(angles_, [&](const auto& table) {
    return table.first == rope && program_.tensors[table.second].outputs == positions;
  });
  if (known != angles_.end()) return known->second;
  ProgramTensor tensor = {
      .name = angles_.empty() ? "angles" : "angles." + std::to_string(angles_.size()),
      .outputs = positions,
      .inputs = rope.rotary_dim,
      .layout = format::Layout::kPlain};
  tensor.load = [rope, positions] {
    std::vector<float> values;
    values.reserve(size_t{positions} * rope.rotary_dim);
    for (uint32_t p = 0; p < positions; ++p) {
      for (uint32_t i = 0; i < rope.rotary_dim / 2; ++i) {
        values.push_back(static_cast<float>(rope.cosine(p, i)));
      }
      for (uint32_t i = 0; i < rope.rotary_dim / 2; ++i) {
        values.push_back(static_cast<float>(rope.sine(p, i)));
      }
    }
    return values;
  };
  angles_.emplace_back(rope, program_.add_tensor(std::move(tensor)));
  return angles_.back().second;
}

uint32_t SharedTensors::terms(const AttentionBias& table) {
  const auto known = std::ranges::find(tables_, table, &std::pair<AttentionBias, uint32_t>::first);
  if (known != tables_.end()) return known->second;
  std::string name = table.by == ScoreTerms::kSlopes ? "slopes" : "terms";
  if (!tables_.empty()) name += "." + std::to_string(tables_.size());
  tables_.emplace_back(table,
                       program_.add_tensor({.name = std::move(name),
                                            .outputs = table.rows(),
                                            .inputs = table.columns(),
                                            .weights = {table.values.begin(), table.values.end()},
                                            .layout = format::Layout::kPlain}));
  return tables_.back().second;
}

uint32_t SharedTensors::sinks(const std::vector<double>& logits) {
  const auto [known, is_new] = sinks_.emplace(logits, 0);
  if (is_new) {
    const std::string name =
        sinks_.size() == 1 ? "sinks" : "sinks." + std::to_string(sinks_.size() - 1);
    known->second = program_.add_vector(name, floats(logits));
  }
  return known->second;
}

bool have_equal_elements(const ProgramTensor& a, const ProgramTensor& b) {
  if (a.outputs != b.outputs || a.inputs != b.inputs || a.type != b.type || a.bias != b.bias) {
    return false;
  }
  if (a.type == TensorType::kF32) return a.load() == b.load();
  const QuantizedMatrix one = a.load_quantized(), other = b.load_quantized();
  return one.values == other.values && one.scales == other.scales;
}

bool has_quantization(const Program& program) {
  return program.kv_cache != TensorType::kF32 ||
         std::ranges::any_of(program.tensors, [](const ProgramTensor& tensor) {
           return tensor.type != TensorType::kF32;
         });
}

bool rounds_activations(const Program& program) {
  return program.kv_cache != TensorType::kF32 ||
         std::ranges::any_of(program.tensors, [](const ProgramTensor& tensor) {
           return weight_type(tensor.type).rounds_inputs;
         });
}

// ---- placement of slots ----

namespace {

using format::SlotView;

bool is_of_blocks(const Program& program, const SlotView& slot) {
  return program.axes[slot.axis].kind == AxisKind::kBlocks;
}

// REQUIRES: there is at least one op.
void find_lifetimes(Program& program) {
  const uint32_t last_op = static_cast<uint32_t>(program.ops.size()) - 1;
  for (SlotView& slot : program.slots) {
    slot.first_op = last_op;
    slot.last_op = 0;
  }
  for (uint32_t i = 0; i <= last_op; ++i) {
    for (const format::ColumnView& view : program.ops[i].body.views) {
      if (view.width == 0) continue;
      SlotView& slot = program.slots[view.slot];
      slot.first_op = std::min(slot.first_op, i);
      slot.last_op = std::max(slot.last_op, i);
    }
  }
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].vocab_size != 0) continue;
    const ProgramFunction& function = program.functions[program.function_of_input(i)];
    program.slots[program.inputs[i].slot].first_op = function.first_op;
  }
  for (uint32_t i = 0; i < program.functions.size(); ++i) {
    program.slots[program.functions[i].output_slot].last_op = program.end_of(i) - 1;
  }
  // A lifetime that splits a block range is extended to the whole range, as the range's ops run
  // once for each block.
  for (bool is_done = false; !is_done;) {
    is_done = true;
    for (const SlotView& block : program.slots) {
      if (!is_of_blocks(program, block)) continue;
      for (SlotView& slot : program.slots) {
        const uint32_t first = slot.first_op, last = slot.last_op;
        if (is_of_blocks(program, slot)) continue;
        if (block.first_op < first && first <= block.last_op) slot.first_op = block.first_op;
        if (block.first_op <= last && last < block.last_op) slot.last_op = block.last_op;
        is_done = is_done && first == slot.first_op && last == slot.last_op;
      }
    }
  }
}

// Whether two slots of one memory area have overlapping lifetimes.
bool lifetimes_overlap(std::span<const Axis> axes, const SlotView& a, const SlotView& b) {
  return a.first_op <= b.last_op && b.first_op <= a.last_op &&
         area_of(axes, a.axis) == area_of(axes, b.axis);
}

bool overlap(const SlotView& a, const SlotView& b) {
  return a.offset < b.offset + b.width && b.offset < a.offset + a.width;
}

}  // namespace

void place_slots(Program& program) {
  if (program.ops.empty()) return;
  find_lifetimes(program);
  std::vector<size_t> order(program.slots.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return program.slots[a].width > program.slots[b].width;
  });
  std::vector<SlotView> placed;
  for (const size_t index : order) {
    SlotView& slot = program.slots[index];
    slot.offset = 0;
    // Slots are sorted by offset, so that one sweep suffices.
    for (const SlotView& other : placed) {
      if (lifetimes_overlap(program.axes, slot, other) && overlap(slot, other)) {
        slot.offset = other.offset + other.width;
      }
    }
    placed.insert(std::ranges::upper_bound(placed, slot.offset, {}, &SlotView::offset), slot);
  }
  for (size_t a = 0; a < placed.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      if (lifetimes_overlap(program.axes, placed[a], placed[b]) && overlap(placed[a], placed[b])) {
        throw std::logic_error("the planner let two slots overlap: this is a bug");
      }
    }
  }
}

// ---- blocks of rows ----

namespace {

// Finds the slots of an axis that can hold a single block of rows.
class BlockPlanner {
 public:
  BlockPlanner(Program& program, uint32_t axis)
      : program_(program), axis_(axis), goes_on_(program.ops.size(), false) {}

  void run() {
    const auto blocks = static_cast<uint32_t>(program_.axes.size());
    program_.axes.push_back({.kind = AxisKind::kBlocks, .source = axis_, .rows = kBlockRows});
    for (uint32_t i = 0; i < program_.slots.size(); ++i) {
      SlotView& slot = program_.slots[i];
      if (slot.axis != axis_ || is_shown(i) || !takes_blocks(slot)) continue;
      const std::vector<bool> before = goes_on_;
      std::fill(goes_on_.begin() + slot.first_op, goes_on_.begin() + slot.last_op, true);
      if (reads_what_it_stores(slot.first_op)) {
        goes_on_ = before;
      } else {
        slot.axis = blocks;
      }
    }
  }

 private:
  // Whether the slot is also read or written outside of ops.
  bool is_shown(uint32_t index) const {
    const auto is_input = [&](const ProgramInput& input) {
      return input.vocab_size == 0 && input.slot == index;
    };
    const auto is_output = [&](const ProgramFunction& function) {
      return function.output_slot == index;
    };
    const SlotView& slot = program_.slots[index];
    const auto is_seen = [&](const format::HiddenStateView& state) {
      return state.view.slot == index || (slot.first_op <= state.op && state.op < slot.last_op);
    };
    return std::ranges::any_of(program_.inputs, is_input) ||
           std::ranges::any_of(program_.functions, is_output) ||
           std::ranges::any_of(program_.hidden_states, is_seen);
  }

  // Whether all ops during the slot's lifetime run over blocks.
  bool takes_blocks(const SlotView& slot) const {
    const auto is_own = [&](const ColumnView& view) {
      if (view.width == 0) return true;
      const uint32_t axis = program_.slots[view.slot].axis;
      return axis == axis_ || is_of_blocks(program_, program_.slots[view.slot]);
    };
    return std::all_of(program_.ops.begin() + slot.first_op,
                       program_.ops.begin() + slot.last_op + 1, [&](const ProgramOp& op) {
                         return format::runs_in_blocks(op.body) &&
                                std::ranges::all_of(op.body.views, is_own);
                       });
  }

  // Whether the run of block ops around this one both fills a cache and reads it.
  bool reads_what_it_stores(uint32_t first) const {
    while (first > 0 && goes_on_[first - 1]) --first;
    std::vector<uint32_t> stored, read;
    for (uint32_t i = first;; ++i) {
      const OpView& op = program_.ops[i].body;
      if (op.kind == format::OpKind::kStore) stored.push_back(op.numbers[0]);
      if (op.kind == format::OpKind::kAttention) read.push_back(op.numbers[0]);
      if (!goes_on_[i]) break;
    }
    return std::ranges::any_of(
        read, [&](uint32_t cache) { return std::ranges::count(stored, cache) != 0; });
  }

  Program& program_;
  uint32_t axis_;
  std::vector<bool> goes_on_;  // whether a slot of blocks is alive from each op to the next one
};

uint32_t columns_of(const Program& program, uint32_t axis) {
  uint32_t columns = 0;
  for (const SlotView& slot : program.slots) {
    if (area_of(program.axes, slot.axis) != area_of(program.axes, axis)) continue;
    columns = std::max(columns, slot.offset + slot.width);
  }
  return columns;
}

}  // namespace

void run_in_blocks(Program& program, uint32_t axis) {
  if (program.axes.size() == kAxesMax) return;
  const std::vector<SlotView> slots = program.slots;
  const auto blocks = static_cast<uint32_t>(program.axes.size());
  const uint64_t before = columns_of(program, axis);
  BlockPlanner(program, axis).run();
  place_slots(program);
  InputTokens longest;
  for (uint32_t i = 0; i < program.inputs.size(); ++i) {
    longest.of[i] = program.inputs[i].positions_max;
  }
  const uint64_t rows = rows_of_axes(program.axes, longest, 1, true)[axis];
  const uint64_t whole = columns_of(program, axis), of_block = columns_of(program, blocks);
  const bool is_less = whole * rows + of_block * kBlockRows < before * rows;
  if (is_less && whole + of_block <= before + before / 4) return;
  program.slots = slots;
  program.axes.pop_back();
}

}  // namespace arenite::convert
