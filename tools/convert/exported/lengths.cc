// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/lengths.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/constant.h"
#include "convert/exported/movement.h"
#include "convert/files/error.h"

namespace arenite::convert {
namespace {

// A dynamic program that has no example is looked at with so many tokens.
constexpr int64_t kDefaultTokens = 12;

constexpr size_t kDepthMax = 512;  // of constants that a table of positions is made of

class Deeper {
 public:
  explicit Deeper(size_t& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  size_t& depth_;
};

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, text) != names.end();
}

// Ops that say a shape in numbers.
bool has_sizes(std::string_view op) {
  return is_one_of(
      op, {"view",         "reshape",  "_unsafe_view", "expand",       "full",      "zeros",
           "ones",         "empty",    "new_full",     "new_ones",     "new_zeros", "new_empty",
           "arange",       "slice",    "broadcast_to", "unflatten",    "repeat",    "tril_indices",
           "triu_indices", "linspace", "eye",          "slice_scatter"});
}

}  // namespace

Lengths::Lengths(std::shared_ptr<const ExportedProgram> program) : program_(std::move(program)) {
  const std::vector<const ExportedInput*> inputs = program_->user_inputs();
  if (inputs.empty()) {
    throw InputError("{}: the model has no input: expected one of tokens or features",
                     quote(program_->source));
  }
  if (inputs.size() > 1) {
    std::vector<std::string> names;
    for (const ExportedInput* input : inputs) names.push_back(input->name);
    throw InputError(
        "{}: the model has {} inputs ({}): expected one, of tokens or of features; export it with "
        "that alone: torch.export.export(model.eval(), (example,))",
        quote(program_->source), inputs.size(), fmt::join(names, ", "));
  }
  input_ = inputs[0];
  const ExportedValue& value = program_->values[input_->value];
  const std::vector<Extent>& sizes = value.sizes;
  const size_t rank = sizes.size();
  const bool fits = is_integer(value.type) ? rank == 1 || rank == 2 : rank == 2 || rank == 3;
  if (value.kind != ValueKind::kTensor || !fits) {
    throw InputError(
        "{}: input {} has {} dimensions of {}: expected token ids [sequences, tokens], or features "
        "[sequences, tokens, width]",
        quote(program_->source), quote(input_->name), rank, name(value.type));
  }
  Shape shape = value.shape();
  if (!program_->sample_inputs.empty()) shape = program_->sample_inputs[0].shape();
  const size_t rows = is_integer(value.type) ? rank : rank - 1;  // dimensions of tokens
  axis_ = rows - 1;
  // nn.TransformerEncoder has sequences second, unless it is told otherwise.
  if (rows == 2 && shape[1] == 1 && shape[0] > 1) axis_ = 0;
  for (size_t d = 0; d < rows; ++d) {
    if (!sizes[d].is_fixed() && rows == 2 && sizes[1 - d].is_fixed()) axis_ = d;
  }
  symbol_ = sizes[axis_].symbol;
  tokens_ = traced_tokens_ = shape[axis_] > 0 ? shape[axis_] : kDefaultTokens;
  if (tokens_ < 2) {
    throw InputError(
        "{}: the example has one token, which shows no mask: export it with more, such as 16",
        quote(program_->source));
  }
  for (size_t d = 0; d < rows; ++d) {
    if (d != axis_) sequences_ = std::max<int64_t>(1, shape[d]);
  }
}

SymbolRange Lengths::range() const {
  const auto found = program_->symbols.find(symbol_);
  return found == program_->symbols.end() ? SymbolRange{} : found->second;
}

Lengths Lengths::at(int64_t tokens) const {
  Lengths other = *this;
  other.tokens_ = tokens;
  return other;
}

bool Lengths::reads_tokens() const { return is_integer(program_->values[input_->value].type); }

Shape Lengths::input_shape() const {
  const ExportedValue& value = program_->values[input_->value];
  Shape shape = value.shape();
  const size_t rows = reads_tokens() ? shape.size() : shape.size() - 1;
  for (size_t d = 0; d < rows; ++d) shape[d] = d == axis_ ? tokens_ : sequences_;
  return shape;
}

int64_t Lengths::extent(const Extent& extent) const {
  if (extent.is_fixed()) {
    return is_adapted() && extent.size == traced_tokens_ ? tokens_ : extent.size;
  }
  if (extent.symbol == symbol_) return tokens_;
  if (tokens_ == traced_tokens_ && extent.size > 0) return extent.size;
  throw NotRecognised("it has the size " + extent.symbol + ", which is not the number of tokens");
}

