// SPDX-License-Identifier: Apache-2.0
// Model files from the program golden_converter, which always runs on the build machine: an
// emulator of another CPU lets the system execute native programs.
#ifndef ARENITE_TESTS_GOLDEN_CONVERTED_H_
#define ARENITE_TESTS_GOLDEN_CONVERTED_H_

#include <filesystem>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"

namespace arenite::test {

// Returns what golden_converter takes as targets: all, but in an emulator those that are used. To
// read and check the weights of all takes it longer than to run the model.
std::string targets_for(const std::vector<Target>& used);

// `kind` and `options` are as golden_converter.cc has them. Throws what the program printed if it
// failed.
convert::AlignedBytes converted(const std::string& kind, const std::filesystem::path& model,
                                const std::vector<std::string>& options);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_GOLDEN_CONVERTED_H_
