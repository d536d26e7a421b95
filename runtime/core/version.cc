// SPDX-License-Identifier: Apache-2.0
// The version string; its one source is the project() line of the top CMakeLists.txt.
#include "arenite/version.h"

namespace arenite {

const char* version() { return ARENITE_VERSION; }

}  // namespace arenite
