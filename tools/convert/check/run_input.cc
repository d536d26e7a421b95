// SPDX-License-Identifier: Apache-2.0
// Arrays stay on disk until a call needs their elements.
#include "convert/check/run_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "convert/files/error.h"
#include "session/session_state.h"

namespace arenite::convert {
namespace {

constexpr double kHiddenMax = -1000.0;  // added to scores of hidden keys
constexpr std::string_view kMaskRoles[] = {"kept", "hidden", "added", "lengths"};

// Throws InputError unless an array equals what the file fixes for all calls: the positions of
// tokens, or a pair mask that is causal or shows all pairs.
void require_as_known(const std::string& file, const AuthorsArray& known,
                      const std::string& option) {
  const NpyArray array = NpyArray::read(file);
  const std::vector<double> values = array.to_f64();
  const size_t n = array.shape().empty() ? 1 : array.shape().back();
  const bool is_whole = known.role.starts_with("whole"), seen = known.role.ends_with('1');
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_seen = is_whole || i % n <= i / n % n;
    const bool fits = known.role == "positions" ? values[i] == static_cast<double>(i % n)
                                                : (values[i] != 0.0) == (is_seen == seen);
    refuse_if(!fits, "{}: {} has the value {} at index {}: {} is {} in the model", option,
              quote(array.name()), values[i], i, quote(known.name),
              known.role == "positions" ? "0, 1, 2, ..."
              : is_whole                ? "a mask that hides nothing"
                                        : "a causal mask");
  }
}

// Arrays of an exported program that are not inputs of the model: masks and token types.
struct SideArrays {
  std::vector<std::string> masks;  // for each input: file of the mask, or empty
  std::vector<std::string> roles;  // encoding of each mask: kept, hidden, added or lengths
  std::vector<std::string> types;  // for each input: file of the token types, or empty
};

// Removes side arrays from `given` if it holds all arrays of the author's program, in order or by
// name. Throws InputError that begins with `option`.
SideArrays take_sides(std::vector<std::string>& given, const Model& model,
                      const std::string& option) {
  const std::vector<std::string> none(model.inputs());
  SideArrays sides = {none, none, none};
  const std::vector<AuthorsArray> arrays = authors_arrays(model.file());
  if (arrays.empty() || given.size() != arrays.size()) return sides;
  std::vector<std::string> rest = std::move(given), files(arrays.size());
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string name = arrays[i].name + "=";
    const auto found = std::ranges::find_if(rest, [&](const std::string& text) {
      return text.starts_with(name) ||
             (arrays[i].role.ends_with("pairs") && text.starts_with("pairs="));
    });
    if (found == rest.end()) continue;
    files[i] = found->substr(found->find('=') + 1);
    rest.erase(found);
  }
  given.clear();
  for (size_t i = 0, next = 0; i < arrays.size(); ++i) {
    if (files[i].empty()) files[i] = rest[next++];
    const auto& [name, role, of] = arrays[i];
    if (role.empty() || sequence_end(role) != SequenceEnd{}) {
      given.push_back(files[i]);
    } else if (role.ends_with("pairs")) {
      given.push_back("pairs=" + files[i]);
    } else if (role == "types") {
      sides.types.at(of) = files[i];
    } else if (std::ranges::count(kMaskRoles, role) != 0) {
      // Several masks of an input must agree.
      const std::string& other = sides.masks.at(of);
      refuse_if(
          !other.empty() && NpyArray::read(other).to_f64() != NpyArray::read(files[i]).to_f64(),
          "{}: {} and {} disagree about the tokens of {}: the model has one length for each "
          "sequence",
          option, quote(other), quote(files[i]), quote(model.input(of).name));
      sides.masks[of] = files[i];
      sides.roles[of] = role;
    } else {
      require_as_known(files[i], arrays[i], option);
    }
  }
  return sides;
}

