// SPDX-License-Identifier: Apache-2.0
// The sources that the program carries for `arenite bundle`. tools/cmake/bundle_sources.cmake makes
// what is declared here.
#pragma once

#include <span>
#include <string_view>

namespace arenite::tool {

// A file, by the name that others include it by; "src/..." for kernels, "bundle/..." for templates.
struct EmbeddedSource {
  std::string_view path;
  const char* begin;
  const char* end;
  std::string_view isa;  // of a microkernel: a BundledIsa

  std::string_view text() const { return {begin, static_cast<size_t>(end - begin)}; }
};

std::span<const EmbeddedSource> embedded_sources();

// An instruction set, the flags of its microkernels, and the header that they begin with.
struct BundledIsa {
  std::string_view name;
  std::string_view flags;   // with a space between; none for what every compiler has on
  std::string_view header;  // empty: none
};
std::span<const BundledIsa> bundled_isas();

// A kernel set and its instruction sets, each with a space before and after it.
struct BundledSet {
  std::string_view name;
  std::string_view isas;
};
std::span<const BundledSet> bundled_sets();

// Lines that define what the kernels' compiler flags define.
extern const char* const kKernelDefinitions;
// Flags of all sources, and of kernels, with a space between.
extern const char* const kFloatFlags;
extern const char* const kKernelFlags;

}  // namespace arenite::tool
