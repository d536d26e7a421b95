// SPDX-License-Identifier: Apache-2.0
// Implements TraceShape: the sequences and tokens of an example, and values that depend only on
// their numbers.
#include "convert/exported/trace/trace_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <string_view>

#include "convert/exported/aten/interpret.h"
#include "convert/exported/recover/refusals.h"
#include "convert/files/input_limits.h"

namespace arenite::convert {
namespace {

// The number of tokens in a trace of a dynamic program without an example.
constexpr int64_t kDefaultTokens = 12;

constexpr int64_t kSymbolMax = int64_t{1} << 31;  // larger bounds are ignored

// Whether a convolution has overlapping or padded windows along the last dimension of the input,
// which then steps through tokens. Windows that do not overlap are patches of a series.
bool feeds_convolution(const ExportedProgram& program, uint32_t input) {
  std::set<uint32_t> same = {input};  // values with the shape of the input, apart from padding
  std::set<uint32_t> of_samples;
  for (const Call& node : program.nodes) {
    const auto place = [&](const char* name) -> const ValueRef* {
      const Argument* argument = node.find(name);
      return argument != nullptr ? argument->as<ValueRef>() : nullptr;
    };
    const ValueRef* const weight = place("weight");
    const ValueRef* const from = place("input") != nullptr ? place("input") : place("self");
    if (from == nullptr || !same.contains(from->value) || node.outputs.empty()) continue;
    const bool pads = is_one_of(node.op, {"pad", "constant_pad_nd"});
    const bool widens = node.op == "unsqueeze";  // adds a dimension of columns
    if (is_one_of(node.op, {"conv1d", "convolution"}) && weight != nullptr) {
      const Shape kernel = program.values[weight->value].shape();
      const Shape strides = node.has("stride") ? node.integers("stride") : Shape{};
      const int64_t step = strides.empty() ? 1 : strides[0];
      const bool has_zeros = same.size() > 1 && of_samples.empty();
      return kernel.size() == 3 && (kernel[2] > step || has_zeros);
    }
    const Shape shape = program.values[from->value].shape();
    const Shape made = program.values[node.outputs[0]].shape();
    const bool has_zeros = pads && made.size() == shape.size();
    const bool is_one_column = widens && made.size() == 3 && made[1] == 1;
    const bool turns = is_one_of(node.op, {"transpose", "permute", "movedim", "moveaxis",
                                           "swapaxes", "swapdims", "mT", "adjoint"});
    if (is_one_column) of_samples.insert(node.outputs[0]);
    if ((made == shape && !turns) || has_zeros || is_one_column) same.insert(node.outputs[0]);
  }
  return false;
}

}  // namespace

namespace {

const ExportedInput& first_input(const ExportedProgram& program) {
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  if (!inputs.empty()) return *inputs[0];
  throw InputError("{}: the model has no input; expected token ids or features",
                   quote(program.source));
}

const ExportedInput* input_in(const ExportedProgram& program, const ExportedInput& input) {
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  const auto found = std::ranges::find(inputs, input.value, &ExportedInput::value);
  if (found == inputs.end()) throw std::logic_error("an input is missing: this is a bug");
  return *found;
}

}  // namespace

TraceShape::TraceShape(std::shared_ptr<const ExportedProgram> program, InputMeaning meaning)
    : TraceShape(program,
                 meaning.sequences.empty() ? first_input(*program)
                                           : *input_in(*program, *meaning.sequences[0]),
                 meaning.other_sequences != 0) {
  if (meaning.sequences.empty()) meaning.sequences = {input_};
  if (meaning.sequences.size() + meaning.sides.size() != program_->user_inputs().size()) {
    throw InputError("{}: {}", quote(program_->source), why_not_these_inputs(*program_));
  }
  // `meaning` may point to inputs of another program, of which this one is a part.
  meaning_ = meaning;
  for (SideInput& side : meaning_.sides) side.input = input_in(*program_, *side.input);
  for (size_t i = 1; i < meaning.sequences.size(); ++i) {
    others_.push_back(TraceShape(program_, *input_in(*program_, *meaning.sequences[i]),
                                 meaning.other_sequences != 0));
  }
  find_single_rows();
  check_steps();
  for (const TraceShape& other : others_) {
    if (other.sequences_ == sequences_) continue;
    throw InputError("{}: inputs {} and {} have {} and {} sequences; expected equal numbers",
                     quote(program_->source), quote(input_->name), quote(other.input_->name),
                     sequences_, other.sequences_);
  }
  for (const SideInput& side : meaning_.sides) of(side.of).check_side(side);
}

TraceShape::TraceShape(std::shared_ptr<const ExportedProgram> program, const ExportedInput& input,
                       bool has_sequences_first)
    : program_(std::move(program)), input_(&input) {
  const ExportedValue& value = program_->values[input_->value];
  const std::vector<Extent>& sizes = value.sizes;
  const size_t rank = sizes.size();
  const bool fits = rank > 0 && rank <= (is_integer(value.type) ? 2 : 5);
  const Shape shape = fits ? example_shape() : Shape();
  const bool has_frames = rank == 5 && std::ranges::count(shape, 0) == 0;
  if (value.kind != ValueKind::kTensor || !fits || (rank == 5 && !has_frames)) refuse_dimensions();
  if (rank == 1 && !is_integer(value.type)) {
    tokens_ = traced_tokens_ = 1;  // one row for each sequence
    return;
  }
  const bool has_samples = rank == 2 && feeds_convolution(*program_, input_->value);
  if (rank == 2 && is_real(value.type) && !has_samples && (has_sequences_first || shape[0] == 1)) {
    if (has_sequences_first) {
      take_one_row();
    } else {
      *this = *of_images();  // trace_any tries with_one_token too
    }
    return;
  }
  // One channel of symbolic width is [columns, tokens], such as a spectrogram.
  const bool is_wide = rank == 4 && shape[1] == 1 && sizes[1].is_fixed() && sizes[2].is_fixed() &&
                       !sizes[3].is_fixed();
  if (rank > 3 && !is_wide) {
    *this = *of_images();
    const auto extent = [&](size_t d) { return static_cast<uint32_t>(shape[d]); };
    // Frames and channels are adjacent dimensions, so their order does not matter.
    if (has_frames) *this = with_image({extent(1) * extent(2), extent(3), extent(4)});
    return;
  }
  is_series_ = is_real(value.type) && has_samples;
  const size_t rows =  // dimensions of tokens
      is_integer(value.type) || is_series_ ? rank : rank - 1;
  axis_ = rows - 1;
  // nn.TransformerEncoder takes [tokens, sequences, ..] by default.
  const bool may_have_tokens_first = rows == 2 && !has_sequences_first;
  if (may_have_tokens_first && shape[1] == 1 && shape[0] > 1) axis_ = 0;
  for (size_t d = 0; d < rows && may_have_tokens_first; ++d) {
    if (!sizes[d].is_fixed() && sizes[1 - d].is_fixed()) axis_ = d;
  }
  const bool has_longer_rows = rank == 3 && sizes[1].is_fixed() && !sizes[2].is_fixed();
  const bool has_more_rows = rank == 3 && !sizes[1].is_fixed() && sizes[2].is_fixed();
  if (!is_integer(value.type) && rank == 3 && !has_more_rows &&
      (has_longer_rows || feeds_convolution(*program_, input_->value))) {
    columns_first_ = true;
    axis_ = 2;
  }
  if (is_wide) columns_first_ = true, axis_ = 3;
  length_ = linear_size(sizes[axis_]).value_or(LinearSize{.symbol = sizes[axis_].symbol});
  const int64_t symbol = std::max<int64_t>(1, symbol_at(kDefaultTokens + length_.step - 1));
  tokens_ = traced_tokens_ =
      shape[axis_] > 0 ? shape[axis_] : length_.step * symbol + length_.first;
  if (tokens_ < 2 && (columns_first_ || is_series_)) {
    *this = *of_images();
    return;
  }
  if (columns_first_) sequences_ = std::max<int64_t>(1, shape[0]);
  for (size_t d = 0; d < rows && !columns_first_; ++d) {
    if (d != axis_) sequences_ = std::max<int64_t>(1, shape[d]);
  }
  if (sequences_ > kTracedRowsMax || tokens_ > kTracedRowsMax / sequences_) {
    throw InputError(
        "{}: the example has {} sequences of {} tokens; at most {} tokens are traced, so export it "
        "with a shorter example",
        quote(program_->source), sequences_, tokens_, kTracedRowsMax);
  }
}

void TraceShape::refuse_dimensions() const {
  const ExportedValue& value = program_->values[input_->value];
  throw InputError(
      "{}: input {} has {} dimensions of {}; expected token ids [sequences, tokens], features "
      "[sequences, tokens, width], images [sequences, channels, height, width] or several frames "
      "of them, so reshape it before the model",
      quote(program_->source), quote(input_->name), value.sizes.size(), name(value.type));
}

void TraceShape::check_steps() {
  std::map<std::string, LinearSize> known;
  bool differ = false;
  for (size_t i = 0; i < inputs(); ++i) {
    const LinearSize& own = of(i).length_;
    differ = differ || (of(i).is_dynamic() && known.emplace(own.symbol, own).first->second != own);
  }
  for (size_t i = 0; i < inputs() && differ; ++i) {
    if (!of(i).is_dynamic()) continue;
    of(i).length_ = {.symbol = program_->values[of(i).input_->value].sizes[of(i).axis_].symbol};
  }
}

void TraceShape::find_single_rows() {
  const auto has_one_row = [](const TraceShape& one) {
    const size_t rank = one.program_->values[one.input_->value].sizes.size();
    return one.reads_tokens() ? rank == 1 || one.tokens_ < 2
                              : rank == 1 || (rank == 2 && !one.is_series_);
  };
  std::optional<int64_t> sequences;  // of the first input with several tokens
  for (size_t i = 0; i < inputs(); ++i) {
    if (!sequences && !has_one_row(of(i))) sequences = of(i).sequences_;
  }
  for (size_t i = 0; i < inputs(); ++i) {
    TraceShape& own = of(i);
    if (has_one_row(own) && sequences == own.example_shape()[0]) own.take_one_row();
    if (own.is_one_row_) continue;
    if (own.input_rank() == 0) own.refuse_dimensions();
  }
}

void TraceShape::take_one_row() {
  is_one_row_ = true;
  reads_images_ = false;
  axis_ = 0;
  length_ = {};
  sequences_ = std::max<int64_t>(1, example_shape()[0]);
  tokens_ = traced_tokens_ = 1;
}

std::optional<TraceShape> TraceShape::with_one_token() const {
  const size_t rank = program_->values[input_->value].sizes.size();
  const bool is_table = rank == 2 && !reads_tokens() && !is_series_;
  const bool may_be = !is_one_row_ && !is_dynamic() && axis_ == 0 &&
                      (is_table || (!reads_images_ && input_rank() == 2 && sequences_ == 1));
  if (inputs() > 1 || !may_be) return std::nullopt;
  TraceShape other = *this;
  other.take_one_row();
  other.is_one_row_ = is_table;
  if (!is_table) other.axis_ = 1;
  return other;
}

std::optional<size_t> TraceShape::number_of(uint32_t value) const {
  for (size_t i = 0; i < inputs(); ++i) {
    if (of(i).input_->value == value) return i;
  }
  return std::nullopt;
}

std::vector<int64_t> TraceShape::all_tokens() const {
  std::vector<int64_t> tokens;
  for (size_t i = 0; i < inputs(); ++i) tokens.push_back(of(i).tokens_);
  return tokens;
}

uint64_t TraceShape::elements() const {
  uint64_t count = 0;
  for (size_t i = 0; i < inputs(); ++i) count += elements_of(of(i).input_shape());
  return count;
}

Shape TraceShape::example_shape() const {
  const std::vector<const ExportedInput*> inputs = program_->user_inputs();
  const auto place = static_cast<size_t>(std::ranges::find(inputs, input_) - inputs.begin());
  return program_->sample_inputs.empty() ? program_->values[input_->value].shape()
                                         : program_->sample_inputs[place].shape();
}

// Throws InputError unless the side input has the sequences and tokens of this input.
void TraceShape::check_side(const SideInput& side) const {
  const std::vector<Extent>& sizes = program_->values[side.input->value].sizes;
  const auto fits = [&](const Extent& extent, int64_t expected) {
    return extent.size == expected || (extent.size == 0 && !extent.is_fixed());
  };
  const bool has_tokens = side.role != SideRole::kLengths;
  bool is_sound = has_tokens ? fits(sizes.back(), tokens_) : fits(sizes.front(), sequences_);
  if (side.role == SideRole::kCausal || gives_pairs(side)) {
    is_sound = is_sound && fits(sizes[sizes.size() - 2], tokens_);
    if (is_sound && side.role == SideRole::kCausal) causal_array(side);
    const Array* const sample = sample_of(side);
    if (is_sound && side.role == SideRole::kPairs && sample != nullptr) {
      const Array::Reals given = sample->to_reals();
      refuse_if(!std::ranges::all_of(given, [](double pair) { return pair == 0.0 || pair == 1.0; }),
                "{}: input {} has elements other than 0 and 1 in the example; expected a pair "
                "mask, 1 where a query sees a key",
                quote(program_->source), quote(side.input->name));
    }
  } else if (has_tokens && sizes.size() > 1) {
    const bool may_be_one = side.role == SideRole::kPositions && fits(sizes.front(), 1);
    is_sound = is_sound && (fits(sizes.front(), sequences_) || may_be_one);
  }
  if (!is_sound) {
    throw InputError(
        "{}: input {} is {}; expected one element for each of {} sequences, or for each of their "
        "{} tokens",
        quote(program_->source), quote(side.input->name),
        shape_text(program_->values[side.input->value].shape()), sequences_, tokens_);
  }
}

const SideInput* TraceShape::side(uint32_t value) const {
  for (const SideInput& side : meaning_.sides) {
    if (side.input->value == value) return &side;
  }
  return nullptr;
}

const Array* TraceShape::sample_of(const SideInput& side) const {
  const std::vector<const ExportedInput*> inputs = program_->user_inputs();
  const auto place = static_cast<size_t>(std::ranges::find(inputs, side.input) - inputs.begin());
  return program_->sample_inputs.empty() ? nullptr : &program_->sample_inputs[place];
}

namespace {

double value_of_pair(SideRole role, bool is_seen) {
  if (role == SideRole::kPairs) return is_seen ? 1.0 : 0.0;
  const double hidden =
      role == SideRole::kAddedPairs ? -std::numeric_limits<double>::infinity() : 1.0;
  return is_seen ? 0.0 : hidden;
}

}  // namespace

Array TraceShape::pairs_array(const SideInput& side, std::span<const uint8_t> pairs) const {
  const ExportedValue& value = program_->values[side.input->value];
  Shape shape = value.shape();
  const auto n = static_cast<size_t>(tokens_);
  shape[shape.size() - 1] = shape[shape.size() - 2] = tokens_;
  const Extent& first = value.sizes.front();
  if (shape.size() > 2 && !(first.is_fixed() && first.size == 1)) shape[0] = sequences_;
  Array::Reals numbers(elements_of(shape));
  for (size_t i = 0; i < numbers.size(); ++i) {
    const size_t cell = i % (n * n);
    const bool is_seen = !pairs.empty() ? pairs[i % pairs.size()] != 0
                                        : is_made_up_pair(static_cast<uint32_t>(cell / n),
                                                          static_cast<uint32_t>(cell % n));
    numbers[i] = value_of_pair(side.role, is_seen);
  }
  return Array::real(shape, std::move(numbers), ElementType::kF64).to(value.type);
}

// Returns the causal mask of the example, extended to this length. Throws InputError if the example
// is not causal, or not known.
Array TraceShape::causal_array(const SideInput& side) const {
  const ExportedValue& value = program_->values[side.input->value];
  if (sample_of(side) == nullptr) {
    throw InputError(
        "{}: the file does not store the example of input {}; export it with its example inputs, "
        "so that its mask is known to be causal",
        quote(program_->source), quote(side.input->name));
  }
  const Array& sample = *sample_of(side);
  const auto n = static_cast<size_t>(sample.shape().back());
  const Array::Reals given = sample.to_reals();
  const double seen = given.at(0), hidden = given.at(n - 1);
  bool is_causal = n > 1;
  for (size_t i = 0; i < given.size() && is_causal; ++i) {
    is_causal = given[i] == (i % n <= i / n % n ? seen : hidden);
  }
  if (!is_causal) {
    throw InputError(
        "{}: input {} is not a causal mask in the example; expected a mask like that of "
        "nn.Transformer.generate_square_subsequent_mask, or another mask as a buffer of the model",
        quote(program_->source), quote(side.input->name));
  }
  Shape shape = value.shape();
  shape[shape.size() - 1] = shape[shape.size() - 2] = tokens_;
  const auto tokens = static_cast<size_t>(tokens_);
  Array::Reals numbers(elements_of(shape));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = i % tokens <= i / tokens % tokens ? seen : hidden;
  }
  return Array::real(shape, std::move(numbers), ElementType::kF64).to(value.type);
}

