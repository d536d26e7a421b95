// SPDX-License-Identifier: Apache-2.0
// What an exported program is given when it is followed: so many sequences of so many tokens, as
// its example had them or, where their number is a symbol, any other.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "convert/exported/array_ops.h"
#include "convert/exported/exported_program.h"
#include "convert/exported/graph_builder.h"
#include "convert/exported/side_inputs.h"

namespace arenite::convert {

class Lengths {
 public:
  // At the length of the example. Throws InputError unless the model's first input is tokens
  // [sequences, tokens] or features [sequences, tokens, width], and `sides` are all others.
  explicit Lengths(std::shared_ptr<const ExportedProgram> program,
                   std::vector<SideInput> sides = {});
  // The same program at another length.
  Lengths at(int64_t tokens) const;
  // The same, where it puts rows of constants before each sequence (TraceSizes).
  Lengths with_prefix(uint32_t rows, bool puts_last_first) const;
  // The same, where what seems to be features is images, or series, that it cuts into patches;
  // nothing where it cannot be. Its length is known with the patches.
  std::optional<Lengths> of_images() const;
  Lengths with_patches(const ImagePatches& patches) const;

  TraceSizes sizes() const {
    return {static_cast<uint32_t>(sequences_), static_cast<uint32_t>(tokens_ + prefix_),
            static_cast<uint32_t>(prefix_), puts_last_first_};
  }
  int64_t tokens() const { return tokens_; }
  int64_t rows() const { return tokens_ + prefix_; }  // of a sequence
  int64_t traced_tokens() const { return traced_tokens_; }
  // Where the number of tokens may be another: the program has a symbol for it.
  bool is_dynamic() const { return !symbol_.empty(); }
  size_t axis() const { return axis_; }  // of tokens, in the input
  SymbolRange range() const;
  const std::string& symbol() const { return symbol_; }
  bool range_is_known() const { return symbol_.find('(') == std::string::npos; }

  const ExportedInput& input() const { return *input_; }
  Shape input_shape() const;
  bool reads_tokens() const;  // ids, and no features
  bool reads_images() const { return reads_images_; }
  const std::optional<ImagePatches>& patches() const { return patches_; }
  // Whether the example has one token, unless it is a series that the program cuts.
  bool has_one_token() const { return has_one_token_; }
  [[noreturn]] void refuse_one_token() const;
  // Whether the input is [tokens, sequences, ...], as nn.TransformerEncoder has it.
  bool tokens_first() const { return axis_ == 0 && input_rank() > 1 && !reads_images_; }

  const std::vector<SideInput>& sides() const { return sides_; }
  // What is known of an input of the user's beside the first; null: it is the first.
  const SideInput* side(uint32_t value) const;
  Array side_array(const SideInput& side, std::span<const uint32_t> lengths,
                   std::span<const uint8_t> types = {}) const;
  // With all sequences as long as they can be. Throws NotRecognised for types, which are no
  // constant.
  Array side_constant(uint32_t value) const;

  // The numbers of tokens of the example, and of inputs of these shapes.
  std::set<int64_t> of_arrays(const std::vector<std::vector<uint64_t>>& shapes) const;
  // How its author exports the program for other lengths, each line after a line feed.
  std::string export_lines() const;

  // A size of the program at this length. Throws NotRecognised where that is not known.
  int64_t extent(const Extent& extent) const;

 private:
  size_t input_rank() const;  // of tokens and sequences
  void check_side(const SideInput& side) const;

  std::shared_ptr<const ExportedProgram> program_;
  const ExportedInput* input_ = nullptr;
  std::vector<SideInput> sides_;
  size_t axis_ = 0;  // of tokens, in the input
  int64_t sequences_ = 1;
  int64_t tokens_ = 0;
  int64_t traced_tokens_ = 0;
  int64_t prefix_ = 0;
  bool reads_images_ = false;
  bool has_one_token_ = false;
  std::optional<ImagePatches> patches_;
  bool puts_last_first_ = false;
  std::string symbol_;
};

}  // namespace arenite::convert
