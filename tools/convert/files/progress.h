// SPDX-License-Identifier: Apache-2.0
// How far a conversion is, for whoever waits for it: told from deep inside, as no result depends on
// it.
#pragma once

#include <cassert>
#include <functional>
#include <string>
#include <utility>

namespace arenite::convert {

// Called with a stage ("packing for arm64") and the share of it that is done, 0 to 1. It may be
// called often, and must be quick.
using ProgressHook = std::function<void(const std::string& stage, double share)>;

// Has a hook called by the conversions of this thread while it lives. REQUIRES: the only one.
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

// Does nothing where nobody listens.
inline void report_progress(const std::string& stage, double share) {
  if (ProgressListener::current_) ProgressListener::current_(stage, share);
}
inline void report_progress(const std::string& stage) { report_progress(stage, 0.0); }

}  // namespace arenite::convert
