// SPDX-License-Identifier: Apache-2.0
// One text or two with the tokens that the model was trained to see around them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "arenite/status.h"
#include "arenite/tokenizer.h"
#include "format/tokenizer_reader.h"

namespace arenite::text {

struct Texts {
  std::string_view first;
  std::string_view second = {};
  bool is_pair = false;
};

// What Tokenizer::encode and encode_pair do. `out_types` may be empty.
Result<size_t> encode_framed(const format::TokenizerView& view, const Texts& texts,
                             const EncodeOptions& options, std::span<TokenId> out_ids,
                             std::span<uint8_t> out_types, Diagnostic* why);

}  // namespace arenite::text
