// SPDX-License-Identifier: Apache-2.0
// The application in C99, which links the same archives without a C++ compiler.
#if !defined(__cplusplus) && __STDC_VERSION__ != 199901L
#error "linking arenite::c has changed the standard"
#endif
#include <stdio.h>

#include "arenite/arenite.h"
#if __has_include("recall_in_c.h")
#include "recall_in_c.h"
#endif

int main(void) {
  printf("arenite %s\n", arenite_version());
#if __has_include("recall_in_c.h")
  arenite_model model;
  if (arenite_model_load(&model, RECALL_IN_C_MODEL, RECALL_IN_C_MODEL_BYTES, NULL, NULL) !=
      ARENITE_OK) {
    return 1;
  }
  printf("a model inside\n");
#endif
  return 0;
}
