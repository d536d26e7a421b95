// SPDX-License-Identifier: Apache-2.0
// A table of fixed size, because a signal handler may neither allocate nor wait for a lock.
#include "convert/files/temporary_files.h"

#include <unistd.h>

#include <cerrno>

namespace arenite::convert {
namespace {

std::atomic<const char*> names[kTemporaryFilesMax] = {};
static_assert(std::atomic<const char*>::is_always_lock_free);

}  // namespace

void TemporaryName::set(const char* path) noexcept {
  clear();
  for (std::atomic<const char*>& name : names) {
    const char* none = nullptr;
    if (!name.compare_exchange_strong(none, path)) continue;
    slot_ = &name;
    return;
  }
}

void TemporaryName::clear() noexcept {
  if (slot_ != nullptr) slot_->store(nullptr);
  slot_ = nullptr;
}

void remove_temporary_files() noexcept {
  const int error_number = errno;
  for (const std::atomic<const char*>& name : names) {
    if (const char* const path = name.load()) unlink(path);
  }
  errno = error_number;
}

SignalsWait::SignalsWait() noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before_);
}

SignalsWait::~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

}  // namespace arenite::convert
