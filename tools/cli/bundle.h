// SPDX-License-Identifier: Apache-2.0
// A bundle: models and all the sources that they need, as files that any compiler takes. What is in
// it comes from the models alone, so that every build file of it is made from one list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/model_file.h"
#include "cli/session_sizes.h"
#include "convert/files/output_folder.h"

namespace arenite::tool {

using convert::FolderFile;

// A model of the bundle. All of its names begin with `identifier`.
struct BundledModel {
  std::string identifier;
  VerifiedFile file;
  SizeOptions sizes;       // resolved
  size_t arena_bytes = 0;  // at these sizes
};

// Where a model's bytes are: in a C array, or in a file that the assembler includes.
enum class ModelBytes { kArray, kFile };

// Bit set of what the models need of the runtime (core/needs.h).
uint64_t needs_of(std::span<const BundledModel> models);

// Sources and headers of the runtime, the microkernels, FlatBuffers' headers and what is generated
// for them. Sources are in the folder itself, each under a name of its own, and begin with what the
// compiler has to know; includes lead from file to file, so that no option must name a folder.
std::vector<FolderFile> runtime_files(std::span<const BundledModel> models);

// arenite_model.h, and the bytes of each model.
std::vector<FolderFile> model_files(std::span<const BundledModel> models, ModelBytes bytes);

// main.c, the page of the bundle, and what each build system wants: the files of tools/bundle.
// `files` are those of the bundle so far.
std::vector<FolderFile> files_from_templates(std::span<const BundledModel> models,
                                             std::span<const FolderFile> files);

// The text of an embedded file.
std::string_view embedded_text(std::string_view path);

}  // namespace arenite::tool
