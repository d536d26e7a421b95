// SPDX-License-Identifier: Apache-2.0
// What lies at a path, opened once: named tensors, wherever they are, and what stands beside them.
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

// The .bin files of llama2.c, the legacy form and versions 1 and 2, and the one kind of model that
// they hold. Source: export.py and run.c of that project.
struct Llama2cHeader {
  uint32_t version = 0;  // 0: legacy
  uint64_t bytes = 0;    // before the first tensor
  int64_t model_dim = 0, ffn_dim = 0, layers = 0, heads = 0, kv_heads = 0, vocab_size = 0,
          positions = 0;
  bool is_tied = false;
  int64_t group_elements = 0;  // of version 2: elements that share a scale

  uint64_t head_dim() const { return static_cast<uint64_t>(model_dim / heads); }
};

// Tensors are described, and read when their `load` is called. The files stay open as long as any
// of them.
struct Opened {
  std::filesystem::path path;            // as given
  std::filesystem::path folder;          // where the config, the tokenizer and shards are
  TensorStore tensors{""};               // none for a folder that only names folders with weights
  std::optional<nlohmann::json> config;  // config.json of that folder, an object
  const char* config_name = "config.json";    // or params.json, in the words of a config
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
// or in shards, and model.pt. `state_dict` is the key of those that count; empty: all, unless some
// are an average of others. Throws InputError.
Opened open_model(const std::filesystem::path& path, const std::string& state_dict = "");

// ---- llama2.c ----

// Whether `file`, the bytes of a whole file, begins like one: with the magic number or, as the
// legacy form has none, with seven sizes that go together, which no other format's first bytes do.
bool is_llama2c(std::span<const std::byte> file);

// Throws InputError, also where the sizes in the header and the size of the file differ. `name` is
// the file's, in quotes.
Llama2cHeader read_llama2c_header(std::span<const std::byte> file, const std::string& name);

// All tensors, by the names of Llama's own checkpoints, but those of angles, which theta says.
// REQUIRES: `header` was read from the file that `map` holds.
TensorStore llama2c_tensors(const Llama2cHeader& header, const std::shared_ptr<const FileMap>& map,
                            const std::string& file_name);

// The Llama model whose tensors are in `store`, of llama2c_tensors.
TransformerSpec read_llama2c(const Llama2cHeader& header, const TensorStore& store);

}  // namespace arenite::convert
