// SPDX-License-Identifier: Apache-2.0
// A model file that was just made, loaded, and a session of it in an arena of the converter's own.
// Whatever fails here is a bug of the converter: std::logic_error.
#pragma once

#include "arenite/session.h"
#include "arenite/target.h"
#include "convert/files/memory.h"

namespace arenite::convert {

// Throws std::logic_error: the model does not `what`.
[[noreturn]] void fail_as_bug(const char* what, Status status, const Diagnostic& why);

// The model of a file, on one target. `file` must outlive it.
Model load_converted(const AlignedBytes& file, Target target);
// The same on the best of its targets that this CPU has.
Model load_best(const AlignedBytes& file);

// A session, and its arena.
class ConvertedSession {
 public:
  ConvertedSession(const Model& model, const SessionOptions& options);

  Session& operator*() const { return *session_; }
  Session* operator->() const { return session_; }

 private:
  AlignedBytes arena_;
  Session* session_ = nullptr;
};

}  // namespace arenite::convert
