// SPDX-License-Identifier: Apache-2.0
// Checkpoints and arrays that the tests of the program read.
#pragma once

#include <string>
#include <vector>

#include "cli/program.h"
#include "support/checkpoint_builder.h"

namespace arenite::testing {

// One head, 3 -> 4 features, six positions with a causal buffer.
test::CheckpointBuilder small_checkpoint();

// GPT-2-small's attention: 768 wide, 12 heads, causal; 9.4 MB of weights.
test::CheckpointBuilder gpt2_checkpoint();

// small_checkpoint converted in this folder; returns the path of the model.
std::string convert_small(const TempFolder& folder, const std::string& target = "native");

// Random features of this shape in a .npy file; returns its path.
std::string write_features(const TempFolder& folder, const std::string& name,
                           const std::vector<uint64_t>& shape, uint64_t seed = 1);

// A .npy file from the text of its header and its data.
std::string npy_bytes(const std::string& descr, const std::string& order, const std::string& shape,
                      const std::string& data);

}  // namespace arenite::testing
