// SPDX-License-Identifier: Apache-2.0
// Damaged model files are refused, whatever is wrong with them.
#include <algorithm>

#include "device/device_test.h"
#include "device/tests.h"
#include "device/vectors.h"

namespace arenite::device {
namespace {

std::span<std::byte> fresh_copy() {
  std::ranges::copy(model_to_damage().span(), copy_memory().data());
  return copy_memory().first(model_to_damage().bytes);
}

}  // namespace

void changed_bytes() {
  const std::span<std::byte> file = fresh_copy();
  REQUIRE(Model::load(file).ok());
  for (uint32_t i = 0; i < file.size(); ++i) {
    in_hand("byte", "", i);
    const std::byte before = file[i];
    file[i] ^= std::byte{1} << i % 8;
    EXPECT(!Model::load(file).ok());
    file[i] = before;
  }
  EXPECT(Model::load(file).ok());
}

void other_lengths() {
  const std::span<std::byte> file = fresh_copy();
  for (uint32_t bytes = 0; bytes < file.size(); ++bytes) {
    in_hand("length", "", bytes);
    EXPECT(!Model::load(file.first(bytes)).ok());
  }
  // The copy's memory has room for more, and what lies there is no part of the model.
  EXPECT(!Model::load(copy_memory()).ok());
  Diagnostic why;
  EXPECT(Model::load(copy_memory().subspan(4, 128), &why).status() == Status::kInvalidArgument);
}

}  // namespace arenite::device
