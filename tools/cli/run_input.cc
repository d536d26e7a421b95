// SPDX-License-Identifier: Apache-2.0
// The arrays of arenite run: what is fed, and which of its tokens count.
#include <fmt/format.h>

#include <algorithm>

#include "cli/run.h"
#include "convert/files/error.h"
#include "session/model_access.h"

namespace arenite::tool {
namespace {

using convert::TokenAxes;

void check_lengths(const RunOptions& options, const TokenAxes& axes) {
  const std::vector<uint32_t>& lengths = options.lengths;
  const std::string file = convert::quote(options.input.string());
  if (lengths.size() != axes.sequences) {
    throw convert::InputError(
        "--lengths: found {} numbers, expected one for each of the {} "
        "sequence{} in {}",
        lengths.size(), axes.sequences, axes.sequences == 1 ? "" : "s", file);
  }
  for (const uint32_t length : lengths) {
    if (length > axes.tokens) {
      throw convert::InputError("--lengths: found {}; at most the {} tokens in {}", length,
                                axes.tokens, file);
    }
  }
  if (std::ranges::all_of(lengths, [](uint32_t length) { return length == 0; })) {
    throw convert::InputError("--lengths: found zeros only, expected at least one token to run");
  }
}

// A .npy of whole numbers of one byte each, [sequences, tokens].
std::vector<uint8_t> read_token_bytes(const std::filesystem::path& path, const char* option,
                                      const TokenAxes& axes, int64_t most) {
  const convert::NpyArray array = convert::NpyArray::read(path);
  const uint64_t tokens = uint64_t{axes.sequences} * axes.tokens;
  if (array.elements() != tokens || array.shape().back() != axes.tokens) {
    throw convert::InputError("{}: shape is [{}]: expected [{}, {}], a number for each token ({})",
                              convert::quote(array.name()), fmt::join(array.shape(), ", "),
                              axes.sequences, axes.tokens, option);
  }
  std::vector<uint8_t> bytes;
  for (const int64_t value : array.to_i64()) {
    if (value < 0 || value > most) {
      throw convert::InputError("{}: found {}, expected numbers from 0 to {} ({})",
                                convert::quote(array.name()), value, most, option);
    }
    bytes.push_back(static_cast<uint8_t>(value));
  }
  return bytes;
}

// A mask whose zeros all stand at the end says no more than lengths do.
void read_mask(const RunOptions& options, const Model& model, RunInput& input) {
  std::vector<uint8_t> mask = read_token_bytes(options.mask, "--mask", input.axes, 1);
  bool has_gaps = false;
  for (uint32_t s = 0; s < input.axes.sequences; ++s) {
    const auto row = std::span(mask).subspan(size_t{s} * input.axes.tokens, input.axes.tokens);
    input.lengths[s] = static_cast<uint32_t>(std::ranges::count(row, 1));
    if (input.lengths[s] == 0) {
      throw convert::InputError("{}: hides a whole sequence, the one at {}: expected a 1 in each",
                                convert::quote(options.mask.string()), s);
    }
    has_gaps = has_gaps || std::ranges::count(row.first(input.lengths[s]), 0) != 0;
  }
  if (!has_gaps) return;
  if (!ModelAccess::reader(model).sees_everything()) {
    throw convert::InputError(
        "{}: hides tokens before others that count, and the model has a mask of its own, by which "
        "a token sees those at some distances alone: expected zeros at the end of each sequence, "
        "or --lengths",
        convert::quote(options.mask.string()));
  }
  input.visible = std::move(mask);
}

bool counts(const RunInput& input, uint32_t sequence, uint32_t token) {
  return input.visible.empty() ? token < input.lengths[sequence]
                               : input.visible[size_t{sequence} * input.axes.tokens + token] != 0;
}

void read_ids(const Model& model, RunInput& input) {
  const TokenAxes& axes = input.axes;
  const std::vector<int64_t> values = input.array.to_i64();
  input.ids.assign(values.size(), kNoToken);
  for (uint32_t s = 0; s < axes.sequences; ++s) {
    for (uint32_t t = 0; t < axes.tokens; ++t) {
      const size_t place = axes.place(axes.tokens, s, t);
      const int64_t value = values[place];
      if (value >= 0 && value < int64_t{model.vocab_size()}) {
        input.ids[place] = static_cast<TokenId>(value);
      } else if (counts(input, s, t)) {
        const uint32_t first = axes.tokens_first ? t : s;
        throw convert::InputError(
            "{}: found token {} at [{}], expected ids from 0 to {}, the model's vocabulary",
            convert::quote(input.array.name()), value,
            axes.has_sequences ? fmt::format("{}, {}", first, axes.tokens_first ? s : t)
                               : fmt::format("{}", t),
            model.vocab_size() - 1);
      }
    }
  }
}

}  // namespace

RunInput read_run_input(const RunOptions& options, const Model& model) {
  RunInput input{convert::NpyArray::read(options.input), {}, {}, {}, {}, {}};
  input.axes = convert::token_axes(input.array, model, "--input");
  convert::require_context(input.array, input.axes, model, "--input");
  input.lengths.assign(input.axes.sequences, input.axes.tokens);
  const std::string file = convert::quote(options.model.string());
  if (image_shape(model).channels != 0 && !(options.mask.empty() && options.lengths.empty())) {
    throw convert::InputError(
        "{}: --mask and --lengths are for texts and features, and this model reads images", file);
  }
  if (!options.lengths.empty()) {
    check_lengths(options, input.axes);
    input.lengths = options.lengths;
  }
  if (!options.mask.empty()) read_mask(options, model, input);
  if (!options.types.empty()) {
    const uint32_t types = model.token_types();
    if (types == 0) throw convert::InputError("{}: --types: the model knows no token types", file);
    input.types = read_token_bytes(options.types, "--types", input.axes, int64_t{types} - 1);
  }
  if (model.vocab_size() != 0) read_ids(model, input);
  return input;
}

}  // namespace arenite::tool
