// SPDX-License-Identifier: Apache-2.0
// Checks types first, then shapes, then values, so that a message names the first thing that is
// wrong.
#include "convert/check/model_input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <utility>

#include "convert/check/check_session.h"
#include "convert/files/error.h"
#include "convert/graph/graph.h"
#include "convert/program/program.h"
#include "format/schema.h"

namespace arenite::convert {
namespace {

constexpr uint64_t kTokensMax = 1u << 24;  // of all sequences

void read_ids(const NpyArray& array, uint32_t vocab_size, const std::string& option,
              ModelInput& input) {
  for (const int64_t id : array.to_i64()) {
    if (id < 0 || id >= vocab_size) {
      throw InputError("{}: {} has the id {}: expected ids from 0 to {}, the vocabulary's", option,
                       quote(array.name()), id, vocab_size - 1);
    }
    input.ids.push_back(static_cast<TokenId>(id));
  }
}

TokenAxes image_axes(const NpyArray& array, const ImageLayout& image, const std::string& option) {
  const std::vector<uint64_t>& shape = array.shape();
  const uint64_t images = images_of(shape, image);
  if (images == 0 || images > kTokensMax / image.pixels()) {
    refuse_shape(array, option, fmt::format("[{0}] or [images, {0}]", image_text(image)));
  }
  const bool is_one = array.elements() == image.elements() && (shape.empty() || shape[0] != 1);
  return {static_cast<uint32_t>(images), image.pixels(), !is_one};
}

// Returns the extents of an image in the order of its array's dimensions.
std::vector<uint32_t> extents_of(const ImageLayout& image) {
  std::vector<uint32_t> extents = {image.height, image.width};
  if (image.columns_first) std::swap(extents[0], extents[1]);
  extents.insert(image.channels_first ? extents.begin() : extents.end(), image.channels);
  return extents;
}

// Transposes [sequences, features, tokens] to [sequences, tokens, features].
std::vector<float> features_last(const std::vector<float>& values, const TokenAxes& axes) {
  std::vector<float> result;
  result.reserve(values.size());
  const size_t each = values.size() / axes.sequences;
  const size_t width = each / axes.tokens;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = i % each / width;
    result.push_back(values[i / each * each + i % width * axes.tokens + row]);
  }
  return result;
}

// Returns the names of the inputs in the bit set.
std::vector<std::string> names_of_inputs(const Model& model, uint32_t wanted) {
  std::vector<std::string> names;
  for (uint32_t i = 0; i < model.inputs(); ++i) {
    if ((wanted >> i & 1) != 0) names.emplace_back(model.input(i).name);
  }
  return names;
}

[[noreturn]] void refuse_inputs(std::span<const std::string> given, const Model& model,
                                const std::string& option, uint32_t wanted, const char* expected) {
  const std::vector<std::string> names = names_of_inputs(model, wanted);
  refuse_if(model.inputs() == 1, "{}: the model has one input, and {} are given", option,
            given.size());
  throw InputError(
      "{}: found {} for {} of the model's inputs ({}): expected {} for each, in this order or as "
      "NAME=...",
      option, given.size(), names.size(), fmt::join(names, ", "), expected);
}

}  // namespace

void drop_unread(std::vector<std::string>& given, const Model& model, size_t wanted) {
  const uint32_t unread = array_flags(model.file()) >> kUnreadInputShift;
  const auto is_named = [](const std::string& text) { return text.find('=') != std::string::npos; };
  if (given.size() != wanted + static_cast<size_t>(std::popcount(unread)) ||
      std::ranges::any_of(given, is_named)) {
    return;
  }
  for (uint32_t i = kUnreadInputs; i-- > 0;) {
    if ((unread >> i & 1) != 0 && i < given.size()) given.erase(given.begin() + i);
  }
}

bool is_float(const NpyArray& array) {
  return array.dtype() == DType::kF32 || array.dtype() == DType::kF64;
}

void refuse_shape(const NpyArray& array, const std::string& option, const std::string& expected) {
  throw InputError("{}: {} has shape [{}]: expected {}", option, quote(array.name()),
                   fmt::join(array.shape(), ", "), expected);
}

