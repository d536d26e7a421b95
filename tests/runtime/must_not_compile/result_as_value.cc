// SPDX-License-Identifier: Apache-2.0
// A program must not use a result as its value without asking whether there is one.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Output take(const Result<Output>& output) { return output; }
#else
Output take(const Result<Output>& output) { return *output; }
#endif

}  // namespace arenite
