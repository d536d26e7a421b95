// SPDX-License-Identifier: Apache-2.0
// What a model is given beside its tokens or features: how long each sequence is, as a mask of
// padding or in numbers, where its tokens stand, and of what type they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/exported/read/array.h"
#include "convert/exported/read/exported_program.h"
#include "convert/exported/recover/graph_builder.h"

namespace arenite::convert {
enum class SideRole {
  kKept,       // a mask: not 0 where a token is
  kHidden,     // a mask: not 0 where padding is
  kAdded,      // a mask that is added to scores: 0 where a token is, else -infinity
  kLengths,    // how many tokens each sequence has
  kPositions,  // 0, 1, 2, ...
  kTypes,      // of tokens
  kCausal,     // a mask of pairs that hides later tokens, or nothing, as the example has it
  kPairs,      // for each pair of tokens whether one sees the other: 1 or 0
};

struct SideInput {
  const ExportedInput* input = nullptr;
  SideRole role = SideRole::kKept;
  size_t of = 0;  // which of the sequences it belongs to
};

// Whether it says how long each sequence is.
inline bool tells_length(const SideInput& side) {
  return side.role != SideRole::kPositions && side.role != SideRole::kTypes &&
         side.role != SideRole::kCausal && side.role != SideRole::kPairs;
}

// What the inputs of a program mean: tokens or features, one input for each axis, and what is said
// about these.
struct InputMeaning {
  std::vector<const ExportedInput*> sequences;
  std::vector<SideInput> sides;
  // Not 0: dimension 0 of inputs is sequences, and may have this extent, too.
  int64_t other_sequences = 0;
};

// What an input may be beside tokens or features, by its type, its dimensions and its name, the
// likeliest first.
std::vector<SideRole> possible_roles(const ExportedProgram& program, const ExportedInput& input);

// What all inputs may mean together, the likeliest first; nothing: there are too many.
std::vector<InputMeaning> possible_meanings(const ExportedProgram& program);

// The numbers that say that sequence b has lengths[b] tokens, padding after them. `shape` has
// sequences first and tokens last, of kLengths sequences alone, or tokens alone. Types are given.
Array side_values(SideRole role, const Shape& shape, ElementType type,
                  std::span<const uint32_t> lengths, std::span<const uint8_t> types = {});

// "input 2 (attention_mask) becomes the lengths"
std::string describe(const SideInput& side, size_t number);

// What an exported program is given when it is followed: so many sequences of so many tokens, as
// its example had them or, where their number is a symbol, any other. Where there are several
// inputs of tokens or features, this is the first one, and knows the others.

class TraceShape {
 public:
  // At the length of the example. Throws InputError unless `meaning` is of all inputs, and its
  // sequences are tokens [sequences, tokens] or features [sequences, tokens, width]. Without
  // sequences it is the program's first input.
  explicit TraceShape(std::shared_ptr<const ExportedProgram> program, InputMeaning meaning = {});
  // Another program with the same inputs, such as a part of this one.
  TraceShape of_program(std::shared_ptr<const ExportedProgram> program) const {
    return TraceShape(std::move(program), meaning_);
  }
  // The same program at another length, of all inputs.
  TraceShape at(int64_t tokens) const;
  TraceShape at(const std::vector<int64_t>& tokens) const;  // of each
  // The same of so many sequences.
  TraceShape of_sequences(int64_t sequences) const;
  // Another number of sequences that the program can be given; 0: it is not known to take others.
  int64_t other_sequences() const;
  // The same, where it puts rows of constants before each sequence (TraceSizes).
  TraceShape with_prefix(uint32_t rows, bool puts_last_first) const;
  // The same, where rows of constants and of windows are row axes of their own (GraphBuilder).
  TraceShape with_rows_apart() const;
  bool keeps_rows_apart() const { return keeps_rows_apart_; }
  // The same where sequences have as many rows as that of the example, and no others.
  TraceShape with_fixed_rows() const;
  bool fixes_rows() const { return fixes_rows_; }
  // The same, where what seems to be features is images, or series of numbers;
  // nothing where it cannot be. Its length is known with the layout.
  std::optional<TraceShape> of_images() const;
  TraceShape with_image(const ImageLayout& image) const;
  // The same, where what seems to be tokens is sequences of one token each, [sequences, columns] or
  // [sequences, 1, ..]; nothing where it cannot be.
  std::optional<TraceShape> with_one_token() const;
  // The same, where what seems to be one row for each sequence is numbers that are a token each;
  // nothing where no input is such.
  std::optional<TraceShape> with_series() const;
  // The same, where what seems to be rows of tokens is columns of them, of as many tokens as the
  // example has; nothing where it cannot be.
  std::optional<TraceShape> with_columns_first() const;

