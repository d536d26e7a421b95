// SPDX-License-Identifier: Apache-2.0
// A status does not convert to bool: kOk is zero.
#include "arenite/session.h"

namespace arenite {

int check(Session& session) {
#ifdef ARENITE_MISUSE
  if (session.rewind(0, 1)) return 1;
#else
  if (session.rewind(0, 1) == Status::kOk) return 1;
#endif
  return 0;
}

}  // namespace arenite
