// SPDX-License-Identifier: Apache-2.0
// Temporary files, the protection of inputs, and the rename that makes a file or a folder appear.
#include "convert/files/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "convert/files/error.h"
#include "convert/files/temporary_names.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as many as Linux resolves

OutputGuard* current = nullptr;

std::optional<struct stat> status_of(const fs::path& file) {
  struct stat status = {};
  if (stat(file.c_str(), &status) != 0) return std::nullopt;
  return status;
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

FileId id_of(const struct stat& status) { return {status.st_dev, status.st_ino}; }

bool same(const struct stat& a, const struct stat& b) { return id_of(a) == id_of(b); }

// Files that do not exist yet are the same if they have the same name in the same folder.
bool same_file(const fs::path& a, const fs::path& b) {
  const auto status_a = status_of(a);
  const auto status_b = status_of(b);
  if (status_a || status_b) return status_a && status_b && same(*status_a, *status_b);
  const fs::path end_a = end_of_links(a);
  const fs::path end_b = end_of_links(b);
  const auto folder_a = status_of(folder_of(end_a));
  const auto folder_b = status_of(folder_of(end_b));
  return end_a.filename() == end_b.filename() && folder_a && folder_b && same(*folder_a, *folder_b);
}

// Returns "the standard output" if `status` is of the regular file that it is redirected to, or
// likewise "the standard error".
const char* stream_to(const struct stat& status) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream = {};
    if (fstat(descriptor, &stream) == 0 && S_ISREG(stream.st_mode) && same(stream, status)) {
      return descriptor == STDOUT_FILENO ? "the standard output" : "the standard error";
    }
  }
  return nullptr;
}

void require_apart_from_streams(const OutputFile& output) {
  const auto status = status_of(output.path);
  const char* const stream = status ? stream_to(*status) : nullptr;
  if (stream == nullptr) return;
  throw SameFileError("{}: {} is where {} goes: expected another file", output.option,
                      quote(output.path.string()), stream);
}

}  // namespace

OutputGuard::OutputGuard(std::vector<OutputFile> outputs) : outputs_(std::move(outputs)) {
  std::erase_if(outputs_, [](const OutputFile& output) { return output.path.empty(); });
  for (size_t i = 0; i < outputs_.size(); ++i) {
    require_apart_from_streams(outputs_[i]);
    for (size_t j = 0; j < i; ++j) {
      if (!same_file(outputs_[i].path, outputs_[j].path)) continue;
      throw SameFileError("{}: {} is the file of {}: expected another file", outputs_[i].option,
                          quote(outputs_[i].path.string()), outputs_[j].option);
    }
    require_writable(outputs_[i].path);
  }
  current = this;
}

OutputGuard::~OutputGuard() { current = nullptr; }

void OutputGuard::read(FileId id, const fs::path& file) {
  for (const OutputFile& output : outputs_) {
    const auto status = status_of(output.path);
    if (!status || id_of(*status) != id) continue;
    throw SameFileError("{}: {} is an input of this command{}: expected another file",
                        output.option, quote(output.path.string()),
                        output.path == file ? "" : ", " + quote(file.string()));
  }
  if (std::ranges::find(read_, id) == read_.end()) read_.push_back(id);
}

void note_read(int descriptor, const fs::path& file) {
  struct stat status = {};
  if (current == nullptr || fstat(descriptor, &status) != 0) return;
  if (const char* const stream = stream_to(status)) {
    throw SameFileError(
        "{} is an input of this command, and {} goes to it: redirect that elsewhere",
        quote(file.string()), stream);
  }
  current->read(id_of(status), file);
}

void note_read(const fs::path& file) {
  // O_PATH does not wait for a pipe's writer.
  const int descriptor = open(file.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0) return;  // the next open reports why
  try {
    note_read(descriptor, file);
  } catch (...) {
    close(descriptor);
    throw;
  }
  close(descriptor);
}

void require_not_read(const fs::path& file) {
  const auto status = status_of(file);
  if (current == nullptr || !status) return;
  if (std::ranges::find(current->read_, id_of(*status)) == current->read_.end()) {
    return;
  }
  throw SameFileError("cannot write {}: it is an input of this command: expected another file",
                      quote(file.string()));
}

void require_writable(const fs::path& file) {
  const std::string name = quote(file.string());
  if (const auto status = status_of(file)) {
    refuse_if(S_ISDIR(status->st_mode),
              "cannot write {}: it is a folder, not a regular file: name a file in it", name);
    if (!S_ISREG(status->st_mode)) {
      // Renaming would replace a device such as /dev/null by a file.
      throw InputError("cannot write {}: it exists and is not a regular file: name another one",
                       name);
    }
  }
  if (!file.has_filename()) throw InputError("cannot write {}: it names no file", name);
  const fs::path folder = folder_of(end_of_links(file));
  const auto folder_status = status_of(folder);
  const bool is_file = folder_status && !S_ISDIR(folder_status->st_mode);
  if (!is_file && access(folder.c_str(), W_OK | X_OK) == 0) return;
  const int error_number = is_file ? ENOTDIR : errno;
  throw InputError("cannot write {}: its folder {}: {}{}", name, quote(folder.string()),
                   std::strerror(error_number), error_number == ENOENT ? ": create it first" : "");
}

