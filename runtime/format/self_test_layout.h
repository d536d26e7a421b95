// SPDX-License-Identifier: Apache-2.0
// What lies where in the segment of a self-test.
#pragma once

#include <cstdint>
#include <span>

#include "format/reader.h"

namespace arenite::format {

inline constexpr uint32_t kSelfTestTolerances = 2;  // of each op, and of the output

// Places in bytes, all multiples of 4:
//   0        what is fed: features, float32 [tokens, input_features]; or an image, float32
//            [channels, height, width]; or ids, uint32 [tokens]
//   types    where the model knows types: uint8 [tokens], and zeros up to a multiple of 4
//   ops      for each op two tolerances and then a digest for each row, all float32: of the prefix,
//            where there is one, then of the tokens
//   output   two tolerances and then the row that the last token gives, float32 [output_features];
//            and zeros up to a multiple of 64
// The first tolerance is for sessions that keep keys and values as the file says, the second for
// others.
struct SelfTestLayout {
  uint32_t rows = 0;  // tokens, and the prefix
  uint64_t types = 0;
  uint64_t ops = 0;
  uint64_t output = 0;
  uint64_t bytes = 0;  // of all; the largest number where sizes overflow

  uint64_t tolerances_of_op(uint32_t op) const {
    return ops + uint64_t{op} * (uint64_t{rows} + kSelfTestTolerances) * sizeof(float);
  }
  uint64_t digest_of(uint32_t op, uint32_t row) const {
    return tolerances_of_op(op) + (uint64_t{row} + kSelfTestTolerances) * sizeof(float);
  }
};

SelfTestLayout self_test_layout(const ModelReader& model, uint32_t tokens);

// A number that stands for a row: the sum of its elements, each times a weight of its own between
// -1 and 1. Rows that differ by d in length differ by about d / sqrt(3). The same bits everywhere.
float digest_of_row(std::span<const float> row);

}  // namespace arenite::format
