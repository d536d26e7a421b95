// SPDX-License-Identifier: Apache-2.0
// Sequences and tokens of an example, and values of the program that depend on them alone.
#include "convert/exported/trace/trace_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <stdexcept>
#include <string_view>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/recover/refusals.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// A dynamic program that has no example is looked at with so many tokens.
constexpr int64_t kDefaultTokens = 12;

}  // namespace

TraceShape::TraceShape(std::shared_ptr<const ExportedProgram> program, std::vector<SideInput> sides)
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
  const Shape shape = example_shape();
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

void TraceShape::refuse_one_token() const {
  throw InputError(
      "{}: the example of input {}, {} {}, has one token, which shows no mask: export it with "
      "more, such as 16. Token ids are torch.int64, features [sequences, tokens, width]",
      quote(program_->source), quote(input_->name), name(program_->values[input_->value].type),
      shape_text(example_shape()));
}

Shape TraceShape::example_shape() const {
  return program_->sample_inputs.empty() ? program_->values[input_->value].shape()
                                         : program_->sample_inputs[0].shape();
}

// Whether the input has as many sequences and tokens as the first one.
void TraceShape::check_side(const SideInput& side) const {
  const std::vector<Extent>& sizes = program_->values[side.input->value].sizes;
  const auto fits = [&](const Extent& extent, int64_t expected) {
    return extent.size == expected || (extent.size == 0 && !extent.is_fixed());
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

const SideInput* TraceShape::side(uint32_t value) const {
  for (const SideInput& side : sides_) {
    if (side.input->value == value) return &side;
  }
  return nullptr;
}

Array TraceShape::side_array(const SideInput& side, std::span<const uint32_t> lengths,
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

Array TraceShape::side_constant(uint32_t value) const {
  const SideInput* known = side(value);
  refuse_op_if(known == nullptr || known->role == SideRole::kTypes,
               "it depends on the model's input");
  return side_array(*known, whole_lengths());
}

std::vector<uint32_t> TraceShape::whole_lengths() const {
  return std::vector<uint32_t>(static_cast<size_t>(sequences_), static_cast<uint32_t>(tokens_));
}

SymbolRange TraceShape::range() const {
  const auto found = program_->symbols.find(symbol_);
  return found == program_->symbols.end() ? SymbolRange{} : found->second;
}

TraceShape TraceShape::at(int64_t tokens) const {
  TraceShape other = *this;
  other.tokens_ = tokens;
  return other;
}

TraceShape TraceShape::with_prefix(uint32_t rows, bool puts_last_first) const {
  TraceShape other = *this;
  other.prefix_ = rows;
  other.puts_last_first_ = puts_last_first;
  return other;
}

std::optional<TraceShape> TraceShape::of_images() const {
  if (reads_images_ || reads_tokens()) return std::nullopt;
  TraceShape other = with_prefix(0, false);
  other.reads_images_ = true;
  other.axis_ = 0;
  other.symbol_.clear();
  other.sequences_ = std::max<int64_t>(1, example_shape()[0]);
  other.tokens_ = other.traced_tokens_ = 1;
  return other;
}

TraceShape TraceShape::with_patches(const ImagePatches& patches) const {
  TraceShape other = *this;
  other.patches_ = patches;
  other.tokens_ = other.traced_tokens_ = static_cast<int64_t>(patches.patches().value());
  return other;
}

bool TraceShape::reads_tokens() const { return is_integer(program_->values[input_->value].type); }

size_t TraceShape::input_rank() const {
  return program_->values[input_->value].sizes.size() - (reads_tokens() ? 0 : 1);
}

Shape TraceShape::input_shape() const {
  const ExportedValue& value = program_->values[input_->value];
  Shape shape = value.shape();
  if (reads_images_) {
    shape[0] = sequences_;
    return shape;
  }
  for (size_t d = 0; d < input_rank(); ++d) shape[d] = d == axis_ ? tokens_ : sequences_;
  return shape;
}

std::set<int64_t> TraceShape::of_arrays(const std::vector<std::vector<uint64_t>>& shapes) const {
  std::set<int64_t> found = {traced_tokens_};
  const size_t rank = program_->values[input_->value].sizes.size();
  for (const std::vector<uint64_t>& shape : shapes) {
    // One sequence may stand without the dimension of sequences.
    if (shape.size() == rank) found.insert(static_cast<int64_t>(shape[axis_]));
    if (shape.size() + 1 == rank) found.insert(static_cast<int64_t>(shape[0]));
  }
  return found;
}

std::string TraceShape::export_lines() const {
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

Shape TraceShape::shape_of(const ExportedValue& value) const {
  Shape shape;
  for (const Extent& extent : value.sizes) shape.push_back(this->extent(extent));
  return shape;
}

int64_t TraceShape::extent(const Extent& extent) const {
  if (extent.is_fixed()) return extent.size;
  const auto tokens = [this](std::string_view symbol) {
    return symbol == symbol_ ? std::optional(tokens_) : std::nullopt;
  };
  if (const auto size = evaluate_size(extent.symbol, tokens)) return *size;
  if (tokens_ == traced_tokens_ && extent.size > 0) return extent.size;
  throw NotRecognised("it has the size " + extent.symbol +
                      ", which is not made of the number of tokens alone");
}

ExportedProgram needed_part(const ExportedProgram& program, uint32_t value) {
  ExportedProgram part = program;
  std::vector<bool> is_needed(program.values.size(), false);
  is_needed[value] = true;
  for (Argument& output : part.outputs) {
    const ValueRef* ref = output.as<ValueRef>();
    if (ref == nullptr || ref->value != value) output = Argument();
  }
  part.nodes.clear();
  for (auto node = program.nodes.rbegin(); node != program.nodes.rend(); ++node) {
    const bool is_read = std::ranges::any_of(
        node->outputs, [&](uint32_t made) { return static_cast<bool>(is_needed[made]); });
    if (!is_read) continue;
    for_each<ValueRef>(*node, [&](ValueRef ref) { is_needed[ref.value] = true; });
    part.nodes.push_back(*node);
  }
  std::ranges::reverse(part.nodes);
  return part;
}

Array constant_at(const ExportedProgram& program, const TraceShape& trace_shape, uint32_t value) {
  refuse_op_if(value == kNoValue, "a constant is no value of the program");
  ExportedProgram part = needed_part(program, value);
  part.outputs = {ValueRef{value}};
  std::vector<Array> inputs;
  for (const ExportedInput* input : part.user_inputs()) {
    const SideInput* side = trace_shape.side(input->value);
    const Shape shape = trace_shape.input_shape();
    inputs.push_back(side != nullptr ? trace_shape.side_array(*side, trace_shape.whole_lengths())
                                     : Array::real(shape, Array::Reals(elements_of(shape), 0.0))
                                           .to(program.values[input->value].type));
  }
  return interpret(part, inputs, interpreting_budget(part, inputs[0].elements())).at(0);
}

namespace {

constexpr size_t kMeaningsMax = 16;  // of several inputs together

}  // namespace

std::vector<SideRole> possible_roles(const ExportedProgram& program, const ExportedInput& input) {
  const ExportedValue& value = program.values[input.value];
  const size_t rank = value.sizes.size();
  if (value.kind != ValueKind::kTensor || rank == 0 || rank > 4) return {};
  // [sequences, 1, 1, tokens] is a mask as attention takes it.
  for (size_t d = 1; d + 1 < rank; ++d) {
    if (!value.sizes[d].is_fixed() || value.sizes[d].size != 1) return {};
  }
  std::string name = input.name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool is_whole = is_integer(value.type);
  const bool is_position = has("position") || has("pos_id");
  if (is_position || has("type") || has("segment")) {
    if (!is_whole || rank > 2) return {};
    return {is_position ? SideRole::kPositions : SideRole::kTypes};
  }
  // What is looked up is a sequence of its own.
  const bool is_looked_up = std::ranges::any_of(program.nodes, [&](const Call& node) {
    const Argument* indices = node.op == "embedding" ? node.find("indices") : nullptr;
    const ValueRef* ref = indices != nullptr ? indices->as<ValueRef>() : nullptr;
    return ref != nullptr && ref->value == input.value;
  });
  if (is_looked_up) return {};
  if (is_whole && rank == 1) return {SideRole::kLengths, SideRole::kKept, SideRole::kPositions};
  std::vector<SideRole> roles = {SideRole::kKept, SideRole::kHidden};
  if (has("pad") || has("ignore")) std::swap(roles[0], roles[1]);
  if (is_real(value.type)) roles.push_back(SideRole::kAdded);
  return is_complex(value.type) ? std::vector<SideRole>{} : roles;
}

Array side_values(SideRole role, const Shape& shape, ElementType type,
                  std::span<const uint32_t> lengths, std::span<const uint8_t> types) {
  const size_t tokens = role == SideRole::kLengths ? 1 : static_cast<size_t>(shape.back());
  const auto value_at = [&](size_t i) -> double {
    const uint32_t length = lengths[std::min(i / tokens, lengths.size() - 1)];
    const bool is_kept = i % tokens < length;
    switch (role) {
      case SideRole::kKept:
        return is_kept ? 1.0 : 0.0;
      case SideRole::kHidden:
        return is_kept ? 0.0 : 1.0;
      case SideRole::kAdded:
        return is_kept ? 0.0 : -std::numeric_limits<double>::infinity();
      case SideRole::kLengths:
        return length;
      case SideRole::kPositions:
        return static_cast<double>(i % tokens);
      case SideRole::kTypes:
        return types.empty() ? 0.0 : types[i];
    }
    return 0.0;
  };
  Array::Reals values(elements_of(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value_at(i);
  return Array::real(shape, std::move(values), ElementType::kF64).to(type);
}

std::string describe(const SideInput& side, size_t number) {
  const char* what = side.role == SideRole::kPositions ? "is 0, 1, 2, ..., and is not asked for"
                     : side.role == SideRole::kTypes   ? "becomes the types of tokens"
                                                       : "becomes the lengths";
  return fmt::format("input {} ({}) {}", number, side.input->name, what);
}

std::vector<std::vector<SideInput>> possible_sides(const ExportedProgram& program) {
  std::vector<std::vector<SideInput>> meanings = {{}};
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::vector<std::vector<SideInput>> longer;
    for (const std::vector<SideInput>& meaning : meanings) {
      for (const SideRole role : possible_roles(program, *inputs[i])) {
        longer.push_back(meaning);
        longer.back().push_back({inputs[i], role});
      }
    }
    meanings = std::move(longer);
    if (meanings.size() > kMeaningsMax) return {};
  }
  return meanings;
}

}  // namespace arenite::convert
