// SPDX-License-Identifier: Apache-2.0
// Programs differ in what they call a weight, a gain and a bias; shapes tell matrices from gains.
#include "convert/families/part_names.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "convert/families/words.h"

namespace arenite::convert {
namespace {

// What a gain, and the bias beside it, may be called.
constexpr std::pair<std::string_view, std::string_view> kGains[] = {
    {"weight", "bias"}, {"gamma", "beta"}, {"scale", "shift"}, {"a_2", "b_2"},
    {"gain", "bias"},   {"g", "b"},        {"alpha", "bias"},  {"scale", "bias"}};

std::vector<uint64_t> long_sides(const StoredTensor& tensor) {
  std::vector<uint64_t> sides = tensor.shape;
  std::erase(sides, 1u);
  return sides;
}

uint32_t side(uint64_t extent) { return extent > kSideMax ? 0 : static_cast<uint32_t>(extent); }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// A matrix, [outputs, inputs]; of convolutions over one position, too.
void set_matrix(const StoredTensor& tensor, TensorName& name) {
  std::vector<uint64_t> shape = tensor.shape;
  while (shape.size() > 2) {
    const auto one = std::ranges::find(shape, 1u);
    if (one == shape.end()) return;
    shape.erase(one);
  }
  if (shape.size() != 2 || side(shape[0]) == 0 || side(shape[1]) == 0) return;
  name.rows = side(shape[0]);
  name.columns = side(shape[1]);
}

// Splits "attn.in_proj_weight" and "ln_1.gamma" into the module's path and what it calls a weight.
std::string set_part(const std::string& short_name, const std::string& prefix,
                     const TensorStore& store, TensorName& name) {
  const auto with_bias = [&](const std::string& bias) {
    return store.find(prefix + bias) != nullptr ? bias : std::string();
  };
  name.part.weight = short_name;
  constexpr std::string_view kWeight = "_weight";
  if (name.is_matrix() && short_name.ends_with(kWeight)) {
    const std::string path = short_name.substr(0, short_name.size() - kWeight.size());
    name.is_weight = true;
    name.part.bias = with_bias(path + "_bias");
    return path;
  }
  const size_t dot = short_name.rfind('.');
  if (dot == std::string::npos) return short_name;
  const std::string path = short_name.substr(0, dot);
  const std::string leaf = short_name.substr(dot + 1);
  if (name.is_matrix()) {
    if (leaf != "weight") return short_name;
    name.is_weight = true;
    name.part.bias = with_bias(path + ".bias");
    return path;
  }
  for (const auto& [gain, bias] : kGains) {
    if (leaf != gain) continue;
    name.is_weight = true;
    if (name.part.bias.empty()) name.part.bias = with_bias(fmt::format("{}.{}", path, bias));
  }
  return name.is_weight ? path : short_name;
}

}  // namespace

TensorName take_apart(const StoredTensor& tensor, const std::string& prefix,
                      const TensorStore& store) {
  TensorName name;
  const std::vector<uint64_t> sides = long_sides(tensor);
  if (tensor.shape.size() >= 2) set_matrix(tensor, name);
  if (tensor.shape.size() == 1 && !sides.empty()) name.elements = side(sides[0]);
  const std::string path = set_part(tensor.name.substr(prefix.size()), prefix, store, name);
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    name.components.push_back(lower(std::string_view(path).substr(begin, end - begin)));
    name.offsets.push_back(prefix.size() + begin);
    begin = end + 1;
  }
  return name;
}

std::vector<std::string> words_of(std::string_view component) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= component.size();) {
    const size_t end = std::min(component.find_first_of("_-", begin), component.size());
    if (end != begin) words.emplace_back(component.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

bool is_number(std::string_view component) {
  return component.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_any(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

bool has_any(std::span<const std::string> found, std::span<const std::string_view> words) {
  return std::ranges::any_of(found, [&](const std::string& word) { return is_any(word, words); });
}

bool ends_in(std::string_view name, std::string_view key) {
  return name.ends_with(key) &&
         (name.size() == key.size() || name[name.size() - key.size() - 1] == '.');
}

PartNames LayerNames::in_layer(uint32_t index, const PartNames& part) const {
  const std::string prefix = layer(index);
  return {prefix + part.weight, part.bias.empty() ? "" : prefix + part.bias};
}

std::string layer_name(const PartNames& part) {
  const size_t dot = part.weight.rfind('.');
  return dot == std::string::npos ? part.weight : part.weight.substr(0, dot);
}

bool is_mask_buffer(const StoredTensor& tensor) {
  const size_t rank = tensor.shape.size();
  const bool is_square =
      rank >= 2 && tensor.shape[rank - 1] == tensor.shape[rank - 2] &&
      std::all_of(tensor.shape.begin(), tensor.shape.end() - 2, [](uint64_t n) { return n == 1; });
  const std::string last = tensor.name.substr(tensor.name.rfind('.') + 1);
  return is_square &&
         (last.find("mask") != std::string::npos || last.starts_with("tri") || last == "bias");
}

}  // namespace arenite::convert
