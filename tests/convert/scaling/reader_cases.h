// SPDX-License-Identifier: Apache-2.0
// Inputs of any size for every reader of the converter, ordinary and hostile ones.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace arenite::testing {

// File names and their contents; the first file is the one to read.
using InputFiles = std::vector<std::pair<std::string, std::string>>;

struct ReaderCase {
  std::string reader;  // "safetensors"
  std::string shape;   // "many tensors"
  size_t size;         // that tests begin with; what is twice as large takes about twice as long
  std::function<InputFiles(size_t size)> make;
  std::function<void(const std::filesystem::path& file)> read;  // may throw InputError
};

// The limits on a reader's cost, as in SECURITY.md.
struct ReaderLimit {
  std::string reader;
  std::string bytes_max;     // in words
  uint64_t memory_per_byte;  // of the file, beyond what any file takes
};

const std::vector<ReaderLimit>& reader_limits();

std::vector<ReaderCase> checkpoint_cases();
std::vector<ReaderCase> exported_cases();
std::vector<ReaderCase> pickle_cases();
std::vector<ReaderCase> json_cases();
std::vector<ReaderCase> tokenizer_cases();

std::vector<ReaderCase> reader_cases();

// Writes the files of `test` in this size to `folder` and returns the one to read, and the bytes of
// all of them.
std::pair<std::filesystem::path, size_t> write_case(const ReaderCase& test, size_t size,
                                                    const std::filesystem::path& folder);

// Reads as the case says; false where the file was refused.
bool read_case(const ReaderCase& test, const std::filesystem::path& file);

}  // namespace arenite::testing