Array TraceShape::side_array(const SideInput& side, std::span<const uint32_t> lengths,
                             std::span<const uint8_t> types, std::span<const uint8_t> pairs) const {
  if (side.role == SideRole::kCausal) return causal_array(side);
  if (gives_pairs(side)) return pairs_array(side, pairs);
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
  refuse_op_if(
      known == nullptr || known->role == SideRole::kTypes || known->role == SideRole::kMarks,
      "the value depends on the model's input; expected a constant");
  return of(known->of).side_array(*known, of(known->of).whole_lengths());
}

std::vector<uint32_t> TraceShape::whole_lengths() const {
  return std::vector<uint32_t>(static_cast<size_t>(sequences_), static_cast<uint32_t>(tokens_));
}

SymbolRange TraceShape::range() const {
  const auto found = program_->symbols.find(length_.symbol);
  const SymbolRange range = found == program_->symbols.end() ? SymbolRange{} : found->second;
  const auto tokens_at = [&](int64_t symbol) {
    return length_.step * std::clamp<int64_t>(symbol, 0, kSymbolMax) + length_.first;
  };
  // torch.export writes a minimum of 2 if the program has none.
  SymbolRange tokens = {tokens_at(range.min <= 2 ? 1 : range.min)};
  if (tokens.min < 1) tokens.min = rounded(length_.step);
  if (range.max && *range.max < kSymbolMax) tokens.max = tokens_at(*range.max);
  return tokens;
}

