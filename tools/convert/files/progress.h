// SPDX-License-Identifier: Apache-2.0
// How far a conversion is, for whoever waits for it.
#pragma once

#include <functional>
#include <string>

namespace arenite::convert {

// Called with a stage ("packing for arm64") and the share of it that is done, 0 to 1. It may be
// called often, and must be quick.
using ProgressHook = std::function<void(const std::string& stage, double share)>;

// Has `hook` called by the conversions of this thread while it lives. REQUIRES: the only one.
class ProgressListener {
 public:
  explicit ProgressListener(ProgressHook hook);
  ~ProgressListener();
  ProgressListener(const ProgressListener&) = delete;
  ProgressListener& operator=(const ProgressListener&) = delete;
};

// Does nothing where nobody listens.
void report_progress(const std::string& stage, double share = 0.0);

}  // namespace arenite::convert
