// SPDX-License-Identifier: Apache-2.0
// A user's shared library that contains the runtime.
#include "arenite/version.h"

const char* version_held() { return arenite::version(); }
