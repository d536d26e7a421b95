// SPDX-License-Identifier: Apache-2.0
// Stops compilers that are set to a standard before C++20, with an explanatory message.
#pragma once

#if !defined(__cplusplus) || (__cplusplus < 202002L && !defined(_MSVC_LANG)) || \
    (defined(_MSVC_LANG) && _MSVC_LANG < 202002L)
#error "Arenite needs C++20 (-std=c++20); arenite/arenite.h is for C99 and any C++"
#endif
