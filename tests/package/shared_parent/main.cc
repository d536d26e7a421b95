// SPDX-License-Identifier: Apache-2.0
// Links nothing of Arenite but what its shared library holds.
#include <cstdio>

const char* version_held();

int main() { std::printf("arenite %s from a shared library\n", version_held()); }
