// SPDX-License-Identifier: Apache-2.0
// The sources embedded for `arenite bundle`, which tools/cmake/bundle_sources.cmake generates.
#pragma once

#include <span>
#include <string_view>

namespace arenite::tool {

// A file by its include path; "src/..." for kernels, "bundle/..." for templates.
struct EmbeddedSource {
  std::string_view path;
  const char* begin;
  const char* end;
  std::string_view isa;  // name of the BundledIsa of a microkernel; else empty

  std::string_view text() const { return {begin, static_cast<size_t>(end - begin)}; }
};

std::span<const EmbeddedSource> embedded_sources();

// An instruction set: the flags of its microkernels and the header that they include first.
struct BundledIsa {
  std::string_view name;
  std::string_view flags;   // separated by spaces; empty if every compiler enables it
  std::string_view header;  // empty: none
};
std::span<const BundledIsa> bundled_isas();

// A kernel set and the names of its instruction sets, each with a space before and after it.
struct BundledSet {
  std::string_view name;
  std::string_view isas;
};
std::span<const BundledSet> bundled_sets();

// Lines that define the macros that the kernels' compiler flags define.
extern const char* const kKernelDefinitions;
// Flags for all sources, and for kernels, separated by spaces.
extern const char* const kFloatFlags;
extern const char* const kKernelFlags;

}  // namespace arenite::tool
