// SPDX-License-Identifier: Apache-2.0
// An exported program for other numbers of tokens than its example had: its symbolic extents or,
// where these were fixed, the literals that can only be the number of tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  bool is_dynamic() const { return !symbol_.empty(); }
  SymbolRange range() const;

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

  // A size of the program as it is at this length. Throws NotRecognised where that is not known.
  int64_t extent(const Extent& extent) const;
  // Where a literal may be the number of tokens and may be another size that is as large: whether
  // it is that number. Programs are tried with either.
  void set_takes_doubtful(bool takes) { takes_doubtful_ = takes; }
  // What an op works on, as it was traced and at this length.
  struct Self {
    Shape traced, now;
    bool depends = false;  // on the model's input
  };
  // The call with the literals of this length.
  OpCall adapted(const OpCall& call, const Self* self) const;

 private:
  size_t input_rank() const;  // of tokens and sequences
  void check_side(const SideInput& side) const;
  bool is_adapted() const { return tokens_ != traced_tokens_ && symbol_.empty(); }
  void adapt_view(Argument::List& sizes, const Shape& traced, const Shape& now) const;
  void adapt_sizes(Argument::List& sizes, const Self* self, std::string_view op) const;
  std::optional<int64_t> at_this_length(int64_t size) const;

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
  bool takes_doubtful_ = true;
};

}  // namespace arenite::convert
