// SPDX-License-Identifier: Apache-2.0
// Writes tokenizer files in their formats, valid ones and others.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "convert/tokenizers/subwords.h"
#include "support/byte_string.h"

namespace arenite::testing {

// SentencePiece's mark of a space, U+2581.
inline const std::string kLow = "\xE2\x96\x81";

// A field of a protocol buffer: a number, a float, or bytes.
std::string proto_varint(uint64_t value);
std::string proto_field(uint32_t number, uint64_t value);
std::string proto_field(uint32_t number, float value);
std::string proto_field(uint32_t number, const std::string& bytes);

struct SentencePieceFile {
  std::vector<convert::SentencePiece> pieces;
  std::string trainer = proto_field(3, uint64_t{2}) + proto_field(35, uint64_t{1});  // BPE, bytes
  std::string normalizer = proto_field(1, std::string("identity")) + proto_field(4, uint64_t{0});

  std::string bytes() const;
};

// The pieces of a Llama: unknown, begin, end, 256 bytes, then `pieces` with falling scores.
std::vector<convert::SentencePiece> llama_pieces(const std::vector<std::string>& pieces);

// Writes the pieces as a tokenizer file of llama2.c, with spaces in place of U+2581.
std::string llama2c_file(const std::vector<convert::SentencePiece>& pieces);

// Makes a tokenizer.json of byte-level BPE: all bytes, then the merged tokens in order, then
// "<|end|>" as a special token.
nlohmann::json byte_level_json(const std::vector<std::pair<std::string, std::string>>& merges);

// Makes one with U+2581 for spaces: "<unk>", "<s>", "</s>", the bytes, `characters`, then the
// merges.
nlohmann::json low_line_json(const std::vector<std::string>& characters,
                             const std::vector<std::pair<std::string, std::string>>& merges);

}  // namespace arenite::testing
