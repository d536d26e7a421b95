// SPDX-License-Identifier: Apache-2.0
// Turns a tokenizer into the tables of the model file.
#pragma once

#include <flatbuffers/flatbuffers.h>

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

}  // namespace arenite::convert
