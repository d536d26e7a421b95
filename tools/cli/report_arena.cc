// SPDX-License-Identifier: Apache-2.0
// The arena on a page: its parts as a bar, and which op holds how much of its activations.
#include <fmt/format.h>

#include <algorithm>

#include "cli/html.h"
#include "cli/report_plots.h"
#include "cli/report_sections.h"
#include "cli/report_slot_map.h"
#include "cli/text_table.h"

namespace arenite::tool {
namespace {

constexpr uint32_t kOpsInDetail = 24;  // so few have room for their names
constexpr size_t kSlotsListed = 200;

struct Busiest {
  uint32_t op = 0;
  uint64_t floats = 0;
};

Busiest busiest_op(const ModelFacts& model) {
  Busiest busiest;
  for (uint32_t op = 0; op < model.ops.size(); ++op) {
    uint64_t floats = 0;
    for (const SlotFacts& facts : model.slots) {
      const bool alive = facts.slot.first_op <= op && op <= facts.slot.last_op;
      if (alive && facts.slot.per_output == 0) floats += facts.slot.width;
    }
    if (floats > busiest.floats) busiest = {op, floats};
  }
  return busiest;
}

std::string color_key(const ModelFacts& model) {
  std::vector<std::string> seen;
  std::string key;
  for (size_t i = 0; i < model.slots.size(); ++i) {
    const std::string what = is_input(model, i)
                                 ? "input"
                                 : op_kind_name(model.ops[model.slots[i].slot.first_op].op.kind);
    if (std::ranges::find(seen, what) != seen.end()) continue;
    seen.push_back(what);
    key += element("span", swatch(slot_color(model, i)) + " " + what) + " ";
  }
  return element("p", "Slots by what fills them: " + key, "class=\"key\"");
}

std::string slot_list(const ModelFacts& model) {
  HtmlTable table("Slots of the activations", {">slot", "filled by", ">floats a row", ">column",
                                               ">first op", ">last op", "a row for each"});
  for (size_t i = 0; i < std::min(model.slots.size(), kSlotsListed); ++i) {
    const format::SlotView& slot = model.slots[i].slot;
    table.add_row({std::to_string(i), escaped_name(model.slots[i].label), grouped(slot.width),
                   grouped(slot.offset), std::to_string(slot.first_op),
                   std::to_string(slot.last_op), slot.per_output != 0 ? "row given out" : "token"});
  }
  if (model.slots.size() > kSlotsListed) {
    table.add_note(fmt::format("and {} more", grouped(model.slots.size() - kSlotsListed)));
  }
  return details("The slots as a table", table.html());
}

std::string figure(const std::string& caption, const std::string& label, const SlotMap& map) {
  const std::string shown = map.ops_left_out() == 0
                                ? caption
                                : fmt::format("{} {} ops in the middle are left out.", caption,
                                              grouped(map.ops_left_out()));
  return element("figure", element("figcaption", shown) +
                               scroll_box(label, draw_slot_map(map, {label, shown}))) +
         "\n";
}

std::string map_of_tokens(const ModelFacts& model) {
  const auto ops = static_cast<uint32_t>(model.ops.size());
  const SlotMap whole{model, false, 0, ops};
  if (whole.columns() == 0) return "";
  const Busiest busiest = busiest_op(model);
  std::string content =
      figure(fmt::format(
                 "Activations: ops from left to right, bytes a token from top to bottom. Op {} "
                 "({}) needs most at once: {} of {} bytes a token.",
                 busiest.op, escaped_name(model.ops[busiest.op].name),
                 grouped(busiest.floats * sizeof(float)), grouped(whole.columns() * sizeof(float))),
             "Map of the activations", whole);
  if (!whole.has_op_names()) {
    content += figure("The first ops of the same, with their names.",
                      "Map of the activations of the first ops",
                      {model, false, 0, std::min(ops, kOpsInDetail)});
  }
  return content;
}

std::string map_of_outputs(const ModelFacts& model) {
  SlotMap map{model, true, UINT32_MAX, 0};
  for (const SlotFacts& facts : model.slots) {
    if (facts.slot.per_output == 0) continue;
    map.first_op = std::min(map.first_op, facts.slot.first_op);
    map.end_op = std::max(map.end_op, facts.slot.last_op + 1);
  }
  if (map.columns() == 0) return "";
  return figure("Rows that a call gives out lie apart: bytes for each such row.",
                "Map of the rows given out", map);
}

struct ArenaPart {
  const char* name;
  const char* color;
  size_t ArenaPlan::*bytes;
};
constexpr ArenaPart kArenaParts[] = {{"session", "c8", &ArenaPlan::session_bytes},
                                     {"kv cache", "c2", &ArenaPlan::kv_cache_bytes},
                                     {"activations", "c1", &ArenaPlan::activation_bytes},
                                     {"scratch", "c3", &ArenaPlan::scratch_bytes}};

std::string parts_table(const ModelFacts& model) {
  std::vector<std::string> titles = {"target"};
  for (const ArenaPart& part : kArenaParts) {
    titles.push_back(fmt::format(">{} {}", swatch(part.color), part.name));
  }
  titles.push_back(">total bytes");
  HtmlTable table("Bytes of the arena for each target", titles);
  for (const TargetFacts& target : model.targets) {
    std::vector<std::string> cells = {name(target.target)};
    for (const ArenaPart& part : kArenaParts) {
      cells.push_back(grouped(target.arena.plan.*part.bytes));
    }
    cells.push_back(grouped(target.arena.plan.total_bytes));
    table.add_row(cells);
  }
  return table.html();
}

std::string parts_bar(const TargetFacts& target) {
  const auto total = static_cast<double>(target.arena.plan.total_bytes);
  std::vector<Segment> segments;
  std::string words;
  for (const ArenaPart& part : kArenaParts) {
    const uint64_t bytes = target.arena.plan.*part.bytes;
    segments.push_back({part.color, static_cast<double>(bytes)});
    words += fmt::format("{}{} {} bytes, {}", words.empty() ? "" : "; ", part.name, grouped(bytes),
                         percent(static_cast<double>(bytes), total));
  }
  return bar({fmt::format("Parts of the arena for {}", name(target.target)), words}, segments,
             total, "class=\"wide-bar\"");
}

}  // namespace

std::string arena_section(const ReportFacts& facts) {
  const ModelFacts& model = facts.model;
  const SizeOptions& sizes = model.sizes;
  const TargetFacts& shown = model.shown_target();
  const std::string what = fmt::format(
      "For {}, {} a call, {} and {}, keys and values in {}. The bar is of {}: {} bytes.",
      counted(sizes.positions, "position"), counted(sizes.tokens, "token"),
      counted(sizes.sequences, "sequence"), counted(sizes.threads, "thread"), name(sizes.kv_type()),
      name(shown.target), grouped(shown.arena.plan.total_bytes));
  return section("arena", "Arena",
                 element("p", what) + parts_bar(shown) + parts_table(model) + map_of_tokens(model) +
                     map_of_outputs(model) + color_key(model) + slot_list(model));
}

}  // namespace arenite::tool
