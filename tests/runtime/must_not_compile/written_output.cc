// SPDX-License-Identifier: Apache-2.0
// Results are read only: they lie where the next call writes.
#include "arenite/session.h"

namespace arenite {

void scale(const Output& output) {
#ifdef ARENITE_MISUSE
  output.row(0)[0] = 1.0f;
#else
  (void)output.row(0)[0];
#endif
}

}  // namespace arenite
