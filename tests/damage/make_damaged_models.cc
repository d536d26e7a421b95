// SPDX-License-Identifier: Apache-2.0
// Writes the undamaged models for the program that damages them. That program therefore needs no
// converter and builds quickly with sanitizers.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "damage/damaged_models.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_damaged_models FOLDER\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  std::filesystem::create_directories(folder);
  for (const arenite::test::DamagedModel& model : arenite::test::damaged_models()) {
    const std::span<const std::byte> bytes = model.file.span();
    std::ofstream file(folder / (model.name + ".arn"), std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) return 1;
  }
  return 0;
}
