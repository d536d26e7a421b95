// SPDX-License-Identifier: Apache-2.0
// Mutations that keep the structure of an input, so that they reach more than the first check of a
// reader. Each returns at most `bytes_max` bytes. An input that does not parse is mutated by
// libFuzzer. Only mutators of libFuzzer may call these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "support/random.h"

namespace arenite::fuzz {

using test::Random;

using Mutate = std::string(std::string input, size_t bytes_max, Random& random);

Mutate mutate_bytes;        // as libFuzzer does, with its dictionary
Mutate mutate_json;         // tokens: scalars, keys, whole values copied, repeated, left out
Mutate mutate_lines;        // lines, their words and numbers
Mutate mutate_proto;        // fields of a protocol buffer, lengths made right
Mutate mutate_pickle;       // opcodes and their arguments, lengths made right
Mutate mutate_zip;          // members by their kinds, checksums and sizes made right
Mutate mutate_safetensors;  // the header as JSON; its length, and mostly offsets, made right
Mutate mutate_gguf;         // fields, lengths, counts and the place of the data made right
Mutate mutate_llama2c;      // sizes of the header, the length of the file made right
Mutate mutate_bundle;       // files by their kinds

// A number that breaks things more often than others do; `old` may be close to it.
uint64_t interesting_number(uint64_t old, Random& random);

// Implements libFuzzer's LLVMFuzzerCustomMutator by `mutate`, and sometimes by mutate_bytes.
size_t mutate_in_place(Mutate mutate, uint8_t* data, size_t size, size_t size_max, unsigned seed);

}  // namespace arenite::fuzz
