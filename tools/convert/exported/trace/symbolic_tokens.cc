// SPDX-License-Identifier: Apache-2.0
// One trace cannot tell a constant from a number that the author's code made of the number of
// tokens. A size in a shape is told by the sizes that it has to fit. Any other number is taken for
// a constant only where it is a common one, or made of a width, and not easily made of the number
// of tokens.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string_view>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/trace/trace_shape.h"

namespace arenite::convert {

// Numbers of a program that nobody makes of the number of tokens.

namespace {

constexpr int64_t kTokenPartsMax = 8;   // of the tokens, as n // 8
constexpr int64_t kCommonPartsMax = 2;  // that a common number may be
constexpr int64_t kNeighboursMax = 3;   // numbers around that of the tokens
constexpr double kLargeMin = 1000.0;    // bases of rotations, and what hides scores
constexpr double kSmallMax = 1e-3;      // what keeps a quotient finite
constexpr double kSameNumber = 1e-7;    // share that rounding to float32 may change

// Numbers of activations, roots and means, which stand beside the model's own numbers.
// clang-format off
constexpr double kCommonNumbers[] = {
    2.0, 3.0, 0.5, 0.25, 6.0, 1.702, 0.044715, 0.7978845608028654, 1.4142135623730951,
    0.7071067811865476, 0.6366197723675814};
// clang-format on

bool are_same_number(double a, double b) { return std::fabs(a - b) <= kSameNumber * std::fabs(a); }

// Whether the number is the size, or divides by it.
bool is_made(double number, double size) {
  return size > 0.0 && (are_same_number(number, size) || are_same_number(number, 1.0 / size));
}

// Whether `number` is made of so many tokens as people make one: a part of them, a neighbour, a
// root, a logarithm.
bool is_made_of(double number, double tokens, int64_t parts_max, int64_t neighbours_max) {
  for (int64_t parts = 1; parts <= parts_max; ++parts) {
    const double part = tokens / static_cast<double>(parts);
    for (const double size : {part, std::floor(part), std::ceil(part)}) {
      if (is_made(number, size)) return true;
    }
  }
  if (is_made(number, 2.0 * tokens)) return true;
  for (int64_t i = -neighbours_max; i <= neighbours_max; ++i) {
    const double near = tokens + static_cast<double>(i);
    if (is_made(number, near)) return true;
    if (std::abs(i) > 1 || near <= 0.0) continue;
    for (const double size : {std::sqrt(near), std::log(near), std::log2(near), std::log10(near)}) {
      if (is_made(number, size)) return true;
    }
  }
  return false;
}

// The lambda of a differential transformer's layer, 0.8 - 0.6 exp(-0.3 layer), or 1 minus that.
bool is_lambda(double number) {
  for (const double lambda : {number, 1.0 - number}) {
    if (!(lambda >= 0.2 - kSameNumber && lambda < 0.799)) continue;
    const double layer = std::log((0.8 - lambda) / 0.6) / -0.3;
    if (std::fabs(layer - std::round(layer)) <= kSameNumber) return true;
  }
  return false;
}

// Whether a literal cannot be made of the number of tokens, as far as people write such: it is a
// common number of models, `widths` explain it, or it is far from all numbers of tokens. What
// stands beside positions may be any of them; the model's own numbers (`is_beside_numbers`) have
// common ones.
bool is_constant(double number, bool is_beside_numbers, int64_t tokens,
                 const std::set<int64_t>& widths) {
  const double size = std::fabs(number);
  if (size == 0.0 || size == 1.0 || !std::isfinite(number)) return true;
  const auto is_size = [&](double common) { return are_same_number(size, common); };
  const bool is_common =
      is_beside_numbers && (std::ranges::any_of(kCommonNumbers, is_size) || is_lambda(size));
  if (is_made_of(size, static_cast<double>(tokens), is_common ? kCommonPartsMax : kTokenPartsMax,
                 is_common ? 1 : kNeighboursMax)) {
    return false;
  }
  return is_common || size >= kLargeMin || size <= kSmallMax ||
         std::ranges::any_of(widths, [&](int64_t width) {
           const auto whole = static_cast<double>(width);
           return width > 1 && (is_made(size, whole) || is_made(size, std::sqrt(whole)) ||
                                is_made(size, std::sqrt(std::sqrt(whole))));
         });
}

// ---- numbers that the author's line says ----

// How Python writes an op on numbers.
std::string_view operator_of(std::string_view op) {
  if (op == "add") return "+";
  if (is_one_of(op, {"sub", "rsub"})) return "-";
  if (op == "mul") return "*";
  if (op == "div") return "/";
  if (op == "pow") return "**";
  return is_one_of(op, {"lt", "le", "gt", "ge"}) ? (op[0] == 'l' ? "<" : ">") : "";
}

// Whether the author's line says that a number is a constant: it is written there, or is an
// attribute that the module was made with. The transformers library has numbers of its configs, and
// of lengths the length itself and its neighbours.
bool is_said(const Call& call, std::string_view argument, double number, int64_t tokens) {
  const CodeLine line = call.code_line();
  const auto length = static_cast<double>(tokens);
  const double size = std::fabs(number);
  if (line.file.find("/transformers/models/") != line.file.npos) {
    return !is_made_of(size, length, 1, 1);
  }
  if (line.says(size)) {
    return line.rounds() ? !is_made_of(size, length, kTokenPartsMax, kNeighboursMax)
                         : !is_made_of(size, length, kCommonPartsMax, 1);
  }
  return (line.uses_attribute(operator_of(call.op)) || line.passes_attribute(argument)) &&
         !is_made_of(size, length, kTokenPartsMax, kNeighboursMax);
}

// ---- sizes ----

constexpr size_t kDoubtsMax = 3;                   // that are named
constexpr int64_t kPartsMax = 8;                   // rows in turn of each token
constexpr size_t kOpenMax = 64;                    // literals that may be widths or lengths
constexpr uint64_t kTriedMax = uint64_t{1} << 24;  // weights, times such literals

// Arguments that name dimensions, counts of weights, and numbers of ops that have them by default.
bool is_never_tokens(std::string_view argument) {
  return is_one_of(argument,
                   {"dim",        "dim0",      "dim1",           "dims",        "start_dim",
                    "end_dim",    "source",    "destination",    "eps",         "normalized_shape",
                    "p",          "dropout_p", "train",          "training",    "chunks",
                    "groups",     "stride",    "padding",        "dilation",    "output_padding",
                    "correction", "momentum",  "negative_slope", "padding_idx", "num_groups",
                    "exponent",   "pad"});
}

bool is_size(std::string_view argument) {
  return is_one_of(argument, {"size", "sizes", "shape", "end", "steps", "length", "repeats", "row",
                              "col", "m", "n", "split_size", "split_sizes"});
}

// Its sizes have as many elements as what it is a view of.
bool views(std::string_view op) {
  return is_one_of(op, {"view", "reshape", "_unsafe_view", "unflatten"});
}

bool cuts(std::string_view op) {
  return is_one_of(op, {"slice", "narrow", "select", "split", "split_with_sizes", "unflatten",
                        "slice_scatter", "select_scatter", "repeat_interleave"});
}

// The argument if it is of this type, else null.
template <typename T>
const T* argument_as(const Call& call, std::string_view name) {
  const Argument* argument = call.find(name);
  return argument != nullptr ? argument->as<T>() : nullptr;
}

std::optional<double> number_in(const Argument& argument) {
  if (const auto* whole = argument.as<int64_t>()) return static_cast<double>(*whole);
  if (const auto* real = argument.as<double>()) return *real;
  return std::nullopt;
}

bool is_or_absent(const Call& call, std::string_view name, double expected) {
  return !call.has(name) || number_in(*call.find(name)) == expected;
}

// A range that is no count from 0.
bool has_gaps(const Call& call) {
  return call.op == "arange" &&
         !(is_or_absent(call, "start", 0.0) && is_or_absent(call, "step", 1.0));
}

// A literal of a node that may be a number of tokens: the node, and which of its literals.
using Literal = std::pair<size_t, size_t>;

// Calls visit(literal's place, argument) for literals of a call that may be sizes of tokens.
template <typename Visit>
void for_each_size(Call& call, const Visit& visit) {
  size_t place = 0;
  for (NamedArgument& argument : call.arguments) {
    if (is_never_tokens(argument.name) || !is_size(argument.name) || has_gaps(call)) continue;
    auto* list = std::get_if<Argument::List>(&argument.value.value);
    if (list == nullptr) {
      visit(place++, argument.value);
      continue;
    }
    for (Argument& item : *list) visit(place++, item);
  }
}

// A program computed at another number of tokens, where a width is as large as the example's: a
// literal is a width where it fits as such alone.
class OtherLength {
 public:
  // `lengths` are nodes that compute sizes of tokens, `length_of` their values by sizes.
  OtherLength(const ExportedProgram& program, const std::vector<Call>& nodes,
              const std::map<int64_t, uint32_t>& length_of, const std::set<int64_t>& widths)
      : program_(program), nodes_(nodes), length_of_(length_of), widths_(widths) {}

