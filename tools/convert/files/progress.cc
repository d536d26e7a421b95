// SPDX-License-Identifier: Apache-2.0
// One listener a thread: what is done is told from deep inside, and no result depends on it.
#include "convert/files/progress.h"

#include <cassert>
#include <utility>

namespace arenite::convert {
namespace {

thread_local ProgressHook current_hook;

}  // namespace

ProgressListener::ProgressListener(ProgressHook hook) {
  assert(!current_hook);
  current_hook = std::move(hook);
}

ProgressListener::~ProgressListener() { current_hook = nullptr; }

void report_progress(const std::string& stage, double share) {
  if (current_hook) current_hook(stage, share);
}

}  // namespace arenite::convert
