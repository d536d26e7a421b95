// SPDX-License-Identifier: Apache-2.0
// Links the user's shared library and no library of Arenite.
#include <cstdio>

const char* version_held();

int main() { std::printf("arenite %s from a shared library\n", version_held()); }