  // Whether all ops run with inputs of these shapes, where literals of `kept` are widths.
  bool run(const std::map<uint32_t, Shape>& inputs, const std::set<Literal>& kept) {
    values_.assign(program_.values.size(), std::nullopt);
    open.clear();
    widths_found = kept;
    uint64_t elements = 1;
    for (const ExportedInput& input : program_.inputs) {
      const auto shape = inputs.find(input.value);
      if (shape == inputs.end()) {
        stored_[input.value] = &input;
        continue;
      }
      const Array::Integers zeros(elements_of(shape->second), 0);
      elements = std::max<uint64_t>(elements, zeros.size());
      values_[input.value] =
          Array::integer(shape->second, zeros).to(program_.values[input.value].type);
    }
    budget_ = interpreting_budget(program_, elements);
    try {
      for (const Call& node : program_.nodes) keep(node, apply(node));
      for (size_t n = 0; n < nodes_.size(); ++n) {
        if (!nodes_[n].op.starts_with("_assert") && !run(n, kept)) return false;
      }
    } catch (const std::runtime_error&) {
      return false;
    }
    return true;
  }

  // The shape of a value, or nothing for one that is no tensor.
  std::optional<Shape> shape_of(uint32_t value) const {
    const auto* array = values_[value] ? values_[value]->as<Array>() : nullptr;
    return array == nullptr ? std::nullopt : std::optional(array->shape());
  }

