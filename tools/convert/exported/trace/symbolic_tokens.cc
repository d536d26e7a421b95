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

// Whether a literal cannot be made of the number of tokens, as far as people write such: it is a
// common number of models, `widths` explain it, or it is far from all numbers of tokens. What
// stands beside positions may be any of them; the model's own numbers (`is_beside_numbers`) have
// common ones.
bool is_constant(double number, bool is_beside_numbers, int64_t tokens,
                 const std::set<int64_t>& widths) {
  const double size = std::fabs(number);
  if (size == 0.0 || size == 1.0 || !std::isfinite(number)) return true;
  const bool is_common =
      is_beside_numbers && std::ranges::any_of(kCommonNumbers, [&](double common) {
        return are_same_number(size, common);
      });
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

// ---- sizes ----

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

class Symbolizer {
 public:
  Symbolizer(const ExportedProgram& program, uint32_t input, size_t axis, int64_t sequences)
      : input_(input),
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
    for (Call& node : nodes_) rewrite(node);
    made_.nodes.insert(made_.nodes.end(), nodes_.begin(), nodes_.end());
    for (ExportedValue& value : made_.values) {
      for (Extent& extent : value.sizes) {
        if (is_length(extent.size)) {
          extent.symbol =
              extent.size == tokens_ ? kTokensSymbol : lengths_.at(extent.size).expression;
        }
      }
    }
    made_.symbols[kTokensSymbol] = {1, std::nullopt};
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

  void add_length(int64_t size, std::string expression, const char* op,
                  std::vector<NamedArgument> arguments, int64_t dimensions = 1) {
    if (is_length(size)) return;
    const auto value = static_cast<uint32_t>(made_.values.size());
    made_.values.push_back(
        {.name = fmt::format("{}_{}", kTokensSymbol, value), .kind = ValueKind::kInteger});
    depends_.push_back(false);
    made_.nodes.push_back({.op = op, .arguments = std::move(arguments), .outputs = {value}});
    lengths_[size] = {std::move(expression), value, dimensions};
  }

  // The tokens, with rows that are put before them, and what views make one extent of: the tokens
  // of all sequences, and pairs of tokens.
  void find_lengths() {
    add_length(tokens_, fmt::format("Symbol('{}')", kTokensSymbol), "sym_size",
               {{"self", ValueRef{input_}}, {"dim", static_cast<int64_t>(axis_)}});
    const Length tokens = lengths_.at(tokens_);
    std::set<int64_t> before = {0};
    for (const Call& node : nodes_) before.insert(rows_before(node));
    for (const int64_t rows : before) {
      add_length(tokens_ + rows, fmt::format("Add({}, Integer({}))", tokens.expression, rows),
                 "_operator.add", {{"a", ValueRef{tokens.value}}, {"b", rows}});
    }
    for (const Call& node : nodes_) {
      const auto* ref = argument_as<ValueRef>(node, "self");
      const bool joins = views(node.op) || node.op == "flatten";
      if (!joins || ref == nullptr || node.outputs.empty()) continue;
      const Shape from = made_.values[ref->value].shape();
      for (const int64_t size : made_.values[node.outputs[0]].shape()) {
        if (std::ranges::count(from, size) != 0) continue;
        for (const int64_t rows : before) {
          const auto times = std::ranges::count(from, tokens_ + rows);
          const Length& length = lengths_.at(tokens_ + rows);
          if (times > 0 && size == sequences_ * (tokens_ + rows)) {
            add_length(size, fmt::format("Mul({}, Integer({}))", length.expression, sequences_),
                       "_operator.mul", {{"a", ValueRef{length.value}}, {"b", sequences_}});
          }
          if (times > 1 && size == tokens_ * tokens_) {
            add_length(size, fmt::format("Pow({}, Integer(2))", tokens.expression), "_operator.mul",
                       {{"a", ValueRef{tokens.value}}, {"b", ValueRef{tokens.value}}}, 2);
          }
        }
      }
    }
  }

  // How many rows a concatenation adds to those of tokens; 0: none.
  int64_t rows_before(const Call& node) const {
    const auto* parts = argument_as<Argument::List>(node, "tensors");
    if (node.op != "cat" || node.outputs.empty() || parts == nullptr) return 0;
    const Shape whole = made_.values[node.outputs[0]].shape();
    for (const Argument& part : *parts) {
      const auto* ref = part.as<ValueRef>();
      const Shape shape = ref != nullptr ? made_.values[ref->value].shape() : Shape();
      for (size_t d = 0; d < shape.size() && d < whole.size(); ++d) {
        if (shape[d] == tokens_ && whole[d] > shape[d]) return whole[d] - shape[d];
      }
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

  void rewrite(Call& node) {
    if (node.op.starts_with("_assert")) return;
    bool depends = false;
    int64_t lengths_read = 0;
    for_each<ValueRef>(node, [&](ValueRef ref) {
      depends = depends || depends_[ref.value];
      lengths_read += lengths_in(made_.values[ref.value]);
    });
    const int64_t replaced = rewrite_arguments(node, depends);
    for (const uint32_t output : node.outputs) {
      depends_[output] = depends;
      const ExportedValue& value = made_.values[output];
      if (lengths_in(value) > lengths_read + (views(node.op) ? 0 : replaced)) {
        doubt(node, fmt::format("{}, which is a width, too,", tokens_));
      }
      for (const Extent& extent : value.sizes) {
        if (depends && !is_length(extent.size)) widths_.insert(extent.size);
      }
    }
  }

  int64_t lengths_in(const ExportedValue& value) const {
    int64_t count = 0;
    for (const Extent& extent : value.sizes) {
      if (is_length(extent.size)) count += lengths_.at(extent.size).dimensions;
    }
    return count;
  }

  // How many literals are lengths.
  int64_t rewrite_arguments(Call& call, bool depends) {
    const std::optional<int64_t> cut = cut_extent(call);
    const bool cuts_tokens = cut && is_length(*cut);
    const bool is_of_model = depends || (call.op == "select" && reads_parameter(call));
    if ((cut && is_of_model && !cuts_tokens) || counts_columns(call)) return 0;
    int64_t replaced = 0;
    for (NamedArgument& argument : call.arguments) {
      if (is_never_tokens(argument.name)) continue;
      const bool takes_size = is_size(argument.name) && !has_gaps(call);
      const bool is_beside_numbers = depends && !cuts_tokens && argument.name != "diagonal";
      const auto settle = [&](Argument& each) {
        if (const auto* size = each.as<int64_t>(); size != nullptr && takes_size) {
          if (is_length(*size)) {
            ++replaced;
            each = ValueRef{lengths_.at(*size).value};
            return;
          }
          // Sizes that others explain: of the whole, of what it goes together with, of what is cut.
          if (views(call.op) || is_one_of(call.op, {"expand", "broadcast_to"}) ||
              (cut && *size >= *cut) || *size == sequences_) {
            return;
          }
        }
        const auto number = number_in(each);
        if (number && (cuts_tokens ? std::fabs(*number) > 1.0
                                   : !is_constant(*number, is_beside_numbers, tokens_, widths_))) {
          doubt(call, fmt::format("{}", *number));
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

  // The extent that an op cuts.
  std::optional<int64_t> cut_extent(const Call& call) const {
    const auto* ref = argument_as<ValueRef>(call, "self");
    if (ref == nullptr || !cuts(call.op)) return std::nullopt;
    const std::vector<Extent>& sizes = made_.values[ref->value].sizes;
    const auto* dim = argument_as<int64_t>(call, "dim");
    const auto rank = static_cast<int64_t>(sizes.size());
    const int64_t place = dim == nullptr ? 0 : *dim < 0 ? *dim + rank : *dim;
    if (place < 0 || place >= rank) return std::nullopt;
    return sizes[static_cast<size_t>(place)].size;
  }

  const uint32_t input_;
  const size_t axis_;
  const int64_t sequences_, tokens_;
  std::vector<Call> nodes_;            // as they are rewritten
  ExportedProgram made_;               // whose nodes are those of lengths, until the end
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

}  // namespace arenite::convert
