// SPDX-License-Identifier: Apache-2.0
// What a program's model gives out: one of its outputs, or several side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "convert/exported/exported_program.h"

namespace arenite::convert {

struct ChosenOutput {
  // The one given, or one that has the outputs that are asked for side by side as its last output.
  std::shared_ptr<const ExportedProgram> program;
  size_t index = 0;     // of the program's outputs
  size_t outputs = 1;   // tensors that the program given has
  std::string words{};  // for the account; empty where there was no choice
};

// `wanted` counts tensors from 0; none: the first. Throws InputError for one that is not there, and
// for several whose rows differ.
ChosenOutput choose_output(std::shared_ptr<const ExportedProgram> program,
                           const std::vector<uint32_t>& wanted);

}  // namespace arenite::convert
