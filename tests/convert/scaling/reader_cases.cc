// SPDX-License-Identifier: Apache-2.0
// Shared parts of all cases, and the limits on their cost.
#include "convert/scaling/reader_cases.h"

#include <fstream>

#include "convert/files/error.h"

namespace arenite::testing {

const std::vector<ReaderLimit>& reader_limits() {
  static const std::vector<ReaderLimit> limits = {
      {"safetensors", "header 100 MB, 2^18 tensors, 2^22 values", 48},
      {".pt", "pickle 64 MiB, 2^16 tensors, 2^14 members", 128},
      {".pt2", "as JSON, 2^18 ops, 2^20 values", 128},
      {"module recognition", "as its file", 48},
      {"GGUF", "2^18 tensors, 2^12 metadata values", 48},
      {"llama2.c", "1024 layers", 128},
      {".npy", "header 64 KiB", 24},
      {"JSON", "64 MiB, 2^22 values", 64},
      {"model index", "as JSON", 128},
      {"tokenizer.json", "as JSON", 160},
      {"tokenizer.model", "16 MiB, 2^20 pieces", 160},
      {"tokenizer.bin", "16 MiB, 2^20 tokens", 160},
      {"vocab.txt", "16 MiB, 2^20 lines", 160},
      {"vocab.json, merges.txt", "as JSON, 16 MiB", 160},
      {"meta.pkl", "16 MiB", 160},
  };
  return limits;
}

std::vector<ReaderCase> reader_cases() {
  std::vector<ReaderCase> all;
  for (const auto& some :
       {checkpoint_cases, pickle_cases, exported_cases, json_cases, tokenizer_cases}) {
    for (ReaderCase& test : some()) all.push_back(std::move(test));
  }
  return all;
}

std::pair<std::filesystem::path, size_t> write_case(const ReaderCase& test, size_t size,
                                                    const std::filesystem::path& folder) {
  const InputFiles files = test.make(size);
  size_t bytes = 0;
  for (const auto& [name, content] : files) {
    std::ofstream(folder / name, std::ios::binary)
        .write(content.data(), static_cast<std::streamsize>(content.size()));
    bytes += content.size();
  }
  return {folder / files[0].first, bytes};
}

bool read_case(const ReaderCase& test, const std::filesystem::path& file) {
  try {
    test.read(file);
    return true;
  } catch (const convert::InputError&) {
    return false;
  }
}

}  // namespace arenite::testing
