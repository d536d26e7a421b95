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
#include "convert/exported/size_expression.h"
#include "convert/files/error.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// A dynamic program that has no example is looked at with so many tokens.
constexpr int64_t kDefaultTokens = 12;

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

std::set<int64_t> Lengths::of_arrays(const std::vector<std::vector<uint64_t>>& shapes) const {
  std::set<int64_t> found = {traced_tokens_};
  const size_t rank = program_->values[input_->value].sizes.size();
  for (const std::vector<uint64_t>& shape : shapes) {
    // One sequence may stand without the dimension of sequences.
    if (shape.size() == rank) found.insert(static_cast<int64_t>(shape[axis_]));
    if (shape.size() + 1 == rank) found.insert(static_cast<int64_t>(shape[0]));
  }
  return found;
}

std::string Lengths::export_lines() const {
  std::vector<std::string> names, axes;
  for (const ExportedInput* input : program_->user_inputs()) {
    const SideInput* known = side(input->value);
    const size_t axis = known == nullptr ? axis_ : program_->values[input->value].sizes.size() - 1;
    names.push_back(input->name);
    const bool has_tokens = known == nullptr || known->role != SideRole::kLengths;
    axes.push_back(has_tokens ? fmt::format("{{{}: tokens}}", axis) : "None");
  }
  return fmt::format(
      "\nfor other lengths, export it with dynamic shapes:"
      "\n  tokens = torch.export.Dim(\"tokens\", min=2, max=1024)"
      "\n  torch.export.export(model.eval(), ({0},), dynamic_shapes=({1},))",
      fmt::join(names, ", "), fmt::join(axes, ", "));
}

int64_t Lengths::extent(const Extent& extent) const {
  if (extent.is_fixed()) return extent.size;
  const auto tokens = [this](std::string_view symbol) {
    return symbol == symbol_ ? std::optional(tokens_) : std::nullopt;
  };
  if (const auto size = evaluate_size(extent.symbol, tokens)) return *size;
  if (tokens_ == traced_tokens_ && extent.size > 0) return extent.size;
  throw NotRecognised("it has the size " + extent.symbol +
                      ", which is not made of the number of tokens alone");
}

}  // namespace arenite::convert
