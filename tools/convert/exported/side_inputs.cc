// SPDX-License-Identifier: Apache-2.0
#include "convert/exported/side_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

namespace arenite::convert {
namespace {

constexpr size_t kMeaningsMax = 16;  // of several inputs together

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool has_any(const std::string& text, std::initializer_list<const char*> parts) {
  return std::ranges::any_of(
      parts, [&](const char* part) { return text.find(part) != std::string::npos; });
}

}  // namespace

std::vector<SideRole> possible_roles(const ExportedProgram& program, const ExportedInput& input) {
  const ExportedValue& value = program.values[input.value];
  const size_t rank = value.sizes.size();
  if (value.kind != ValueKind::kTensor || rank == 0 || rank > 4) return {};
  // [sequences, 1, 1, tokens] is a mask as attention takes it.
  for (size_t d = 1; d + 1 < rank; ++d) {
    if (!value.sizes[d].is_fixed() || value.sizes[d].size != 1) return {};
  }
  const std::string name = lower_case(input.name);
  const bool is_whole = is_integer(value.type);
  if (has_any(name, {"position", "pos_id"})) {
    return is_whole && rank <= 2 ? std::vector{SideRole::kPositions} : std::vector<SideRole>{};
  }
  if (has_any(name, {"type", "segment"})) {
    return is_whole && rank <= 2 ? std::vector{SideRole::kTypes} : std::vector<SideRole>{};
  }
  // What is looked up is a sequence of its own.
  const bool is_looked_up = std::ranges::any_of(program.nodes, [&](const ExportedNode& node) {
    const Argument* indices = node.call.op == "embedding" ? node.call.find("indices") : nullptr;
    const ValueRef* ref = indices != nullptr ? indices->as<ValueRef>() : nullptr;
    return ref != nullptr && ref->value == input.value;
  });
  if (is_looked_up) return {};
  if (is_whole && rank == 1) return {SideRole::kLengths, SideRole::kKept, SideRole::kPositions};
  std::vector<SideRole> roles = {SideRole::kKept, SideRole::kHidden};
  if (has_any(name, {"pad", "ignore"})) std::swap(roles[0], roles[1]);
  if (is_real(value.type)) roles.push_back(SideRole::kAdded);
  return is_complex(value.type) ? std::vector<SideRole>{} : roles;
}

Array side_values(SideRole role, const Shape& shape, ElementType type,
                  std::span<const uint32_t> lengths, std::span<const uint8_t> types) {
  const size_t count = elements_of(shape);
  Array::Reals values(count, 0.0);
  const size_t tokens = role == SideRole::kLengths ? 1 : static_cast<size_t>(shape.back());
  for (size_t i = 0; i < count; ++i) {
    const size_t token = i % tokens;
    const uint32_t length = lengths[std::min(i / tokens, lengths.size() - 1)];
    const bool is_kept = token < length;
    switch (role) {
      case SideRole::kKept:
        values[i] = is_kept ? 1.0 : 0.0;
        break;
      case SideRole::kHidden:
        values[i] = is_kept ? 0.0 : 1.0;
        break;
      case SideRole::kAdded:
        values[i] = is_kept ? 0.0 : -std::numeric_limits<double>::infinity();
        break;
      case SideRole::kLengths:
        values[i] = length;
        break;
      case SideRole::kPositions:
        values[i] = static_cast<double>(token);
        break;
      case SideRole::kTypes:
        values[i] = types.empty() ? 0.0 : types[i];
        break;
    }
  }
  return Array::real(shape, std::move(values), ElementType::kF64).to(type);
}

std::string describe(const SideInput& side, size_t number) {
  const char* what = side.role == SideRole::kPositions ? "is 0, 1, 2, ..., and is not asked for"
                     : side.role == SideRole::kTypes   ? "becomes the types of tokens"
                                                       : "becomes the lengths";
  return fmt::format("input {} ({}) {}", number, side.input->name, what);
}

std::vector<std::vector<SideInput>> possible_sides(const ExportedProgram& program) {
  std::vector<std::vector<SideInput>> meanings = {{}};
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::vector<std::vector<SideInput>> longer;
    for (const std::vector<SideInput>& meaning : meanings) {
      for (const SideRole role : possible_roles(program, *inputs[i])) {
        longer.push_back(meaning);
        longer.back().push_back({inputs[i], role});
      }
    }
    meanings = std::move(longer);
    if (meanings.size() > kMeaningsMax) return {};
  }
  return meanings;
}

}  // namespace arenite::convert
