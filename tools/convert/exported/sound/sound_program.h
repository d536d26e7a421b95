// SPDX-License-Identifier: Apache-2.0
// A program of samples as what makes features of them, and the program of these.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convert/exported/read/exported_program.h"
#include "convert/sound/sound_parameters.h"

namespace arenite::convert {

struct SoundProgram {
  std::shared_ptr<const ExportedProgram> program;  // its input are features [sounds, frames, ..]
  SoundTable sound;
  std::string words;  // for people
};

// Nothing for a program that has no op for Fourier transforms, where nobody said the rate of its
// samples, and it is 0: its convolutions may be any. Throws InputError that names the op where
// features are made otherwise than the runtime can.
std::optional<SoundProgram> split_sound(const ExportedProgram& program, uint32_t rate);

}  // namespace arenite::convert
