// SPDX-License-Identifier: Apache-2.0
// Runs the converter's steps after opening a model, within a fuzzer's time limits.
#pragma once

#include <filesystem>
#include <string_view>

#include "convert/spec/model_options.h"

namespace arenite::fuzz {

// Decodes the user's options, one byte each; a byte of 0 or a missing byte leaves the option unset.
convert::ModelOptions options_of(std::string_view bytes);

// Reads the elements of all tensors, recognises the model at `path`, and makes its graph; of a
// small model also the file, which the runtime must load, as the converter promises. Throws
// InputError.
void use_model(const std::filesystem::path& path, const convert::ModelOptions& options = {});

// Uses a single file that holds nothing but tensors, with and without the options that such a file
// needs. Never throws an InputError.
void use_state_dict(const std::filesystem::path& path);

}  // namespace arenite::fuzz
