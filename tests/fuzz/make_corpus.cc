// SPDX-License-Identifier: Apache-2.0
// Writes valid seed inputs for the fuzzers, a folder for each target: make_corpus FOLDER.
#include <cstdio>

#include "fuzz/seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  arenite::test::write_model_seeds(argv[1]);
  arenite::test::write_reader_seeds(argv[1]);
  return 0;
}
