// SPDX-License-Identifier: Apache-2.0
#include "cli/output_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <system_error>

#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& folder, const std::error_code& error) {
  throw convert::InputError("cannot write {}: {}; nothing was left behind",
                            convert::quote(folder.string()), error.message());
}

void write_file(const fs::path& file, const std::string& text) {
  std::ofstream stream(file, std::ios::binary);
  stream.write(text.data(), static_cast<std::streamsize>(text.size()));
  stream.close();
  if (stream.fail()) {
    throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), file.string());
  }
}

// "bundle" for "bundle/" and "./bundle".
fs::path without_slash(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

}  // namespace

void require_new_folder(const fs::path& folder) {
  const fs::path place = without_slash(folder);
  const std::string name = convert::quote(folder.string());
  std::error_code error;
  const fs::file_status status = fs::status(place, error);
  if (fs::is_directory(status)) {
    if (fs::is_empty(place, error) && !error) return;
    throw convert::InputError(
        "cannot write {}: the folder exists and is not empty: remove it, or name a new one", name);
  }
  if (fs::exists(status)) {
    throw convert::InputError("cannot write {}: it exists and is no folder: name another", name);
  }
  const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
  if (place.empty() || !fs::is_directory(parent, error)) {
    throw convert::InputError("cannot write {}: its parent folder is missing: make it first", name);
  }
}

void write_folder(const fs::path& folder, std::span<const FolderFile> files) {
  require_new_folder(folder);
  const fs::path place = without_slash(folder);
  fs::path temporary = place;
  temporary.replace_filename(fmt::format(".{}.{}.tmp", place.filename().string(), getpid()));
  const convert::SignalsWait until_done;
  try {
    fs::create_directory(temporary);
    for (const FolderFile& file : files) {
      fs::create_directories((temporary / file.path).parent_path());
      write_file(temporary / file.path, file.text);
    }
    fs::rename(temporary, place);
  } catch (const std::system_error& error) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    fail(folder, error.code());
  }
}

}  // namespace arenite::tool
