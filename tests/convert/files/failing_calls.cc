// SPDX-License-Identifier: Apache-2.0
#include "convert/files/failing_calls.h"

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <optional>

namespace arenite::convert {
namespace {

std::optional<Call> failing;
int calls_before = 0;
int error = 0;

bool fails(Call call) {
  if (failing != call || calls_before-- != 0) return false;
  failing.reset();
  errno = error;
  return true;
}

}  // namespace

const char* name(Call call) {
  constexpr const char* kNames[] = {"write", "pwrite", "ftruncate", "fsync",
                                    "close", "rename", "link"};
  return kNames[static_cast<size_t>(call)];
}

FailingCall::FailingCall(Call call, int error_number, int index) {
  failing = call;
  error = error_number;
  calls_before = index;
}

FailingCall::~FailingCall() { failing.reset(); }

bool FailingCall::happened() const { return !failing; }

extern "C" {

ssize_t __real_write(int file, const void* data, size_t bytes);
ssize_t __real_pwrite(int file, const void* data, size_t bytes, off_t offset);
int __real_ftruncate(int file, off_t bytes);
int __real_fsync(int file);
int __real_close(int file);
int __real_rename(const char* from, const char* to);
int __real_link(const char* from, const char* to);

ssize_t __wrap_write(int file, const void* data, size_t bytes) {
  return fails(Call::kWrite) ? -1 : __real_write(file, data, bytes);
}

ssize_t __wrap_pwrite(int file, const void* data, size_t bytes, off_t offset) {
  return fails(Call::kPwrite) ? -1 : __real_pwrite(file, data, bytes, offset);
}

int __wrap_ftruncate(int file, off_t bytes) {
  return fails(Call::kFtruncate) ? -1 : __real_ftruncate(file, bytes);
}

int __wrap_fsync(int file) { return fails(Call::kFsync) ? -1 : __real_fsync(file); }

int __wrap_close(int file) {
  const int result = __real_close(file);
  return fails(Call::kClose) ? -1 : result;
}

int __wrap_rename(const char* from, const char* to) {
  return fails(Call::kRename) ? -1 : __real_rename(from, to);
}

int __wrap_link(const char* from, const char* to) {
  return fails(Call::kLink) ? -1 : __real_link(from, to);
}

}  // extern "C"

}  // namespace arenite::convert
