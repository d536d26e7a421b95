// SPDX-License-Identifier: Apache-2.0
// A bundle: models and all the sources that they need, as files that any compiler takes. What is in
// it comes from the models alone, so that every build file of it is made from one list.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "arenite/target.h"
#include "cli/model_file.h"
#include "cli/session_sizes.h"
#include "convert/files/output_files.h"

namespace arenite::tool {

using convert::FolderFile;

// A model of the bundle. All of its names begin with `identifier`.
struct BundledModel {
  std::string identifier;
  VerifiedFile file;
  SizeOptions sizes;       // resolved
  size_t arena_bytes = 0;  // at these sizes
};

// Bits of every `step`-th number that the first pass of main.c gives.
struct FirstPass {
  std::vector<uint32_t> bits;  // none where no kernels here give those of the device
  uint32_t step = 1;
};
FirstPass first_pass(const BundledModel& model);

// What there are sources of kernels for.
inline constexpr uint32_t kX86Targets = bit(Target::kX86_64_v2) | bit(Target::kX86_64_v3) |
                                        bit(Target::kX86_64_v4) | bit(Target::kX86_64_v4_vnni);
inline constexpr uint32_t kArm64Targets =
    bit(Target::kArm64) | bit(Target::kArm64_dot) | bit(Target::kArm64_i8mm);
inline constexpr uint32_t kPlainTargets =
    bit(Target::kPortable) | bit(Target::kCortexMDsp) | bit(Target::kCortexMMve);
inline constexpr uint32_t kBundledTargets = kPlainTargets | kX86Targets | kArm64Targets;

// Bit set of what the models need of the runtime (core/needs.h).
uint64_t needs_of(std::span<const BundledModel> models);

// Sources and headers of the runtime, the microkernels, FlatBuffers' headers and what is generated
// for them. Sources are in the folder itself, each under a name of its own, and begin with what the
// compiler has to know; includes lead from file to file, so that no option must name a folder.
std::vector<FolderFile> runtime_files(std::span<const BundledModel> models);

// Microkernels that builds compile with options of their own.
struct IsaFiles {
  std::string isa;
  std::string flags;    // with a space between
  bool is_arm = false;  // of ARM64, else of x86-64
  std::vector<std::string> files;
};
std::vector<IsaFiles> isa_files(std::span<const BundledModel> models);

// Throws InputError unless the folder can be made, or holds a bundle.
void require_bundle_folder(const std::filesystem::path& folder);
// Writes the files of a bundle; where the folder holds an earlier one, in place of its files and
// without those that are no longer of it. Returns the files that stay as they are, since somebody
// changed them. Throws InputError; a new folder, and each file, is then whole or not there.
std::vector<std::string> write_bundle(const std::filesystem::path& folder,
                                      std::vector<FolderFile> files);

}  // namespace arenite::tool
