// SPDX-License-Identifier: Apache-2.0
// No session on the heap.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Session* make() { return new Session; }
#else
Session* make() { return nullptr; }
#endif

}  // namespace arenite
