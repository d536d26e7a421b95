// SPDX-License-Identifier: Apache-2.0
// The smallest program: links the runtime and prints its version.
#include <cstdio>

#include "arenite/version.h"

int main() {
  std::printf("arenite %s\n", arenite::version());
  return 0;
}
