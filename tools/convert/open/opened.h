// SPDX-License-Identifier: Apache-2.0
// What lies at a path, opened once: named tensors, wherever they are, and what stands beside them.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/gguf/gguf_file.h"
#include "convert/open/llama2c_file.h"
#include "convert/spec/config_fields.h"

namespace arenite::convert {

// Tensors are described, and read when their `load` is called. The files stay open as long as any
// of them.
struct Opened {
  std::filesystem::path path;            // as given
  std::filesystem::path folder;          // where the config, the tokenizer and shards are
  TensorStore tensors{""};               // none for a folder that only names folders with weights
  std::optional<nlohmann::json> config;  // config.json of that folder, an object
  std::map<std::string, std::string> values;  // beside the weights of a single file, as plain text
  std::shared_ptr<const GgufFile> gguf;       // where it is one
  std::optional<Llama2cHeader> llama2c;       // where it is one
  bool has_adapter = false;                   // a folder with one of peft beside the weights
  std::shared_ptr<const FileMap> exported;    // an archive of torch.export.save, not yet read
  // Shapes of arrays that the author gives outputs for: the conversion is compared with these.
  std::vector<std::vector<uint64_t>> expected_inputs;

  std::string where() const;  // the path in quotes, for messages
  bool is_folder() const { return path == folder; }
  // Of the config; empty: there is none, or it has no model_type. Training programs, too, leave
  // files of this name beside their weights.
  std::string model_type() const;
  // The config's fields. Throws InputError where there is no config.
  ConfigFields config_fields() const;
};

// A folder with weights, with .npy files, or with a modules.json; a config.json, or the index of
// shards; a safetensors, PyTorch, GGUF, llama2.c or .npy file, or an exported program: told apart
// by content. A folder's weights are the first of model.safetensors, pytorch_model.bin, each whole
// or in shards, and model.pt. Throws InputError.
Opened open_model(const std::filesystem::path& path);

}  // namespace arenite::convert
