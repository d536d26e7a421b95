// SPDX-License-Identifier: Apache-2.0
// A folder that transformers' save_pretrained wrote: config.json and the tensors in one file or in
// several with an index.
#pragma once

#include <filesystem>

#include "convert/spec/decoder_spec.h"

namespace arenite::convert {

// The decoder in `folder`. `weights` names the only file to read tensors from; empty: whatever
// of model.safetensors, pytorch_model.bin and their sharded forms the folder has, in this order.
// Throws InputError.
DecoderSpec read_hf_folder(const std::filesystem::path& folder,
                           const std::filesystem::path& weights = {});

}  // namespace arenite::convert