// Returns how many tokens of each sequence count if the author's program derives that from token
// ids; nullopt for other inputs. Throws InputError that begins with `option`.
std::optional<std::vector<uint32_t>> lengths_by_ids(const NpyArray& array, const TokenAxes& axes,
                                                    const Model& model, uint32_t input,
                                                    const std::string& option) {
  SequenceEnd end;
  for (const AuthorsArray& known : authors_arrays(model.file())) {
    if (known.of == input && sequence_end(known.role) != SequenceEnd{}) {
      end = sequence_end(known.role);
    }
  }
  if (end == SequenceEnd{}) return std::nullopt;
  const std::vector<int64_t> ids = array.to_i64();
  std::vector<uint32_t> lengths;
  for (uint32_t s = 0; s < axes.sequences; ++s) {
    std::vector<int64_t> sequence;
    for (uint32_t t = 0; t < axes.tokens; ++t) {
      sequence.push_back(ids.at(axes.place(axes.tokens, s, t)));
    }
    const bool has_padding =
        end.rule == SequenceEnd::Rule::kCount || end.rule == SequenceEnd::Rule::kLast;
    refuse_if(has_padding && std::ranges::count(sequence, int64_t{end.id}) == axes.tokens,
              "{}: {} has only the padding {} in the sequence at {}", option, quote(array.name()),
              end.id, s);
    lengths.push_back(static_cast<uint32_t>(end.tokens(sequence)));
    const auto rest = std::span(sequence).subspan(lengths.back());
    const bool goes_on = end.rule == SequenceEnd::Rule::kCount &&
                         std::ranges::count(rest, int64_t{end.id}) != std::ssize(rest);
    refuse_if(goes_on,
              "{}: {} has the padding {} before tokens that count in the sequence at {}: expected "
              "it after them",
              option, quote(array.name()), end.id, s);
  }
  return lengths;
}

// Reads a mask of this role as [sequences, tokens], 1 for each token that counts.
std::vector<uint8_t> read_counted(const std::string& file, const std::string& role,
                                  const TokenAxes& axes, const std::string& option) {
  const NpyArray array = NpyArray::read(file);
  const std::vector<double> values = array.to_f64();
  const size_t tokens = size_t{axes.sequences} * axes.tokens;
  const bool has_lengths = role == "lengths";
  if (values.size() != (has_lengths ? axes.sequences : tokens)) {
    refuse_shape(
        array, option,
        fmt::format("[{}{}]", axes.sequences, has_lengths ? "" : fmt::format(", {}", axes.tokens)));
  }
  std::vector<uint8_t> counted;
  for (size_t i = 0; i < tokens; ++i) {
    const double value = values[has_lengths ? i / axes.tokens : i];
    const bool is_known = role != "added" || value == 0.0 || value <= kHiddenMax;
    refuse_if(!is_known, "{}: {} has the value {} at index {}: expected 0 or -infinity", option,
              quote(array.name()), value, i);
    counted.push_back(has_lengths      ? static_cast<double>(i % axes.tokens) < value
                      : role == "kept" ? value != 0.0
                                       : value == 0.0);
  }
  return counted;
}

// Removes pair masks from `given`: pairs=FILE, or values beyond the number of inputs. The result is
// empty for an input without a mask. Throws InputError that begins with `option` if the model takes
// pair masks and none is given.
std::vector<std::string> take_pairs(std::vector<std::string>& given, const Model& model,
                                    const std::string& option) {
  std::vector<std::string> files(model.inputs());
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if (!model.input(i).takes_pairs) continue;
    constexpr std::string_view kName = "pairs=";
    auto found = std::ranges::find_if(
        given, [&](const std::string& text) { return text.starts_with(kName); });
    const bool is_named = found != given.end();
    if (!is_named) {
      drop_unread(given, model, model.inputs() + 1);
      found = given.size() > model.inputs() ? given.begin() + model.inputs() : given.end();
    }
    refuse_if(found == given.end(),
              "{}: the model also takes a pair mask: expected pairs=FILE, an .npy file of 0 and 1 "
              "[batch, tokens, tokens]",
              option);
    files[i] = is_named ? found->substr(kName.size()) : *found;
    given.erase(found);
  }
  return files;
}

