// SPDX-License-Identifier: Apache-2.0
// A session cannot be assigned to another.
#include "arenite/session.h"

namespace arenite {

void assign(Session& a, Session& b) {
#ifdef ARENITE_MISUSE
  a = b;
#else
  a.reset(), b.reset();
#endif
}

}  // namespace arenite
