// SPDX-License-Identifier: Apache-2.0
// Only Session::create makes sessions, in an arena.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
void make() { Session session; }
#else
void make(Session*) {}
#endif

}  // namespace arenite