// Reads the pair mask of an input, [sequences, tokens, tokens], in the author's convention, and
// returns 1 for each visible pair. Throws InputError.
std::vector<uint8_t> read_pairs(const std::string& file, const TokenAxes& axes, const Model& model,
                                uint32_t input, const std::string& option) {
  const NpyArray array = NpyArray::read(file);
  const std::vector<uint64_t> expected = {axes.sequences, axes.tokens, axes.tokens};
  std::vector<uint64_t> shape = array.shape();
  while (shape.size() < 3) shape.insert(shape.begin(), 1);
  const bool is_of_all = array.shape().size() == 2;
  if (is_of_all) shape[0] = axes.sequences;
  // A head dimension of 1 may come second, as attention takes it.
  if (shape.size() == 4 && shape[1] == 1) shape.erase(shape.begin() + 1);
  if (shape != expected) {
    refuse_shape(array, option,
                 fmt::format("[{}], a value for each pair of tokens", fmt::join(expected, ", ")));
  }
  std::vector<uint8_t> pairs;
  const std::vector<double> values = array.to_f64();
  const std::string role = role_of_pairs(model.file(), input);
  const bool is_added = role == "added_pairs";
  for (size_t i = 0; i < values.size(); ++i) {
    const bool is_known =
        values[i] == 0.0 || (is_added ? values[i] <= kHiddenMax : values[i] == 1.0);
    refuse_if(!is_known,
              "{}: {} has the value {} at index {}: expected 0 or {} for each pair of tokens",
              option, quote(array.name()), values[i], i, is_added ? "-infinity" : "1");
    pairs.push_back((values[i] != 0.0) == (role == "pairs") ? 1 : 0);
  }
  const size_t own = pairs.size();
  for (uint32_t b = 1; b < axes.sequences && is_of_all; ++b) {
    for (size_t i = 0; i < own; ++i) pairs.push_back(pairs[i]);
  }
  return pairs;
}

// The files of one input, and the values of its options.
struct InputFiles {
  const GivenArrays& given;
  uint32_t number = 0;  // index of the input
  std::filesystem::path file;
  std::vector<uint32_t> lengths;  // valid tokens per sequence; empty: all
  std::filesystem::path mask;     // empty: none
  std::filesystem::path types;    // empty: none
  std::string pairs;              // empty: none
  std::string role{};             // of the mask, if it is an array of the author's program
};

void check_lengths(const InputFiles& files, const TokenAxes& axes) {
  const std::vector<uint32_t>& lengths = files.lengths;
  const std::string& option = files.given.lengths_option;
  const std::string file = quote(files.file.string());
  refuse_if(lengths.size() != axes.sequences,
            "{}: found {} values, expected one for each of the {} sequence{} in {}", option,
            lengths.size(), axes.sequences, axes.sequences == 1 ? "" : "s", file);
  for (const uint32_t length : lengths) {
    refuse_if(length > axes.tokens, "{}: found length {}: expected at most {}, the tokens in {}",
              option, length, axes.tokens, file);
  }
  refuse_if(std::ranges::all_of(lengths, [](uint32_t length) { return length == 0; }),
            "{}: found zeros only, expected at least one token to run", option);
}

// Reads an .npy file of one-byte integers [sequences, tokens].
std::vector<uint8_t> read_token_bytes(const std::filesystem::path& path, const char* option,
                                      const TokenAxes& axes, int64_t most) {
  const NpyArray array = NpyArray::read(path);
  const uint64_t tokens = uint64_t{axes.sequences} * axes.tokens;
  if (array.elements() != tokens || array.shape().back() != axes.tokens) {
    throw InputError("{}: shape is [{}]: expected [{}, {}], a value for each token ({})",
                     quote(array.name()), fmt::join(array.shape(), ", "), axes.sequences,
                     axes.tokens, option);
  }
  std::vector<uint8_t> bytes;
  for (const int64_t value : array.to_i64()) {
    if (value < 0 || value > most) {
      throw InputError("{}: found {}, expected numbers from 0 to {} ({})", quote(array.name()),
                       value, most, option);
    }
    bytes.push_back(static_cast<uint8_t>(value));
  }
  return bytes;
}

