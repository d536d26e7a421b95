// SPDX-License-Identifier: Apache-2.0
// The temporary files of this process, so that a signal that ends it can remove them.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstddef>

namespace arenite::convert {

inline constexpr size_t kTemporaryFilesMax = 16;  // at a time; more are not known to signals

// Announces the name of a temporary file as long as it lives.
class TemporaryName {
 public:
  TemporaryName() = default;
  ~TemporaryName() { clear(); }
  TemporaryName(const TemporaryName&) = delete;
  TemporaryName& operator=(const TemporaryName&) = delete;

  // `path` must stay where it is until clear.
  void set(const char* path) noexcept;
  void clear() noexcept;

 private:
  std::atomic<const char*>* slot_ = nullptr;
};

// Removes the files whose names are announced. May be called in a signal handler.
void remove_temporary_files() noexcept;

// While one lives, signals to this thread wait: between making a file and announcing it, say.
class SignalsWait {
 public:
  SignalsWait() noexcept;
  ~SignalsWait();
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

}  // namespace arenite::convert
