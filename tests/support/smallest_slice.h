// SPDX-License-Identifier: Apache-2.0
// Goes on with a step that has begun in the smallest slices there are.
#pragma once

#include "arenite/session.h"

namespace arenite::test {

// What the budget that a refusal asks for comes to: how many ops are left.
inline Result<uint32_t> advance_least(Session& session) {
  Diagnostic why;
  const Result<uint32_t> left = session.advance(0, &why);
  return left.ok() || why.expected == 0 ? left : session.advance(why.expected, &why);
}

// The same so many times, or to the end.
inline Result<uint32_t> advance_least(Session& session, uint32_t slices) {
  Result<uint32_t> left = advance_least(session);
  for (; slices > 1 && left.ok() && *left != 0; --slices) left = advance_least(session);
  return left;
}

}  // namespace arenite::test
