// SPDX-License-Identifier: Apache-2.0
// The counter is in memory shared with forked children, so that the parent can read it afterwards.
#include "support/file_faults.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <new>
#include <span>
#include <stdexcept>

namespace arenite::testing {
namespace {

constexpr size_t kCallsMax = 4096;

struct State {
  Fault fault;
  size_t count = 0;
  SystemCall calls[kCallsMax] = {};
};

State* state = nullptr;

enum class Verdict { kReal, kFails, kHalf, kHalfThenKilled };

Verdict fails_with(int error_number) {
  errno = error_number;
  return Verdict::kFails;
}

// Counts the call and decides its fate. Sets errno if it fails.
Verdict verdict_on(SystemCall call) {
  if (state == nullptr || (state->fault.only && state->fault.only != call)) return Verdict::kReal;
  const size_t number = state->count++;
  if (number < kCallsMax) state->calls[number] = call;
  const Fault& fault = state->fault;
  if (number < fault.index) return Verdict::kReal;
  const bool is_first = number == fault.index;
  const bool is_write = call == SystemCall::kWrite || call == SystemCall::kPwrite;
  switch (fault.effect) {
    case Effect::kNone:
      return Verdict::kReal;
    case Effect::kFailsOnce:
      return is_first ? fails_with(fault.error) : Verdict::kReal;
    case Effect::kDiskFull:
      if (is_first && is_write) return Verdict::kHalf;
      return takes_space(call) ? fails_with(ENOSPC) : Verdict::kReal;
    case Effect::kReadOnly:
      return call == SystemCall::kClose || call == SystemCall::kFlock ? Verdict::kReal
                                                                      : fails_with(EROFS);
    case Effect::kKilledHalf:
      if (is_write) return Verdict::kHalfThenKilled;
      [[fallthrough]];
    case Effect::kKilled:
      kill(getpid(), SIGKILL);
  }
  return Verdict::kReal;
}

bool is_written(int file) {
  struct stat status = {};
  if (file <= STDERR_FILENO || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

Verdict verdict_on(SystemCall call, int file) {
  return is_written(file) ? verdict_on(call) : Verdict::kReal;
}

// Sets how many bytes `write` writes.
template <typename Write>
ssize_t write_or_fail(Verdict verdict, size_t bytes, Write write) {
  if (verdict == Verdict::kFails) return -1;
  if (verdict == Verdict::kReal) return write(bytes);
  const ssize_t written = write((bytes + 1) / 2);
  if (verdict == Verdict::kHalfThenKilled) kill(getpid(), SIGKILL);
  return written;
}

}  // namespace

const char* name(SystemCall call) {
  constexpr const char* kNames[] = {"open",   "write", "pwrite", "ftruncate", "fsync", "close",
                                    "rename", "link",  "unlink", "mkdir",     "flock"};
  return kNames[static_cast<size_t>(call)];
}

bool takes_space(SystemCall call) {
  switch (call) {
    case SystemCall::kOpen:
    case SystemCall::kWrite:
    case SystemCall::kPwrite:
    case SystemCall::kFtruncate:
    case SystemCall::kLink:
    case SystemCall::kMkdir:
      return true;
    default:
      return false;
  }
}

FileFault::FileFault(const Fault& fault) {
  if (state != nullptr) throw std::logic_error("there is a FileFault already");
  void* const shared =
      mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  state = new (shared) State;
  state->fault = fault;
}

FileFault::~FileFault() {
  munmap(state, sizeof(State));
  state = nullptr;
}

bool FileFault::happened() const { return state->count > state->fault.index; }

std::vector<SystemCall> FileFault::calls() const {
  const size_t count = std::min(state->count, kCallsMax);
  return {state->calls, state->calls + count};
}

extern "C" {

int __real_open(const char* path, int flags, ...);
ssize_t __real_write(int file, const void* data, size_t bytes);
ssize_t __real_pwrite(int file, const void* data, size_t bytes, off_t offset);
int __real_ftruncate(int file, off_t bytes);
int __real_close(int file);
int __real_rename(const char* from, const char* to);
int __real_link(const char* from, const char* to);
int __real_unlink(const char* path);
int __real_mkdir(const char* path, mode_t mode);
int __real_flock(int file, int operation);

int __wrap_open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (writes && verdict_on(SystemCall::kOpen) == Verdict::kFails) return -1;
  return __real_open(path, flags, mode);
}

ssize_t __wrap_write(int file, const void* data, size_t bytes) {
  return write_or_fail(verdict_on(SystemCall::kWrite, file), bytes,
                       [&](size_t count) { return __real_write(file, data, count); });
}

ssize_t __wrap_pwrite(int file, const void* data, size_t bytes, off_t offset) {
  return write_or_fail(verdict_on(SystemCall::kPwrite, file), bytes,
                       [&](size_t count) { return __real_pwrite(file, data, count, offset); });
}

int __wrap_ftruncate(int file, off_t bytes) {
  return verdict_on(SystemCall::kFtruncate, file) == Verdict::kFails
             ? -1
             : __real_ftruncate(file, bytes);
}

int __wrap_fsync(int) { return verdict_on(SystemCall::kFsync) == Verdict::kFails ? -1 : 0; }

int __wrap_close(int file) {
  const Verdict verdict = verdict_on(SystemCall::kClose, file);
  const int error_number = errno;
  const int result = __real_close(file);
  if (verdict != Verdict::kFails) return result;
  errno = error_number;
  return -1;
}

int __wrap_rename(const char* from, const char* to) {
  return verdict_on(SystemCall::kRename) == Verdict::kFails ? -1 : __real_rename(from, to);
}

int __wrap_link(const char* from, const char* to) {
  return verdict_on(SystemCall::kLink) == Verdict::kFails ? -1 : __real_link(from, to);
}

int __wrap_unlink(const char* path) {
  return verdict_on(SystemCall::kUnlink) == Verdict::kFails ? -1 : __real_unlink(path);
}

int __wrap_mkdir(const char* path, mode_t mode) {
  return verdict_on(SystemCall::kMkdir) == Verdict::kFails ? -1 : __real_mkdir(path, mode);
}

int __wrap_flock(int file, int operation) {
  return verdict_on(SystemCall::kFlock) == Verdict::kFails ? -1 : __real_flock(file, operation);
}

}  // extern "C"

}  // namespace arenite::testing
