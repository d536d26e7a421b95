// SPDX-License-Identifier: Apache-2.0
// The inputs of a program in a trace: which are tokens, features or images, how long they are, and
// what side inputs tell about them (padding masks, lengths, positions, types).
//
//   ids [2, 12], attention_mask [2, 12]  ->  tokens ids, side attention_mask of kKept
//   x [1, 3, 32, 32]                     ->  images of 3 channels, once their layout is found
//   x [batch, n] as series               ->  n tokens of width 1
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
  kKept,         // mask: nonzero at tokens
  kHidden,       // mask: nonzero at padding
  kAdded,        // mask added to scores: 0 at tokens, -infinity at padding
  kLengths,      // number of tokens of each sequence
  kPositions,    // 0, 1, 2, ...
  kTypes,        // token types
  kCausal,       // mask of pairs as in the example: causal, or hiding nothing
  kPairs,        // mask of pairs: 1 where a query sees a key, else 0
  kHiddenPairs,  // mask of pairs: 0 where a query sees a key, else 1
  kAddedPairs,  // mask of pairs that is added to scores: 0 where a query sees a key, else -infinity
  kMarks,       // kHidden where some ops read rows of padding: types of tokens, 0 or 1
};

struct SideInput {
  const ExportedInput* input = nullptr;
  SideRole role = SideRole::kKept;
  size_t of = 0;  // index of the sequence input that it is about
};

inline bool is_marks(const SideInput& side) { return side.role == SideRole::kMarks; }

inline bool gives_pairs(const SideInput& side) {
  return side.role == SideRole::kPairs || side.role == SideRole::kHiddenPairs ||
         side.role == SideRole::kAddedPairs;
}

inline bool tells_length(const SideInput& side) {
  return side.role != SideRole::kPositions && side.role != SideRole::kTypes &&
         side.role != SideRole::kCausal && side.role != SideRole::kMarks && !gives_pairs(side);
}

// The meaning of a program's inputs: tokens or features, one input for each axis, and side inputs
// about these.
struct InputMeaning {
  std::vector<const ExportedInput*> sequences;
  std::vector<SideInput> sides;
  // If not 0, dimension 0 of inputs is sequences, and may also have this extent.
  int64_t other_sequences = 0;
};

// Returns the roles that an input may have beside tokens or features, by its type, shape and name,
// the likeliest first.
std::vector<SideRole> possible_roles(const ExportedProgram& program, const ExportedInput& input);

// Returns what all inputs may mean together, the likeliest first; empty if there are too many
// meanings.
std::vector<InputMeaning> possible_meanings(const ExportedProgram& program);

// Returns the meaning with padding masks of token ids as kMarks; nullopt if they cannot all be.
std::optional<InputMeaning> with_marks(const ExportedProgram& program, InputMeaning meaning);

// Returns the elements of a side input for sequences of these lengths, with padding after them.
// `shape` has sequences first and tokens last, or sequences alone for kLengths, or tokens alone.
Array side_values(SideRole role, const Shape& shape, ElementType type,
                  std::span<const uint32_t> lengths, std::span<const uint8_t> types = {});

// Describes a side in the report: "input 2 (attention_mask) becomes the lengths".
std::string describe(const SideInput& side, size_t number);

// The shape of all inputs in a trace: as many sequences and tokens as in the example or, where
// their number is a symbol, any other number. With several inputs of tokens or features, this is
// the first one and holds the others.

class TraceShape {
 public:
  // Takes the lengths of the example. Throws InputError unless `meaning` covers all inputs, and its
  // sequences are tokens [sequences, tokens] or features [sequences, tokens, width]. Without
  // sequences, the program's first input is taken.
  explicit TraceShape(std::shared_ptr<const ExportedProgram> program, InputMeaning meaning = {});
  // Returns the shape for another program with the same inputs, such as a part of this one.
  TraceShape of_program(std::shared_ptr<const ExportedProgram> program) const {
    return TraceShape(std::move(program), meaning_);
  }
  // Returns the shape at another length, of all inputs or of each.
  TraceShape at(int64_t tokens) const;
  TraceShape at(const std::vector<int64_t>& tokens) const;
  TraceShape of_sequences(int64_t sequences) const;
  // Returns another number of sequences that the program can be given; 0: none is known.
  int64_t other_sequences() const;
  // Returns the shape for sequences with exactly as many rows as in the example.
  TraceShape with_fixed_rows() const;
  bool fixes_rows() const { return fixes_rows_; }
  // Reads features as images, or as series; nullopt if no input can be one. The number of tokens
  // follows from the layout (with_image).
  std::optional<TraceShape> of_images() const;
  TraceShape with_image(const ImageLayout& image) const;
  // Reads tokens as sequences of one token each, [sequences, columns] or [sequences, 1, ..];
  // nullopt if they cannot be.
  std::optional<TraceShape> with_one_token() const;
  // Reads [batch, n] as n tokens of width 1; nullopt if no input is such.
  std::optional<TraceShape> with_series() const;
  // Reads rows of tokens as columns, with as many tokens as the example has; nullopt if they cannot
  // be.
  std::optional<TraceShape> with_columns_first() const;

