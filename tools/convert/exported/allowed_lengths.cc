// SPDX-License-Identifier: Apache-2.0
// Evaluates guards and length arithmetic at every length of an interval; no expression is
// simplified symbolically.
#include "convert/exported/allowed_lengths.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <random>
#include <set>

#include "convert/exported/aten/interpret.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

using Numbers = std::vector<int64_t>;  // tokens of each input

constexpr int64_t kScannedMin = 4096;  // lengths at which guards are evaluated, at least
constexpr int64_t kScannedMax = int64_t{1} << 16;
constexpr int64_t kScannedPerLiteral = 8;  // scanned lengths per unit of a guard's largest literal
constexpr int64_t kInTurn = 16;            // consecutive lengths before steps grow
constexpr uint64_t kStepsPerGuard = 512;

// Evaluates an extent at `tokens` for each input. An extent without input symbols has the example's
// size. Adds to `reads` the inputs that the extent depends on.
int64_t size_at(const TraceShape& trace_shape, const Extent& extent, const Numbers& tokens,
                std::set<size_t>* reads = nullptr) {
  if (extent.is_fixed()) return extent.size;
  const auto size =
      evaluate_size(extent.symbol, [&](std::string_view symbol) -> std::optional<int64_t> {
        for (size_t i = 0; i < trace_shape.inputs(); ++i) {
          if (trace_shape.of(i).symbol() != symbol) continue;
          if (reads != nullptr) reads->insert(i);
          return trace_shape.of(i).symbol_at(tokens[i]);
        }
        return std::nullopt;
      });
  return size.value_or(extent.size);
}

int64_t largest_literal(const std::string& text) {
  int64_t largest = 0;
  for (size_t i = 0; i < text.size();) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(&text[i], text.data() + text.size(), number);
    if (error == std::errc()) largest = std::max(largest, number);
    i = end == &text[i] ? i + 1 : static_cast<size_t>(end - text.data());
  }
  return largest;
}

}  // namespace

AllowedLengths allowed_lengths(const ExportedProgram& program, const TraceShape& trace_shape,
                               size_t input) {
  const TraceShape& own = trace_shape.of(input);
  AllowedLengths allowed = {own.range().min, own.range().max, {}};
  Numbers tokens;
  for (size_t i = 0; i < trace_shape.inputs(); ++i) {
    tokens.push_back(trace_shape.of(i).traced_tokens());
  }
  std::vector<const SizeGuard*> guards;
  int64_t literal = 0;
  for (const SizeGuard& guard : program.guards) {
    std::set<size_t> reads;
    for (const Extent& size : guard.sizes) size_at(trace_shape, size, tokens, &reads);
    if (guard.is_read && (!reads.contains(input) || reads.size() > 1)) continue;
    if (!guard.is_read) {
      allowed.why_exact = fmt::format("its guard {} is not understood", quote(guard.text));
      return allowed;
    }
    guards.push_back(&guard);
    literal = std::max(literal, largest_literal(guard.text));
  }
  if (guards.empty()) return allowed;
  const auto holds_at = [&](int64_t length) {
    WorkBudget::take(kStepsPerGuard * guards.size());
    tokens[input] = length;
    return std::ranges::all_of(guards, [&](const SizeGuard* guard) {
      return holds(*guard, [&](const Extent& size) { return size_at(trace_shape, size, tokens); })
          .value_or(false);
    });
  };
  const int64_t traced = own.traced_tokens();
  if (!holds_at(traced)) {
    allowed.why_exact = "its guards do not hold for its example";
    return allowed;
  }
  const int64_t wanted = std::max({kScannedMin, 4 * traced, kScannedPerLiteral * literal});
  const int64_t scanned = std::max(traced, std::min(wanted, kScannedMax));
  int64_t first = traced, last = traced;
  while (first > allowed.min && holds_at(first - 1)) --first;
  while (last < std::min(scanned, allowed.max.value_or(scanned)) && holds_at(last + 1)) ++last;
  const auto part_of = [&](int64_t end, int64_t step, int64_t from) {
    const int64_t outside = from + step;
    for (int64_t n = outside; n != end + step && allowed.parting_guard.empty(); n += step) {
      if (!holds_at(n)) continue;
      tokens[input] = outside;
      for (const SizeGuard* guard : guards) {
        const auto size = [&](const Extent& of) { return size_at(trace_shape, of, tokens); };
        if (!holds(*guard, size).value_or(false)) allowed.parting_guard = guard->text;
      }
    }
  };
  if (first > allowed.min) part_of(allowed.min, -1, first);
  if (last < std::min(scanned, allowed.max.value_or(scanned))) {
    part_of(std::min(scanned, allowed.max.value_or(scanned)), 1, last);
  }
  allowed.min = first;
  // Guards do not change beyond their largest literal.
  if (last < scanned || wanted > scanned) allowed.max = own.rounded(last);
  return allowed;
}

