// SPDX-License-Identifier: Apache-2.0
// What a model is fed to see which weights matter, and how much a smaller model differs.
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

// Sequences are of one each, for all inputs: tokens that follow each other, alone in a session.
struct CalibrationSet {
  std::string source;                     // for people: where it is from, and how much
  std::vector<ModelInput> fitted = {};    // scales and Hessians are made for these
  std::vector<ModelInput> held_out = {};  // models are compared on these

  static uint64_t tokens_of(const std::vector<ModelInput>& sequences);
};

// The least that tells anything, and the most that is looked at: of more, sequences are taken from
// everywhere.
inline constexpr uint64_t kCalibrationTokensMin = 128;
inline constexpr uint64_t kCalibrationTokensMax = 1u << 15;
// A longer text is several sequences, and so is one beyond the model's context.
inline constexpr uint32_t kSequenceTokensMax = 1024;

// Of a model with one input: reads lines of text, each a sequence of its own, for a model of tokens
// whose file has its tokenizer; names of special tokens in them are these tokens. Or an .npy file:
// token ids [tokens] or [batch, tokens], or, for a model of features, [tokens, features] or [batch,
// tokens, features]. Of one with several inputs: an .npy file for each, by files_of_inputs, with as
// many sequences in each, of which none is split. Every fifth sequence is held out; of fewer than
// five the last one; of one its last fifth. Throws InputError, which names the file and says what
// was expected.
CalibrationSet read_calibration(const std::vector<std::string>& given, const Model& model);

// Whether what a model gives last are logits of the tokens that follow those of its last input.
bool predicts_tokens(const Model& model);

// Whether a model can write text: one that predicts tokens, and reads nothing else.
bool can_write_text(const Model& model);

// Text that the model of `file` writes at temperature 1, the same on every run: from the token that
// begins a text, where it has one, else from tokens all over its vocabulary.
// REQUIRES: can_write_text, and a target that this CPU runs. Throws InputError where logits are not
// finite.
CalibrationSet write_own_text(const AlignedBytes& file);

// Where there is nothing to calibrate with, something to compare models on, all of it held out:
// ids spread over the vocabulary, or features of zero mean and unit variance.
CalibrationSet made_up_input(const Model& model);

}  // namespace arenite::convert