  std::vector<Literal> open;       // that fit as lengths and as widths, and were taken as lengths
  std::set<Literal> widths_found;  // literals that are widths

 private:
  std::vector<Argument> apply(const Call& node) {
    budget_.live_elements = OpBudget{}.live_elements;
    return apply_op(bind<ValueRef>(node,
                                   [&](ValueRef ref) {
                                     std::optional<Argument>& value = values_[ref.value];
                                     if (value) return *value;
                                     const auto stored = stored_.find(ref.value);
                                     if (stored == stored_.end()) node.refuse("no op gives it");
                                     return *(value = program_.load(*stored->second));
                                   }),
                    budget_);
  }

  void keep(const Call& node, const std::vector<Argument>& results) {
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
      values_[node.outputs[i]] = results[i];
    }
  }

  // Whether results have the sizes of the example, or lengths where it has some.
  bool fit(const Call& node, const std::vector<Argument>& results) const {
    for (size_t i = 0; i < node.outputs.size() && i < results.size(); ++i) {
      const auto* array = results[i].as<Array>();
      const std::vector<Extent>& sizes = program_.values[node.outputs[i]].sizes;
      if (array == nullptr) continue;
      if (array->rank() != sizes.size()) return false;
      for (size_t d = 0; d < sizes.size(); ++d) {
        const int64_t found = array->shape()[d];
        const auto length = length_of_.find(sizes[d].size);
        const bool is_length = length != length_of_.end() &&
                               values_[length->second]->as<int64_t>() != nullptr &&
                               *values_[length->second]->as<int64_t>() == found;
        if (found != sizes[d].size && !is_length) return false;
      }
    }
    return true;
  }

