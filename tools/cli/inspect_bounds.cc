// SPDX-License-Identifier: Apache-2.0
// What a model takes at most: numbers for whoever plans memory and time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "cli/inspect_facts.h"
#include "cli/text_table.h"
#include "core/stack_bounds.h"
#include "format/load_bound.h"

namespace arenite::tool {
namespace {

using Json = nlohmann::ordered_json;

// A call that the sizes allow, and what it is called.
struct Call {
  std::string name;
  CallSize size;
};

// One pass over as many tokens as a call may have, and the last token of a full context.
std::vector<Call> largest_calls(const ModelFacts& facts) {
  const uint64_t prefix = facts.reader.prefix_rows();
  const uint64_t positions = facts.sizes.positions;
  const uint64_t tokens = std::min<uint64_t>(facts.sizes.tokens, positions);
  bool selects = false;
  for (const OpFacts& op : facts.ops) selects |= op.op.kind == format::OpKind::kSelect;
  const uint64_t outputs = selects ? 1 : tokens + prefix;
  std::vector<Call> calls = {
      {fmt::format("run of {}", counted(tokens, "token")), {0, tokens + prefix, outputs}}};
  if (facts.reader.causal() && positions > 1) {
    calls.push_back({fmt::format("step after {}", counted(positions - 1, "token")),
                     {positions - 1 + prefix, 1, 1}});
  }
  return calls;
}

CallSize not_finite(CallSize size) {
  size.finite = false;
  return size;
}

uint64_t load_steps_max(const ModelFacts& facts) {
  return format::load_steps_max(format::load_size(facts.reader, facts.footer));
}

// "    multiply-adds  1,234 T + 56 O + 8 B min(K, 90)", in lines of at most 100 columns. Parts that
// are 0 are left out.
class Sum {
 public:
  explicit Sum(const std::string& name) : lines_{fmt::format("    {:<13} ", name)} {}

  void add(uint64_t factor, const std::string& sizes = "") {
    if (factor == 0) return;
    const std::string term =
        (is_empty_ ? " " : " + ") + grouped(factor) + (sizes.empty() ? "" : " " + sizes);
    is_empty_ = false;
    if (lines_.back().size() + term.size() > kColumnsMax) lines_.emplace_back(kIndent, ' ');
    lines_.back() += term;
  }
  std::string text() const {
    return fmt::format("{}{}\n", fmt::join(lines_, "\n"), is_empty_ ? " 0" : "");
  }