// Returns why a model cannot skip tokens before valid ones, as a clause; null if it can.
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

// Reads a mask. If all its zeros are at the end, lengths replace it.
void read_mask(const InputFiles& files, const Model& model, RunInput& input) {
  const std::filesystem::path& file = files.mask;
  std::vector<uint8_t> mask =
      files.role.empty() ? read_token_bytes(file, "--mask", input.axes, 1)
                         : read_counted(file.string(), files.role, input.axes, files.given.option);
  bool has_gaps = false;
  for (uint32_t s = 0; s < input.axes.sequences; ++s) {
    const auto row = std::span(mask).subspan(size_t{s} * input.axes.tokens, input.axes.tokens);
    input.lengths[s] = static_cast<uint32_t>(std::ranges::count(row, 1));
    if (input.lengths[s] == 0) {
      throw InputError("{}: hides all of the sequence at {}: expected a 1 in each sequence",
                       quote(file.string()), s);
    }
    has_gaps = has_gaps || std::ranges::count(row.first(input.lengths[s]), 0) != 0;
  }
  if (!has_gaps) return;
  if (const char* const why = why_no_gaps(model, input.number)) {
    throw InputError(
        "{}: hides tokens before others that count, and {}: expected zeros at the end of each "
        "sequence, or {}",
        quote(file.string()), why, files.given.lengths_option);
  }
  input.visible = std::move(mask);
}

// Takes lengths from the ids, as the author's program does. A mask given as well must agree.
void end_by_ids(const InputFiles& files, const std::vector<uint32_t>& lengths, RunInput& input) {
  for (uint32_t s = 0; s < input.axes.sequences && !files.mask.empty(); ++s) {
    if (lengths[s] == input.lengths[s] && input.visible.empty()) continue;
    throw InputError(
        "{}: ends the sequence at {} after {} tokens, but {} says that {} count: expected both to "
        "agree, and padding after the tokens",
        quote(input.array.name()), s, lengths[s], quote(files.mask.string()), input.lengths[s]);
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
        throw InputError(
            "{}: found token {} at [{}], expected ids from 0 to {}, the model's vocabulary",
            quote(input.array.name()), value,
            axes.has_sequences ? fmt::format("{}, {}", first, axes.tokens_first ? s : t)
                               : fmt::format("{}", t),
            vocab_size - 1);
      }
    }
  }
}

