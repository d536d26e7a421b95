// SPDX-License-Identifier: Apache-2.0
// What a model takes at most: numbers for whoever plans memory and time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/inspect_facts.h"
#include "cli/text_table.h"
#include "core/stack_bounds.h"
#include "format/load_bound.h"

namespace arenite::tool {
namespace {

CallFacts facts_of_call(const ModelFacts& facts, std::string name, const CallSize& size) {
  const CallBounds& bounds = facts.call_bounds;
  CallSize worst = size;
  worst.finite = false;
  return {std::move(name),
          size,
          multiply_adds_max(bounds, size),
          bytes_read_max(bounds, size),
          multiply_adds_max(bounds, worst),
          bytes_read_max(bounds, worst)};
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
  TextTable table({"call", ">multiply-adds", ">bytes read", ">not finite", ">bytes read"});
  const auto add = [&](const CallFacts& call) {
    table.add_row({call.name, grouped(call.multiply_adds), grouped(call.bytes_read),
                   grouped(call.multiply_adds_not_finite), grouped(call.bytes_read_not_finite)});
  };
  add(largest_run(facts));
  if (const std::optional<CallFacts> step = last_step(facts)) add(*step);
  return table.text();
}

}  // namespace

CallFacts largest_run(const ModelFacts& facts) {
  const uint64_t prefix = facts.reader.prefix_rows();
  const uint64_t tokens = std::min(facts.sizes.tokens, facts.sizes.positions);
  bool selects = false;
  for (const OpFacts& op : facts.ops) selects |= op.op.kind == format::OpKind::kSelect;
  return facts_of_call(facts, fmt::format("run of {}", counted(tokens, "token")),
                       {0, tokens + prefix, selects ? 1 : tokens + prefix});
}

std::optional<CallFacts> last_step(const ModelFacts& facts) {
  const uint64_t positions = facts.sizes.positions;
  if (!facts.reader.causal() || positions <= 1) return std::nullopt;
  return facts_of_call(facts, fmt::format("step after {}", counted(positions - 1, "token")),
                       {positions - 1 + facts.reader.prefix_rows(), 1, 1});
}

uint64_t load_steps_max(const ModelFacts& facts) {
  return format::load_steps_max(format::load_size(facts.reader, facts.footer));
}

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

}  // namespace arenite::tool
