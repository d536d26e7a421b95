// SPDX-License-Identifier: Apache-2.0
// What rewind returns must be looked at.
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
