// SPDX-License-Identifier: Apache-2.0
// Looks at the files anew each time: what a name means may change while a command runs.
#include "convert/files/output_guard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "convert/files/error.h"

namespace arenite::convert {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as many as Linux follows

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

// Files that do not exist yet are the same if they have one name in one folder.
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

// "the standard output" if `status` is of the regular file that it goes to, or of the error.
const char* stream_to(const struct stat& status) {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat stream = {};
    if (fstat(descriptor, &stream) == 0 && S_ISREG(stream.st_mode) && same(stream, status)) {
      return descriptor == STDOUT_FILENO ? "the standard output" : "the standard error";
    }
  }
  return nullptr;
}

void require_apart_from_streams(const Output& output) {
  const auto status = status_of(output.path);
  const char* const stream = status ? stream_to(*status) : nullptr;
  if (stream == nullptr) return;
  throw SameFileError("{}: {} is where {} goes: expected another file", output.option,
                      quote(output.path.string()), stream);
}

}  // namespace

OutputGuard::OutputGuard(std::vector<Output> outputs) : outputs_(std::move(outputs)) {
  std::erase_if(outputs_, [](const Output& output) { return output.path.empty(); });
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
  for (const Output& output : outputs_) {
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
    throw SameFileError("{} is an input of this command, and {} goes there: send it elsewhere",
                        quote(file.string()), stream);
  }
  current->read(id_of(status), file);
}

void note_read(const fs::path& file) {
  // O_PATH does not wait for the writer of a pipe.
  const int descriptor = open(file.c_str(), O_PATH | O_CLOEXEC);
  if (descriptor < 0) return;  // whoever opens it next says why
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
    if (S_ISDIR(status->st_mode)) {
      throw InputError("cannot write {}: it is a folder, not a regular file: name a file in it",
                       name);
    }
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
                   std::strerror(error_number), error_number == ENOENT ? ": make it first" : "");
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

}  // namespace arenite::convert
