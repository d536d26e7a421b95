// SPDX-License-Identifier: Apache-2.0
// What the converter does with a model once it is opened, as far as a fuzzer has time for it.
#pragma once

#include <filesystem>
#include <string_view>

#include "convert/spec/model_options.h"

namespace arenite::fuzz {

// What a person says, one byte for each option; 0, or no byte: nothing.
convert::ModelOptions options_of(std::string_view bytes);

// Reads the elements of all tensors, recognises the model at `path`, and makes its graph; of a
// small model also the file, which the runtime must load, as the converter promises. Throws
// InputError.
void use_model(const std::filesystem::path& path, const convert::ModelOptions& options = {});

// The same of a single file, which says no more than its tensors: with what a person has to say of
// one of these, too. Never throws an InputError.
void use_state_dict(const std::filesystem::path& path);

}  // namespace arenite::fuzz