  TraceSizes sizes() const {
    return {static_cast<uint32_t>(sequences_), static_cast<uint32_t>(tokens_)};
  }
  int64_t tokens() const { return tokens_; }
  int64_t traced_tokens() const { return traced_tokens_; }
  // Whether the number of tokens may change: the program has a symbol for it.
  bool is_dynamic() const { return !length_.symbol.empty(); }
  // Returns the shape with fixed sizes taken as open, if the caller vouches that other lengths are
  // alike.
  TraceShape with_open_lengths() const;
  bool is_open() const { return is_dynamic() || is_open_; }
  size_t axis() const { return axis_; }  // dimension of tokens in the input
  // The symbol that the number of tokens grows with, by `step`: 8 for 8 * s27.
  const std::string& symbol() const { return length_.symbol; }
  int64_t step() const { return length_.step; }
  bool range_is_known() const { return length_.symbol.find('(') == std::string::npos; }
  SymbolRange range() const;  // of tokens
  // Returns the symbol's value for this many tokens, rounded down.
  int64_t symbol_at(int64_t tokens) const { return (tokens - length_.first) / length_.step; }
  // Returns the longest length of the program that is at most this; for 8 * s27, 40 for 43.
  int64_t rounded(int64_t tokens) const;

  // All inputs of tokens or features, this one first.
  size_t inputs() const { return 1 + others_.size(); }
  const TraceShape& of(size_t input) const { return input == 0 ? *this : others_[input - 1]; }
  TraceShape& of(size_t input) { return input == 0 ? *this : others_[input - 1]; }
  // Returns the index of the input with this value; nullopt if there is none.
  std::optional<size_t> number_of(uint32_t value) const;
  std::vector<int64_t> all_tokens() const;
  uint64_t elements() const;  // of all inputs

  const ExportedInput& input() const { return *input_; }
  Shape input_shape() const;
  bool reads_tokens() const;  // token ids, and no features
  bool reads_images() const { return reads_images_; }
  const std::optional<ImageLayout>& image() const { return image_; }
  // Whether the input is [tokens, sequences, ...], as nn.TransformerEncoder has it.
  bool tokens_first() const { return axis_ == 0 && input_rank() > 1 && !reads_images_; }
  // Whether the input is [sequences, tokens] of width 1, such as audio samples.
  bool is_series() const { return is_series_; }
  // Whether the input has one row per sequence, such as data of a user beside tokens: features
  // [sequences, width], or an id [sequences].
  bool is_one_row() const { return is_one_row_; }
  // Whether the input is [sequences, columns, tokens], as convolutions take it.
  bool columns_first() const { return columns_first_; }

  // The side inputs of all inputs.
  const std::vector<SideInput>& sides() const { return meaning_.sides; }
  // Returns the side input with this value, or null.
  const SideInput* side(uint32_t value) const;
  // REQUIRES: the side belongs to this input.
  Array side_array(const SideInput& side, std::span<const uint32_t> lengths,
                   std::span<const uint8_t> types = {}, std::span<const uint8_t> pairs = {}) const;
  std::vector<uint32_t> whole_lengths() const;  // all sequences at full length
  // Returns the pairs of the example: causal, or all equal.
  Array causal_array(const SideInput& side) const;
  // Returns the side's elements at full length. Throws NotRecognised for types, which are no
  // constant.
  Array side_constant(uint32_t value) const;

  // Returns the numbers of tokens of the example and of inputs of these shapes.
  std::set<int64_t> of_arrays(const std::vector<std::vector<uint64_t>>& shapes) const;
  // Returns the lines of Python that export the program for any length, each after a line feed.
  // With `turned`, the arrays have tokens before sequences.
  std::string export_lines(bool turned) const;

  // Returns a size of the program at this length. Throws NotRecognised if it is not known.
  int64_t extent(const Extent& extent) const;
  Shape shape_of(const ExportedValue& value) const;

