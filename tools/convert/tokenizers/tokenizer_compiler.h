// SPDX-License-Identifier: Apache-2.0
// Turns a tokenizer into the tables of the model file, and says what a person should know of it.
#pragma once

#include <flatbuffers/flatbuffers.h>
#include <string>

#include "convert/tokenizers/tokenizer_spec.h"

namespace arenite::format {
struct Tokenizer;  // the generated FlatBuffers table
}

namespace arenite::convert {

// Fills in what the pattern needs of Unicode, adds notes, and checks the spec against the format's
// rules. Throws InputError that names the token.
void complete_tokenizer(TokenizerSpec& spec);

// Writes a completed tokenizer into a model's metadata.
flatbuffers::Offset<format::Tokenizer> write_tokenizer(flatbuffers::FlatBufferBuilder& builder,
                                                       const TokenizerSpec& spec);

// Adds notes: about text that is expected in form C, and about what becomes of characters that
// have neither a token nor tokens of their bytes.
void add_notes(TokenizerSpec& spec);

// Whose characters the tokenizer's classes hold, such as "letters and numbers of Unicode 16.0";
// empty for one that cuts texts without asking Unicode.
std::string describe_unicode(const TokenizerSpec& spec);

}  // namespace arenite::convert
