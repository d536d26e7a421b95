// SPDX-License-Identifier: Apache-2.0
// Text as a model was trained on it, which the runtime leaves to its callers.
#pragma once

#include <string>
#include <string_view>

#include "arenite/model.h"

namespace arenite::convert {

// `text` in Unicode's normalization form C where the model's tokenizer expects that, else as it is.
// Names of special tokens in it stay as they are where they are read (`read_specials`, as in
// EncodeOptions).
// REQUIRES: a model with a tokenizer. Throws InputError, which begins with `name`, for text beyond
// ASCII in a build that cannot normalize.
std::string in_expected_form(const Model& model, std::string_view text, bool read_specials,
                             const std::string& name);

}  // namespace arenite::convert
