// SPDX-License-Identifier: Apache-2.0
// The folder is in /dev/shm if that exists.
#include "fuzz/memory_folder.h"

#include <fcntl.h>
#include <unistd.h>
#include <cstdlib>
#include <stdexcept>

namespace arenite::fuzz {

namespace fs = std::filesystem;

MemoryFolder::MemoryFolder() {
  const fs::path parent = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  std::string pattern = (parent / "arenite-fuzz-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
  path_ = pattern;
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void MemoryFolder::clear() {
  for (const std::string& name : names_) unlink((path_ / name).c_str());
  names_.clear();
}

fs::path MemoryFolder::write(const std::string& name, std::string_view bytes) {
  const fs::path file = path_ / name;
  if (name.find('/') != std::string::npos) fs::create_directory(file.parent_path());
  const int descriptor = open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (descriptor < 0) throw std::runtime_error("cannot write " + file.string());
  names_.insert(name);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written <= 0) break;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  close(descriptor);
  if (!bytes.empty()) throw std::runtime_error("cannot write all of " + file.string());
  return file;
}

MemoryFolder& memory_folder() {
  static MemoryFolder folder;
  return folder;
}

}  // namespace arenite::fuzz
