// SPDX-License-Identifier: Apache-2.0
// System calls on files that are written, which fail on demand or end the program. A program that
// links the library arenite_file_faults makes them through here, by the linker's --wrap; what the
// C++ library calls by itself is not among them. No call of fsync reaches the disk.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace arenite::testing {

// Of files that are read, pipes and the standard streams, no call counts.
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

// The calls that are made while it lives, of this process and of those that it forks, and what
// becomes of one of them. At most one lives at a time.
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
