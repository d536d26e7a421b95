// SPDX-License-Identifier: Apache-2.0
// One trace cannot tell a constant from a number that the author's code made of the number of
// tokens. A size in a shape is told by the sizes that it has to fit. Any other number is taken for
// a constant only where it is a common one, or made of a width, and not easily made of the number
// of tokens.
#include "convert/exported/trace/symbolic_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

constexpr const char* kTokensSymbol = "tokens";
constexpr size_t kDoubtsMax = 3;  // that are named

// Arguments that name dimensions, counts of weights, and numbers of ops that have them by default.
bool is_never_tokens(std::string_view argument) {
  return is_one_of(argument,
                   {"dim",        "dim0",           "dim1",        "dims",       "start_dim",
                    "end_dim",    "source",         "destination", "eps",        "normalized_shape",
                    "p",          "dropout_p",      "train",       "training",   "chunks",
                    "groups",     "stride",         "padding",     "dilation",   "output_padding",
                    "correction", "negative_slope", "padding_idx", "num_groups", "exponent"});
}

bool is_size(std::string_view argument) {
  return is_one_of(argument, {"size", "sizes", "shape", "end", "steps", "length", "repeats", "row",
                              "col", "m", "n", "split_size", "split_sizes"});
}

// Its sizes have as many elements as what it is a view of.
bool views(std::string_view op) {
  return is_one_of(op, {"view", "reshape", "_unsafe_view", "unflatten"});
}

// Its sizes are those of what the result goes together with.
bool is_stretch(std::string_view op) { return is_one_of(op, {"expand", "broadcast_to"}); }

bool cuts(std::string_view op) {
  return is_one_of(op, {"slice", "narrow", "select", "split", "split_with_sizes", "unflatten",
                        "slice_scatter", "select_scatter", "repeat_interleave"});
}

class Symbolizer {
 public:
  Symbolizer(const ExportedProgram& program, uint32_t input, size_t axis, int64_t sequences)
      : input_(input),
        axis_(axis),
        sequences_(sequences),
        tokens_(program.values[input].sizes[axis].size),
        made_(program),
        depends_(program.values.size(), false) {}

  SymbolicTokens run() {
    find_lengths();
    find_widths();
    std::vector<Call> nodes = std::move(made_.nodes);
    made_.nodes.clear();
    for (Call& node : nodes) rewrite(node);
    made_.nodes.insert(made_.nodes.end(), std::make_move_iterator(nodes.begin()),
                       std::make_move_iterator(nodes.end()));
    for (ExportedValue& value : made_.values) {
      for (Extent& extent : value.sizes) {
        if (const auto length = lengths_.find(extent.size); length != lengths_.end()) {
          extent.symbol = length->second.expression;
        }
      }
    }
    made_.symbols[kTokensSymbol] = {1, std::nullopt};
    return {std::make_shared<const ExportedProgram>(std::move(made_)), std::move(doubts_)};
  }

 private:
  // A size that depends on the number of tokens: times * (tokens + plus), or its square.
  struct Length {
    int64_t times = 1, plus = 0;
    bool is_square = false;
    std::string expression;
    std::optional<uint32_t> value{};  // of the program, where a node computes it
  };

  bool is_length(int64_t size) const { return lengths_.contains(size); }

  void add_length(int64_t times, int64_t plus) {
    std::string text = fmt::format("Symbol('{}')", kTokensSymbol);
    if (times == 1 && plus == 0) text = kTokensSymbol;
    if (plus != 0) text = fmt::format("Add({}, Integer({}))", text, plus);
    if (times != 1) text = fmt::format("Mul({}, Integer({}))", text, times);
    lengths_.try_emplace(times * (tokens_ + plus), Length{times, plus, false, std::move(text)});
  }

  // The tokens, with rows that are put before them, and what views make one extent of: the tokens
  // of all sequences, and pairs of tokens.
  void find_lengths() {
    std::set<int64_t> before = {0};
    for (const Call& node : made_.nodes) {
      if (node.op != "cat" || node.outputs.empty()) continue;
      const int64_t rows = rows_before(node);
      if (rows > 0) before.insert(rows);
    }
    for (const int64_t rows : before) add_length(1, rows);
    for (const Call& node : made_.nodes) {
      const Argument* self = node.find("self");
      const auto* ref = self != nullptr ? self->as<ValueRef>() : nullptr;
      const bool joins = views(node.op) || node.op == "flatten";
      if (!joins || ref == nullptr || node.outputs.empty()) continue;
      const Shape from = made_.values[ref->value].shape();
      for (const int64_t size : made_.values[node.outputs[0]].shape()) {
        if (std::ranges::count(from, size) != 0) continue;
        for (const int64_t rows : before) {
          const int64_t length = tokens_ + rows;
          const auto times = std::ranges::count(from, length);
          if (times > 0 && size == sequences_ * length) add_length(sequences_, rows);
          if (times > 1 && size == tokens_ * tokens_) add_square();
        }
      }
    }
  }