int64_t TraceShape::rounded(int64_t tokens) const {
  const int64_t rest = (tokens - traced_tokens_) % length_.step;
  return tokens - (rest < 0 ? rest + length_.step : rest);
}

TraceShape TraceShape::at(int64_t tokens) const {
  return at(std::vector<int64_t>(inputs(), tokens));
}

TraceShape TraceShape::at(const std::vector<int64_t>& tokens) const {
  TraceShape other = *this;
  for (size_t i = 0; i < inputs(); ++i) {
    if (!of(i).is_one_row_) other.of(i).tokens_ = tokens[i];
  }
  return other;
}

TraceShape TraceShape::of_sequences(int64_t sequences) const {
  TraceShape other = *this;
  for (size_t i = 0; i < inputs(); ++i) other.of(i).sequences_ = sequences;
  return other;
}

int64_t TraceShape::other_sequences() const {
  if (meaning_.other_sequences != 0) return meaning_.other_sequences;
  for (size_t i = 0; i < inputs(); ++i) {
    const std::vector<Extent>& sizes = program_->values[of(i).input_->value].sizes;
    const bool has_first = of(i).reads_images_ || of(i).columns_first_ || of(i).is_one_row_;
    const size_t d = has_first ? 0 : 1 - of(i).axis_;
    if ((has_first || of(i).input_rank() == 2) && !sizes[d].is_fixed()) return sequences_ + 1;
  }
  return 0;
}

