// SPDX-License-Identifier: Apache-2.0
// The version of the library, which is separate from the version of the model file format. The
// numbers are for the preprocessor of C and of C++; CMake reads them here.
#pragma once

#define ARENITE_VERSION_MAJOR 0
#define ARENITE_VERSION_MINOR 1
#define ARENITE_VERSION_PATCH 0

#ifdef __cplusplus
namespace arenite {

// "MAJOR.MINOR.PATCH" of the library that was linked. A static string.
const char* version();

}  // namespace arenite
#endif