  void add_square() {
    lengths_.try_emplace(
        tokens_ * tokens_,
        Length{1, 0, true, fmt::format("Pow(Symbol('{}'), Integer(2))", kTokensSymbol)});
  }

  // How many rows a concatenation adds to those of tokens; 0: none.
  int64_t rows_before(const Call& node) const {
    const Argument* tensors = node.find("tensors");
    const auto* parts = tensors != nullptr ? tensors->as<Argument::List>() : nullptr;
    const std::vector<Extent>& whole = made_.values[node.outputs[0]].sizes;
    if (parts == nullptr) return 0;
    for (const Argument& part : *parts) {
      const auto* ref = part.as<ValueRef>();
      if (ref == nullptr) continue;
      const std::vector<Extent>& sizes = made_.values[ref->value].sizes;
      for (size_t d = 0; d < sizes.size() && d < whole.size(); ++d) {
        const int64_t more = whole[d].size - sizes[d].size;
        if (sizes[d].size == tokens_ && more > 0) return more;
      }
    }
    return 0;
  }

  // What sizes the weights have. A width that is as large as a number of tokens leaves it open
  // which of the two a literal is.
  void find_widths() {
    for (const ExportedInput& input : made_.inputs) {
      if (input.kind == InputKind::kUser) depends_[input.value] = true;
      const std::vector<Extent>& sizes = made_.values[input.value].sizes;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const bool is_of_tokens = input.kind == InputKind::kUser && is_length(sizes[d].size);
        if (is_of_tokens && (input.value != input_ || d == axis_)) continue;
        if (is_of_tokens || is_length(sizes[d].size)) {
          doubt(fmt::format("{} may be a number of tokens, and is a size of '{}', too",
                            sizes[d].size, input.name));
        }
        widths_.insert(sizes[d].size);
      }
    }
    widths_.insert(sequences_);
    // A number that the author's code made a tensor of.
    for (const ExportedInput& input : made_.inputs) {
      const ExportedValue& value = made_.values[input.value];
      if (input.kind != InputKind::kConstant || is_complex(value.type)) continue;
      if (elements_of(value.shape()) != 1) continue;
      for (const double number : made_.load(input).to_reals()) {
        if (!is_constant(number, true, tokens_, widths_)) {
          doubt(fmt::format("{} in the constant '{}' may depend on the number of tokens", number,
                            input.name));
        }
      }
    }
  }

  void doubt(std::string text) {
    if (doubts_.size() < kDoubtsMax && std::ranges::count(doubts_, text) == 0) {
      doubts_.push_back(std::move(text));
    }
  }

  void doubt(const Call& call, const std::string& number) {
    doubt(fmt::format("{} in {} may depend on the number of tokens", number, call.describe()));
  }

  void rewrite(Call& node) {
    if (node.op.starts_with("_assert")) return;
    bool depends = false;
    int64_t lengths_read = 0;
    for_each<ValueRef>(node, [&](ValueRef ref) {
      depends = depends || depends_[ref.value];
      lengths_read += lengths_in(made_.values[ref.value]);
    });
    for (const uint32_t output : node.outputs) depends_[output] = depends;
    const int64_t replaced = rewrite_arguments(node, depends);
    for (const uint32_t output : node.outputs) {
      const ExportedValue& value = made_.values[output];
      if (lengths_in(value) > lengths_read + (views(node.op) ? 0 : replaced)) {
        doubt(node, fmt::format("{}, which is a width, too,", tokens_));
      }
      if (!depends) continue;
      for (const Extent& extent : value.sizes) {
        if (!is_length(extent.size)) widths_.insert(extent.size);
      }
    }
  }

  // A square of tokens counts twice.
  int64_t lengths_in(const ExportedValue& value) const {
    int64_t count = 0;
    for (const Extent& extent : value.sizes) {
      const auto length = lengths_.find(extent.size);
      if (length != lengths_.end()) count += length->second.is_square ? 2 : 1;
    }
    return count;
  }

  // How many literals are lengths.
  int64_t rewrite_arguments(Call& call, bool depends) {
    int64_t replaced = 0;
    const std::optional<int64_t> cut = cut_extent(call);
    const bool is_of_model = depends || (call.op == "select" && reads_parameter(call));
    const bool cuts_width = cut && is_of_model && !is_length(*cut);
    for (NamedArgument& argument : call.arguments) {
      if (is_never_tokens(argument.name) || cuts_width || counts_columns(call)) continue;
      const bool takes_size = is_size(argument.name) && !has_gaps(call);
      const auto settle = [&](Argument& each) {
        if (const auto* size = each.as<int64_t>(); size != nullptr && takes_size) {
          if (is_length(*size)) {
            ++replaced;
            each = ValueRef{value_of(*size)};
            return;
          }
          if (views(call.op) || is_stretch(call.op) || (cut && *size >= *cut)) return;
          if (*size == sequences_) return;
        }
        if (const auto number = number_of(each)) {
          const bool is_of_tokens = cut && is_length(*cut);
          const bool beside_numbers = depends && !is_of_tokens && argument.name != "diagonal";
          if (is_of_tokens ? std::fabs(*number) > 1.0
                           : !is_constant(*number, beside_numbers, tokens_, widths_)) {
            doubt(call, fmt::format("{}", *number));
          }
        }
      };
      if (auto* list = std::get_if<Argument::List>(&argument.value.value)) {
        std::ranges::for_each(*list, settle);
      } else {
        settle(argument.value);
      }
    }
    return replaced;
  }

  static std::optional<double> number_of(const Argument& argument) {
    if (const auto* whole = argument.as<int64_t>()) return static_cast<double>(*whole);
    if (const auto* real = argument.as<double>()) return *real;
    return std::nullopt;
  }

  // A range that is no count from 0.
  static bool has_gaps(const Call& call) {
    const auto is_not = [&](const char* name, double expected) {
      const Argument* argument = call.find(name);
      return argument != nullptr && !argument->is_none() &&
             number_of(*argument).value_or(NAN) != expected;
    };
    return call.op == "arange" && (is_not("start", 0.0) || is_not("step", 1.0));
  }

  // Columns are counted with gaps, as those of rotations, up to a width.
  bool counts_columns(const Call& call) const {
    const Argument* end = call.find("end");
    const auto* width = end != nullptr ? end->as<int64_t>() : nullptr;
    return width != nullptr && has_gaps(call) && !is_length(*width) && widths_.contains(*width) &&
           (call.find("start") == nullptr || number_of(*call.find("start")) == 0.0);
  }

  bool reads_parameter(const Call& call) const {
    const auto* ref = call.find("self") != nullptr ? call.find("self")->as<ValueRef>() : nullptr;
    return ref != nullptr && std::ranges::any_of(made_.inputs, [&](const ExportedInput& input) {
             return input.value == ref->value && input.kind == InputKind::kParameter;
           });
  }

  // The extent that an op cuts.
  std::optional<int64_t> cut_extent(const Call& call) const {
    const Argument* self = call.find("self");
    const auto* ref = self != nullptr ? self->as<ValueRef>() : nullptr;
    if (ref == nullptr || !cuts(call.op)) return std::nullopt;
    const std::vector<Extent>& sizes = made_.values[ref->value].sizes;
    const Argument* named = call.find("dim");
    const auto* dim = named != nullptr ? named->as<int64_t>() : nullptr;
    const auto rank = static_cast<int64_t>(sizes.size());
    const int64_t place = dim == nullptr ? 0 : *dim < 0 ? *dim + rank : *dim;
    if (place < 0 || place >= rank) return std::nullopt;
    return sizes[static_cast<size_t>(place)].size;
  }

  uint32_t add_node(const std::string& op, std::vector<NamedArgument> arguments) {
    const auto value = static_cast<uint32_t>(made_.values.size());
    made_.values.push_back(
        {.name = fmt::format("{}_{}", kTokensSymbol, value), .kind = ValueKind::kInteger});
    depends_.push_back(false);
    made_.nodes.push_back({.op = op, .arguments = std::move(arguments), .outputs = {value}});
    return value;
  }

  uint32_t value_of(int64_t size) {
    Length& length = lengths_.at(size);
    if (length.value) return *length.value;
    uint32_t value = 0;
    if (length.is_square) {
      const ValueRef tokens{value_of(tokens_)};
      value = add_node("_operator.mul", {{"a", tokens}, {"b", tokens}});
    } else if (length.times != 1) {
      value = add_node("_operator.mul",
                       {{"a", ValueRef{value_of(tokens_ + length.plus)}}, {"b", length.times}});
    } else if (length.plus != 0) {
      value = add_node("_operator.add", {{"a", ValueRef{value_of(tokens_)}}, {"b", length.plus}});
    } else {
      value =
          add_node("sym_size", {{"self", ValueRef{input_}}, {"dim", static_cast<int64_t>(axis_)}});
    }
    length.value = value;
    return value;
  }

  const uint32_t input_;
  const size_t axis_;
  const int64_t sequences_, tokens_;
  ExportedProgram made_;
  std::vector<bool> depends_;          // of each value: on the model's input
  std::map<int64_t, Length> lengths_;  // by their sizes in the example
  std::set<int64_t> widths_;           // sizes that depend on no number of tokens
  std::vector<std::string> doubts_;
};

}  // namespace

