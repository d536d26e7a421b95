// SPDX-License-Identifier: Apache-2.0
// Llama models in the .bin files of llama2.c: the header-only legacy form, and versions 1 and 2.
// Source: export.py and run.c of that project.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "convert/spec/decoder_spec.h"

namespace arenite::convert {

// Whether `file`, the bytes of a whole file, begins like one: with the magic number or, as the
// legacy form has none, with seven sizes that go together, which no other format's first bytes do.
bool is_llama2c(std::span<const std::byte> file);

// Throws InputError, also where the sizes in the header and the size of the file differ.
DecoderSpec read_llama2c(const std::filesystem::path& file);

}  // namespace arenite::convert
