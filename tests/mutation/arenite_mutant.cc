// SPDX-License-Identifier: Apache-2.0
// Reads the number of the chosen mutant from ARENITE_MUTANT before any code of the runtime runs,
// and records the mutants that a program without GoogleTest reaches.
#include "arenite_mutant.h"

#include <cstdio>
#include <cstdlib>

int arenite_mutant_chosen = -1;
unsigned char arenite_mutants_reached[ARENITE_MUTANTS_MAX];

namespace {

bool program_lists = false;

[[gnu::constructor]] void choose() {
  const char* number = std::getenv("ARENITE_MUTANT");
  if (number != nullptr) arenite_mutant_chosen = std::atoi(number);
}

[[gnu::destructor]] void write_reached() {
  if (program_lists) return;
  const char* path = std::getenv("ARENITE_MUTANTS_REACHED");
  std::FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "all 0");
  for (int i = 0; i < ARENITE_MUTANTS_MAX; ++i) {
    if (arenite_mutants_reached[i]) std::fprintf(file, " %d", i);
  }
  std::fprintf(file, "\n");
  std::fclose(file);
}

}  // namespace

unsigned char* arenite_list_mutants() {
  program_lists = true;
  return arenite_mutants_reached;
}
