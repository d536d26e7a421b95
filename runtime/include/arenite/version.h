// SPDX-License-Identifier: Apache-2.0
// The version of the library, which is independent of the version of the model file format. The
// macros serve C, C++ and CMake, which reads them here.
#pragma once

// Before 1.0 a new minor version may change the interface.
#define ARENITE_VERSION_MAJOR 0
// Counts what was added, or changed before 1.0.
#define ARENITE_VERSION_MINOR 1
// Counts corrections.
#define ARENITE_VERSION_PATCH 0

#ifdef __cplusplus
namespace arenite {

// Returns "MAJOR.MINOR.PATCH" of the linked library, as a static string.
const char* version();

}  // namespace arenite
#endif
