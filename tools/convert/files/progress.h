// SPDX-License-Identifier: Apache-2.0
// Progress of a conversion, reported through a thread-local hook, as no result depends on it.
//
//   const ProgressListener listener([](const std::string& stage, double share) { ... });
//   report_progress("packing for arm64", 0.5);  // calls the hook
#pragma once

#include <cassert>
#include <functional>
#include <string>
#include <utility>

namespace arenite::convert {

// Called with a stage ("packing for arm64") and its finished share, 0 to 1. Calls may be frequent,
// so it must be quick.
using ProgressHook = std::function<void(const std::string& stage, double share)>;

// Installs a hook for conversions on this thread while it lives. REQUIRES: no other listener on
// this thread.
class ProgressListener {
 public:
  explicit ProgressListener(ProgressHook hook) {
    assert(!current_);
    current_ = std::move(hook);
  }
  ~ProgressListener() { current_ = nullptr; }
  ProgressListener(const ProgressListener&) = delete;
  ProgressListener& operator=(const ProgressListener&) = delete;

 private:
  friend void report_progress(const std::string& stage, double share);

  inline static thread_local ProgressHook current_;
};

// Does nothing without a listener.
inline void report_progress(const std::string& stage, double share) {
  if (ProgressListener::current_) ProgressListener::current_(stage, share);
}
inline void report_progress(const std::string& stage) { report_progress(stage, 0.0); }

}  // namespace arenite::convert
