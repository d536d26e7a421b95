// SPDX-License-Identifier: Apache-2.0
// Zeroes the bytes of the previous file in the memory first.
#include "fuzz/metadata_file.h"

#include <cstring>

#include "arenite/model.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "support/repair.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(address, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes)
#endif

namespace arenite::test {
namespace {

constexpr size_t kUnit = format::kSegmentUnit;
constexpr size_t kWeightUnitsMax = 1024;
constexpr size_t kFileBytesMax = kMetadataBytesMax + (kWeightUnitsMax + 1) * kUnit;

alignas(kModelAlignment) std::byte memory[kFileBytesMax];

std::span<std::byte> lay_out(std::span<const std::byte> metadata, uint32_t weight_units) {
  static size_t used = 0;
  ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(memory));
  // Whole blocks: sanitizers and libFuzzer look at each turn of a loop.
  std::memset(memory, 0, used);
  std::memcpy(memory, metadata.data(), metadata.size());
  const size_t padded = (metadata.size() + kUnit - 1) / kUnit * kUnit;
  format::Footer footer{};
  used = padded + weight_units % kWeightUnitsMax * kUnit + sizeof(footer);
  footer.magic = format::kFooterMagic;
  footer.format_version = format::kFormatVersion;
  footer.file_bytes = used;
  footer.metadata_bytes = metadata.size();
  std::memcpy(memory + used - sizeof(footer), &footer, sizeof(footer));
  ASAN_POISON_MEMORY_REGION(memory + used, sizeof(memory) - used);
  return {memory, used};
}

void repair(std::span<std::byte> file) {
  repair_formulas(file);
  format::Footer footer;
  std::byte* const place = file.data() + file.size() - sizeof(footer);
  std::memcpy(&footer, place, sizeof(footer));
  footer.metadata_crc32c = crc32c(file.first(static_cast<size_t>(footer.metadata_bytes)));
  std::memcpy(place, &footer, sizeof(footer));
}

}  // namespace

std::span<const std::byte> make_file(std::span<const uint8_t> metadata, uint32_t weight_units) {
  const std::span<std::byte> file = lay_out(std::as_bytes(metadata), weight_units);
  repair(file);
  return file;
}

}  // namespace arenite::test
