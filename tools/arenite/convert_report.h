// SPDX-License-Identifier: Apache-2.0
// Tells a person what a conversion made: what was recognised, the arena, the check, the file.
#pragma once

#include <filesystem>

#include "convert/convert.h"
#include "convert/decoders/convert_decoder.h"
#include "convert/encoders/convert_encoder.h"

namespace arenite::tool {

void print_conversion(const convert::Conversion& conversion, const std::filesystem::path& output);
void print_conversion(const convert::DecoderConversion& conversion,
                      const std::filesystem::path& output);
void print_conversion(const convert::EncoderConversion& conversion,
                      const std::filesystem::path& output);

}  // namespace arenite::tool
