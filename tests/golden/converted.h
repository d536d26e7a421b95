// SPDX-License-Identifier: Apache-2.0
// Model files from the program golden_converter, which always runs on the build machine: an
// emulator of another CPU lets the system execute native programs.
#ifndef ARENITE_TESTS_GOLDEN_CONVERTED_H_
#define ARENITE_TESTS_GOLDEN_CONVERTED_H_

#include <filesystem>
#include <string>
#include <vector>

#include "convert/files/memory.h"

namespace arenite::test {

// `kind` and `options` are as golden_converter.cc has them. Throws what the program printed if it
// failed.
convert::AlignedBytes converted(const std::string& kind, const std::filesystem::path& model,
                                const std::vector<std::string>& options);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_GOLDEN_CONVERTED_H_