std::optional<int64_t> TraceShape::tokens_of(std::string_view symbol) const {
  for (size_t i = 0; i < inputs(); ++i) {
    if (of(i).symbol() == symbol) return of(i).symbol_at(of(i).tokens_);
  }
  return std::nullopt;
}

TraceShape TraceShape::with_open_lengths() const {
  TraceShape other = *this;
  for (size_t i = 0; i < inputs(); ++i) {
    other.of(i).is_open_ = !of(i).reads_images_ && !of(i).is_one_row_;
  }
  return other;
}

TraceShape TraceShape::with_fixed_rows() const {
  TraceShape other = *this;
  other.fixes_rows_ = true;
  return other;
}

std::optional<TraceShape> TraceShape::of_images() const {
  if (reads_images_ || reads_tokens()) return std::nullopt;
  TraceShape other = *this;
  other.reads_images_ = true;
  other.is_one_row_ = false;
  other.columns_first_ = false;
  other.axis_ = 0;
  other.length_ = {};
  other.sequences_ = std::max<int64_t>(1, example_shape()[0]);
  other.tokens_ = other.traced_tokens_ = 1;
  return other;
}

std::optional<TraceShape> TraceShape::with_columns_first() const {
  const Shape shape = example_shape();
  if (reads_tokens() || reads_images_ || columns_first_ || inputs() > 1 || shape.size() != 3 ||
      shape[2] < 2) {
    return std::nullopt;
  }
  TraceShape other = *this;
  other.columns_first_ = true;
  other.axis_ = 2;
  other.length_ = {};
  other.sequences_ = std::max<int64_t>(1, shape[0]);
  other.tokens_ = other.traced_tokens_ = shape[2];
  return other;
}

