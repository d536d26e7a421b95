// SPDX-License-Identifier: Apache-2.0
// Runs model files and prints a line for each: one_model FILE...
#include <cstdio>
#include <fstream>
#include <vector>

#include "try_model.h"

alignas(arenite::kArenaAlignment) static std::byte arena[size_t{1} << 20];
alignas(arenite::kModelAlignment) static std::byte file[size_t{1} << 21];

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    std::ifstream stream(argv[i], std::ios::binary);
    stream.read(reinterpret_cast<char*>(file), sizeof(file));
    char text[300];
    const std::string_view line =
        try_model({file, static_cast<size_t>(stream.gcount())}, arena, text);
    std::printf("%.*s\n", static_cast<int>(line.size()), line.data());
  }
  return 0;
}
