// SPDX-License-Identifier: Apache-2.0
// Inputs for calibration and comparison: sequences that weights are rounded for, and held-out ones
// on which the quantized model is compared with the float32 one.
//
//   const CalibrationSet set = read_calibration({"lines.txt"}, model);
//   set.fitted    // four fifths of the sequences: for scales and Hessians
//   set.held_out  // one fifth: for comparisons
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "arenite/model.h"
#include "arenite/token.h"
#include "convert/check/check_session.h"
#include "convert/files/memory.h"

namespace arenite::convert {

// Each ModelInput holds one sequence for each input, run alone in a session: ModelInput::sequences
// is 1.
struct CalibrationSet {
  std::string source;                     // where it is from, and how much; for the report
  std::vector<ModelInput> fitted = {};    // for scales and Hessians
  std::vector<ModelInput> held_out = {};  // for comparisons

  static uint64_t tokens_of(const std::vector<ModelInput>& sequences);
};

// Fewer tokens are too few to calibrate with. If there are more than the maximum, sequences are
// sampled evenly.
inline constexpr uint64_t kCalibrationTokensMin = 128;
inline constexpr uint64_t kCalibrationTokensMax = 1u << 15;
// Text longer than this, or than the model's context, is split into several sequences.
inline constexpr uint32_t kSequenceTokensMax = 1024;

// Reads calibration data.
// For a model with one input: either lines of text, each a sequence, if the model reads tokens and
// its file has its tokenizer (names of special tokens are parsed as these tokens), or an .npy file
// of token ids [tokens] or [batch, tokens], or of features [tokens, features] or [batch, tokens,
// features].
// For a model with several inputs: an .npy file for each (files_of_inputs), with the same number of
// sequences, none of which is split.
//
// Holds out every fifth sequence. With fewer than five sequences, holds out the last; with only
// one, its last fifth. Throws InputError with the file's name and the expected contents.
CalibrationSet read_calibration(const std::vector<std::string>& given, const Model& model);

// Whether the last function's outputs are next-token logits of its last input.
bool predicts_tokens(const Model& model);

// Whether a model can generate text: it predicts tokens and reads nothing else.
bool can_write_text(const Model& model);

// Makes comparison inputs where there is no calibration data: ids spread over the vocabulary, or
// features of zero mean and unit variance. All of them are held out.
CalibrationSet random_inputs(const Model& model);

}  // namespace arenite::convert
