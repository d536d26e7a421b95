// SPDX-License-Identifier: Apache-2.0
// Makes system calls on written files fail on demand, or ends the program at one. In a program that
// links the library arenite_file_faults, the linker's --wrap redirects the calls here, except the
// C++ library's own. fsync never reaches the disk.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace arenite::testing {

// Calls on files opened for reading, pipes and the standard streams are not counted.
enum class SystemCall {
  kOpen,
  kWrite,
  kPwrite,
  kFtruncate,
  kFsync,
  kClose,
  kRename,
  kLink,
  kUnlink,
  kMkdir,
  kFlock,
};

const char* name(SystemCall call);
bool takes_space(SystemCall call);  // on a disk

enum class Effect {
  kNone,
  kFailsOnce,   // with Fault::error; a close closes all the same, as on Linux
  kDiskFull,    // ENOSPC from then on where it takes space; a write writes half of its bytes first
  kReadOnly,    // EROFS from then on, but for closing and locking
  kKilled,      // SIGKILL before the call
  kKilledHalf,  // SIGKILL after half of the bytes of a write
};

struct Fault {
  Effect effect = Effect::kNone;
  int error = 0;
  size_t index = 0;                     // the call, counted from 0
  std::optional<SystemCall> only = {};  // counts calls of this kind alone
};

// While it exists, counts the calls of this process and of its forked children, and injects one
// fault. At most one exists at a time.
class FileFault {
 public:
  explicit FileFault(const Fault& fault = {});
  ~FileFault();
  FileFault(const FileFault&) = delete;
  FileFault& operator=(const FileFault&) = delete;

  bool happened() const;  // so many calls were made
  std::vector<SystemCall> calls() const;
};

// The call number `index` of this kind from now on fails once with `error_number`.
class FailingCall : public FileFault {
 public:
  FailingCall(SystemCall call, int error_number, size_t index = 0)
      : FileFault({Effect::kFailsOnce, error_number, index, call}) {}
};

}  // namespace arenite::testing