// Of a size that is the number of tokens, of one sequence or of all.
std::optional<int64_t> Lengths::at_this_length(int64_t size) const {
  if (size == traced_tokens_) return tokens_;
  if (sequences_ > 1 && size == traced_tokens_ * sequences_) return tokens_ * sequences_;
  return std::nullopt;
}

// The sizes of a view: runs of them have as many elements as runs of the extents that they are
// views of. Only where these changed do sizes change: one of them, the earliest that fits.
void Lengths::adapt_view(Argument::List& sizes, const Shape& traced, const Shape& now) const {
  const auto size_at = [&](size_t i) -> int64_t { return *sizes[i].as<int64_t>(); };
  size_t of_self = 0;
  for (size_t i = 0; i < sizes.size();) {
    if (of_self == traced.size()) return;
    int64_t before = traced[of_self], after = now[of_self], made = size_at(i);
    const size_t first = i++;
    ++of_self;
    while (before != made) {
      if (before < made) {
        if (of_self == traced.size()) return;
        before *= traced[of_self];
        after *= now[of_self++];
      } else {
        if (i == sizes.size()) return;
        made *= size_at(i++);
      }
    }
    // Extents of 1 that follow belong to nobody.
    while (of_self < traced.size() && traced[of_self] == 1 &&
           (i == sizes.size() || size_at(i) != 1))
      ++of_self;
    // Of sequences and tokens that were one extent, tokens come second.
    const bool from_back = sequences_ > 1 && axis_ > 0;
    for (size_t n = 0; n < i - first && after != before; ++n) {
      const size_t k = from_back ? i - 1 - n : first + n;
      const auto replaced = at_this_length(size_at(k));
      if (!replaced || made / size_at(k) * *replaced != after) continue;
      sizes[k] = Argument(*replaced);
      break;
    }
  }
}

void Lengths::adapt_sizes(Argument::List& sizes, const Self* self, std::string_view op) const {
  std::optional<size_t> rest;
  int64_t product = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t* size = sizes[i].as<int64_t>();
    if (size == nullptr) return;
    if (*size == -1) {
      rest = i;
    } else {
      product *= *size;
    }
  }
  const bool is_view = is_one_of(op, {"view", "reshape", "_unsafe_view"});
  if (self != nullptr && is_view && self->traced.size() == self->now.size()) {
    if (product == 0) return;
    if (rest) sizes[*rest] = Argument(static_cast<int64_t>(elements_of(self->traced)) / product);
    adapt_view(sizes, self->traced, self->now);
    if (rest) sizes[*rest] = Argument(int64_t{-1});
    return;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const auto replaced = at_this_length(*sizes[i].as<int64_t>());
    if (!replaced) continue;
    // Extents of what is stretched stay what they are; new ones are in doubt.
    const bool is_stretched_op = is_one_of(op, {"expand", "broadcast_to"});
    const bool is_stretched = self != nullptr && is_one_of(op, {"expand", "broadcast_to"}) &&
                              self->now.size() + i >= sizes.size();
    const size_t of_self = is_stretched ? self->now.size() + i - sizes.size() : 0;
    if (is_stretched && self->now[of_self] != 1) {
      sizes[i] = Argument(self->now[of_self]);
    } else if (!is_stretched_op || takes_doubtful_) {
      const bool counts_sequences = sequences_ == traced_tokens_ && axis_ > 0 && i == 0;
      if (is_stretched_op && counts_sequences && sizes.size() > 1) continue;
      sizes[i] = Argument(*replaced);
    }
  }
}

