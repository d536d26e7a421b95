// SPDX-License-Identifier: Apache-2.0
// A folder that tools/python/arenite_export.py wrote: exported programs, tokenizer, labels, and
// facts.json, which names them and the samples that prove the conversion.
//
//   if (auto folder = read_exported_folder("whisper-exported/")) open_model(folder->program);
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "convert/spec/model_options.h"

namespace arenite::convert {

struct ExportedFolder {
  std::filesystem::path facts;    // facts.json itself
  std::filesystem::path program;  // of the decoder, too, unless there are two
  std::filesystem::path decoder;  // the second program, or empty
  bool has_tokenizer = false;     // among the files of the folder
  bool lowers_case = false;       // texts are lowercased before tokenization
  uint32_t vocab_size = 0;        // of the first input; 0: not said
  std::string sound;              // value of --sound, or empty
  std::vector<uint32_t> output_indices;
  std::vector<std::string> functions;
  std::string encoded;
  std::vector<AuthorFiles> samples;  // inputs and outputs of the model, at least one of each
  std::string origin;                // "BertModel of transformers 5.12.1, license mit"
  std::vector<std::string> notes;
};

// Returns what facts.json in `path` says; nullopt if `path` is no folder with that file. Throws
// InputError for another format version, missing files and unknown fields.
std::optional<ExportedFolder> read_exported_folder(const std::filesystem::path& path);

// Returns the lines that export the transformers model in `folder` and convert the result, for
// messages that refuse the folder itself.
std::string export_advice(const std::filesystem::path& folder);

}  // namespace arenite::convert
