// SPDX-License-Identifier: Apache-2.0
// Paths that files name: names in them may be anything.
#pragma once

#include <filesystem>
#include <system_error>

namespace arenite::convert {

// Whether there is a file or folder at `path`. False, too, where the system refuses to look, as for
// a name that is too long, which std::filesystem throws an error of its own for: a FileMap of the
// path says why.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code why;
  return std::filesystem::exists(path, why);
}

}  // namespace arenite::convert