SymbolicTokens with_symbolic_tokens(const ExportedProgram& program, uint32_t value, size_t axis,
                                    int64_t sequences) {
  return Symbolizer(program, value, axis, sequences).run();
}

namespace {

constexpr int64_t kTokenPartsMax = 8;   // of the tokens, as n // 8
constexpr int64_t kCommonPartsMax = 2;  // that a common number may be
constexpr int64_t kNeighboursMax = 3;   // numbers around that of the tokens
constexpr double kLargeMin = 1000.0;    // bases of rotations, and what hides scores
constexpr double kSmallMax = 1e-3;      // what keeps a quotient finite
constexpr double kSameNumber = 1e-7;    // share that rounding to float32 may change

// Numbers of activations, roots and means, which stand beside the model's own numbers.
constexpr double kCommonNumbers[] = {2.0,
                                     3.0,
                                     0.5,
                                     0.25,
                                     0.044715,
                                     0.7978845608028654,
                                     1.702,
                                     1.4142135623730951,
                                     0.7071067811865476,
                                     0.6366197723675814,
                                     6.0};

bool are_same_number(double a, double b) { return std::fabs(a - b) <= kSameNumber * std::fabs(a); }

bool is_or_divides(double number, double size) {
  return size > 0.0 && (are_same_number(number, size) || are_same_number(number, 1.0 / size));
}

bool is_root_of(double number, double size) {
  return is_or_divides(number, std::sqrt(size)) ||
         is_or_divides(number, std::sqrt(std::sqrt(size)));
}

// Whether `number` is made of so many tokens as people make one: a part of them, a neighbour, a
// root, a logarithm.
bool is_made_of(double number, int64_t count, int64_t parts_max, int64_t neighbours_max) {
  const auto tokens = static_cast<double>(count);
  for (int64_t i = 1; i <= parts_max; ++i) {
    const auto parts = static_cast<double>(i);
    for (const double part :
         {tokens / parts, std::floor(tokens / parts), std::ceil(tokens / parts)}) {
      if (is_or_divides(number, part)) return true;
    }
  }
  if (is_or_divides(number, 2.0 * tokens)) return true;
  for (int64_t i = -neighbours_max; i <= neighbours_max; ++i) {
    const double near = tokens + static_cast<double>(i);
    if (is_or_divides(number, near)) return true;
    if (std::abs(i) > 1 || near <= 0.0) continue;
    if (is_or_divides(number, std::sqrt(near)) || is_or_divides(number, std::log(near)) ||
        is_or_divides(number, std::log2(near)) || is_or_divides(number, std::log10(near))) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_constant(double number, bool is_beside_numbers, int64_t tokens,
                 const std::set<int64_t>& widths) {
  const double size = std::fabs(number);
  if (size == 0.0 || size == 1.0 || !std::isfinite(number)) return true;
  const auto is_number = [&](double each) { return are_same_number(size, each); };
  const bool is_common = is_beside_numbers && std::ranges::any_of(kCommonNumbers, is_number);
  const bool is_made = is_common ? is_made_of(size, tokens, kCommonPartsMax, 1)
                                 : is_made_of(size, tokens, kTokenPartsMax, kNeighboursMax);
  if (is_made) return false;
  return is_common || size >= kLargeMin || size <= kSmallMax ||
         std::ranges::any_of(widths, [&](int64_t width) {
           const auto whole = static_cast<double>(width);
           return width > 1 && (is_or_divides(size, whole) || is_root_of(size, whole));
         });
}

}  // namespace arenite::convert
