// SPDX-License-Identifier: Apache-2.0
// A program cannot make a session by `new`: sessions exist only in an arena.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Session* make() { return new Session; }
#else
Session* make() { return nullptr; }
#endif

}  // namespace arenite
