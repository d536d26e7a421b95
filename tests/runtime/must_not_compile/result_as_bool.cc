// SPDX-License-Identifier: Apache-2.0
// A result does not convert to bool; call ok().
#include "arenite/session.h"

namespace arenite {

int check(const Result<Output>& output) {
#ifdef ARENITE_MISUSE
  if (output) return 1;
#else
  if (output.ok()) return 1;
#endif
  return 0;
}

}  // namespace arenite