fs::path end_of_links(const fs::path& file) {
  fs::path end = file;
  for (int i = 0; i < kLinksMax; ++i) {
    std::error_code no_link;
    const fs::path next = fs::read_symlink(end, no_link);
    if (no_link) break;
    end = folder_of(end) / next;  // an absolute path stands for itself
  }
  return end;
}

AtomicFile::AtomicFile(const std::filesystem::path& target)
    : target_(target), place_(end_of_links(target)) {
  require_writable(target);
  require_not_read(target);
  if (const int error_number = temporary_.make_file(place_, descriptor_)) fail(error_number);
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(std::span<const std::byte> bytes) {
  assert(descriptor_ >= 0);
  if (const int error_number = write_all(descriptor_, bytes)) fail(error_number);
  bytes_written_ += bytes.size();
}

void AtomicFile::resize(uint64_t bytes) {
  assert(descriptor_ >= 0);
  if (ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) fail(errno);
}

void AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  assert(descriptor_ >= 0);
  if (const int error_number = write_all(descriptor_, bytes, offset)) fail(error_number);
  bytes_written_ += bytes.size();
}

void AtomicFile::commit() {
  AtomicFile* const only[] = {this};
  commit_together(only);
}

void AtomicFile::close_flushed() {
  assert(descriptor_ >= 0);
  // Some file systems lack fsync and return EINVAL; all others report late write errors here.
  if (fsync(descriptor_) != 0 && errno != EINVAL) fail(errno);
  if (close(std::exchange(descriptor_, -1)) != 0) fail(errno);
}

void AtomicFile::publish(bool keeps_old) {
  require_not_read(place_);
  if (keeps_old) {
    fs::path old = temporary_.second_path();
    if (link(place_.c_str(), old.c_str()) == 0) {
      old_ = std::move(old);
    } else {
      is_new_ = errno == ENOENT;
    }
  }
  if (const int error_number = temporary_.rename_to(place_)) {
    forget_old();
    fail(error_number);
  }
}

void AtomicFile::take_back() noexcept {
  if (!old_.empty()) {
    std::rename(old_.c_str(), place_.c_str());
    old_.clear();
  } else if (is_new_) {
    unlink(place_.c_str());
  }
}

void AtomicFile::forget_old() noexcept {
  if (!old_.empty()) unlink(old_.c_str());
  old_.clear();
}

bool AtomicFile::discard() noexcept {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  return temporary_.remove();
}

void AtomicFile::fail(int error_number) {
  const bool removed = discard();
  throw InputError("cannot write {}: {}; {} was left behind", quote(target_.string()),
                   std::strerror(error_number),
                   removed ? "nothing" : quote(temporary_.path().string()));
}

void commit_together(std::span<AtomicFile* const> files) {
  for (AtomicFile* const file : files) {
    if (file != nullptr) file->close_flushed();
  }
  const SignalsWait until_all_have_their_names;
  std::vector<AtomicFile*> done;
  done.reserve(files.size());
  try {
    for (AtomicFile* const file : files) {
      if (file == nullptr) continue;
      file->publish(files.size() > 1);
      done.push_back(file);
    }
  } catch (...) {
    for (AtomicFile* const file : done) file->take_back();
    throw;
  }
  for (AtomicFile* const file : done) file->forget_old();
}

// ---- folders: files are written to a hidden folder and flushed to disk before it is renamed ----

namespace {

// Each returns 0 or an errno value.

int make_missing(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  return error.value();
}

int write_file(const fs::path& file, const std::string& text) {
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return errno;
  const int error_number = write_all(descriptor, std::as_bytes(std::span(text)));
  return close(descriptor) != 0 && error_number == 0 ? errno : error_number;
}

// Flushing the first of many files makes the disk write them all, so the others take no time.
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

// Returns "bundle" for "bundle/" and "./bundle".
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
  refuse_if(fs::exists(status), "cannot write {}: it exists and is not a folder: name another",
            name);
  const fs::path parent = place.has_parent_path() ? place.parent_path() : fs::path(".");
  refuse_if(place.empty() || !fs::is_directory(parent, error),
            "cannot write {}: its parent folder is missing: create it first", name);
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
    throw InputError("cannot create the folder {}: {}", quote(folder.string()),
                     std::strerror(error_number));
  }
}

}  // namespace arenite::convert
