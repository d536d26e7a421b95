// SPDX-License-Identifier: Apache-2.0
// Segments first: their checksums are part of the metadata.
#include "support/checksum_repair.h"

#include <cstdint>
#include <cstring>

#include "core/crc32c.h"
#include "format/file_layout.h"
#include "model_generated.h"

namespace arenite::test {
namespace {

void repair_segments(std::span<std::byte> file, const format::Model& model) {
  for (const format::Packed* packed : *model.packed()) {
    const format::Segment* const segment = packed->segment();
    if (segment->offset() > file.size() || segment->bytes() > file.size() - segment->offset()) {
      continue;
    }
    const uint32_t crc = crc32c(file.subspan(segment->offset(), segment->bytes()));
    const format::Segment repaired(segment->offset(), segment->bytes(), crc);
    std::memcpy(const_cast<format::Segment*>(segment), &repaired, sizeof(repaired));
  }
}

}  // namespace

void repair_checksums(std::span<std::byte> file) {
  format::Footer footer;
  if (file.size() < sizeof(footer)) return;
  std::byte* const footer_at = file.data() + file.size() - sizeof(footer);
  std::memcpy(&footer, footer_at, sizeof(footer));
  if (footer.metadata_bytes > file.size() - sizeof(footer)) return;
  const std::span<std::byte> metadata = file.first(footer.metadata_bytes);
  flatbuffers::Verifier structure(reinterpret_cast<const uint8_t*>(metadata.data()),
                                  metadata.size());
  if (format::VerifyModelBuffer(structure)) {
    repair_segments(file, *format::GetModel(metadata.data()));
  }
  footer.metadata_crc32c = crc32c(metadata);
  std::memcpy(footer_at, &footer, sizeof(footer));
}

}  // namespace arenite::test
