// SPDX-License-Identifier: Apache-2.0
// A session cannot be copied, because it is its arena.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
void copy(const Session& session) { Session other = session; }
#else
void copy(Session& session) { [[maybe_unused]] Session& other = session; }
#endif

}  // namespace arenite
