// SPDX-License-Identifier: Apache-2.0
// A folder of files in memory for readers that take a path, rewritten for each input.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>

namespace arenite::fuzz {

class MemoryFolder {
 public:
  MemoryFolder();
  ~MemoryFolder();  // removes it
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Removes all files but keeps folders.
  void clear();
  // Writes the file `name`, which may include one subfolder, and returns its path.
  std::filesystem::path write(const std::string& name, std::string_view bytes);

 private:
  std::filesystem::path path_;
  std::set<std::string> names_;
};

// The one of this process.
MemoryFolder& memory_folder();

}  // namespace arenite::fuzz
