// SPDX-License-Identifier: Apache-2.0
// The models for exhaustive damage. They are small, so that every variant can be tried.
#ifndef ARENITE_TESTS_DAMAGE_DAMAGED_MODELS_H_
#define ARENITE_TESTS_DAMAGE_DAMAGED_MODELS_H_

#include <string>
#include <vector>

#include "convert/files/memory.h"

namespace arenite::test {

struct DamagedModel {
  std::string name;
  convert::AlignedBytes file;  // the same bytes on every platform
};

// A module with masks of each kind, a decoder with sentence pieces and a ring, and an encoder with
// WordPiece and a classifier.
std::vector<DamagedModel> damaged_models();

}  // namespace arenite::test

#endif  // ARENITE_TESTS_DAMAGE_DAMAGED_MODELS_H_