std::vector<float> finite_values(const NpyArray& array, const std::string& option) {
  std::vector<float> values = array.to_f32();
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    throw InputError("{}: {} has the value {} at index {}: expected finite numbers", option,
                     quote(array.name()), values[i], i);
  }
  return values;
}

uint64_t images_of(std::span<const uint64_t> shape, const ImageLayout& image) {
  // Whether the extents match the image or a part of it.
  const auto are_of_image = [&](std::span<const uint64_t> extents) {
    size_t next = 0;
    for (const uint64_t whole : extents_of(image)) {
      uint64_t found = 1;
      while (next < extents.size() && found < whole) {
        if (extents[next] == 0 || whole % extents[next] != 0) return false;
        found *= extents[next++];
      }
      if (found != whole) return false;
    }
    return std::ranges::all_of(extents.subspan(next), [](uint64_t extent) { return extent == 1; });
  };
  if (are_of_image(shape)) return 1;
  return !shape.empty() && are_of_image(shape.subspan(1)) ? shape[0] : 0;
}

std::string image_text(const ImageLayout& image) {
  std::vector<uint32_t> extents = extents_of(image);
  if (image.height == 1) extents.erase(std::ranges::find(extents, 1u));
  return fmt::format("{}", fmt::join(extents, ", "));
}

std::vector<uint64_t> TokenAxes::shape(uint64_t rows) const {
  if (!has_sequences) return {rows};
  if (tokens_first) return {rows, sequences};
  return {sequences, rows};
}

std::vector<uint64_t> authors_shape(const Model& model, const TokenAxes& axes, uint64_t elements) {
  const auto* const extents = format::GetModel(model.file().data())->output_shape();
  if (extents == nullptr) return {};
  std::vector<uint64_t> shape(extents->begin(), extents->end());
  const auto sequences = std::ranges::find(shape, uint64_t{kSequencesExtent});
  uint64_t left = elements;
  if (sequences == shape.end()) left *= axes.sequences;
  for (const uint64_t extent : shape) {
    if (extent == kOtherExtent || extent == kSequencesExtent) continue;
    if (left % extent != 0) return {};
    left /= extent;
  }
  const auto other = std::ranges::find(shape, uint64_t{kOtherExtent});
  if (other != shape.end()) {
    *other = std::exchange(left, 1);
  }
  if (left != 1) return {};
  if (sequences == shape.end()) return shape;
  *sequences = axes.sequences;
  if (!axes.has_sequences) shape.erase(sequences);
  return shape;
}