 private:
  static constexpr size_t kColumnsMax = 100;
  static constexpr size_t kIndent = 18;
  std::vector<std::string> lines_;
  bool is_empty_ = true;
};

std::string keys_of(const AttentionBound& op) {
  return op.keys_max == UINT64_MAX ? "K" : fmt::format("min(K, {})", grouped(op.keys_max));
}

std::string formulas(const CallBounds& bounds) {
  Sum products("multiply-adds"), more_products("multiply-adds");
  Sum bytes("bytes read"), more_bytes("bytes read");
  products.add(bounds.multiply_adds_per_row, "T");
  products.add(bounds.multiply_adds_per_output, "O");
  bytes.add(bounds.bytes_once);
  bytes.add(bounds.bytes_per_row, "T");
  bytes.add(bounds.bytes_per_output, "O");
  for (const AttentionBound& op : bounds.attention) {
    products.add(op.multiply_adds, "T " + keys_of(op));
    more_products.add(op.multiply_adds_not_finite, "T " + keys_of(op));
    bytes.add(op.bytes, "B " + keys_of(op));
    more_bytes.add(op.bytes_not_finite, "T " + keys_of(op));
  }
  const std::string text = products.text() + bytes.text();
  if (bounds.attention.empty()) return text;
  return text + "  Numbers that are not finite, such as NaN, add at most\n" + more_products.text() +
         more_bytes.text();
}

std::string calls_table(const ModelFacts& facts) {
  const CallBounds& bounds = facts.call_bounds;
  TextTable table({"call", ">multiply-adds", ">bytes read", ">not finite", ">bytes read"});
  for (const Call& call : largest_calls(facts)) {
    const CallSize worst = not_finite(call.size);
    table.add_row({call.name, grouped(multiply_adds_max(bounds, call.size)),
                   grouped(bytes_read_max(bounds, call.size)),
                   grouped(multiply_adds_max(bounds, worst)),
                   grouped(bytes_read_max(bounds, worst))});
  }
  return table.text();
}

Json work_json(const CallBounds& bounds, const CallSize& size) {
  const CallSize worst = not_finite(size);
  return {{"held", size.held},
          {"rows", size.rows},
          {"outputs", size.outputs},
          {"multiply_adds", multiply_adds_max(bounds, size)},
          {"bytes_read", bytes_read_max(bounds, size)},
          {"multiply_adds_not_finite", multiply_adds_max(bounds, worst)},
          {"bytes_read_not_finite", bytes_read_max(bounds, worst)}};
}

}  // namespace

std::string bounds_text(const ModelFacts& facts) {
  std::vector<std::string> stacks;
  for (const StackBound& bound : kStackBounds) {
    const char* const bytes = stacks.empty() ? " bytes on" : "";
    stacks.push_back(fmt::format("{}{} {}", grouped(bound.bytes), bytes, bound.cpu));
  }
  const TargetFacts& target = facts.shown_target();
  const uint32_t prefix = facts.reader.prefix_rows();
  std::string text = fmt::format(
      "Bounds, whatever is fed to it\n"
      "  stack  at most {}\n"
      "  arena  {} bytes on {}, exactly\n"
      "  flash  {} bytes, the file\n"
      "  load   at most {} steps: blocks of code, as a compiler makes them that does not optimize\n"
      "  A call with T rows of a sequence that holds H, of which O are given out; K = H + T, and\n"
      "  B = T / {} rounded up. Several sequences add up, but read the first number once.{}\n",
      fmt::join(stacks, ", "), grouped(target.arena.plan.total_bytes), name(target.target),
      grouped(facts.footer.file_bytes), grouped(load_steps_max(facts)),
      facts.call_bounds.block_rows,
      prefix == 0 ? ""
                  : fmt::format("\n  The first call of a sequence has {} besides.",
                                counted(prefix, "row")));
  return text + formulas(facts.call_bounds) + calls_table(facts);
}

Json bounds_json(const ModelFacts& facts) {
  const CallBounds& bounds = facts.call_bounds;
  Json json;
  for (const StackBound& bound : kStackBounds) json["stack_bytes"][bound.cpu] = bound.bytes;
  json["arena_bytes"] = facts.shown_target().arena.plan.total_bytes;
  json["flash_bytes"] = facts.footer.file_bytes;
  json["load_steps"] = load_steps_max(facts);
  json["call"] = {{"target", name(facts.shown_target().target)},
                  {"block_rows", bounds.block_rows},
                  {"multiply_adds_per_row", bounds.multiply_adds_per_row},
                  {"multiply_adds_per_output", bounds.multiply_adds_per_output},
                  {"bytes_read_once", bounds.bytes_once},
                  {"bytes_read_per_row", bounds.bytes_per_row},
                  {"bytes_read_per_output", bounds.bytes_per_output},
                  {"attention", Json::array()}};
  for (const AttentionBound& op : bounds.attention) {
    json["call"]["attention"].push_back(
        {{"keys_max", op.keys_max == UINT64_MAX ? Json(nullptr) : Json(op.keys_max)},
         {"multiply_adds_per_row_and_key", op.multiply_adds},
         {"bytes_read_per_block_and_key", op.bytes},
         {"multiply_adds_per_row_and_key_not_finite", op.multiply_adds_not_finite},
         {"bytes_read_per_row_and_key_not_finite", op.bytes_not_finite}});
  }
  for (const Call& call : largest_calls(facts)) {
    json[call.size.held == 0 ? "run" : "step"] = work_json(bounds, call.size);
  }
  return json;
}

}  // namespace arenite::tool
