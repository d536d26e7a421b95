// SPDX-License-Identifier: Apache-2.0
// The inputs of a program in a trace: tokens, features or images, their lengths, and the roles of
// side inputs (padding masks, lengths, positions, token types).
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
  kCausal,       // constant mask of pairs, taken from the example: causal, or all visible
  kPairs,        // mask of pairs: 1 where a query sees a key, else 0
  kHiddenPairs,  // mask of pairs: 0 where a query sees a key, else 1
  kAddedPairs,  // mask of pairs that is added to scores: 0 where a query sees a key, else -infinity
  kMarks,       // kHidden, given as token types 0 and 1, if other ops than attention read padding
};

struct SideInput {
  const ExportedInput* input = nullptr;
  SideRole role = SideRole::kKept;
  size_t of = 0;  // index of the sequence input that it describes
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

// The meaning of a program's inputs: tokens or features, with an axis for each, and the side inputs
// that describe them.
struct InputMeaning {
  std::vector<const ExportedInput*> sequences;
  std::vector<SideInput> sides;
  // If not 0, dimension 0 of the inputs is sequences, and this is another valid extent of it.
  int64_t other_sequences = 0;
};

// Returns the side roles that an input may have by its type, shape, name and example, most likely
// first.
std::vector<SideRole> possible_roles(const ExportedProgram& program, const ExportedInput& input);

// Returns the possible meanings of all inputs together, most likely first; empty if there are too
// many.
std::vector<InputMeaning> possible_meanings(const ExportedProgram& program);

// Returns the meaning with the role kMarks for padding masks of token ids; nullopt if some mask
// cannot have it.
std::optional<InputMeaning> with_marks(const ExportedProgram& program, InputMeaning meaning);

// Returns the elements of a side input for sequences of these lengths, followed by padding. `shape`
// has sequences first and tokens last, only sequences for kLengths, or only tokens.
Array side_values(SideRole role, const Shape& shape, ElementType type,
                  std::span<const uint32_t> lengths, std::span<const uint8_t> types = {});

// Describes a side input for the report: "input 2 (attention_mask) becomes the lengths".
std::string describe(const SideInput& side, size_t number);

// The shape of all inputs in a trace: the numbers of sequences and tokens of the example, or other
// numbers if they are symbols. If the program has several inputs of tokens or features, this object
// is the first, and holds the others.

class TraceShape {
 public:
  // Uses the lengths of the example. Throws InputError unless `meaning` covers all inputs, and
  // sequences are tokens [sequences, tokens] or features [sequences, tokens, width]. If `meaning`
  // has no sequences, the first input of the program is the sequence.
  explicit TraceShape(std::shared_ptr<const ExportedProgram> program, InputMeaning meaning = {});
  // Returns the shape for another program with the same inputs, such as a part of the program.
  TraceShape of_program(std::shared_ptr<const ExportedProgram> program) const {
    return TraceShape(std::move(program), meaning_);
  }
  // Return the shape with another number of tokens for all inputs, or for each.
  TraceShape at(int64_t tokens) const;
  TraceShape at(const std::vector<int64_t>& tokens) const;
  TraceShape of_sequences(int64_t sequences) const;
  // Returns another number of sequences that the program accepts; 0: none is known.
  int64_t other_sequences() const;
  // Returns the shape with a fixed number of rows, that of the example.
  TraceShape with_fixed_rows() const;
  bool fixes_rows() const { return fixes_rows_; }
  // Returns the shape with features read as images or series; nullopt if no input can be such. The
  // number of tokens depends on the layout (with_image).
  std::optional<TraceShape> of_images() const;
  TraceShape with_image(const ImageLayout& image) const;
  // Returns the shape with each token read as a sequence of one token, [sequences, columns] or
  // [sequences, 1, ..]; nullopt if impossible.
  std::optional<TraceShape> with_one_token() const;
  // Returns the shape with [batch, n] read as n tokens of width 1; nullopt if no input is such.
  std::optional<TraceShape> with_series() const;
  // Returns the shape with [sequences, columns, tokens] read instead of [sequences, tokens,
  // columns], for the tokens of the example; nullopt if impossible.
  std::optional<TraceShape> with_columns_first() const;

  TraceSizes sizes() const {
    return {static_cast<uint32_t>(sequences_), static_cast<uint32_t>(tokens_)};
  }
  int64_t tokens() const { return tokens_; }
  int64_t traced_tokens() const { return traced_tokens_; }
  // Whether the number of tokens may change: it is a symbol in the program.
  bool is_dynamic() const { return !length_.symbol.empty(); }
  // Returns the shape with open lengths in place of fixed ones. REQUIRES: the program is valid for
  // other lengths.
  TraceShape with_open_lengths() const;
  bool is_open() const { return is_dynamic() || is_open_; }
  size_t axis() const { return axis_; }  // the dimension of tokens in the input
  // The symbol that the number of tokens grows with, by `step`: 8 for 8 * s27.
  const std::string& symbol() const { return length_.symbol; }
  int64_t step() const { return length_.step; }
  bool range_is_known() const { return length_.symbol.find('(') == std::string::npos; }
  SymbolRange range() const;  // of tokens
  // Returns the symbol's value for this many tokens, rounded down.
  int64_t symbol_at(int64_t tokens) const { return (tokens - length_.first) / length_.step; }
  // Rounds down to a length that the program accepts: for 8 * s27, 43 becomes 40.
  int64_t rounded(int64_t tokens) const;

  // The inputs of tokens or features; index 0 is this one.
  size_t inputs() const { return 1 + others_.size(); }
  const TraceShape& of(size_t input) const { return input == 0 ? *this : others_[input - 1]; }
  TraceShape& of(size_t input) { return input == 0 ? *this : others_[input - 1]; }
  // Returns the index of the input with this value; nullopt if there is none.
  std::optional<size_t> number_of(uint32_t value) const;
  std::vector<int64_t> all_tokens() const;
  uint64_t elements() const;  // of all inputs

