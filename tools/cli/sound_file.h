// SPDX-License-Identifier: Apache-2.0
// Reads sound files and computes the features that a model takes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "arenite/model.h"
#include "convert/files/npy.h"

namespace arenite::tool {

// Decides by the extension: .wav, or .raw for bare 16-bit samples.
bool is_sound_file(const std::filesystem::path& file);

// Reads the array of an .npy file, or computes the features of a sound file.
convert::NpyArray read_features(const std::filesystem::path& file, const Model& model,
                                uint32_t input);

// Features of a whole sound, for programs that divide it into windows.
struct SoundFeatures {
  std::vector<float> rows;        // [tokens, width]
  uint32_t width = 0;             // of a token
  double seconds_of_token = 0.0;  // from the begin of one to that of the next
  double seconds = 0.0;           // of the sound
};
// Pads a sound that is shorter than the model's shortest sequence with zeros. Throws InputError as
// read_sound does.
SoundFeatures read_whole_sound(const std::filesystem::path& file, const Model& model);

// Returns features [tokens, width], or [features, tokens] if the author's arrays are so, of one
// channel of 16-bit or float samples. Pads a sound shorter than the model's shortest sequence with
// zeros; may cut one longer than a fixed length. Prints a note of both. Throws InputError for other
// files or rates, and for models whose file does not describe the features.
convert::NpyArray read_sound(const std::filesystem::path& file, const Model& model, uint32_t input);

}  // namespace arenite::tool
