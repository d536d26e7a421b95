// SPDX-License-Identifier: Apache-2.0
// The weights in a folder that transformers' save_pretrained wrote: in one file, or in several with
// an index.
#pragma once

#include <filesystem>

#include "convert/files/tensor_store.h"

namespace arenite::convert {

// `weights` names the only file, or index, to read; empty: whatever of model.safetensors,
// pytorch_model.bin and their sharded forms the folder has, in this order. Throws InputError.
TensorStore read_hf_weights(const std::filesystem::path& folder,
                            const std::filesystem::path& weights = {});

}  // namespace arenite::convert
