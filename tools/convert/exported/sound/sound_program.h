// SPDX-License-Identifier: Apache-2.0
// Splits a program on samples into a sound front end and a program on features.
//
//   samples [1, 16000] -> stft -> mel -> log -> encoder
//   ->  front end (window 400, hop 160, 80 bands), and encoder of features [1, 98, 80]
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "convert/exported/read/exported_program.h"
#include "convert/sound/sound_parameters.h"

namespace arenite::convert {

struct SoundProgram {
  std::shared_ptr<const ExportedProgram> program;  // takes features [sounds, frames, ..]
  SoundTable sound;
  std::string words;  // for the report
};

// Splits off the front end. Returns nullopt if the program has no Fourier transform op and `rate`,
// in samples per second, is 0 (not given), since its convolutions may be anything. Throws
// InputError that names the op if the runtime cannot compute the features.
std::optional<SoundProgram> split_sound(const ExportedProgram& program, uint32_t rate);

}  // namespace arenite::convert
