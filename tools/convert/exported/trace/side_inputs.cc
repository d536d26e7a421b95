// SPDX-License-Identifier: Apache-2.0
// Finds the roles of side inputs, such as padding masks and lengths, by their types, names and
// examples.
//
//   "attention_mask" [b, t] of int64  ->  kKept, or else kHidden
//   "key_padding_mask" [b, t] of bool ->  kHidden, or else kKept
//   "position_ids" [1, t] of int64    ->  kPositions
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "convert/exported/recover/scores.h"
#include "convert/exported/trace/trace_shape.h"

namespace arenite::convert {
namespace {

constexpr size_t kMeaningsMax = 256;  // for all inputs together

// The name of a role in Model.arrays, and its description in the report.
struct RoleRow {
  const char* name;
  const char* text;
};
constexpr const char* kBecomesLengths = "becomes the lengths";
constexpr RoleRow kRoles[] = {  // by SideRole
    {"kept", kBecomesLengths},
    {"hidden", kBecomesLengths},
    {"added", kBecomesLengths},
    {"lengths", kBecomesLengths},
    {"positions", "is 0, 1, 2, ..., and is not an input of the model"},
    {"types", "becomes the token types"},
    {"causal", "is as in the example, and is not an input of the model"},
    {"pairs", "is a pair mask: --input pairs=FILE"},
    {"hidden_pairs", "is a pair mask, 1 where a query does not see a key: --input pairs=FILE"},
    {"added_pairs",
     "is a pair mask, -infinity where a query does not see a key: --input pairs=FILE"},
    {"types", "becomes the token types, as other ops than attention read rows of padding"}};

}  // namespace

namespace {

// Returns the example of an input; null if the file has none.
const Array* example_of(const ExportedProgram& program, const ExportedInput& input) {
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  const auto place = static_cast<size_t>(std::ranges::find(inputs, &input) - inputs.begin());
  return place < program.sample_inputs.size() ? &program.sample_inputs[place] : nullptr;
}

// Whether an input with this role may have the elements of the example.
bool fits(SideRole role, const Array& example) {
  const Array::Reals values = example.to_reals();
  const auto are_all = [&](const auto& rule) { return std::ranges::all_of(values, rule); };
  switch (role) {
    case SideRole::kKept:
      return !are_all([](double value) { return value == 0.0; }) &&
             are_all([](double value) { return std::isfinite(value); });
    case SideRole::kHidden:
      return !are_all([](double value) { return value != 0.0; }) &&
             are_all([](double value) { return std::isfinite(value); });
    case SideRole::kAdded:
    case SideRole::kAddedPairs:
      return are_all([](double value) { return value == 0.0 || value <= kHiddenScoreMax; });
    case SideRole::kHiddenPairs:
      return are_all([](double value) { return value == 0.0 || value == 1.0; });
    default:
      return true;
  }
}

std::vector<SideRole> roles_by_shape(const ExportedProgram& program, const ExportedInput& input) {
  const ExportedValue& value = program.values[input.value];
  const size_t rank = value.sizes.size();
  if (value.kind != ValueKind::kTensor || rank == 0 || rank > 4) return {};
  // [.., tokens, tokens] may be a mask of pairs.
  const auto& sizes = value.sizes;
  const bool is_square = rank >= 2 && sizes[rank - 1].size == sizes[rank - 2].size &&
                         sizes[rank - 1].symbol == sizes[rank - 2].symbol &&
                         sizes[rank - 1].size > 1;
  const bool has_one_leading = elements_of(value.shape()) ==
                               static_cast<size_t>(sizes[rank - 1].size * sizes[rank - 1].size);
  if (is_square) {
    std::vector<SideRole> roles = {SideRole::kPairs, SideRole::kHiddenPairs};
    if (is_real(value.type)) roles.push_back(SideRole::kAddedPairs);
    const bool may_be_fixed = has_one_leading && !is_integer(value.type);
    if (may_be_fixed) roles.insert(roles.begin(), SideRole::kCausal);
    return roles;
  }
  // Attention takes masks [sequences, 1, 1, tokens].
  for (size_t d = 1; d + 1 < rank; ++d) {
    if (!value.sizes[d].is_fixed() || value.sizes[d].size != 1) return {};
  }
  std::string name = input.name;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool is_whole = is_integer(value.type);
  const bool is_position = has("position") || has("pos_id") || (has("timesteps") && rank == 2);
  if (is_position || has("type") || has("segment")) {
    if (!is_whole || rank > 2) return {};
    return {is_position ? SideRole::kPositions : SideRole::kTypes};
  }
  // An input that an embedding reads is a sequence, not a side input.
  const bool is_looked_up = std::ranges::any_of(program.nodes, [&](const Call& node) {
    const Argument* indices = node.op == "embedding" ? node.find("indices") : nullptr;
    const ValueRef* ref = indices != nullptr ? indices->as<ValueRef>() : nullptr;
    return ref != nullptr && ref->value == input.value;
  });
  if (is_looked_up) return {};
  if (is_whole && rank == 1) return {SideRole::kLengths, SideRole::kKept, SideRole::kPositions};
  std::vector<SideRole> roles = {SideRole::kKept, SideRole::kHidden};
  if (has("pad") || has("ignore")) std::swap(roles[0], roles[1]);
  if (is_real(value.type)) roles.push_back(SideRole::kAdded);
  return is_complex(value.type) ? std::vector<SideRole>{} : roles;
}

}  // namespace

std::vector<SideRole> possible_roles(const ExportedProgram& program, const ExportedInput& input) {
  std::vector<SideRole> roles = roles_by_shape(program, input);
  const Array* const example = example_of(program, input);
  if (example != nullptr) {
    std::erase_if(roles, [&](SideRole role) { return !fits(role, *example); });
  }
  return roles;
}
Array side_values(SideRole role, const Shape& shape, ElementType type,
                  std::span<const uint32_t> lengths, std::span<const uint8_t> types) {
  const size_t tokens = role == SideRole::kLengths ? 1 : static_cast<size_t>(shape.back());
  const auto value_at = [&](size_t i) -> double {
    const uint32_t length = lengths[std::min(i / tokens, lengths.size() - 1)];
    const bool is_kept = i % tokens < length;
    switch (role) {
      case SideRole::kKept:
        return is_kept ? 1.0 : 0.0;
      case SideRole::kHidden:
        return is_kept ? 0.0 : 1.0;
      case SideRole::kAdded:
        return is_kept ? 0.0 : -std::numeric_limits<double>::infinity();
      case SideRole::kLengths:
        return length;
      case SideRole::kPositions:
        return static_cast<double>(i % tokens);
      case SideRole::kTypes:
      case SideRole::kMarks:
        return types.empty() ? 0.0 : types[i];
      case SideRole::kCausal:
      case SideRole::kPairs:
      case SideRole::kHiddenPairs:
      case SideRole::kAddedPairs:
        break;
    }
    return 0.0;
  };
  Array::Reals values(elements_of(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = value_at(i);
  return Array::real(shape, std::move(values), ElementType::kF64).to(type);
}

std::string describe(const SideInput& side, size_t number) {
  return fmt::format("input {} ({}) {}", number, side.input->name,
                     kRoles[static_cast<size_t>(side.role)].text);
}

std::vector<std::string> arrays_of(const ExportedProgram& program, const TraceShape& trace_shape,
                                   const std::vector<GraphInput>& inputs) {
  std::vector<std::string> arrays;
  for (const ExportedInput* input : program.user_inputs()) {
    const SideInput* const side = trace_shape.side(input->value);
    arrays.push_back(input->name);
    if (side == nullptr) {
      const size_t number = trace_shape.number_of(input->value).value_or(0);
      const std::string end = inputs[number].end.role();
      if (!end.empty()) arrays.back() += fmt::format("={}:{}", end, number);
      continue;
    }
    std::string role = kRoles[static_cast<size_t>(side->role)].name;
    if (side->role == SideRole::kCausal) {
      // 0 or 1 after the role tells whether visible pairs are 0.
      const Array::Reals pairs = trace_shape.of(side->of).causal_array(*side).to_reals();
      role = fmt::format(
          "{}{}",
          pairs.front() == pairs.at(static_cast<size_t>(trace_shape.of(side->of).tokens()) - 1)
              ? "whole"
              : role,
          pairs.front() == 0.0 ? 0 : 1);
    }
    arrays.back() += fmt::format("={}:{}", role, side->of);
  }
  const bool says_nothing = std::ranges::all_of(
      arrays, [](const std::string& array) { return array.find('=') == std::string::npos; });
  return says_nothing ? std::vector<std::string>{} : arrays;
}

namespace {

// Whether the input may be tokens or features, with its own axis.
bool may_be_sequence(const ExportedProgram& program, const ExportedInput& input) {
  const ExportedValue& value = program.values[input.value];
  const size_t rank = value.sizes.size();
  const bool is_mask =
      value.type == ElementType::kBool || input.name.find("mask") != std::string::npos;
  if (value.kind != ValueKind::kTensor || is_complex(value.type) || is_mask) return false;
  return is_integer(value.type) ? rank == 1 || rank == 2 : rank >= 1 && rank <= 5;
}

// Returns the index of the first sequence input with as many tokens as the side input; 0 if there
// is none.
size_t sequence_of(const ExportedProgram& program, const std::vector<const ExportedInput*>& among,
                   const ExportedInput& side) {
  const std::vector<Extent>& sizes = program.values[side.value].sizes;
  for (size_t i = 0; i < among.size() && !sizes.empty(); ++i) {
    for (const Extent& extent : program.values[among[i]->value].sizes) {
      if (extent == sizes.back() && extent.size != 1) return i;
    }
  }
  return 0;
}

}  // namespace

std::vector<InputMeaning> possible_meanings(const ExportedProgram& program) {
  const std::vector<const ExportedInput*> inputs = program.user_inputs();
  if (inputs.empty()) return {{}};
  std::vector<InputMeaning> meanings = {{{inputs[0]}, {}}};
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::vector<InputMeaning> longer;
    for (const InputMeaning& meaning : meanings) {
      for (const SideRole role : possible_roles(program, *inputs[i])) {
        longer.push_back(meaning);
        longer.back().sides.push_back({inputs[i], role});
      }
    }
    for (const InputMeaning& meaning : meanings) {
      if (!may_be_sequence(program, *inputs[i])) break;
      if (meaning.sequences.size() == kInputsMax) continue;
      longer.push_back(meaning);
      longer.back().sequences.push_back(inputs[i]);
    }
    meanings = std::move(longer);
    if (meanings.size() > kMeaningsMax) return {};
  }
  for (InputMeaning& meaning : meanings) {
    for (SideInput& side : meaning.sides) {
      side.of = sequence_of(program, meaning.sequences, *side.input);
    }
  }
  return meanings;
}

std::optional<InputMeaning> with_marks(const ExportedProgram& program, InputMeaning meaning) {
  bool has_marks = false;
  std::set<size_t> marked;  // sequence inputs whose tokens have types
  for (SideInput& side : meaning.sides) {
    const bool has_types = side.role == SideRole::kTypes;
    if (!has_types && !tells_length(side)) continue;
    if (!marked.insert(side.of).second) return std::nullopt;
    if (has_types) continue;
    // Tokens have type 0 unless a call gives types, so visible tokens must be 0 in the mask.
    const Array* const example = example_of(program, *side.input);
    const ExportedValue& mask = program.values[side.input->value];
    const bool fits = side.role == SideRole::kHidden && example != nullptr &&
                      mask.sizes.size() > 1 && !is_real(mask.type) &&
                      is_integer(program.values[meaning.sequences[side.of]->value].type) &&
                      example->to_reals().at(0) == 0.0;
    if (!fits) return std::nullopt;
    side.role = SideRole::kMarks;
    has_marks = true;
  }
  return has_marks ? std::optional(std::move(meaning)) : std::nullopt;
}

}  // namespace arenite::convert
