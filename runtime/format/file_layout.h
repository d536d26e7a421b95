// SPDX-License-Identifier: Apache-2.0
// The verifier's limits, and the layout of a model file around its FlatBuffer (SPEC.md):
//   metadata (a FlatBuffer), zeros, a segment for each target, the segment of the self-test, footer
#pragma once

#include <cstddef>
#include <cstdint>

namespace arenite::format {

// Increased whenever the meaning of a file changes. The verifier refuses files with another
// version.
inline constexpr uint32_t kFormatVersion = 14;

inline constexpr char kFileIdentifier[] = "ARNT";     // at byte 4, where FlatBuffers puts it
inline constexpr uint32_t kFooterMagic = 0x454E5241;  // "ARNE"
// Segments and tensors begin at multiples of this many bytes; offsets are stored in this unit.
inline constexpr uint32_t kSegmentUnit = 64;

// The last bytes of every file, little-endian. Magic and version are at the same place in all
// versions.
struct Footer {
  uint32_t magic;
  uint32_t format_version;
  uint64_t file_bytes;
  uint64_t metadata_bytes;  // the FlatBuffer is bytes [0, metadata_bytes)
  uint32_t metadata_crc32c;
  uint32_t reserved;  // 0
};
static_assert(sizeof(Footer) == 32 && offsetof(Footer, metadata_crc32c) == 24);

// Limits that keep the verifier's work small on hostile files; real models are far below them.
inline constexpr uint32_t kMetadataBytesMax = INT32_MAX - 1;  // FlatBuffers' offsets have 31 bits
inline constexpr uint32_t kSlotsMax = 1024;
inline constexpr uint32_t kOpsMax = 4096;
inline constexpr uint32_t kFunctionsMax = 4;
inline constexpr uint32_t kTensorsMax = 4096;
inline constexpr uint32_t kAxisRowsMax = 65536;   // `rows` of axes of constants, turns and blocks
inline constexpr uint32_t kPixelsMax = 1u << 30;  // of an image
inline constexpr uint32_t kMasksMax = 256;
inline constexpr uint32_t kHiddenStatesMax = 1024;
inline constexpr uint32_t kMaskPositionsMax = 1u << 20;
inline constexpr uint32_t kTileMaskPositionsMax = 1u << 15;

}  // namespace arenite::format