 private:
  TraceShape(std::shared_ptr<const ExportedProgram> program, const ExportedInput& input,
             bool has_sequences_first);
  [[noreturn]] void refuse_dimensions() const;
  void take_one_row();
  // Gives up on lengths in steps where inputs have different multiples of one symbol.
  void check_steps();
  // Finds the inputs with one row for each sequence of the others.
  void find_single_rows();
  size_t input_rank() const;  // dimensions of tokens and sequences
  std::optional<int64_t> tokens_of(std::string_view symbol) const;
  // Returns the mask of visible `pairs` [sequences, tokens, tokens]; of none, those of
  // is_made_up_pair.
  Array pairs_array(const SideInput& side, std::span<const uint8_t> pairs) const;
  const Array* sample_of(const SideInput& side) const;  // null: it is not known
  Shape example_shape() const;
  void check_side(const SideInput& side) const;

  std::shared_ptr<const ExportedProgram> program_;
  const ExportedInput* input_ = nullptr;
  InputMeaning meaning_;
  std::vector<TraceShape> others_;
  size_t axis_ = 0;  // dimension of tokens in the input
  int64_t sequences_ = 1;
  int64_t tokens_ = 0;
  int64_t traced_tokens_ = 0;
  bool reads_images_ = false;
  bool columns_first_ = false;
  bool is_series_ = false;
  bool is_one_row_ = false;
  std::optional<ImageLayout> image_;
  bool fixes_rows_ = false;
  bool is_open_ = false;
  LinearSize length_;  // tokens; an expression in place of the symbol if they are not linear in it
};

// Returns Model.arrays for the user's inputs; empty if no input needs a role.
std::vector<std::string> arrays_of(const ExportedProgram& program, const TraceShape& trace_shape,
                                   const std::vector<GraphInput>& inputs);

// ---- the model's output: one of the program's outputs, or several side by side ----

struct ChosenOutput {
  // The given program, or one whose last output has the requested outputs side by side.
  std::shared_ptr<const ExportedProgram> program;
  size_t index = 0;     // in the program's outputs
  size_t outputs = 1;   // tensors among the outputs of the given program
  std::string words{};  // for the report; empty if there was no choice
};

// `wanted` counts tensors from 0; empty: the first. Throws InputError if an output does not exist,
// or if the rows of several differ.
ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted);

// Returns the program without inputs that the requested output does not depend on.
std::shared_ptr<const ExportedProgram> without_unread(
    const std::shared_ptr<const ExportedProgram>& program, const std::vector<uint32_t>& wanted);

// Returns the program with float32 in place of integer inputs that are plain values, such as
// samples in int16 and pixels in uint8.
std::shared_ptr<const ExportedProgram> with_real_inputs(
    const std::shared_ptr<const ExportedProgram>& program);

// ---- inputs with a row for each of the same tokens ----

struct InputsSideBySide {
  // The program with one input that has the columns of all, in the place of the first one; the
  // others are slices of it. Null unless two inputs are features of equally many tokens.
  std::shared_ptr<const ExportedProgram> program;
  std::string words{};  // for the report
};
enum class Columns {
  kFeatures,
  kIds,       // some inputs are integers
  kOneInput,  // only the first input of several integers for each token
  kMasks,     // some inputs are padding masks, of which other ops than attention read rows
};
InputsSideBySide inputs_side_by_side(const ExportedProgram& program, Columns kind);

// The program for a few sequences, which come first, where dimension `dim` of its inputs is open.
// Null if that dimension has a fixed size.
struct FewSequences {
  std::shared_ptr<const ExportedProgram> program;
  int64_t other = 0;  // InputMeaning::other_sequences
};
FewSequences with_sequences(const ExportedProgram& program, size_t dim);

// Transposes inputs and outputs [tokens, sequences, ..] to [sequences, tokens, ..], for several
// sequences: `known`, or as many as the inputs have. Null if the inputs have other shapes.
std::shared_ptr<const ExportedProgram> sequences_first(const ExportedProgram& program,
                                                       std::optional<Extent> known = {});

struct Reading {
  std::shared_ptr<const ExportedProgram> program;
  InputMeaning meaning;
  std::string words{};     // for the report, or empty
  bool is_turned = false;  // tokens come before sequences
};
// Returns the readings, the likeliest first: an open dimension 0 of the inputs is sequences.
std::vector<Reading> readings_of(const std::shared_ptr<const ExportedProgram>& program);

// ---- parts of a program ----

// Returns the program without ops that this value does not need, such as those of a second output.
ExportedProgram needed_part(const ExportedProgram& program, uint32_t value);

// Computes a value that depends on no input, at the length of `trace_shape`.
Array constant_at(const ExportedProgram& program, const TraceShape& trace_shape, uint32_t value);

}  // namespace arenite::convert
