// SPDX-License-Identifier: Apache-2.0
// Makes special files, and files without an end, in place of regular ones.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace arenite::testing {

enum class SpecialFile { kDirectory, kPipe, kSocket, kDevice };

inline constexpr SpecialFile kSpecialFiles[] = {SpecialFile::kDirectory, SpecialFile::kPipe,
                                                SpecialFile::kSocket, SpecialFile::kDevice};

// Returns the name in messages.
inline const char* name(SpecialFile kind) {
  switch (kind) {
    case SpecialFile::kDirectory:
      return "a directory, not a regular file";
    case SpecialFile::kPipe:
      return "a pipe, not a regular file";
    case SpecialFile::kSocket:
      return "a socket, not a regular file";
    case SpecialFile::kDevice:
      return "a device, not a regular file";
  }
  return "";
}

// Puts one in the place of whatever is at `path`: a pipe that nobody writes to, a socket, or a link
// to a device that gives zeros for ever.
inline void make_special(SpecialFile kind, const std::filesystem::path& path) {
  std::filesystem::remove_all(path);
  bool is_made = false;
  switch (kind) {
    case SpecialFile::kDirectory:
      is_made = std::filesystem::create_directory(path);
      break;
    case SpecialFile::kPipe:
      is_made = mkfifo(path.c_str(), 0600) == 0;
      break;
    case SpecialFile::kSocket: {
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      path.string().copy(address.sun_path, sizeof address.sun_path - 1);
      const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
      is_made = bind(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
      close(descriptor);
      break;
    }
    case SpecialFile::kDevice:
      std::filesystem::create_symlink("/dev/zero", path);
      is_made = true;
      break;
  }
  if (!is_made) throw std::runtime_error("cannot make " + path.string());
}

// Makes a sparse file of zeros.
inline void make_sparse(const std::filesystem::path& path, uint64_t bytes) {
  std::filesystem::remove_all(path);
  std::ofstream(path).close();
  std::filesystem::resize_file(path, bytes);
}

}  // namespace arenite::testing
