// SPDX-License-Identifier: Apache-2.0
// A result is not its value.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Output take(const Result<Output>& output) { return output; }
#else
Output take(const Result<Output>& output) { return *output; }
#endif

}  // namespace arenite
