// SPDX-License-Identifier: Apache-2.0
// The version of the library, which is separate from the version of the model file format.
#pragma once

#include "arenite/version_numbers.h"

namespace arenite {

// "MAJOR.MINOR.PATCH" of the library that was linked. A static string.
const char* version();

}  // namespace arenite