  bool run(size_t n, const std::set<Literal>& kept) {
    Call node = nodes_[n];
    std::vector<size_t> unclear;
    for_each_size(node, [&](size_t place, Argument& each) {
      const auto* size = each.as<int64_t>();
      if (size == nullptr || !length_of_.contains(*size)) return;
      if (widths_.contains(*size) && !kept.contains({n, place})) unclear.push_back(place);
    });
    if (unclear.size() > kUnclearMax) return false;
    std::ranges::reverse(unclear);  // tokens stand before widths, where both fit
    std::optional<std::vector<Argument>> chosen;
    std::vector<Shape> shapes;
    size_t widths = 0;
    for (size_t choice = 0; choice < size_t{1} << unclear.size(); ++choice) {
      Call tried = nodes_[n];
      for_each_size(tried, [&](size_t place, Argument& each) {
        const auto* size = each.as<int64_t>();
        if (size == nullptr || !length_of_.contains(*size) || kept.contains({n, place})) return;
        const auto found = std::ranges::find(unclear, place);
        const bool is_width =
            found != unclear.end() && ((choice >> (found - unclear.begin())) & 1) != 0;
        if (!is_width) each = ValueRef{length_of_.at(*size)};
      });
      std::vector<Argument> results;
      try {
        results = apply(tried);
      } catch (const InputError&) {
        continue;
      }
      if (!fit(node, results)) continue;
      std::vector<Shape> found;
      for (const Argument& result : results) {
        if (const auto* array = result.as<Array>()) found.push_back(array->shape());
      }
      if (chosen && found == shapes) continue;
      if (chosen) {
        for (size_t i = 0; i < unclear.size(); ++i) {
          if (((widths >> i) & 1) == 0) open.emplace_back(n, unclear[i]);
        }
        break;
      }
      chosen = std::move(results);
      shapes = std::move(found);
      widths = choice;
    }
    if (!chosen) return false;
    for (size_t i = 0; i < unclear.size(); ++i) {
      if (((widths >> i) & 1) != 0) widths_found.insert({n, unclear[i]});
    }
    keep(node, *chosen);
    return true;
  }

  static constexpr size_t kUnclearMax = 4;  // literals of one op

  const ExportedProgram& program_;
  const std::vector<Call>& nodes_;
  const std::map<int64_t, uint32_t>& length_of_;
  const std::set<int64_t>& widths_;  // that are as large as lengths
  OpBudget budget_;
  std::map<uint32_t, const ExportedInput*> stored_;
  std::vector<std::optional<Argument>> values_;
};

class Symbolizer {
 public:
  Symbolizer(const ExportedProgram& program, uint32_t input, size_t axis, int64_t sequences)
      : symbol_(program.values[input].name + "_tokens"),
        input_(input),
        axis_(axis),
        sequences_(sequences),
        tokens_(program.values[input].sizes[axis].size),
        nodes_(program.nodes),
        made_(program),
        depends_(program.values.size(), false) {
    made_.nodes.clear();
  }

  SymbolicTokens run() {
    find_lengths();
    find_widths();
    if (!unclear_.empty() && !tell_widths_apart()) {
      for (std::string& text : unclear_doubts_) doubt(std::move(text));
    }
    rewrite_all();
    made_.nodes.insert(made_.nodes.end(), nodes_.begin(), nodes_.end());
    for (uint32_t v = 0; v < made_.values.size(); ++v) {
      for (size_t d = 0; d < made_.values[v].sizes.size(); ++d) {
        if (!is_length_at(v, d)) continue;
        Extent& extent = made_.values[v].sizes[d];
        extent.symbol = extent.size == tokens_ ? symbol_ : lengths_.at(extent.size).expression;
      }
    }
    made_.symbols[symbol_] = {1, std::nullopt};
    return {std::make_shared<const ExportedProgram>(std::move(made_)), std::move(doubts_)};
  }

 private:
  // A size that depends on the number of tokens.
  struct Length {
    std::string expression;
    uint32_t value = 0;      // of the program, which a node computes
    int64_t dimensions = 1;  // of tokens
  };

  bool is_length(int64_t size) const { return lengths_.contains(size); }

  // Whether an extent of a value is one.
  bool is_length_at(uint32_t value, size_t dimension) const {
    const int64_t size = made_.values[value].sizes[dimension].size;
    if (!is_length(size) || other_shapes_.empty()) return is_length(size);
    const std::optional<Shape>& other = other_shapes_[value];
    return !other || other->at(dimension) != size;
  }

  // Computes the program at other numbers of tokens, until one tells which literals are widths.
  bool tell_widths_apart() {
    std::map<int64_t, uint32_t> length_of;
    std::set<int64_t> sizes;
    for (const auto& [size, length] : lengths_) length_of[size] = length.value;
    for (const ExportedValue& value : made_.values) {
      for (const Extent& extent : value.sizes) sizes.insert(extent.size);
    }
    for (const int64_t more : {1, -1, 2, -2, 3, -3}) {
      const int64_t tokens = tokens_ + more;
      if (tokens < 2 || sizes.contains(tokens)) continue;
      std::map<uint32_t, Shape> inputs;
      for (const ExportedInput& input : made_.inputs) {
        if (input.kind != InputKind::kUser) continue;
        Shape shape = made_.values[input.value].shape();
        for (size_t d = 0; d < shape.size(); ++d) {
          const bool is_axis = input.value == input_ ? d == axis_ : shape[d] == tokens_;
          if (is_axis) shape[d] = tokens;
        }
        inputs[input.value] = shape;
      }
      OtherLength other(made_, nodes_, length_of, unclear_);
      if (!other.run(inputs, {})) continue;
      const std::vector<Literal> open = other.open;
      width_literals_ = other.widths_found;
      other_shapes_.clear();
      for (uint32_t v = 0; v < made_.values.size(); ++v) other_shapes_.push_back(other.shape_of(v));
      // Of what would fit as a width, too, the program is to say that it is none.
      const bool is_clear =
          open.size() <= kOpenMax && open.size() * made_.largest_weight() <= kTriedMax &&
          std::ranges::none_of(
              open, [&](const Literal& literal) { return other.run(inputs, {literal}); });
      if (!is_clear) other_shapes_.clear(), width_literals_.clear();
      return is_clear;
    }
    return false;
  }

