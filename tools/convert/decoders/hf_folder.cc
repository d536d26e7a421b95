// SPDX-License-Identifier: Apache-2.0
// Reads the config and the weights beside it.
#include "convert/decoders/hf_folder.h"

#include "convert/decoders/hf_decoder.h"
#include "convert/error.h"
#include "convert/models/config_fields.h"
#include "convert/models/hf_weights.h"
#include "convert/models/json_file.h"
#include "convert/models/model_tensors.h"

namespace arenite::convert {

namespace fs = std::filesystem;

DecoderSpec read_hf_folder(const fs::path& folder, const fs::path& weights) {
  const fs::path config_file = folder / "config.json";
  ConfigFields config(read_json_object(config_file), quote(config_file.string()));
  const TensorStore store = read_hf_weights(folder, weights);
  ModelTensors tensors(store);
  return read_hf_decoder(config, tensors);
}

}  // namespace arenite::convert
