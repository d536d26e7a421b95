// SPDX-License-Identifier: Apache-2.0
// One listener a thread: what is done is told from deep inside, and no result depends on it.
#include "convert/files/progress.h"

#include <cassert>
#include <utility>

namespace arenite::convert {
namespace {

thread_local ProgressHook current;

}  // namespace

ProgressListener::ProgressListener(ProgressHook hook) {
  assert(!current);
  current = std::move(hook);
}

ProgressListener::~ProgressListener() { current = nullptr; }

void report_progress(const std::string& stage, double share) {
  if (current) current(stage, share);
}

}  // namespace arenite::convert
