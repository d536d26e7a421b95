// SPDX-License-Identifier: Apache-2.0
// Files of sound, as features of the model that they are for.
#pragma once

#include <filesystem>

#include "arenite/model.h"
#include "convert/files/npy.h"

namespace arenite::tool {

// By the end of its name: .wav, or .raw for 16-bit samples alone.
bool is_sound_file(const std::filesystem::path& file);

// The array in an .npy file, or the features of a sound.
convert::NpyArray read_features(const std::filesystem::path& file, const Model& model,
                                uint32_t input);

// The features [tokens, width] of one channel of 16-bit or float samples, or [features, tokens]
// where the author's arrays are so. A sound that is shorter than the model's shortest sequence goes
// on with zeros, and one that is longer than a fixed length may be cut off: both are said. Throws
// InputError for other files, other rates, and models whose file does not say how sound becomes
// features.
convert::NpyArray read_sound(const std::filesystem::path& file, const Model& model, uint32_t input);

}  // namespace arenite::tool