std::optional<TraceShape> TraceShape::with_series() const {
  TraceShape other = *this;
  bool is_other = false;
  for (size_t i = 0; i < inputs(); ++i) {
    if (!of(i).is_one_row_ || of(i).reads_tokens()) continue;
    TraceShape series = *of(i).of_images();
    if (i == 0) series.others_ = other.others_;
    other.of(i) = std::move(series);
    is_other = true;
  }
  return is_other ? std::optional(other) : std::nullopt;
}

TraceShape TraceShape::with_image(const ImageLayout& image) const {
  TraceShape other = *this;
  other.image_ = image;
  other.tokens_ = other.traced_tokens_ = image.pixels();
  return other;
}

bool TraceShape::reads_tokens() const { return is_integer(program_->values[input_->value].type); }

size_t TraceShape::input_rank() const {
  const bool has_columns = !reads_tokens() && !is_series_;
  return program_->values[input_->value].sizes.size() - (has_columns ? 1 : 0);
}

Shape TraceShape::input_shape() const {
  const ExportedValue& value = program_->values[input_->value];
  Shape shape = value.shape();
  if (reads_images_ || is_one_row_) {
    shape[0] = sequences_;
    return shape;
  }
  if (columns_first_) {
    shape[0] = sequences_;
    shape[axis_] = tokens_;
    return shape;
  }
  for (size_t d = 0; d < input_rank(); ++d) shape[d] = d == axis_ ? tokens_ : sequences_;
  return shape;
}

