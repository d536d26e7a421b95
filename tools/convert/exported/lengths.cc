// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/lengths.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "convert/exported/constant.h"
#include "convert/exported/movement.h"
#include "convert/exported/refusals.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// A dynamic program that has no example is looked at with so many tokens.
constexpr int64_t kDefaultTokens = 12;

// Ops that say a shape in numbers.
bool has_sizes(std::string_view op) {
  return is_one_of(
      op, {"view",         "reshape",  "_unsafe_view", "expand",       "full",      "zeros",
           "ones",         "empty",    "new_full",     "new_ones",     "new_zeros", "new_empty",
           "arange",       "slice",    "broadcast_to", "unflatten",    "repeat",    "tril_indices",
           "triu_indices", "linspace", "eye",          "slice_scatter"});
}

}  // namespace

Lengths::Lengths(std::shared_ptr<const ExportedProgram> program, std::vector<SideInput> sides)
    : program_(std::move(program)), sides_(std::move(sides)) {
  const std::vector<const ExportedInput*> inputs = program_->user_inputs();
  // They may be inputs of a program that this one is a part of.
  for (SideInput& side : sides_) {
    const auto found = std::ranges::find(inputs, side.input->value, &ExportedInput::value);
    if (found == inputs.end()) throw std::logic_error("a side input is missing: this is a bug");
    side.input = *found;
  }
  if (inputs.empty()) {
    throw InputError("{}: the model has no input: expected one of tokens or features",
                     quote(program_->source));
  }
  if (inputs.size() != sides_.size() + 1) {
    throw InputError("{}: {}", quote(program_->source), why_not_these_inputs(*program_));
  }
  input_ = inputs[0];
  const ExportedValue& value = program_->values[input_->value];
  const std::vector<Extent>& sizes = value.sizes;
  const size_t rank = sizes.size();
  const bool fits = is_integer(value.type) ? rank == 1 || rank == 2 : rank >= 2 && rank <= 4;
  if (value.kind != ValueKind::kTensor || !fits) {
    throw InputError(
        "{}: input {} has {} dimensions of {}: expected token ids [sequences, tokens], features "
        "[sequences, tokens, width], or images [sequences, channels, height, width]. Reshape it "
        "before the model, and export the part that takes it in one of these shapes",
        quote(program_->source), quote(input_->name), rank, name(value.type));
  }
  Shape shape = value.shape();
  if (!program_->sample_inputs.empty()) shape = program_->sample_inputs[0].shape();
  if (rank == 4) {
    *this = *of_images();
    return;
  }
  const size_t rows = is_integer(value.type) ? rank : rank - 1;  // dimensions of tokens
  axis_ = rows - 1;
  // nn.TransformerEncoder has sequences second, unless it is told otherwise.
  if (rows == 2 && shape[1] == 1 && shape[0] > 1) axis_ = 0;
  for (size_t d = 0; d < rows; ++d) {
    if (!sizes[d].is_fixed() && rows == 2 && sizes[1 - d].is_fixed()) axis_ = d;
  }
  symbol_ = sizes[axis_].symbol;
  tokens_ = traced_tokens_ = shape[axis_] > 0 ? shape[axis_] : kDefaultTokens;
  if (tokens_ < 2 && !is_integer(value.type)) {  // a series, then
    *this = *of_images();
    has_one_token_ = true;
    return;
  }
  if (tokens_ < 2) refuse_one_token();
  for (size_t d = 0; d < rows; ++d) {
    if (d != axis_) sequences_ = std::max<int64_t>(1, shape[d]);
  }
  if (sequences_ > kTracedRowsMax || tokens_ > kTracedRowsMax / sequences_) {
    throw InputError(
        "{}: the example has {} sequences of {} tokens: at most {} tokens are followed; "
        "export it with a shorter example",
        quote(program_->source), sequences_, tokens_, kTracedRowsMax);
  }
  for (const SideInput& side : sides_) check_side(side);
}

void Lengths::refuse_one_token() const {
  const ExportedValue& value = program_->values[input_->value];
  Shape shape = value.shape();
  if (!program_->sample_inputs.empty()) shape = program_->sample_inputs[0].shape();
  throw InputError(
      "{}: the example of input {}, {} {}, has one token, which shows no mask: export it with "
      "more, "
      "such as 16. Token ids are torch.int64, features [sequences, tokens, width]",
      quote(program_->source), quote(input_->name), name(value.type), shape_text(shape));
}

// Whether the input has as many sequences and tokens as the first one.
void Lengths::check_side(const SideInput& side) const {
  const std::vector<Extent>& sizes = program_->values[side.input->value].sizes;
  const auto fits = [&](const Extent& extent, int64_t expected) {
    return extent.is_fixed() ? extent.size == expected
                             : extent.size == 0 || extent.size == expected;
  };
  const bool has_tokens = side.role != SideRole::kLengths;
  bool is_sound = has_tokens ? fits(sizes.back(), tokens_) : fits(sizes.front(), sequences_);
  if (has_tokens && sizes.size() > 1) {
    const bool may_be_one = side.role == SideRole::kPositions && fits(sizes.front(), 1);
    is_sound = is_sound && (fits(sizes.front(), sequences_) || may_be_one);
  }
  if (!is_sound) {
    throw InputError(
        "{}: input {} {}: expected one number for each of {} sequences or of their {} "
        "tokens",
        quote(program_->source), quote(side.input->name),
        shape_text(program_->values[side.input->value].shape()), sequences_, tokens_);
  }
}