TokenAxes token_axes(const NpyArray& array, const Model& model, const std::string& option,
                     uint32_t input) {
  const uint32_t features = model.input(input).features;
  const bool has_ids = model.input(input).vocab_size != 0;
  // Samples and pixels may be integers.
  const bool is_number = is_float(array) || bytes(array.dtype()) < 4 || array.shape().size() > 2;
  refuse_if(
      has_ids ? is_float(array) : !is_number, "{}: {} is of type {}: expected {}", option,
      quote(array.name()), name(array.dtype()),
      has_ids ? "token ids, int32, int64 or uint32" : "the model's features, float32 or float64");
  if (const auto image = image_layout(model, input)) return image_axes(array, *image, option);
  const bool tokens_first = (array_flags(model.file()) & kTokensFirst) != 0;
  const std::string axes = tokens_first ? "tokens, batch" : "batch, tokens";
  std::string expected = fmt::format("[tokens] or [{}]", axes);
  std::vector<uint64_t> shape = array.shape();
  // If each token is a single element, the feature dimension may come last.
  const bool has_columns = features > 1 || (shape.size() == 3 && shape[1] == 1);
  const bool columns_first =
      !has_ids && has_columns && (array_flags(model.file()) & kTakesColumnsFirst) != 0;
  if (columns_first) {
    expected = fmt::format("[{0}, tokens] or [batch, {0}, tokens]", features);
    if (shape.size() == 4 && shape[1] == 1) shape.erase(shape.begin() + 1);
    if (shape.size() < 2 || shape[shape.size() - 2] != features) {
      refuse_shape(array, option, expected);
    }
    shape.erase(shape.end() - 2);
  } else if (!has_ids) {
    expected = fmt::format("[tokens, {0}] or [{1}, {0}]", features, axes);
    // If each token is a single element, such as a sample, the array may lack the feature
    // dimension.
    const bool is_series = features == 1 && shape.size() < 3 && (shape.size() < 2 || shape[1] != 1);
    if (!is_series && (shape.empty() || shape.back() != features)) {
      refuse_shape(array, option, expected);
    }
    if (!is_series) shape.pop_back();
  }
  if (shape.size() != 1 && shape.size() != 2) refuse_shape(array, option, expected);
  // An input of one row per sequence may lack the token dimension.
  if (shape.size() == 1 && model.input(input).positions_max == 1) shape.push_back(1);
  const uint64_t sequences = shape.size() == 1 ? 1 : shape[tokens_first ? 1 : 0];
  const uint64_t tokens = shape[shape.size() == 1 || tokens_first ? 0 : 1];
  if (array.elements() == 0 || sequences > kTokensMax / tokens) {
    refuse_shape(array, option,
                 fmt::format("{}, at least one and at most {} tokens", expected, kTokensMax));
  }
  return {static_cast<uint32_t>(sequences), static_cast<uint32_t>(tokens), shape.size() == 2,
          tokens_first && shape.size() == 2, columns_first};
}

void require_context(const NpyArray& array, const TokenAxes& axes, const Model& model,
                     const std::string& option, uint32_t input) {
  const InputInfo info = model.input(input);
  if (axes.tokens < info.tokens_min) {
    refuse_shape(
        array, option,
        fmt::format("at least {} tokens a sequence, the model's shortest sequence; found {} tokens",
                    info.tokens_min, axes.tokens));
  }
  const uint32_t least = std::max(1u, info.tokens_min);
  if (info.tokens_step > 1 && (axes.tokens - least) % info.tokens_step != 0) {
    refuse_shape(array, option,
                 fmt::format("{} tokens a sequence, or {} more, {} more and so on; found {} tokens",
                             least, info.tokens_step, 2 * uint64_t{info.tokens_step}, axes.tokens));
  }
  if (info.positions_max == 0 || axes.tokens <= info.positions_max) return;
  refuse_shape(array, option,
               fmt::format("at most {} tokens a sequence, the model's context; found {} tokens",
                           info.positions_max, axes.tokens));
}

std::vector<std::string> values_of_inputs(std::span<const std::string> given, const Model& model,
                                          const std::string& option, uint32_t wanted) {
  std::vector<std::string> values(model.inputs()), unnamed;
  bool is_twice = false;
  for (const std::string& text : given) {
    const size_t end = text.find('=');
    uint32_t of = 0;
    while (of < model.inputs() &&
           ((wanted >> of & 1) == 0 || end == 0 || end == std::string::npos ||
            text.substr(0, end) != model.input(of).name)) {
      ++of;
    }
    if (of == model.inputs()) {
      unnamed.push_back(text);
      continue;
    }
    is_twice = is_twice || !values[of].empty();
    values[of] = text.substr(end + 1);
  }
  size_t next = 0;
  for (uint32_t i = 0; i < values.size(); ++i) {
    const bool takes = (wanted >> i & 1) != 0 && values[i].empty();
    if (takes && next < unnamed.size()) values[i] = unnamed[next++];
  }
  if (next == unnamed.size() && !is_twice) return values;
  refuse_inputs(given, model, option, wanted, "at most one");
}

