// SPDX-License-Identifier: Apache-2.0
// Several files as one input. Each file is the number of its name, its length and its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/memory_folder.h"

namespace arenite::fuzz {

// How the bytes of a file are made, for mutators.
enum class FileKind : uint8_t { kJson, kLines, kBytes, kProto, kPickle };

struct BundleName {
  const char* name;  // what a model's folder may have; no other names are written
  FileKind kind;
};

// Tensors are listed, one in a line: "lm_head.weight F32 11 32", with a word more where small
// numbers of any kind would not do: "iota", "tril", or "=3,5" for these over and over. A file of
// safetensors is written of them.
inline constexpr std::string_view kTensorList = "tensors.txt";
// One byte for each option that a person may give; see whole_model.h.
inline constexpr std::string_view kOptions = "options";

std::span<const BundleName> bundle_names();

struct BundleFile {
  uint8_t name = 0;  // in bundle_names()
  std::string bytes;
};

// Any bytes are a bundle: numbers wrap around, and the last file ends with the input.
std::vector<BundleFile> read_bundle(std::span<const uint8_t> input);
std::string write_bundle(const std::vector<BundleFile>& files);

// The number of a name. REQUIRES: it is one of bundle_names().
uint8_t bundle_name(std::string_view name);

// The bytes of the first file of this name; empty: it has none.
std::string_view find_file(const std::vector<BundleFile>& files, std::string_view name);

// Replaces what the folder holds.
void write_files(const std::vector<BundleFile>& files, MemoryFolder& folder);

// Builds the safetensors file that a list of tensors describes.
std::string safetensors_of_list(std::string_view list);

}  // namespace arenite::fuzz
