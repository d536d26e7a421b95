// SPDX-License-Identifier: Apache-2.0
// Continues a step in the smallest possible slices.
#pragma once

#include "arenite/session.h"

namespace arenite::test {

// Advances by the smallest budget, which a refusal states. Returns the number of ops left.
inline Result<uint32_t> advance_least(Session& session) {
  Diagnostic why;
  const Result<uint32_t> left = session.advance(0, &why);
  return left.ok() || why.expected == 0 ? left : session.advance(why.expected, &why);
}

// Advances by a number of slices, or to the end of the step.
inline Result<uint32_t> advance_least(Session& session, uint32_t slices) {
  Result<uint32_t> left = advance_least(session);
  for (; slices > 1 && left.ok() && *left != 0; --slices) left = advance_least(session);
  return left;
}

}  // namespace arenite::test
