// SPDX-License-Identifier: Apache-2.0
// The files go where nobody looks yet, and reach the disk together before the folder gets its name.
#include "convert/files/output_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "convert/files/error.h"
#include "convert/files/temporary_names.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

// These return 0 or what errno was.

int make_folder(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0777) == 0) return 0;
  const int error_number = errno;
  std::error_code unknown;
  return error_number == EEXIST && fs::is_directory(folder, unknown) ? 0 : error_number;
}

int make_missing(const fs::path& folder) {
  std::error_code unknown;
  if (folder.empty() || fs::is_directory(folder, unknown)) return 0;
  if (folder.has_relative_path()) {
    if (const int error_number = make_missing(folder.parent_path())) return error_number;
  }
  return make_folder(folder);
}

int write_file(const fs::path& file, const std::string& text) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  const int error_number = write_all(descriptor, std::as_bytes(std::span(text)));
  return close(descriptor) != 0 && error_number == 0 ? errno : error_number;
}

// The first of many files makes the disk write them all, so that the others take no time.
int flush_file(const fs::path& file) {
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  const int error_number = fsync(descriptor) == 0 || errno == EINVAL ? 0 : errno;
  close(descriptor);
  return error_number;
}

int write_files(const fs::path& folder, std::span<const FolderFile> files) {
  for (const FolderFile& file : files) {
    const fs::path path = folder / file.path;
    if (const int error_number = make_missing(path.parent_path())) return error_number;
    if (const int error_number = write_file(path, file.text)) return error_number;
  }
  for (const FolderFile& file : files) {
    if (const int error_number = flush_file(folder / file.path)) return error_number;
  }
  return 0;
}

// "bundle" for "bundle/" and "./bundle".
fs::path without_slash(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

}  // namespace

void require_new_folder(const fs::path& folder) {
  const fs::path place = without_slash(folder);
  const std::string name = quote(folder.string());
  std::error_code error;
  const fs::file_status status = fs::status(place, error);
  if (fs::is_directory(status)) {
    if (fs::is_empty(place, error) && !error) return;
    throw InputError(
        "cannot write {}: the folder exists and is not empty: remove it, or name a new one", name);
  }
  if (fs::exists(status)) {
    throw InputError("cannot write {}: it exists and is no folder: name another", name);
  }
  const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
  if (place.empty() || !fs::is_directory(parent, error)) {
    throw InputError("cannot write {}: its parent folder is missing: make it first", name);
  }
}

void write_folder(const fs::path& folder, std::span<const FolderFile> files) {
  require_new_folder(folder);
  const fs::path place = without_slash(folder);
  TemporaryEntry temporary;
  const SignalsWait until_done;
  int error_number = temporary.make_folder(place);
  if (error_number == 0) error_number = write_files(temporary.path(), files);
  if (error_number == 0) error_number = temporary.rename_to(place);
  if (error_number == 0) return;
  const bool removed = temporary.remove();
  throw InputError("cannot write {}: {}; {} was left behind", quote(folder.string()),
                   std::strerror(error_number),
                   removed ? "nothing" : quote(temporary.path().string()));
}

void make_folders(const fs::path& folder) {
  if (const int error_number = make_missing(folder)) {
    throw InputError("cannot make the folder {}: {}", quote(folder.string()),
                     std::strerror(error_number));
  }
}

}  // namespace arenite::convert
