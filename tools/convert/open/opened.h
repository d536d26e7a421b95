// SPDX-License-Identifier: Apache-2.0
// Opens the model at a path once: its named tensors, independent of the format, and the files next
// to it.
//
//   const Opened model = open_model("gpt2/");
//   model.model_type();                         // "gpt2"
//   model.tensors.find("wte.weight")->load();   // [vocab_size * width] floats
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "convert/files/checkpoint.h"
#include "convert/files/memory.h"
#include "convert/gguf/gguf_file.h"
#include "convert/spec/config_fields.h"
#include "convert/spec/model_spec.h"

namespace arenite::convert {

// Header of the .bin files of llama2.c (legacy, versions 1 and 2), which hold Llama models only.
// Source: export.py and run.c of that project.
struct Llama2cHeader {
  uint32_t version = 0;  // 0: legacy
  uint64_t bytes = 0;    // offset of the first tensor
  int64_t model_dim = 0, ffn_dim = 0, layers = 0, heads = 0, kv_heads = 0, vocab_size = 0,
          positions = 0;
  bool is_tied = false;
  int64_t group_elements = 0;  // version 2: elements that share a scale

  uint64_t head_dim() const { return static_cast<uint64_t>(model_dim / heads); }
};

// Tensors are descriptions until their `load` is called. Files stay open while any of their tensors
// lives.
struct Opened {
  std::filesystem::path path;            // as given
  std::filesystem::path folder;          // of the config, the tokenizer and shards
  TensorStore tensors{""};               // empty for a folder that only names folders with weights
  std::optional<nlohmann::json> config;  // config.json of `folder`, an object
  const char* config_name = "config.json";    // or params.json, translated to config fields
  std::map<std::string, std::string> values;  // plain values beside the weights of a single file
  std::shared_ptr<const GgufFile> gguf;       // set for GGUF files
  std::optional<Llama2cHeader> llama2c;       // set for llama2.c files
  bool has_adapter = false;                   // the folder also holds a peft adapter
  std::shared_ptr<const FileMap> exported;    // torch.export.save archive, not yet read
  // Input shapes of the author's reference outputs, which the conversion will be compared with.
  std::vector<std::vector<uint64_t>> expected_inputs;

  std::string where() const;  // quoted path, for messages
  bool is_folder() const { return path == folder; }
  // Returns the config's model_type; empty if there is no config, or no such field. Training
  // programs also save a config.json next to their weights.
  std::string model_type() const;
  // Returns the config's fields. Throws InputError if there is no config.
  ConfigFields config_fields() const;
};

// Opens a folder with weights, .npy files or a modules.json; a config.json or shard index; a
// safetensors, PyTorch, GGUF, llama2.c or .npy file; or an exported program. The format is
// recognised by content. A folder's weights are the first of model.safetensors, pytorch_model.bin
// (each whole or in shards) and model.pt. `state_dict` is the key of the weights in the file. If it
// is empty, all weights are read, unless some are an average of others. Throws InputError.
Opened open_model(const std::filesystem::path& path, const std::string& state_dict = "");

// ---- llama2.c ----

// Whether `file`, the bytes of a whole file, is a llama2.c file: by the magic number or, for the
// legacy format without one, by seven consistent sizes, which no other format begins with.
bool is_llama2c(std::span<const std::byte> file);

// Throws InputError, also if the header's sizes contradict the file's size. `name` is the file's,
// in quotes.
Llama2cHeader read_llama2c_header(std::span<const std::byte> file, const std::string& name);

// Returns all tensors under the names of Llama's own checkpoints, without tables of RoPE angles,
// which follow from theta. REQUIRES: `header` was read from the file that `map` holds.
TensorStore llama2c_tensors(const Llama2cHeader& header, const std::shared_ptr<const FileMap>& map,
                            const std::string& file_name);

// Reads the Llama model from the tensors of llama2c_tensors.
TransformerSpec read_llama2c(const Llama2cHeader& header, const TensorStore& store);

}  // namespace arenite::convert