  const ExportedInput& input() const { return *input_; }
  Shape input_shape() const;
  bool reads_tokens() const;  // token ids, not features
  bool reads_images() const { return reads_images_; }
  const std::optional<ImageLayout>& image() const { return image_; }
  // Whether the input is [tokens, sequences, ...], as nn.TransformerEncoder has it.
  bool tokens_first() const { return axis_ == 0 && input_rank() > 1 && !reads_images_; }
  // Whether the input is [sequences, tokens] of width 1, such as audio samples.
  bool is_series() const { return is_series_; }
  // Whether the input has one row per sequence, beside an input of tokens: features [sequences,
  // width], or an id [sequences].
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
  // Returns the mask of pairs in the example, extended to this length. REQUIRES: kCausal.
  Array causal_array(const SideInput& side) const;
  // Returns the elements of a side input for sequences of full length. Throws NotRecognised for
  // token types, which are not constant.
  Array side_constant(uint32_t value) const;

  // Returns the number of tokens in the example, and in arrays of these shapes.
  std::set<int64_t> of_arrays(const std::vector<std::vector<uint64_t>>& shapes) const;
  // Returns the lines of Python that export the program for any length, each preceded by a line
  // feed. If `transposed`, arrays are [tokens, sequences, ..].
  std::string export_lines(bool transposed) const;

  // Returns the value of a symbolic size at this length. Throws NotRecognised if it depends on
  // other symbols.
  int64_t extent(const Extent& extent) const;
  Shape shape_of(const ExportedValue& value) const;

 private:
  TraceShape(std::shared_ptr<const ExportedProgram> program, const ExportedInput& input,
             bool has_sequences_first);
  [[noreturn]] void refuse_dimensions() const;
  void take_one_row();
  // If inputs are different multiples of one symbol, drops the steps of their lengths.
  void check_steps();
  // Finds the inputs that have one row per sequence of other inputs.
  void find_single_rows();
  size_t input_rank() const;  // dimensions of tokens and sequences
  std::optional<int64_t> tokens_of(std::string_view symbol) const;
  // Returns a mask that shows `pairs` [sequences, tokens, tokens]; if empty, those of
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
  LinearSize length_;  // of tokens; the whole expression is the symbol if it is not linear
};

// Returns Model.arrays, the names and roles of the program's inputs; empty if no input has a role.
std::vector<std::string> arrays_of(const ExportedProgram& program, const TraceShape& trace_shape,
                                   const std::vector<GraphInput>& inputs);

// ---- the model's output: one of the program's outputs, or several side by side ----

struct ChosenOutput {
  // The given program, or one with an added output that concatenates the requested outputs.
  std::shared_ptr<const ExportedProgram> program;
  size_t index = 0;     // in the program's outputs
  size_t outputs = 1;   // tensors among the outputs of the given program
  std::string words{};  // for the report; empty if there was no choice
};

// Chooses the outputs `wanted`, indices of tensors; empty: the first. Throws InputError if an
// output does not exist, or if the rows of several outputs differ.
ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted);

// Returns the program without the inputs that no requested output depends on.
std::shared_ptr<const ExportedProgram> without_unread(
    const std::shared_ptr<const ExportedProgram>& program, const std::vector<uint32_t>& wanted);

// Returns the program with float32 inputs in place of integer inputs that are only computed with,
// such as int16 samples and uint8 pixels.
std::shared_ptr<const ExportedProgram> with_real_inputs(
    const std::shared_ptr<const ExportedProgram>& program);

// ---- inputs with a row for each of the same tokens ----

struct InputsSideBySide {
  // The program with one input that concatenates the columns of all, and slices in place of the
  // inputs. Null unless two inputs are features of equally many tokens.
  std::shared_ptr<const ExportedProgram> program;
  std::string words{};  // for the report
};
enum class Columns {
  kFeatures,
  kIds,       // some inputs are integers
  kOneInput,  // only the first input with several integers per token
  kMasks,     // some inputs are padding masks, and other ops than attention read padding
};
InputsSideBySide inputs_side_by_side(const ExportedProgram& program, Columns kind);

// Returns the program for a few sequences in dimension 0, where the extent of dimension `dim` of
// the inputs is a symbol. Null if it is fixed.
struct FewSequences {
  std::shared_ptr<const ExportedProgram> program;
  int64_t other = 0;  // InputMeaning::other_sequences
};
FewSequences with_sequences(const ExportedProgram& program, size_t dim);

// Transposes inputs and outputs [tokens, sequences, ..] to [sequences, tokens, ..]. The number of
// sequences is `known`, or that of the inputs. Null if inputs have other shapes.
std::shared_ptr<const ExportedProgram> sequences_first(const ExportedProgram& program,
                                                       std::optional<Extent> known = {});

struct Interpretation {
  std::shared_ptr<const ExportedProgram> program;
  InputMeaning meaning;
  std::string words{};     // for the report, or empty
  bool is_turned = false;  // the program has tokens before sequences
};
// Returns the interpretations of the inputs, most likely first. A symbolic dimension 0 is
// sequences.
std::vector<Interpretation> interpretations_of(
    const std::shared_ptr<const ExportedProgram>& program);

// ---- parts of a program ----

// Returns the program without the ops that the value does not depend on.
ExportedProgram needed_part(const ExportedProgram& program, uint32_t value);

// Computes a value that depends only on shapes, at the length of `trace_shape`.
Array constant_at(const ExportedProgram& program, const TraceShape& trace_shape, uint32_t value);

}  // namespace arenite::convert