const SideInput* Lengths::side(uint32_t value) const {
  const auto found = std::ranges::find_if(
      sides_, [&](const SideInput& side) { return side.input->value == value; });
  return found == sides_.end() ? nullptr : &*found;
}

Array Lengths::side_array(const SideInput& side, std::span<const uint32_t> lengths,
                          std::span<const uint8_t> types) const {
  const ExportedValue& value = program_->values[side.input->value];
  Shape shape(value.sizes.size(), 1);
  const bool has_tokens = side.role != SideRole::kLengths;
  if (has_tokens) shape.back() = tokens_;
  const Extent& first = value.sizes.front();
  if (shape.size() > 1 || !has_tokens) {
    const bool is_one = first.is_fixed() && first.size == 1;
    shape.front() = is_one ? 1 : sequences_;
  }
  return side_values(side.role, shape, value.type, lengths, types);
}

Array Lengths::side_constant(uint32_t value) const {
  const SideInput* known = side(value);
  if (known == nullptr || known->role == SideRole::kTypes) {
    throw NotRecognised("it depends on the model's input");
  }
  const std::vector<uint32_t> lengths(static_cast<size_t>(sequences_),
                                      static_cast<uint32_t>(tokens_));
  return side_array(*known, lengths);
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

Lengths Lengths::with_prefix(uint32_t rows, bool puts_last_first) const {
  Lengths other = *this;
  other.prefix_ = rows;
  other.puts_last_first_ = puts_last_first;
  return other;
}

std::optional<Lengths> Lengths::of_images() const {
  if (reads_images_ || reads_tokens()) return std::nullopt;
  Lengths other = *this;
  Shape shape = program_->values[input_->value].shape();
  if (!program_->sample_inputs.empty()) shape = program_->sample_inputs[0].shape();
  other.reads_images_ = true;
  other.axis_ = 0;
  other.symbol_.clear();
  other.sequences_ = std::max<int64_t>(1, shape[0]);
  other.tokens_ = other.traced_tokens_ = 1;
  other.prefix_ = 0;
  other.puts_last_first_ = false;
  return other;
}

Lengths Lengths::with_patches(const ImagePatches& patches) const {
  Lengths other = *this;
  other.patches_ = patches;
  other.tokens_ = other.traced_tokens_ = static_cast<int64_t>(patches.patches().value());
  return other;
}

bool Lengths::reads_tokens() const { return is_integer(program_->values[input_->value].type); }

size_t Lengths::input_rank() const {
  return program_->values[input_->value].sizes.size() - (reads_tokens() ? 0 : 1);
}

Shape Lengths::input_shape() const {
  const ExportedValue& value = program_->values[input_->value];
  Shape shape = value.shape();
  if (reads_images_) {
    shape[0] = sequences_;
    return shape;
  }
  for (size_t d = 0; d < input_rank(); ++d) shape[d] = d == axis_ ? tokens_ : sequences_;
  return shape;
}

int64_t Lengths::extent(const Extent& extent) const {
  if (extent.is_fixed()) {
    if (is_adapted() && extent.size == traced_tokens_) return tokens_;
    if (is_adapted() && extent.size == traced_tokens_ + prefix_) return rows();
    return extent.size;
  }
  if (extent.symbol == symbol_) return tokens_;
  if (tokens_ == traced_tokens_ && extent.size > 0) return extent.size;
  throw NotRecognised("it has the size " + extent.symbol + ", which is not the number of tokens");
}

// Of a size that is the number of tokens, of one sequence or of all.
std::optional<int64_t> Lengths::at_this_length(int64_t size) const {
  if (size == traced_tokens_) return tokens_;
  if (size == traced_tokens_ + prefix_) return rows();
  if (sequences_ > 1 && size == traced_tokens_ * sequences_) return tokens_ * sequences_;
  if (sequences_ > 1 && size == (traced_tokens_ + prefix_) * sequences_) return rows() * sequences_;
  return std::nullopt;
}

// The sizes of a view: runs of them have as many elements as runs of the extents that they are
// views of. Only where these changed do sizes change: one of them, the earliest that fits, or all,
// as of a square of tokens that was one extent.
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
    if (after == before) continue;
    int64_t with_all = 1;
    for (size_t n = 0; n < i - first; ++n) {
      const size_t k = from_back ? i - 1 - n : first + n;
      const auto replaced = at_this_length(size_at(k));
      with_all *= replaced.value_or(size_at(k));
      if (!replaced || made / size_at(k) * *replaced != after) continue;
      sizes[k] = Argument(*replaced);
      before = after;
      break;
    }
    if (after == before || with_all != after) continue;
    for (size_t k = first; k < i; ++k) sizes[k] = at_this_length(size_at(k)).value_or(size_at(k));
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
    } else if (size != nullptr && *size == traced_tokens_ + prefix_) {
      argument.value = Argument(rows());
    }
  }
  return result;
}

}  // namespace arenite::convert