  // A number that a node computes.
  uint32_t add_number(const char* op, std::vector<NamedArgument> arguments) {
    const auto value = static_cast<uint32_t>(made_.values.size());
    made_.values.push_back(
        {.name = fmt::format("{}_{}", symbol_, value), .kind = ValueKind::kInteger});
    depends_.push_back(false);
    made_.nodes.push_back({.op = op, .arguments = std::move(arguments), .outputs = {value}});
    return value;
  }

  void add_length(int64_t size, std::string expression, const char* op,
                  std::vector<NamedArgument> arguments, int64_t dimensions = 1) {
    if (is_length(size)) return;
    const uint32_t value = add_number(op, std::move(arguments));
    lengths_[size] = {std::move(expression), value, dimensions};
  }

  // (length + added) / stride + 1 of a convolution, or length + added of zeros around the tokens.
  void add_windows(int64_t size, const Length& length, int64_t added, int64_t stride) {
    if (is_length(size)) return;
    std::string expression = fmt::format("Add({}, Integer({}))", length.expression, added);
    uint32_t value = add_number("_operator.add", {{"a", ValueRef{length.value}}, {"b", added}});
    if (stride != 0) {
      expression = fmt::format("Add(FloorDiv({}, Integer({})), Integer(1))", expression, stride);
      value = add_number("_operator.floordiv", {{"a", ValueRef{value}}, {"b", stride}});
      value = add_number("_operator.add", {{"a", ValueRef{value}}, {"b", int64_t{1}}});
    }
    lengths_[size] = {std::move(expression), value, 1};
  }

  // So many for each of a length.
  void add_parts(int64_t size, const Length& length, int64_t parts) {
    add_length(size, fmt::format("Mul({}, Integer({}))", length.expression, parts), "_operator.mul",
               {{"a", ValueRef{length.value}}, {"b", parts}});
  }

  // The tokens that convolutions along the last dimension make of those that there are.
  void find_windows(const Call& node) {
    const bool pads = is_one_of(node.op, {"pad", "constant_pad_nd"});
    const auto* from = argument_as<ValueRef>(node, pads ? "self" : "input");
    if (from == nullptr || node.outputs.empty()) return;
    const Shape given = made_.values[from->value].shape();
    const Shape made = made_.values[node.outputs[0]].shape();
    if (given.size() != 3 || made.size() != 3 || !is_length(given[2])) return;
    const Length length = lengths_.at(given[2]);
    if (pads) return add_windows(made[2], length, made[2] - given[2], 0);
    const auto* weight = argument_as<ValueRef>(node, "weight");
    const auto first = [&](const char* name, int64_t absent) {
      const Shape numbers = node.has(name) ? node.integers(name) : Shape{};
      return numbers.empty() ? absent : numbers[0];
    };
    const int64_t times = node.has("scale_factors")
                              ? made[2] / given[2]
                              : first(node.op == "conv_transpose1d" ? "stride" : "", 1);
    if (times > 1 && made[2] == times * given[2]) return add_parts(made[2], length, times);
    if (!is_one_of(node.op, {"conv1d", "convolution"}) || weight == nullptr) return;
    const Argument* padding = node.find("padding");
    const bool is_named = padding != nullptr && padding->as<std::string>() != nullptr;
    const Shape kernel = made_.values[weight->value].shape();
    if (kernel.size() != 3 || (is_named && *padding->as<std::string>() != "valid")) return;
    const int64_t zeros = is_named ? 0 : 2 * first("padding", 0);
    add_windows(made[2], length, zeros - first("dilation", 1) * (kernel[2] - 1) - 1,
                first("stride", 1));
  }