namespace {

// Returns the files, joined as NpyArray::read expects, if the model has one input that concatenates
// several inputs of the author's program and a file is given for each of those; else an empty
// string.
std::string side_by_side(std::span<const std::string> given, const Model& model) {
  std::vector<std::string> names;
  std::string name = model.input(0).name;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find(',', begin), name.size());
    names.push_back(name.substr(begin, end - begin) + "=");
    begin = end + 1;
  }
  if (model.inputs() > 1 || names.size() < 2 || given.size() != names.size()) return "";
  std::vector<std::string> rest(given.begin(), given.end());
  for (std::string& own : names) {
    auto found =
        std::ranges::find_if(rest, [&](const std::string& text) { return text.starts_with(own); });
    const size_t begin = found == rest.end() ? 0 : own.size();
    if (found == rest.end()) found = rest.begin();
    own = found->substr(begin);
    rest.erase(found);
  }
  return fmt::format("{}", fmt::join(names, ","));
}

}  // namespace

std::vector<std::filesystem::path> files_of_inputs(std::span<const std::string> of_author,
                                                   const Model& model, const std::string& option,
                                                   uint32_t wanted) {
  std::vector<std::string> given(of_author.begin(), of_author.end());
  const std::string_view name = model.input(0).name;
  const auto beside = model.inputs() > 1 ? 0 : std::ranges::count(name, ',');
  drop_unread(given, model, names_of_inputs(model, wanted).size() + static_cast<size_t>(beside));
  if (const std::string files = side_by_side(given, model); !files.empty()) return {files};
  const std::vector<std::string> values = values_of_inputs(given, model, option, wanted);
  for (uint32_t i = 0; i < values.size(); ++i) {
    if ((wanted >> i & 1) != 0 && values[i].empty()) {
      refuse_inputs(given, model, option, wanted, "one file");
    }
  }
  return {values.begin(), values.end()};
}

std::vector<std::vector<uint32_t>> lengths_of_inputs(std::span<const std::string> given,
                                                     const Model& model,
                                                     const std::string& option) {
  std::vector<std::vector<uint32_t>> lengths;
  for (const std::string& text : values_of_inputs(given, model, option)) {
    std::vector<uint32_t>& numbers = lengths.emplace_back();
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const auto [stop, error] =
          std::from_chars(text.data() + begin, text.data() + end, numbers.emplace_back());
      refuse_if(error != std::errc() || stop != text.data() + end,
                "{}: found {}: expected N,..., or NAME=N,... for an input of the model ({})",
                option, quote(text), fmt::join(names_of_inputs(model, UINT32_MAX), ", "));
      begin = end + 1;
    }
  }
  return lengths;
}

void require_same_sequences(const NpyArray& one, uint32_t sequences_of_one, const NpyArray& other,
                            uint32_t sequences_of_other, const std::string& option) {
  refuse_if(sequences_of_one != sequences_of_other,
            "{}: {} has {} sequences, and {} has {}: expected equal numbers", option,
            quote(one.name()), sequences_of_one, quote(other.name()), sequences_of_other);
}

ModelInput read_model_input(const NpyArray& array, const Model& model, const std::string& option,
                            uint32_t number) {
  const TokenAxes axes = token_axes(array, model, option, number);
  const uint32_t vocab_size = model.input(number).vocab_size;
  ModelInput input;
  input.sequences = axes.sequences;
  input.tokens = axes.tokens;
  if (vocab_size != 0) {
    read_ids(array, vocab_size, option, input);
    input.ids = sequences_first(input.ids, axes, axes.tokens);
  } else {
    input.features = sequences_first(finite_values(array, option), axes, axes.tokens);
    if (axes.columns_first) input.features = features_last(input.features, axes);
    if (const auto image = image_layout(model, number)) {
      input.features = pixels_of(input.features, *image);
    }
  }
  return input;
}

ModelInput read_model_inputs(std::span<const NpyArray> arrays, const Model& model,
                             const std::string& option) {
  ModelInput all;
  for (uint32_t i = 0; i < arrays.size(); ++i) {
    require_context(arrays[i], token_axes(arrays[i], model, option, i), model, option, i);
    ModelInput input = read_model_input(arrays[i], model, option, i);
    if (i == 0) {
      all = std::move(input);
      continue;
    }
    require_same_sequences(arrays[0], all.sequences, arrays[i], input.sequences, option);
    all.others.push_back(std::move(input));
  }
  return all;
}

}  // namespace arenite::convert
