// SPDX-License-Identifier: Apache-2.0
// A folder that a command writes: it appears whole or not at all.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace arenite::convert {

// A file of a folder, by its path in it.
struct FolderFile {
  std::string path;
  std::string text;
};

// Throws InputError unless `folder` can be made: it is missing and its parent is there, or it is an
// empty folder.
void require_new_folder(const std::filesystem::path& folder);

// Writes the files under a temporary name beside `folder`, which then becomes `folder`. Signals
// wait until it is done. Throws InputError like require_new_folder, and for a full disk, say, after
// which nothing is left. What remains where the program is killed is removed by the next call.
void write_folder(const std::filesystem::path& folder, std::span<const FolderFile> files);

// The folder and all above it that are missing. Throws InputError.
void make_folders(const std::filesystem::path& folder);

}  // namespace arenite::convert
