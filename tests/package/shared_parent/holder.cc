// SPDX-License-Identifier: Apache-2.0
// A shared library of somebody's own, around the runtime.
#include "arenite/version.h"

const char* version_held() { return arenite::version(); }
