// SPDX-License-Identifier: Apache-2.0
// A model file as a C++ header: its bytes, and the size of its arena as constant expressions.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "arenite/model_file.h"
#include "arenite/session_sizes.h"

namespace arenite::tool {

// A prefix for C++ names made of `text`: other characters become '_'; never empty.
std::string identifier_from(std::string_view text);

// Throws InputError unless `name` can stand before "_model" in a C++ name.
void check_identifier(const std::string& name);

// Where the bytes of the model are: in the header, or behind the symbol <identifier>_words.
enum class BytesIn { kHeader, kAnotherFile };

// Calls `write` with the text of the header, piece by piece. All names in it begin with
// `identifier`. Throws InputError if the model cannot serve the sizes.
void write_header(const VerifiedFile& file, const std::string& identifier, const SizeOptions& sizes,
                  BytesIn bytes_in, const std::function<void(std::string_view)>& write);

}  // namespace arenite::tool