  TraceSizes sizes() const {
    return {static_cast<uint32_t>(sequences_), static_cast<uint32_t>(tokens_ + prefix_),
            static_cast<uint32_t>(prefix_), puts_last_first_};
  }
  int64_t tokens() const { return tokens_; }
  int64_t rows() const { return tokens_ + prefix_; }  // of a sequence
  int64_t traced_tokens() const { return traced_tokens_; }
  // Where the number of tokens may be another: the program has a symbol for it.
  bool is_dynamic() const { return !symbol_.empty(); }
  // The same with fixed sizes, of whose example somebody says that other lengths are alike.
  TraceShape with_open_lengths() const;
  bool is_open() const { return is_dynamic() || is_open_; }
  size_t axis() const { return axis_; }  // of tokens, in the input
  SymbolRange range() const;
  const std::string& symbol() const { return symbol_; }
  bool range_is_known() const { return symbol_.find('(') == std::string::npos; }

  // All inputs of tokens or features, this one first.
  size_t inputs() const { return 1 + others_.size(); }
  const TraceShape& of(size_t input) const { return input == 0 ? *this : others_[input - 1]; }
  TraceShape& of(size_t input) { return input == 0 ? *this : others_[input - 1]; }
  // Which of them this value of the program is; nothing for any other.
  std::optional<size_t> number_of(uint32_t value) const;
  std::vector<int64_t> all_tokens() const;
  uint64_t elements() const;  // of all inputs

  const ExportedInput& input() const { return *input_; }
  Shape input_shape() const;
  bool reads_tokens() const;  // ids, and no features
  bool reads_images() const { return reads_images_; }
  const std::optional<ImageLayout>& image() const { return image_; }
  // Whether the input is [tokens, sequences, ...], as nn.TransformerEncoder has it.
  bool tokens_first() const { return axis_ == 0 && input_rank() > 1 && !reads_images_; }
  // Whether it is [sequences, tokens] of one number each, such as the samples of a sound.
  bool is_series() const { return is_series_; }
  // Whether it has one row for each sequence, such as what is known of a user beside an input of
  // tokens: numbers [sequences, width], or an id [sequences].
  bool is_one_row() const { return is_one_row_; }
  // Whether it is [sequences, columns, tokens], as convolutions take it.
  bool columns_first() const { return columns_first_; }

  // Those of all inputs.
  const std::vector<SideInput>& sides() const { return meaning_.sides; }
  // What is known of an input of the user's beside the first; null: it is the first.
  const SideInput* side(uint32_t value) const;
  // REQUIRES: the side belongs to this input.
  Array side_array(const SideInput& side, std::span<const uint32_t> lengths,
                   std::span<const uint8_t> types = {}, std::span<const uint8_t> pairs = {}) const;
  std::vector<uint32_t> whole_lengths() const;  // all sequences are as long as they can be
  // Pairs as the example has them: causal, or all the same.
  Array causal_array(const SideInput& side) const;
  // With these lengths. Throws NotRecognised for types, which are no constant.
  Array side_constant(uint32_t value) const;

  // The numbers of tokens of the example, and of inputs of these shapes.
  std::set<int64_t> of_arrays(const std::vector<std::vector<uint64_t>>& shapes) const;
  // The lines of Python that export the program for any length, each after a line feed.
  // Where sequences are `turned`, its arrays have tokens before them.
  std::string export_lines(bool turned) const;

  // A size of the program at this length. Throws NotRecognised where that is not known.
  int64_t extent(const Extent& extent) const;
  Shape shape_of(const ExportedValue& value) const;

