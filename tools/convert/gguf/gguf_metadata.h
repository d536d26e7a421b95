// SPDX-License-Identifier: Apache-2.0
// GGUF metadata as config fields, so that they are taken, checked and accounted for in one way.
#pragma once

#include "convert/gguf/gguf_file.h"
#include "convert/spec/config_fields.h"

namespace arenite::convert {

// All metadata but the tokenizer's and those of general.*, which say where the file comes from;
// "general.architecture" is there. Throws InputError for arrays of more elements than any
// architecture's fields have.
ConfigFields gguf_fields(const GgufFile& file);

}  // namespace arenite::convert
