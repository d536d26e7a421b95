// SPDX-License-Identifier: Apache-2.0
// Compiles the C application as C++11.
#if __cplusplus != 201103L
#error "linking arenite::c has changed the standard"
#endif
#include "c_consumer.c"