std::string guard_of_several(const ExportedProgram& program, const TraceShape& trace_shape,
                             const std::vector<int64_t>& least, const std::vector<int64_t>& most) {
  // Try each length for every input whose range contains it.
  std::set<int64_t> lengths;
  for (size_t i = 0; i < least.size(); ++i) {
    for (int64_t n = least[i]; n < kScannedMax; n += 1 + (n - least[i]) / kInTurn)
      lengths.insert(n);
    lengths.insert({trace_shape.of(i).traced_tokens(), std::max<int64_t>(1, most[i])});
  }
  const auto has = [&](size_t i, int64_t length) {
    return length >= least[i] && (most[i] == 0 || length <= most[i]);
  };
  for (const SizeGuard& guard : program.guards) {
    std::set<size_t> reads;
    for (const Extent& size : guard.sizes) size_at(trace_shape, size, least, &reads);
    if (reads.size() < 2) continue;
    Numbers tokens = least;
    const size_t a = *reads.begin(), b = *reads.rbegin();
    WorkBudget::take(kStepsPerGuard * lengths.size() * lengths.size());
    for (const int64_t first : lengths) {
      for (const int64_t second : lengths) {
        if (!has(a, first) || !has(b, second)) continue;
        tokens[a] = first, tokens[b] = second;
        const auto value = [&](const Extent& size) { return size_at(trace_shape, size, tokens); };
        if (reads.size() > 2 || !holds(guard, value).value_or(false)) return guard.text;
      }
    }
  }
  return "";
}

namespace {

constexpr int64_t kTriedInTurn = 4096;  // consecutive lengths at which numbers are computed
constexpr int64_t kTriedFar = int64_t{1} << 20;  // the largest random length
constexpr int kTriedAtRandom = 64;

// Whether a scalar op is smooth, so that a length-dependent result differs at any two lengths and
// two traces detect it. Ops that round (//, ceil, casts to integers) are not smooth.
bool is_smooth(const Call& call) {
  const bool rounds = call.has("rounding_mode") ||
                      (call.has("dtype") && call.type("dtype") && is_integer(*call.type("dtype")));
  return !rounds && is_one_of(call.op, {"sym_size",
                                        "sym_numel",
                                        "_operator.add",
                                        "_operator.sub",
                                        "_operator.mul",
                                        "_operator.truediv",
                                        "_operator.neg",
                                        "_operator.pow",
                                        "torch.sym_float",
                                        "torch.sym_sqrt",
                                        "scalar_tensor",
                                        "full",
                                        "add",
                                        "sub",
                                        "rsub",
                                        "mul",
                                        "div",
                                        "neg",
                                        "pow",
                                        "sqrt",
                                        "rsqrt",
                                        "exp",
                                        "log",
                                        "log2",
                                        "log10",
                                        "reciprocal",
                                        "to",
                                        "_to_copy",
                                        "lift_fresh_copy",
                                        "detach",
                                        "clone",
                                        "view",
                                        "reshape",
                                        "unsqueeze",
                                        "squeeze",
                                        "expand",
                                        "item",
                                        "_local_scalar_dense"});
}

// Collects the nodes that compute scalars from sizes alone. `non_smooth` holds those that are not
// smooth.
class LengthNumbers {
 public:
  LengthNumbers(const ExportedProgram& program, const TraceShape& trace_shape)
      : program_(program), trace_shape_(trace_shape), values_(program.values.size()) {
    std::vector<bool> is_number(program.values.size()), is_of_model(program.values.size());
    for (const ExportedInput& input : program.inputs) is_of_model[input.value] = true;
    for (const Call& node : program.nodes) {
      const bool is_size = node.op == "sym_size" || node.op == "sym_numel";
      bool reads_numbers = true, reads_single = true, reads_model = false;
      for_each<ValueRef>(node, [&](ValueRef ref) {
        reads_numbers = reads_numbers && is_number[ref.value];
        reads_single = reads_single && has_one(ref.value);
        reads_model = reads_model || (!is_size && is_of_model[ref.value]);
      });
      for (const uint32_t value : node.outputs) is_of_model[value] = reads_model;
      const bool has_single =
          std::ranges::all_of(node.outputs, [&](uint32_t value) { return has_one(value); });
      if (!has_single || node.outputs.empty()) continue;
      if (is_size || reads_numbers) {
        for (const uint32_t value : node.outputs) is_number[value] = true;
        nodes_.push_back(&node);
        if (!is_smooth(node)) non_smooth.push_back(&node);
      } else if (reads_single && !reads_model && !is_smooth(node)) {
        unknown = unknown != nullptr ? unknown : &node;
      }
    }
    keep_needed();
  }

  // Returns the results of the non-smooth nodes at `tokens` for each input. Throws InputError if an
  // op has no scalar result.
  std::vector<double> at(const Numbers& tokens) {
    OpBudget budget;
    std::vector<double> found;
    for (const Call* node : nodes_) {
      const std::vector<Argument> results = results_of(*node, tokens, budget);
      for (size_t i = 0; i < node->outputs.size() && i < results.size(); ++i) {
        values_[node->outputs[i]] = results[i];
      }
      if (is_smooth(*node)) continue;
      const Call one = {.op = node->op, .arguments = {{"number", results.at(0)}}};
      found.push_back(one.real("number"));
    }
    return found;
  }

