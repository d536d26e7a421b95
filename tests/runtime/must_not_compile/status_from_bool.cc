// SPDX-License-Identifier: Apache-2.0
// A truth value is no status.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Status check(bool fine) { return fine; }
#else
Status check(bool fine) { return fine ? Status::kOk : Status::kInvalidArgument; }
#endif

}  // namespace arenite