std::set<int64_t> TraceShape::of_arrays(const std::vector<std::vector<uint64_t>>& shapes) const {
  std::set<int64_t> found = {traced_tokens_};
  const size_t rank = program_->values[input_->value].sizes.size();
  for (const std::vector<uint64_t>& shape : shapes) {
    // An array of a single sequence may lack the dimension of sequences.
    if (shape.size() == rank) found.insert(static_cast<int64_t>(shape[axis_]));
    if (shape.size() + 1 == rank) {
      found.insert(static_cast<int64_t>(shape[columns_first_ ? axis_ - 1 : 0]));
    }
  }
  return found;
}

std::string TraceShape::export_lines(bool transposed) const {
  std::vector<std::string> names, axes;
  bool has_lengths = false, has_batches = false;
  for (const ExportedInput* input : program_->user_inputs()) {
    const SideInput* known = side(input->value);
    const size_t of_input = known == nullptr ? number_of(input->value).value_or(0) : known->of;
    const size_t rank = program_->values[input->value].sizes.size();
    const size_t own = known == nullptr ? of(of_input).axis_ : rank - 1;
    const size_t axis = transposed && own < 2 ? 1 - own : own;
    names.push_back(input->name);
    const bool has_tokens =
        known == nullptr ? !of(of_input).is_one_row_ : known->role != SideRole::kLengths;
    const bool has_batch = program_->has_any_batch && has_tokens && own != 0;
    has_batches = has_batches || has_batch;
    has_lengths = has_lengths || has_tokens;
    const bool has_pairs =
        known != nullptr && (known->role == SideRole::kCausal || gives_pairs(*known));
    const std::string more = (has_batch ? fmt::format("{}: batch, ", transposed ? 1 : 0) : "") +
                             (has_pairs ? fmt::format("{}: tokens, ", rank - 2) : "");
    axes.push_back(has_tokens ? fmt::format("{{{}{}: tokens}}", more, axis) : "None");
    // All concatenated inputs have the same axes.
    const auto others = std::ranges::count(input->name, ',');
    for (ptrdiff_t other = 0; other < others; ++other) axes.push_back(axes.back());
  }
  if (!has_lengths) return "";
  return fmt::format(
      "\n  {0}tokens = torch.export.Dim.AUTO"
      "\n  torch.export.export(model.eval(), ({1},), dynamic_shapes=({2},))",
      has_batches ? "batch = " : "", fmt::join(names, ", "), fmt::join(axes, ", "));
}

