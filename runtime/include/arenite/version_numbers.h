// SPDX-License-Identifier: Apache-2.0
// The version of these headers, for the preprocessor of C and of C++. CMake reads it here.
#pragma once

#define ARENITE_VERSION_MAJOR 0
#define ARENITE_VERSION_MINOR 1
#define ARENITE_VERSION_PATCH 0