  size_t size() const { return nodes_.size(); }

  std::vector<const Call*> non_smooth;
  const Call* unknown = nullptr;  // first rounding op on other scalars

 private:
  // Drops nodes that no non-smooth node depends on.
  void keep_needed() {
    std::set<uint32_t> needed;
    std::vector<const Call*> kept;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      const auto is_read = [&](uint32_t value) { return needed.contains(value); };
      if (is_smooth(**node) && std::ranges::none_of((*node)->outputs, is_read)) continue;
      for_each<ValueRef>(**node, [&](ValueRef ref) { needed.insert(ref.value); });
      kept.push_back(*node);
    }
    nodes_.assign(kept.rbegin(), kept.rend());
  }

  bool has_one(uint32_t value) const {
    const ExportedValue& own = program_.values[value];
    return own.kind != ValueKind::kTensor || std::ranges::all_of(own.sizes, [](const Extent& size) {
             return size.is_fixed() && size.size == 1;
           });
  }

  std::vector<Argument> results_of(const Call& node, const Numbers& tokens, OpBudget& budget) {
    if (node.op != "sym_size" && node.op != "sym_numel") {
      return apply_op(bind<ValueRef>(node, [&](ValueRef ref) { return values_[ref.value]; }),
                      budget);
    }
    const uint32_t self = node.argument("self").as<ValueRef>()->value;
    const std::vector<Extent>& sizes = program_.values[self].sizes;
    if (node.op == "sym_size") {
      const size_t dim = node.dimension("dim", 0, sizes.size());
      return {size_at(trace_shape_, sizes.at(dim), tokens)};
    }
    int64_t count = 1;
    for (const Extent& size : sizes) count *= size_at(trace_shape_, size, tokens);
    return {count};
  }

  const ExportedProgram& program_;
  const TraceShape& trace_shape_;
  std::vector<const Call*> nodes_;
  std::vector<Argument> values_;
};

// Whether y = a x + b for one pair of a and b.
bool are_in_proportion(const std::vector<double>& x, const std::vector<double>& y) {
  const auto other = std::ranges::find_if(x, [&](double each) { return each != x[0]; });
  if (other == x.end()) return std::ranges::all_of(y, [&](double each) { return each == y[0]; });
  const double slope = (y[static_cast<size_t>(other - x.begin())] - y[0]) / (*other - x[0]);
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::fabs(y[0] + slope * (x[i] - x[0]) - y[i]) > 1e-9 * (1.0 + std::fabs(y[i]))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::string nonlinear_op(const ExportedProgram& program, const TraceShape& trace_shape,
                         const Graph& graph, const std::vector<int64_t>& least,
                         const std::vector<int64_t>& most) {
  LengthNumbers numbers(program, trace_shape);
  if (numbers.unknown != nullptr) return numbers.unknown->describe();
  if (numbers.non_smooth.empty()) return "";
  // Try lengths of one input with the example's lengths of the others, then random combinations.
  std::vector<Numbers> tried;
  Numbers traced;
  for (size_t i = 0; i < least.size(); ++i) traced.push_back(trace_shape.of(i).traced_tokens());
  std::mt19937_64 random(1);
  const auto end = [&](size_t i) { return most[i] != 0 ? most[i] : kTriedFar; };
  for (size_t i = 0; i < least.size(); ++i) {
    Numbers one = traced;
    const int64_t step = trace_shape.of(i).step();
    for (one[i] = least[i]; one[i] <= std::min(end(i), least[i] + kTriedInTurn); one[i] += step) {
      tried.push_back(one);
    }
  }
  for (int r = 0; r < kTriedAtRandom; ++r) {
    Numbers all;
    for (size_t i = 0; i < least.size(); ++i) {
      const auto span = static_cast<uint64_t>(end(i) - least[i] + 1);
      const auto more = static_cast<int64_t>(random() % span);
      all.push_back(trace_shape.of(i).rounded(least[i] + more));
    }
    tried.push_back(all);
  }
  std::vector<std::vector<double>> columns(std::min<size_t>(graph.axes.size(), kAxesMax)),
      results(numbers.non_smooth.size());
  try {
    for (const Numbers& tokens : tried) {
      WorkBudget::take(kStepsPerGuard * numbers.size());
      const std::vector<double> found = numbers.at(tokens);
      for (size_t u = 0; u < numbers.non_smooth.size(); ++u) results[u].push_back(found.at(u));
      const std::vector<uint32_t> all(tokens.begin(), tokens.end());
      const AxisRows rows = graph.all_rows(all);
      for (uint32_t a = 0; a < columns.size(); ++a) columns[a].push_back(rows[a]);
    }
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  columns.push_back(std::vector<double>(tried.size(), 0.0));  // constant at all lengths
  for (size_t u = 0; u < numbers.non_smooth.size(); ++u) {
    const bool is_even = std::ranges::any_of(columns, [&](const std::vector<double>& column) {
      return are_in_proportion(column, results[u]);
    });
    if (!is_even) return numbers.non_smooth[u]->describe();
  }
  return "";
}

}  // namespace arenite::convert