Shape TraceShape::shape_of(const ExportedValue& value) const {
  Shape shape;
  for (const Extent& extent : value.sizes) shape.push_back(this->extent(extent));
  return shape;
}

int64_t TraceShape::extent(const Extent& extent) const {
  if (extent.is_fixed()) return extent.size;
  const auto tokens = [this](std::string_view symbol) { return tokens_of(symbol); };
  if (const auto size = evaluate_size(extent.symbol, tokens)) return *size;
  bool is_as_traced = true;
  for (size_t i = 0; i < inputs(); ++i) {
    is_as_traced = is_as_traced && of(i).tokens_ == of(i).traced_tokens_;
  }
  if (is_as_traced && extent.size > 0) return extent.size;
  throw NotRecognised("the size " + extent.symbol + " depends on more than the number of tokens");
}

namespace {

// Merges a mean of a mean, over two dimensions of an image, into one mean over both.
Call joined_mean(const ExportedProgram& program, const Call& node) {
  const auto mean_of = [&](const Call& call) -> const ValueRef* {
    const bool is_mean = call.op == "mean" && call.has("dim") && !call.has("dtype");
    return is_mean ? call.argument("self").as<ValueRef>() : nullptr;
  };
  const ValueRef* const input = mean_of(node);
  if (input == nullptr || program.values[input->value].sizes.size() != 4) return node;
  const auto inner = std::ranges::find_if(program.nodes, [&](const Call& other) {
    return std::ranges::count(other.outputs, input->value) != 0;
  });
  const bool is_joined = inner != program.nodes.end() && mean_of(*inner) != nullptr &&
                         inner->flag("keepdim", false) && node.flag("keepdim", false);
  if (!is_joined) return node;
  Argument::List dims;
  std::set<size_t> different;
  for (const Call* call : {&*inner, &node}) {
    for (const int64_t dim : call->integers("dim")) {
      dims.emplace_back(dim);
      different.insert(call->dimension(dim, 4));
    }
  }
  if (different.size() != dims.size() || different.size() != 2) return node;
  Call joined = node;
  for (NamedArgument& argument : joined.arguments) {
    if (argument.name == "self") argument.value = inner->argument("self");
    if (argument.name == "dim") argument.value = dims;
  }
  return joined;
}

}  // namespace

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
    part.nodes.push_back(joined_mean(program, *node));
    for_each<ValueRef>(part.nodes.back(), [&](ValueRef ref) { is_needed[ref.value] = true; });
  }
  std::ranges::reverse(part.nodes);
  return part;
}

Array constant_at(const ExportedProgram& program, const TraceShape& trace_shape, uint32_t value) {
  refuse_op_if(value == kNoValue,
               "a constant that the tracer made is needed at another length; this is a bug");
  ExportedProgram part = needed_part(program, value);
  part.outputs = {ValueRef{value}};
  std::vector<Array> inputs;
  for (const ExportedInput* input : part.user_inputs()) {
    const SideInput* side = trace_shape.side(input->value);
    const TraceShape& own =
        trace_shape.of(side != nullptr ? side->of : trace_shape.number_of(input->value).value());
    const Shape shape = own.input_shape();
    inputs.push_back(side != nullptr ? own.side_array(*side, own.whole_lengths())
                                     : Array::real(shape, Array::Reals(elements_of(shape), 0.0))
                                           .to(program.values[input->value].type));
  }
  return interpret(part, inputs, interpreting_budget(part, trace_shape.elements())).at(0);
}

}  // namespace arenite::convert
