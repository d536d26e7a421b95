// SPDX-License-Identifier: Apache-2.0
// Uses the public headers only, the way an application does.
#include <cstdio>

#include "arenite/version.h"

int main() {
  std::printf("arenite %s\n", arenite::version());
  return 0;
}
