// SPDX-License-Identifier: Apache-2.0
// Arrays stay in their files until a call needs their elements.
#include "cli/run_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/sound_file.h"
#include "convert/files/error.h"
#include "session/session_state.h"

namespace arenite::tool {
namespace {

using convert::TokenAxes;

void check_lengths(const InputFiles& files, const TokenAxes& axes) {
  const std::vector<uint32_t>& lengths = files.lengths;
  const std::string file = convert::quote(files.file.string());
  if (lengths.size() != axes.sequences) {
    throw convert::InputError(
        "--lengths: found {} values, expected one for each of the {} sequence{} in {}",
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

// Reads an .npy file of one-byte integers [sequences, tokens].
std::vector<uint8_t> read_token_bytes(const std::filesystem::path& path, const char* option,
                                      const TokenAxes& axes, int64_t most) {
  const convert::NpyArray array = convert::NpyArray::read(path);
  const uint64_t tokens = uint64_t{axes.sequences} * axes.tokens;
  if (array.elements() != tokens || array.shape().back() != axes.tokens) {
    throw convert::InputError("{}: shape is [{}]: expected [{}, {}], a value for each token ({})",
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

// Says in half a sentence why a model cannot skip tokens before valid ones. Null: it can.
const char* why_no_gaps(const Model& model, uint32_t input) {
  const format::ModelReader reader = ModelAccess::reader(model);
  const uint32_t function = reader.function_of_input(input);
  if (!reader.sees_everything(function)) {
    return "the model has a mask of its own, in which a token sees only tokens at some distances";
  }
  return std::popcount(reader.function(function).inputs) == 1
             ? nullptr
             : "the model takes this input together with others, in which rows have no gaps";
}

// Reads a mask. If its zeros are all at the end, lengths are enough.
void read_mask(const InputFiles& files, const Model& model, RunInput& input) {
  const std::filesystem::path& file = files.mask;
  std::vector<uint8_t> mask =
      files.role.empty() ? read_token_bytes(file, "--mask", input.axes, 1)
                         : convert::read_counted(file.string(), files.role, input.axes, "--input");
  bool has_gaps = false;
  for (uint32_t s = 0; s < input.axes.sequences; ++s) {
    const auto row = std::span(mask).subspan(size_t{s} * input.axes.tokens, input.axes.tokens);
    input.lengths[s] = static_cast<uint32_t>(std::ranges::count(row, 1));
    if (input.lengths[s] == 0) {
      throw convert::InputError("{}: hides a whole sequence, the one at {}: expected a 1 in each",
                                convert::quote(file.string()), s);
    }
    has_gaps = has_gaps || std::ranges::count(row.first(input.lengths[s]), 0) != 0;
  }
  if (!has_gaps) return;
  if (const char* const why = why_no_gaps(model, input.number)) {
    throw convert::InputError(
        "{}: hides tokens before others that count, and {}: expected zeros at the end of each "
        "sequence, or --lengths",
        convert::quote(file.string()), why);
  }
  input.visible = std::move(mask);
}

// Takes lengths from the ids, as the author's program does. A mask beside them must agree.
void end_by_ids(const InputFiles& files, const std::vector<uint32_t>& lengths, RunInput& input) {
  for (uint32_t s = 0; s < input.axes.sequences && !files.mask.empty(); ++s) {
    if (lengths[s] == input.lengths[s] && input.visible.empty()) continue;
    throw convert::InputError(
        "{}: ends the sequence at {} after {} tokens, and {} says that {} count: expected the same "
        "of both, and padding after the tokens",
        convert::quote(input.array.name()), s, lengths[s], convert::quote(files.mask.string()),
        input.lengths[s]);
  }
  input.lengths = lengths;
}

void read_ids(uint32_t vocab_size, RunInput& input) {
  const TokenAxes& axes = input.axes;
  const std::vector<int64_t> values = input.array.to_i64();
  input.ids.assign(values.size(), kNoToken);
  for (uint32_t s = 0; s < axes.sequences; ++s) {
    for (uint32_t t = 0; t < axes.tokens; ++t) {
      const size_t place = axes.place(axes.tokens, s, t);
      const int64_t value = values[place];
      if (value >= 0 && value < int64_t{vocab_size}) {
        input.ids[place] = static_cast<TokenId>(value);
      } else if (input.counts(s, t)) {
        const uint32_t first = axes.tokens_first ? t : s;
        throw convert::InputError(
            "{}: found token {} at [{}], expected ids from 0 to {}, the model's vocabulary",
            convert::quote(input.array.name()), value,
            axes.has_sequences ? fmt::format("{}, {}", first, axes.tokens_first ? s : t)
                               : fmt::format("{}", t),
            vocab_size - 1);
      }
    }
  }
}

// Transposes tokens of an array [features, tokens] to rows.
std::vector<float> turned_features(const RunInput& input, size_t first, uint32_t count,
                                   uint64_t width) {
  const uint32_t tokens = input.axes.tokens;
  std::vector<float> rows(count * width);
  for (uint64_t c = 0; c < width; ++c) {
    const uint64_t begin = (first / tokens * width + c) * tokens + first % tokens;
    const std::vector<float> column = input.array.to_f32(begin, count);
    for (uint32_t i = 0; i < count; ++i) rows[i * width + c] = column[i];
  }
  return rows;
}

}  // namespace

void RunInput::append(const Model& model, uint32_t sequence, uint32_t begin, uint32_t count,
                      convert::ModelInput& fed) const {
  const auto add_bytes = [&](const std::vector<uint8_t>& from, std::vector<uint8_t>& to) {
    if (from.empty()) return;
    const auto first =
        from.begin() + static_cast<ptrdiff_t>(size_t{sequence} * axes.tokens + begin);
    to.insert(to.end(), first, first + count);
  };
  add_bytes(types, fed.types);
  add_bytes(visible, fed.visible);
  fed.tokens += count;
  for (uint32_t row = 0; row < count && !pairs.empty(); ++row) {
    const size_t first = (size_t{sequence} * axes.tokens + row) * axes.tokens;
    const auto from = pairs.begin() + static_cast<ptrdiff_t>(first);
    fed.pairs.insert(fed.pairs.end(), from, from + count);
  }
  const auto add = [&](std::vector<float> part) {
    fed.features.insert(fed.features.end(), part.begin(), part.end());
  };
  if (const auto image = convert::image_layout(model, number)) {
    const size_t each = image->elements();
    return add(convert::pixels_of(array.to_f32(sequence * each, each), *image));
  }
  const uint64_t width = array.elements() / (uint64_t{axes.sequences} * axes.tokens);
  const uint32_t each = axes.tokens_first ? 1 : count;  // adjacent rows
  for (uint32_t t = 0; t < count; t += each) {
    const size_t first = axes.place(axes.tokens, sequence, begin + t);
    if (!ids.empty()) {
      const auto from = ids.begin() + static_cast<ptrdiff_t>(first);
      fed.ids.insert(fed.ids.end(), from, from + each);
    } else {
      add(axes.columns_first ? turned_features(*this, first, each, width)
                             : array.to_f32(first * width, each * width));
    }
  }
}

convert::ModelInput RunInput::sequence(const Model& model, uint32_t index) const {
  convert::ModelInput fed;
  append(model, index, 0, visible.empty() ? lengths[index] : axes.tokens, fed);
  array.drop_pages();
  return fed;
}

RunInput read_run_input(const InputFiles& files, const Model& model, const std::string& name) {
  RunInput input = {files.number, read_features(files.file, model, files.number)};
  input.axes = convert::token_axes(input.array, model, "--input", files.number);
  convert::require_context(input.array, input.axes, model, "--input", files.number);
  input.lengths.assign(input.axes.sequences, input.axes.tokens);
  const InputInfo info = model.input(files.number);
  if (convert::image_layout(model, files.number) &&
      !(files.mask.empty() && files.lengths.empty())) {
    throw convert::InputError(
        "{}: --mask and --lengths are for texts and features, and this model reads images",
        convert::quote(name));
  }
  if (!files.lengths.empty()) {
    check_lengths(files, input.axes);
    input.lengths = files.lengths;
  }
  if (!files.mask.empty()) read_mask(files, model, input);
  if (files.lengths.empty()) {
    const auto lengths =
        convert::lengths_by_ids(input.array, input.axes, model, files.number, "--input");
    if (lengths) end_by_ids(files, *lengths, input);
  }
  if (!files.types.empty()) {
    if (info.token_types == 0) {
      throw convert::InputError("{}: --types: the model has no token types", convert::quote(name));
    }
    input.types =
        read_token_bytes(files.types, "--types", input.axes, int64_t{info.token_types} - 1);
  }
  if (!files.pairs.empty()) {
    input.pairs = convert::read_pairs(files.pairs, input.axes, model, files.number, "--input");
  }
  if (info.vocab_size != 0) read_ids(info.vocab_size, input);
  return input;
}

}  // namespace arenite::tool
