// SPDX-License-Identifier: Apache-2.0
// Writes tiny models in the format of llama2.c, and as state dicts of torch.save.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "convert/families/tiny_models.h"

namespace arenite::testing {

// The model of llama_tensors, tied or not, in `version` 0 (legacy), 1 or 2. For version 2 the
// matrices of `tensors` become what its groups of 32 int8 can hold.
std::string llama2c_of_llama(TensorMap& tensors, int version);

// A torch.save archive of the dict `tensors`; with `arguments` as {"model": ..., "model_args":
// ...}.
std::string torch_archive(const TensorMap& tensors,
                          const std::vector<std::pair<std::string, int32_t>>& arguments = {});

// The model of gpt2_tensors with the names and layouts of nanoGPT, and of the minGPT of 2020, whose
// head is not tied: there it is `lm_head.weight`, a random one.
TensorMap nano_gpt_of_gpt2(const TensorMap& tensors);
TensorMap min_gpt_of_gpt2(const TensorMap& tensors);
// Returns the model of min_gpt_of_gpt2 under the names of GPTModel in "Build a Large Language Model
// (From Scratch)".
TensorMap gpt_model_of_gpt2(const TensorMap& tensors);

}  // namespace arenite::testing