// Transposes tokens of an array [features, tokens] to rows.
std::vector<float> transposed_features(const RunInput& input, size_t first, uint32_t count,
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

std::vector<uint64_t> RunInput::rows_given(uint64_t rows, uint32_t sequence) const {
  const bool has_gaps = !visible.empty() && rows >= axes.tokens;
  const uint64_t prefix = has_gaps ? rows - axes.tokens : rows;
  std::vector<uint64_t> given;
  for (uint64_t row = 0; row < rows; ++row) {
    if (row < prefix || counts(sequence, static_cast<uint32_t>(row - prefix))) given.push_back(row);
  }
  return given;
}

void RunInput::append(const Model& model, uint32_t sequence, uint32_t begin, uint32_t count,
                      ModelInput& fed) const {
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
  if (const auto image = image_layout(model, number)) {
    const size_t each = image->elements();
    return add(pixels_of(array.to_f32(sequence * each, each), *image));
  }
  const uint64_t width = array.elements() / (uint64_t{axes.sequences} * axes.tokens);
  const uint32_t each = axes.tokens_first ? 1 : count;  // adjacent rows
  for (uint32_t t = 0; t < count; t += each) {
    const size_t first = axes.place(axes.tokens, sequence, begin + t);
    if (!ids.empty()) {
      const auto from = ids.begin() + static_cast<ptrdiff_t>(first);
      fed.ids.insert(fed.ids.end(), from, from + each);
    } else {
      add(axes.columns_first ? transposed_features(*this, first, each, width)
                             : array.to_f32(first * width, each * width));
    }
  }
}

ModelInput RunInput::sequence(const Model& model, uint32_t index) const {
  ModelInput fed;
  append(model, index, 0, visible.empty() ? lengths[index] : axes.tokens, fed);
  array.drop_pages();
  return fed;
}

namespace {

RunInput read_run_input(const InputFiles& files, const Model& model, const std::string& name) {
  const std::string& option = files.given.option;
  RunInput input = {files.number, files.given.read ? files.given.read(files.file, files.number)
                                                   : NpyArray::read(files.file)};
  input.axes = token_axes(input.array, model, option, files.number);
  require_context(input.array, input.axes, model, option, files.number);
  input.lengths.assign(input.axes.sequences, input.axes.tokens);
  const InputInfo info = model.input(files.number);
  refuse_if(image_layout(model, files.number) && !(files.mask.empty() && files.lengths.empty()),
            "{}: {}: the model reads images, which are all of one size: drop the option",
            quote(name), files.lengths.empty() ? "--mask" : files.given.lengths_option);
  if (!files.lengths.empty()) {
    check_lengths(files, input.axes);
    input.lengths = files.lengths;
  }
  if (!files.mask.empty()) read_mask(files, model, input);
  if (files.lengths.empty()) {
    const auto lengths = lengths_by_ids(input.array, input.axes, model, files.number, option);
    if (lengths) end_by_ids(files, *lengths, input);
  }
  if (!files.types.empty()) {
    refuse_if(info.token_types == 0, "{}: --types: the model has no token types", quote(name));
    input.types =
        read_token_bytes(files.types, "--types", input.axes, int64_t{info.token_types} - 1);
  }
  if (!files.pairs.empty()) {
    input.pairs = read_pairs(files.pairs, input.axes, model, files.number, option);
  }
  if (info.vocab_size != 0) read_ids(info.vocab_size, input);
  return input;
}

// Throws InputError unless all inputs have the same number of sequences, and each sequence has
// tokens in all inputs or in none.
void require_sequences_of_all(const std::vector<RunInput>& inputs, const GivenArrays& given) {
  const RunInput& first = inputs[0];
  for (const RunInput& input : inputs) {
    require_same_sequences(first.array, first.axes.sequences, input.array, input.axes.sequences,
                           given.option);
    for (uint32_t s = 0; s < input.axes.sequences; ++s) {
      refuse_if((input.lengths[s] == 0) != (first.lengths[s] == 0),
                "{}: sequence {} has {} tokens of {} and {} of {}: expected tokens of all inputs "
                "or of none",
                given.lengths_option, s, first.lengths[s], quote(first.array.name()),
                input.lengths[s], quote(input.array.name()));
    }
  }
}

}  // namespace

std::vector<RunInput> read_run_inputs(const GivenArrays& given, const Model& model,
                                      const std::string& name) {
  std::vector<std::string> rest = given.files;
  const SideArrays sides = take_sides(rest, model, given.option);
  const auto pairs = take_pairs(rest, model, given.option);
  const auto files = files_of_inputs(rest, model, given.option);
  const auto lengths = lengths_of_inputs(given.lengths, model, given.lengths_option);
  const auto masks = values_of_inputs(given.masks, model, "--mask");
  const auto types = values_of_inputs(given.types, model, "--types");
  std::vector<RunInput> inputs;
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    InputFiles one = {given, i, files[i], lengths[i], masks[i], types[i], pairs[i]};
    refuse_if(!sides.masks[i].empty() && !(one.mask.empty() && one.lengths.empty()),
              "{}: {}: {} says which tokens count", quote(name),
              one.mask.empty() ? given.lengths_option : "--mask", quote(sides.masks[i]));
    if (!sides.masks[i].empty()) one.mask = sides.masks[i], one.role = sides.roles[i];
    if (one.types.empty()) one.types = sides.types[i];
    inputs.push_back(read_run_input(one, model, name));
  }
  require_sequences_of_all(inputs, given);
  return inputs;
}

}  // namespace arenite::convert
