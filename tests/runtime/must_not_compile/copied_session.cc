// SPDX-License-Identifier: Apache-2.0
// A session is its arena: a copy of the object would point nowhere.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
void copy(const Session& session) { Session other = session; }
#else
void copy(Session& session) { [[maybe_unused]] Session& other = session; }
#endif

}  // namespace arenite
