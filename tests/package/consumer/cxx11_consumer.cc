// SPDX-License-Identifier: Apache-2.0
// The application in C, read as C++11.
#if __cplusplus != 201103L
#error "linking arenite::c has changed the standard"
#endif
#include "c_consumer.c"
