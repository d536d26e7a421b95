// SPDX-License-Identifier: Apache-2.0
// Golden cases: a checkpoint, inputs, and the outputs that PyTorch computed in double precision.
#ifndef ARENITE_TESTS_GOLDEN_GOLDEN_CASE_H_
#define ARENITE_TESTS_GOLDEN_GOLDEN_CASE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "convert/files/memory.h"

namespace arenite::test {

struct GoldenCase {
  const char* name;
  double tolerance;  // largest absolute error
  bool is_causal = true;
  bool is_mask_alone = false;  // a module without weights does not say how wide its input is
};

// The cases of the data folder, and those of this repository's models.
extern const std::vector<GoldenCase> kDataCases;
extern const std::vector<GoldenCase> kOwnCases;

// Returns the folder that ARENITE_TEST_DATA names, or `shared` next to the repository. It may not
// exist.
std::filesystem::path data_folder();

// A case in memory, converted for the targets of targets_for. Arrays are [sequences, tokens,
// features].
struct GoldenModel {
  convert::AlignedBytes file;
  bool causal = false;
  uint32_t sequences = 0;
  uint32_t tokens = 0;
  uint32_t input_features = 0;
  uint32_t output_features = 0;
  std::vector<float> input;
  std::vector<float> output;
};

// Where the files of case `name` are. Those of own models always are there.
std::filesystem::path case_folder(const std::string& name);
GoldenModel read_case(const GoldenCase& golden, Target target);

}  // namespace arenite::test

#endif  // ARENITE_TESTS_GOLDEN_GOLDEN_CASE_H_
