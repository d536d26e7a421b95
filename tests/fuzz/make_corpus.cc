// SPDX-License-Identifier: Apache-2.0
// Writes sound model files for a fuzzer to start from: make_corpus FOLDER.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support/model_factory.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const arenite::test::ModuleSpec& spec : arenite::test::all_specs()) {
    const auto file = make_model(spec, {arenite::Target::kPortable, arenite::Target::kX86_64_v3});
    // Small files are mutated where it matters; the wide one is mostly weights.
    if (spec.name == "wide") continue;
    std::ofstream(folder / spec.name, std::ios::binary)
        .write(reinterpret_cast<const char*>(file.span().data()),
               static_cast<std::streamsize>(file.size()));
  }
  return 0;
}
