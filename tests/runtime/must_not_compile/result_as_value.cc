// SPDX-License-Identifier: Apache-2.0
// A result does not convert to its value without a check.
#include "arenite/session.h"

namespace arenite {

#ifdef ARENITE_MISUSE
Output take(const Result<Output>& output) { return output; }
#else
Output take(const Result<Output>& output) { return *output; }
#endif

}  // namespace arenite