 private:
  TraceShape(std::shared_ptr<const ExportedProgram> program, const ExportedInput& input,
             bool has_sequences_first);
  [[noreturn]] void refuse_dimensions() const;
  void take_one_row();
  // Finds the inputs that have one row for each sequence of the others.
  void find_single_rows();
  size_t input_rank() const;  // of tokens and sequences
  std::optional<int64_t> tokens_of(std::string_view symbol) const;
  // Pairs [sequences, tokens, tokens], or what is_made_up_pair says.
  Array pairs_array(const SideInput& side, std::span<const uint8_t> pairs) const;
  const Array* sample_of(const SideInput& side) const;  // null: it is not known
  Shape example_shape() const;
  void check_side(const SideInput& side) const;

  std::shared_ptr<const ExportedProgram> program_;
  const ExportedInput* input_ = nullptr;
  InputMeaning meaning_;
  std::vector<TraceShape> others_;
  size_t axis_ = 0;  // of tokens, in the input
  int64_t sequences_ = 1;
  int64_t tokens_ = 0;
  int64_t traced_tokens_ = 0;
  int64_t prefix_ = 0;
  bool reads_images_ = false;
  bool columns_first_ = false;
  bool is_series_ = false;
  bool is_one_row_ = false;
  std::optional<ImageLayout> image_;
  bool puts_last_first_ = false;
  bool keeps_rows_apart_ = false;
  bool fixes_rows_ = false;
  bool is_open_ = false;
  std::string symbol_;
};

// What Model.arrays says of the user's inputs; nothing where no input is a side.
std::vector<std::string> arrays_of(const ExportedProgram& program, const TraceShape& trace_shape,
                                   const std::vector<GraphInput>& inputs);

// ---- what a program's model gives out: one of its outputs, or several side by side ----

struct ChosenOutput {
  // The one given, or one that has the outputs that are asked for side by side as its last output.
  std::shared_ptr<const ExportedProgram> program;
  size_t index = 0;     // of the program's outputs
  size_t outputs = 1;   // tensors that the program given has
  std::string words{};  // for the account; empty where there was no choice
};

// `wanted` counts tensors from 0; none: the first. Throws InputError for one that is not there, and
// for several whose rows differ.
ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted);

// The program without inputs of which the output that is asked for is not made.
std::shared_ptr<const ExportedProgram> without_unread(
    const std::shared_ptr<const ExportedProgram>& program, const std::vector<uint32_t>& wanted);

// The program with float32 in place of inputs of whole numbers that it computes with as with any
// numbers, such as samples in int16 and pixels in uint8.
std::shared_ptr<const ExportedProgram> with_real_inputs(
    const std::shared_ptr<const ExportedProgram>& program);

// ---- inputs with a row for each of the same tokens ----

struct InputsSideBySide {
  // One input, with the columns of all, in the place of the first one that they are slices of.
  // Null: no two inputs are features of as many tokens.
  std::shared_ptr<const ExportedProgram> program;
  std::string words{};  // for the account
};
// With `takes_ids` whole numbers are columns, too, and there are some among them.
InputsSideBySide inputs_side_by_side(const ExportedProgram& program, bool takes_ids);

// The program for a few sequences, which come first, where dimension `dim` of its inputs is any
// number of them. Null: that has one size.
struct FewSequences {
  std::shared_ptr<const ExportedProgram> program;
  int64_t other = 0;  // InputMeaning::other_sequences
};
FewSequences with_sequences(const ExportedProgram& program, size_t dim);

// The program whose inputs and outputs are [sequences, tokens, ..] where those of `program` are
// [tokens, sequences, ..], of several sequences, as many as `known` says. Null: they cannot be.
std::shared_ptr<const ExportedProgram> sequences_first(const ExportedProgram& program,
                                                       std::optional<Extent> known = {});

// What a program may mean.
struct Reading {
  std::shared_ptr<const ExportedProgram> program;
  InputMeaning meaning;
  std::string words{};     // for the account, or none
  bool is_turned = false;  // tokens come before sequences
};
// The likeliest first: what dimension 0 of inputs has any number of are sequences.
std::vector<Reading> readings_of(const std::shared_ptr<const ExportedProgram>& program);

// ---- parts of a program ----

// The program without ops that this value does not need, such as a second output's.
ExportedProgram needed_part(const ExportedProgram& program, uint32_t value);

// A value of the program that depends on no input, at the length of `trace_shape`.
Array constant_at(const ExportedProgram& program, const TraceShape& trace_shape, uint32_t value);

}  // namespace arenite::convert