OpCall Lengths::adapted(const OpCall& call, const Self* self) const {
  if (!is_adapted()) return call;
  OpCall result = call;
  const int64_t* dim = call.find("dim") ? call.find("dim")->as<int64_t>() : nullptr;
  const int64_t rank = self != nullptr ? static_cast<int64_t>(self->now.size()) : 0;
  // Whether the dimension that the op names is not that of tokens.
  const int64_t place = dim == nullptr ? 0 : *dim < 0 ? *dim + rank : *dim;
  const bool is_other =
      self != nullptr && self->depends && place >= 0 && place < rank &&
      self->traced.size() == self->now.size() &&
      self->traced[static_cast<size_t>(place)] == self->now[static_cast<size_t>(place)];
  if (call.op == "select") {
    // The last token by its number.
    for (NamedArgument& argument : result.arguments) {
      const int64_t* index = argument.value.as<int64_t>();
      const bool is_last = argument.name == "index" && index && *index == traced_tokens_ - 1;
      if (is_last && *index > 0 && !is_other) argument.value = Argument(tokens_ - 1);
    }
    return result;
  }
  if (!has_sizes(call.op)) return result;
  // Positions come one after the other; what has gaps are columns, such as those of rotations.
  const Argument* step = call.find("step");
  const bool has_gaps = step != nullptr && (step->as<double>() != nullptr ||
                                            (step->as<int64_t>() && *step->as<int64_t>() != 1));
  if (call.op == "arange" && has_gaps) return result;
  if (is_other && is_one_of(call.op, {"slice", "unflatten", "slice_scatter"})) return result;
  for (NamedArgument& argument : result.arguments) {
    if (is_one_of(argument.name, {"dim", "fill_value", "step", "start", "diagonal"})) continue;
    if (const auto* list = argument.value.as<Argument::List>()) {
      Argument::List sizes = *list;
      adapt_sizes(sizes, self, call.op);
      argument.value = Argument(std::move(sizes));
    } else if (const int64_t* size = argument.value.as<int64_t>();
               size != nullptr && *size == traced_tokens_) {
      argument.value = Argument(tokens_);
    }
  }
  return result;
}

ConstantsAt::ConstantsAt(std::shared_ptr<const ExportedProgram> program, Lengths lengths)
    : program_(std::move(program)), lengths_(std::move(lengths)) {
  for (const ExportedNode& node : program_->nodes) {
    for (size_t i = 0; i < node.outputs.size(); ++i) makers_[node.outputs[i]] = {&node, i};
  }
}

Array ConstantsAt::get(uint32_t value) {
  const Argument result = compute(value);
  if (const Array* array = result.as<Array>()) return *array;
  throw NotRecognised("a constant is no tensor");
}

Argument ConstantsAt::compute(uint32_t value) {
  if (const auto known = known_.find(value); known != known_.end()) return known->second;
  for (const ExportedInput& input : program_->inputs) {
    if (input.value != value) continue;
    if (input.kind == InputKind::kUser) throw NotRecognised("it depends on the model's input");
    return known_[value] = program_->load(input);
  }
  if (depth_ == kDepthMax) throw NotRecognised("it is made of too many ops");
  const Deeper deeper(depth_);
  const auto& maker = makers_.at(value);
  const ExportedNode* const node = maker.first;
  const auto output = maker.second;
  if (node->call.op == "sym_size") {
    const auto* of = node->call.arguments[0].value.as<ValueRef>();
    const auto* dim = node->call.find("dim") ? node->call.find("dim")->as<int64_t>() : nullptr;
    if (of != nullptr && dim != nullptr) {
      const std::vector<Extent>& sizes = program_->values[of->value].sizes;
      const int64_t place = *dim < 0 ? *dim + static_cast<int64_t>(sizes.size()) : *dim;
      return known_[value] = Argument(lengths_.extent(sizes.at(static_cast<size_t>(place))));
    }
  }
  OpCall call = bind(node->call, [&](uint32_t input) -> Argument {
    const bool is_shape_alone =
        node->call.op.starts_with("new_") || node->call.op.ends_with("_like");
    if (!is_shape_alone) return compute(input);
    const ExportedValue& of = program_->values[input];
    if (of.kind != ValueKind::kTensor) return compute(input);
    Shape shape;
    for (const Extent& extent : of.sizes) shape.push_back(lengths_.extent(extent));
    const size_t count = elements_of(shape);
    return Array::real(std::move(shape), Array::Reals(count, 0.0)).to(of.type);
  });
  std::optional<Lengths::Self> self;
  if (!call.arguments.empty() && call.arguments[0].value.as<Array>() != nullptr) {
    const auto* of = node->call.arguments[0].value.as<ValueRef>();
    const Shape& now = call.arguments[0].value.as<Array>()->shape();
    if (of != nullptr) self = {program_->values[of->value].shape(), now};
  }
  call = lengths_.adapted(call, self ? &*self : nullptr);
  budget_.live_elements = OpBudget{}.live_elements;
  const std::vector<Argument> results = apply_op(call, budget_);
  return known_[value] = results.at(output);
}

}  // namespace arenite::convert