  // The tokens, with rows that are put before them, and what views make one extent of: the tokens
  // of all sequences, and pairs of tokens.
  void find_lengths() {
    add_length(tokens_, fmt::format("Symbol('{}')", symbol_), "sym_size",
               {{"self", ValueRef{input_}}, {"dim", static_cast<int64_t>(axis_)}});
    const Length tokens = lengths_.at(tokens_);
    std::set<int64_t> before = {0};
    for (const Call& node : nodes_) before.insert({rows_before(node), rows_cut(node)});
    for (const int64_t rows : before) {
      add_length(tokens_ + rows, fmt::format("Add({}, Integer({}))", tokens.expression, rows),
                 "_operator.add", {{"a", ValueRef{tokens.value}}, {"b", rows}});
    }
    for (const Call& node : nodes_) find_windows(node);
    for (const Call& node : nodes_) {
      const auto* ref = argument_as<ValueRef>(node, "self");
      const bool joins = views(node.op) || node.op == "flatten";
      if (!joins || ref == nullptr || node.outputs.empty()) continue;
      const Shape from = made_.values[ref->value].shape();
      for (const int64_t size : made_.values[node.outputs[0]].shape()) {
        if (std::ranges::count(from, size) != 0) continue;
        for (size_t d = 0; d + 1 < from.size(); ++d) {  // rows of each token in turn
          const bool is_whole = from[d] == tokens_ && size == from[d + 1] * tokens_;
          const bool are_parts = from[d + 1] <= kPartsMax && !is_length(from[d + 1]);
          if (is_whole && are_parts) add_parts(size, tokens, from[d + 1]);
        }
        for (const int64_t rows : before) {
          const auto times = std::ranges::count(from, tokens_ + rows);
          const Length& length = lengths_.at(tokens_ + rows);
          if (times > 0 && size == sequences_ * (tokens_ + rows))
            add_parts(size, length, sequences_);
          if (times > 1 && size == tokens_ * tokens_) {
            add_length(size, fmt::format("Pow({}, Integer(2))", tokens.expression), "_operator.mul",
                       {{"a", ValueRef{tokens.value}}, {"b", ValueRef{tokens.value}}}, 2);
          }
        }
      }
    }
  }

  // How many rows a concatenation adds to those of tokens, or a padding; 0: none.
  int64_t rows_before(const Call& node) const {
    const bool pads = is_one_of(node.op, {"pad", "constant_pad_nd"});
    if ((node.op != "cat" && !pads) || node.outputs.empty()) return 0;
    const Argument* const given = node.find(pads ? "self" : "tensors");
    if (given == nullptr) return 0;
    const auto* const list = given->as<Argument::List>();
    const Shape whole = made_.values[node.outputs[0]].shape();
    for (const Argument& part : list != nullptr ? *list : Argument::List{*given}) {
      const auto* ref = part.as<ValueRef>();
      const Shape shape = ref != nullptr ? made_.values[ref->value].shape() : Shape();
      for (size_t d = 0; d < shape.size() && d < whole.size(); ++d) {
        if (shape[d] == tokens_ && whole[d] > shape[d]) return whole[d] - shape[d];
      }
    }
    return 0;
  }

  // How many tokens a slice leaves out, as a negative number; 0: none, or more than a few.
  int64_t rows_cut(const Call& node) const {
    const auto* ref = argument_as<ValueRef>(node, "self");
    if (node.op != "slice" || ref == nullptr || node.outputs.empty()) return 0;
    const Shape from = made_.values[ref->value].shape();
    const Shape to = made_.values[node.outputs[0]].shape();
    for (size_t d = 0; d < from.size() && d < to.size(); ++d) {
      const bool is_cut = from[d] == tokens_ && to[d] < tokens_ && 2 * to[d] > tokens_;
      if (is_cut) return to[d] - from[d];
    }
    return 0;
  }

