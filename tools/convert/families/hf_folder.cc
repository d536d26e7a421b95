// SPDX-License-Identifier: Apache-2.0
// Reads the config and the weights beside it.
#include "convert/families/hf_folder.h"

#include "convert/families/hf_decoder.h"
#include "convert/families/hf_weights.h"
#include "convert/files/error.h"
#include "convert/files/json_file.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_tensors.h"

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
