// SPDX-License-Identifier: Apache-2.0
// Uses the public headers only, the way an application does.
#include <cstdio>

#include "arenite/model.h"
#include "arenite/version.h"
#if __has_include("recall.h")
#include "recall.h"
#endif

int main() {
  std::printf("arenite %s\n", arenite::version());
#if __has_include("recall.h")
  if (!arenite::Model::load(recall_model()).ok()) return 1;
  std::printf("a model inside\n");
#endif
  return 0;
}
