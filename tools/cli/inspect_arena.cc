// SPDX-License-Identifier: Apache-2.0
// The arena section of the text: bytes and formula of each target, and two pictures.
#include <fmt/format.h>

#include "cli/arena_map.h"
#include "cli/inspect_facts.h"
#include "cli/text_table.h"
#include "convert/files/error.h"

namespace arenite::tool {
namespace {

constexpr size_t kBarWidth = 80;

std::string sizes_text(const SizeOptions& sizes) {
  return fmt::format("P = {}, T = {} a call, S = {}, N = {}", counted(sizes.positions, "position"),
                     counted(sizes.tokens, "token"), counted(sizes.sequences, "sequence"),
                     counted(sizes.threads, "thread"));
}

std::string bytes_table(const ModelFacts& facts) {
  TextTable table({"target", ">session", ">kv cache", ">activations", ">scratch", ">total bytes"});
  for (const TargetFacts& target : facts.targets) {
    const ArenaPlan& plan = target.arena.plan;
    table.add_row({name(target.target), grouped(plan.session_bytes), grouped(plan.kv_cache_bytes),
                   grouped(plan.activation_bytes), grouped(plan.scratch_bytes),
                   grouped(plan.total_bytes)});
  }
  return table.text();
}

std::string formulas(const ModelFacts& facts) {
  TextTable table({"target", "bytes for any sizes, each part rounded up to 64"});
  for (const TargetFacts& target : facts.targets) {
    std::string first = name(target.target);
    for (const std::string& line : formula_lines(target.formula)) {
      table.add_row({first, line});
      first.clear();
    }
  }
  return table.text();
}

std::string pictures(const ModelFacts& facts) {
  std::string text;
  const TargetFacts& shown = facts.shown_target();
  const ArenaPlan& plan = shown.arena.plan;
  text += fmt::format("\n  {}, {} bytes\n", name(shown.target), grouped(plan.total_bytes));
  for (const std::string& line : draw_shares({{'s', "session", plan.session_bytes},
                                              {'k', "kv cache", plan.kv_cache_bytes},
                                              {'a', "activations", plan.activation_bytes},
                                              {'x', "scratch", plan.scratch_bytes}},
                                             kBarWidth)) {
    text += fmt::format("  {}\n", line);
  }
  std::vector<std::string> ops;
  std::vector<MapSlot> slots;
  for (const OpFacts& op : facts.ops) ops.push_back(convert::printable(op.name));
  for (size_t i = 0; i < facts.slots.size(); ++i) {
    const SlotFacts& slot = facts.slots[i];
    if (slot.slot.per_output) continue;
    slots.push_back(
        {fmt::format("{} {} [{}]", i, convert::printable(slot.label), slot.slot.width), slot.slot});
  }
  text += fmt::format(
      "\n  Activations: {} floats a token; slots from the op that fills them to the last reader\n",
      grouped(shown.packed.formula.activation_bytes_per_token / sizeof(float)));
  const std::vector<std::string> map = draw_slots(ops, slots);
  if (map.empty()) text += "  (too many ops or slots to draw; --json lists them)\n";
  for (const std::string& line : map) text += line + "\n";
  return text;
}

}  // namespace

std::string arena_as_text(const ModelFacts& facts) {
  return fmt::format("Arena for {}\n{}\n{}{}", sizes_text(facts.sizes), bytes_table(facts),
                     formulas(facts), pictures(facts));
}

}  // namespace arenite::tool
