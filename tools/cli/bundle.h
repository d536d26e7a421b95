// SPDX-License-Identifier: Apache-2.0
// A bundle: models with all the sources that run them, as files that any compiler takes. Its
// contents depend on the models alone, so all of its build files are generated from one list.
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

// A model of the bundle. `identifier` is the prefix of all of its names.
struct BundledModel {
  std::string identifier;
  VerifiedFile file;
  SizeOptions sizes;       // resolved
  size_t arena_bytes = 0;  // at these sizes
};

// Bits of every `step`-th element of the output that main.c's first pass computes.
struct FirstPass {
  std::vector<uint32_t> bits;  // empty if no kernels here give the device's bits
  uint32_t step = 1;
};
FirstPass first_pass(const BundledModel& model);

// The targets whose kernels `arenite bundle` has sources of.
inline constexpr uint32_t kX86Targets = bit(Target::kX86_64_v2) | bit(Target::kX86_64_v3) |
                                        bit(Target::kX86_64_v4) | bit(Target::kX86_64_v4_vnni);
inline constexpr uint32_t kArm64Targets =
    bit(Target::kArm64) | bit(Target::kArm64_dot) | bit(Target::kArm64_i8mm);
inline constexpr uint32_t kPlainTargets =
    bit(Target::kPortable) | bit(Target::kCortexMDsp) | bit(Target::kCortexMMve);
inline constexpr uint32_t kBundledTargets = kPlainTargets | kX86Targets | kArm64Targets;

// Returns the bit set of runtime features that the models need (core/needs.h).
NeedSet needs_of(std::span<const BundledModel> models);

// Returns the sources and headers of the runtime, the microkernels, FlatBuffers' headers and the
// generated headers. Sources lie in one folder under unique names, and begin with the settings that
// the compiler needs. Includes are relative paths, so a build needs no -I options.
std::vector<FolderFile> runtime_files(std::span<const BundledModel> models);

// Microkernels of one instruction set, which builds compile with their own options.
struct IsaFiles {
  std::string isa;
  std::string flags;    // separated by spaces
  bool is_arm = false;  // true: ARM64; false: x86-64
  std::vector<std::string> files;
};
std::vector<IsaFiles> isa_files(std::span<const BundledModel> models);

// Throws InputError unless the folder can be created or holds a bundle.
void require_bundle_folder(const std::filesystem::path& folder);
// Writes the files of a bundle. Replaces the files of an earlier bundle in the folder and removes
// its stale files. Returns the paths of files left alone because somebody changed them. Throws
// InputError; then a new folder, and each file, is either complete or absent.
std::vector<std::string> write_bundle(const std::filesystem::path& folder,
                                      std::vector<FolderFile> files);

}  // namespace arenite::tool
