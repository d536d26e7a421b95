// SPDX-License-Identifier: Apache-2.0
// A program cannot ignore the status of rewind.
#include "arenite/session.h"

namespace arenite {

void forget(Session& session) {
#ifdef ARENITE_MISUSE
  session.rewind(0, 0);
#else
  (void)session.rewind(0, 0);
#endif
}

}  // namespace arenite
