// SPDX-License-Identifier: Apache-2.0
// Calibration text that a model generates itself. Several texts are generated as a batch, since a
// step for all of them takes little longer than a step for one; the inputs of linear layers are
// observed meanwhile, so that the text need not be run again.
//
//   InputStatistics inputs(file, tensors);
//   const auto add = [&](uint32_t tensor, const ConstMatrix& rows) { inputs.add(tensor, rows); };
//   const CalibrationSet set = write_own_text(file, kOwnTokens, add);
#pragma once

#include <cstdint>

#include "convert/calibrate/calibration_set.h"
#include "convert/calibrate/sequence_runner.h"
#include "convert/files/memory.h"

namespace arenite::convert {

// Tokens of a text that a model writes: for Hessians, fewer where the model is large, and for mean
// squares of inputs alone.
inline constexpr uint64_t kOwnTokens = 16384;
inline constexpr uint64_t kOwnTokensMin = 4096;
inline constexpr uint64_t kOwnTokensTimesBytes = 3'000'000'000'000;
inline constexpr uint64_t kOwnTokensOfSquares = 2560;

// Generates `tokens` tokens of text with the model of `file` at temperature 1, with the same result
// on every run. Starts from the bos token or, without one, from tokens spread over the vocabulary.
// REQUIRES: can_write_text, and a target that this CPU runs. Throws InputError if logits are not
// finite.
// Every text of a sixth of the batch is held out; `use` gets the inputs of the others, or of all
// where a layer does not have a row for each text.
CalibrationSet write_own_text(const AlignedBytes& file, uint64_t tokens = kOwnTokens,
                              const UseInputs& use = {});

}  // namespace arenite::convert
