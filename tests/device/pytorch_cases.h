// SPDX-License-Identifier: Apache-2.0
// Small models of the ordinary tests with PyTorch's results.
#ifndef ARENITE_TESTS_DEVICE_PYTORCH_CASES_H_
#define ARENITE_TESTS_DEVICE_PYTORCH_CASES_H_

#include <filesystem>
#include <vector>

#include "arenite/target.h"
#include "device/vector_writer.h"

namespace arenite::device {

// The attention modules of golden/pinned_cases.h, and modules and encoders out of `fixtures`,
// the folder tests/convert/data. Throws where one is missing.
void add_pytorch_cases(VectorWriter& writer, const std::filesystem::path& fixtures,
                       const std::vector<Target>& targets);

}  // namespace arenite::device

#endif  // ARENITE_TESTS_DEVICE_PYTORCH_CASES_H_
