// SPDX-License-Identifier: Apache-2.0
// What a model is given beside its tokens or features: how long each sequence is, as a mask of
// padding or in numbers, where its tokens stand, and of what type they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "convert/exported/array.h"
#include "convert/exported/exported_program.h"

namespace arenite::convert {

enum class SideRole {
  kKept,       // a mask: not 0 where a token is
  kHidden,     // a mask: not 0 where padding is
  kAdded,      // a mask that is added to scores: 0 where a token is, else -infinity
  kLengths,    // how many tokens each sequence has
  kPositions,  // 0, 1, 2, ...
  kTypes,      // of tokens
};

struct SideInput {
  const ExportedInput* input = nullptr;
  SideRole role = SideRole::kKept;
};

// Whether it says how long each sequence is.
inline bool tells_length(const SideInput& side) {
  return side.role != SideRole::kPositions && side.role != SideRole::kTypes;
}

// What the input may be by its type, its dimensions and its name, the likeliest first.
std::vector<SideRole> possible_roles(const ExportedProgram& program, const ExportedInput& input);

// What the inputs beside the first one may mean, all of them together; nothing: there are too many.
std::vector<std::vector<SideInput>> possible_sides(const ExportedProgram& program);

// The numbers that say that sequence b has lengths[b] tokens, padding after them. `shape` has
// sequences first and tokens last, of kLengths sequences alone, or tokens alone. Types are given.
Array side_values(SideRole role, const Shape& shape, ElementType type,
                  std::span<const uint32_t> lengths, std::span<const uint8_t> types = {});

// "input 2 (attention_mask) becomes the lengths"
std::string describe(const SideInput& side, size_t number);

}  // namespace arenite::convert
