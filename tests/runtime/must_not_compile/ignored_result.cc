// SPDX-License-Identifier: Apache-2.0
// A program cannot ignore the result of step.
#include "arenite/session.h"

namespace arenite {

void feed(Session& session, const Batch& batch) {
#ifdef ARENITE_MISUSE
  session.step(batch);
#else
  (void)session.step(batch);
#endif
}

}  // namespace arenite
