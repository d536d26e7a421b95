// SPDX-License-Identifier: Apache-2.0
// A bool does not convert to a status.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Status check(bool fine) { return fine; }
#else
Status check(bool fine) { return fine ? Status::kOk : Status::kInvalidArgument; }
#endif

}  // namespace arenite
