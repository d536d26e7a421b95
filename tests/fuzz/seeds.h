// SPDX-License-Identifier: Apache-2.0
// Writes the valid inputs that fuzzers start from. They are small, so that mutations hit parts that
// matter.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

namespace arenite::test {

// Writes the seeds of one target into a folder of its name.
class SeedFolder {
 public:
  SeedFolder(const std::filesystem::path& corpus, const std::string& target)
      : folder_(corpus / target) {
    std::filesystem::create_directories(folder_);
  }

  void write(const std::string& name, std::span<const std::byte> bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void write(const std::string& name, const std::string& text) const {
    write(name, std::as_bytes(std::span(text)));
  }

 private:
  std::filesystem::path folder_;
};

// For each part of the project that reads bytes from outside, the seeds of its targets.
void write_model_seeds(const std::filesystem::path& corpus);
void write_reader_seeds(const std::filesystem::path& corpus);
void write_tokenizer_seeds(const std::filesystem::path& corpus);  // part of write_reader_seeds

}  // namespace arenite::test
