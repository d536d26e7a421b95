// SPDX-License-Identifier: Apache-2.0
// The blocks in which GGUF stores numbers: plain floats, and 32 or 256 quantized numbers with their
// scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace arenite::convert {

// A block of `elements` consecutive numbers of a row takes `bytes`.
struct GgufBlock {
  uint32_t type = 0;  // as files number it
  const char* name = "";
  uint32_t elements = 1;
  uint32_t bytes = 0;
  // Writes the elements of one block; nullptr: the type is known by name only, and not read.
  void (*expand)(const uint8_t* block, float* values) = nullptr;
};

inline constexpr uint32_t kGgufF64 = 28;  // the type whose numbers float32 may round

// nullptr for a number that no format description gives a name to.
const GgufBlock* find_gguf_block(uint32_t type);

// The names of all types that are read, for messages: "F32, F16, ...".
std::string readable_gguf_types();

// All numbers of `data`, whole blocks of a type that is read. The same bits as ggml's own functions
// give. Floats and scales may be NaN or infinite.
std::vector<float> read_gguf_blocks(const GgufBlock& block, std::span<const std::byte> data);

// The same of type kGgufF64, as they are.
std::vector<double> read_gguf_f64(std::span<const std::byte> data);

}  // namespace arenite::convert