  // What sizes the weights have. A width that is as large as a number of tokens leaves it open
  // which of the two a literal is.
  void find_widths() {
    for (const ExportedInput& input : made_.inputs) {
      const bool is_users = input.kind == InputKind::kUser;
      if (is_users) depends_[input.value] = true;
      const std::vector<Extent>& sizes = made_.values[input.value].sizes;
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (is_length(sizes[d].size)) {
          if (is_users && (input.value != input_ || d == axis_)) continue;
          unclear_.insert(sizes[d].size);
          unclear_doubts_.push_back(
              fmt::format("{} may be a number of tokens, and is a size of '{}', too", sizes[d].size,
                          input.name));
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
      const double number = made_.load(input).to_reals()[0];
      if (is_constant(number, true, tokens_, widths_)) continue;
      doubt(fmt::format("{} in the constant '{}' may depend on the number of tokens", number,
                        input.name));
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

  // Where other values turn out to be as wide as a number of tokens, once more.
  void rewrite_all() {
    const Symbolizer before = *this;
    for (Call& node : nodes_) rewrite(node);
    if (!has_unclear_value_ || !other_shapes_.empty()) return;
    Symbolizer again = before;
    for (const auto& [size, length] : lengths_) again.unclear_.insert(size);
    if (!again.tell_widths_apart()) return;
    for (Call& node : again.nodes_) again.rewrite(node);
    nodes_ = std::move(again.nodes_);
    made_ = std::move(again.made_);
    doubts_ = std::move(again.doubts_);
    other_shapes_ = std::move(again.other_shapes_);
  }

  void rewrite(Call& node) {
    if (node.op.starts_with("_assert")) return;
    bool depends = false;
    int64_t lengths_read = 0;
    for_each<ValueRef>(node, [&](ValueRef ref) {
      depends = depends || depends_[ref.value];
      lengths_read += lengths_in(ref.value);
    });
    const int64_t replaced = rewrite_arguments(node, depends);
    for (const uint32_t output : node.outputs) {
      depends_[output] = depends;
      if (lengths_in(output) > lengths_read + (views(node.op) ? 0 : replaced)) {
        doubt(node, fmt::format("{}, which is a width, too,", tokens_));
        has_unclear_value_ = true;
      }
      const std::vector<Extent>& sizes = made_.values[output].sizes;
      for (size_t d = 0; d < sizes.size(); ++d) {
        if (depends && !is_length_at(output, d)) widths_.insert(sizes[d].size);
      }
    }
    follow_columns(node);
  }

  int64_t lengths_in(uint32_t value) const {
    int64_t count = 0;
    const std::vector<Extent>& sizes = made_.values[value].sizes;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (is_length_at(value, d)) count += lengths_.at(sizes[d].size).dimensions;
    }
    return count;
  }

  // Keeps what columns were counted to, as in arange(0, width, 2) / width.
  void follow_columns(const Call& node) {
    if (node.outputs.empty()) return;
    const auto* self = argument_as<ValueRef>(node, "self");
    const auto known = self == nullptr ? columns_.end() : columns_.find(self->value);
    if (counts_columns(node)) {
      columns_[node.outputs[0]] = *number_in(*node.find("end"));
    } else if (known != columns_.end() &&
               is_one_of(node.op, {"to", "_to_copy", "float", "add", "slice"})) {
      columns_[node.outputs[0]] = known->second;
    }
  }
  // Whether the number is what columns were counted to, or the shares of it that xPos adds.
  bool is_of_columns(const Call& call, double number) const {
    const auto* self = argument_as<ValueRef>(call, "self");
    const auto known = self == nullptr ? columns_.end() : columns_.find(self->value);
    return known != columns_.end() && is_one_of(call.op, {"add", "mul", "div"}) &&
           std::ranges::any_of(std::initializer_list<double>{1.0, 0.4, 1.4}, [&](double share) {
             return is_made(std::fabs(number), share * known->second);
           });
  }

  // How many literals are lengths.
  int64_t rewrite_arguments(Call& call, bool depends) {
    const auto cutting = cut_extent(call);
    const std::optional<int64_t> cut = cutting.first;
    const bool cuts_tokens = cutting.second;
    const auto node = static_cast<size_t>(&call - nodes_.data());
    const bool is_of_model = depends || (call.op == "select" && reads_parameter(call));
    if ((cut && is_of_model && !cuts_tokens) || counts_columns(call)) return 0;
    int64_t replaced = 0;
    size_t place = 0;  // of literals that may be sizes
    for (NamedArgument& argument : call.arguments) {
      if (is_never_tokens(argument.name)) continue;
      const bool takes_size = is_size(argument.name) && !has_gaps(call);
      const bool is_beside_numbers = depends && !cuts_tokens && argument.name != "diagonal";
      const auto settle = [&](Argument& each) {
        const bool is_width = takes_size && width_literals_.contains({node, place++});
        if (is_width) return;
        if (const auto* size = each.as<int64_t>(); size != nullptr && takes_size) {
          if (is_length(*size)) {
            ++replaced;
            each = ValueRef{lengths_.at(*size).value};
            return;
          }
          // Sizes that others explain: of the whole, of what it goes together with, of what is cut.
          if (views(call.op) ||
              is_one_of(call.op, {"expand", "broadcast_to", "split_with_sizes"}) ||
              (cut && *size >= *cut) || *size == sequences_) {
            return;
          }
        }
        const auto number = number_in(each);
        if (!number) return;
        // Half of what is cut, as of columns that turn in pairs, or another equal part of it.
        const bool is_half =
            cut && !cuts_tokens && *number > 0.0 &&
            std::fmod(static_cast<double>(*cut), *number) == 0.0 &&
            (argument.name == "split_size" || 2.0 * *number == static_cast<double>(*cut)) &&
            !is_made_of(*number, static_cast<double>(tokens_), 1, 1);
        // One of the rows in turn of each token.
        const bool is_turn = cut && argument.name == "step" &&
                             static_cast<double>(*cut) == *number * static_cast<double>(tokens_) &&
                             *cut <= kPartsMax * tokens_;
        const bool is_known = cuts_tokens
                                  ? is_turn || std::fabs(*number) <= 1.0 ||
                                        is_said(call, argument.name, *number, tokens_)
                                  : is_half || is_of_columns(call, *number) ||
                                        is_constant(*number, is_beside_numbers, tokens_, widths_) ||
                                        is_said(call, argument.name, *number, tokens_);
        if (!is_known) doubt(call, fmt::format("{}", *number));
      };
      if (auto* list = std::get_if<Argument::List>(&argument.value.value)) {
        std::ranges::for_each(*list, settle);
      } else {
        settle(argument.value);
      }
    }
    return replaced;
  }

  // Columns are counted with gaps, as those of rotations, up to a width.
  bool counts_columns(const Call& call) const {
    const auto* width = argument_as<int64_t>(call, "end");
    return width != nullptr && has_gaps(call) && !is_length(*width) && widths_.contains(*width) &&
           is_or_absent(call, "start", 0.0);
  }

  bool reads_parameter(const Call& call) const {
    const auto* ref = argument_as<ValueRef>(call, "self");
    return ref != nullptr && std::ranges::any_of(made_.inputs, [&](const ExportedInput& input) {
             return input.value == ref->value && input.kind == InputKind::kParameter;
           });
  }

  // The extent that an op cuts, and whether it is one of tokens.
  std::pair<std::optional<int64_t>, bool> cut_extent(const Call& call) const {
    const auto* ref = argument_as<ValueRef>(call, "self");
    if (ref == nullptr || !cuts(call.op)) return {};
    const std::vector<Extent>& sizes = made_.values[ref->value].sizes;
    const auto* dim = argument_as<int64_t>(call, "dim");
    const auto rank = static_cast<int64_t>(sizes.size());
    const int64_t place = dim == nullptr ? 0 : *dim < 0 ? *dim + rank : *dim;
    if (place < 0 || place >= rank) return {};
    const auto d = static_cast<size_t>(place);
    return {sizes[d].size, is_length_at(ref->value, d)};
  }

  const std::string symbol_;
  const uint32_t input_;
  const size_t axis_;
  const int64_t sequences_, tokens_;
  std::vector<Call> nodes_;            // as they are rewritten
  ExportedProgram made_;               // whose nodes are those of lengths, until the end
  std::vector<bool> depends_;          // of each value: on the model's input
  std::map<int64_t, Length> lengths_;  // by their sizes in the example
  std::set<int64_t> widths_;           // sizes that depend on no number of tokens
  std::set<int64_t> unclear_;          // those of them that are numbers of tokens, too
  std::vector<std::string> unclear_doubts_;
  bool has_unclear_value_ = false;
  std::vector<std::optional<Shape>> other_shapes_;  // of values, at another number of tokens
  std::set<Literal> width_literals_;
  std::map<uint32_t, double> columns_;  // that values count to
  std::vector<std::string> doubts_;
};

}  // namespace

SymbolicTokens with_symbolic_tokens(const ExportedProgram& program, const TraceShape& trace_shape) {
  return Symbolizer(program, trace_shape.input().value, trace_shape.axis(),
                    trace_shape.sizes().sequences)
      .run();
}

}  // namespace arenite::convert
