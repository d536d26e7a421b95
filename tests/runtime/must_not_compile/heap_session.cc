// SPDX-License-Identifier: Apache-2.0
// A program must not make a session by `new`: it lives in an arena only.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Session* make() { return new Session; }
#else
Session* make() { return nullptr; }
#endif

}  // namespace arenite
