// SPDX-License-Identifier: Apache-2.0
// The order of verification: identifier, footer, version, checksum, FlatBuffers' structure, what
// the build must have, then what the fields mean. Each step relies only on those before it.
#include "format/verify.h"

#include <cstring>

#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/schema.h"
#include "format/tokenizer_lists.h"
#include "format/verify_parts.h"

namespace arenite::format {
namespace {

// Model, tokenizer and its lists, one within the other: all else is lists of numbers, structs and
// strings.
constexpr uint32_t kTablesMax = 2 + kTokenizerLists;
constexpr uint32_t kDepthMax = 3;

// Every list of the schema has elements of at most 4 bytes' alignment, so those that are aligned
// as FlatBuffers asks can be read in place. REQUIRES: at most kMetadataBytesMax bytes.
bool is_well_formed(std::span<const std::byte> metadata) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(metadata.data()), metadata.size(),
                                 kDepthMax, kTablesMax);
  return verifier.VerifyBuffer<Model>(nullptr);
}

Status verify_footer(std::span<const std::byte> file, Diagnostic* why, Footer& footer) {
  constexpr Status kBad = Status::kBadModel;
  constexpr size_t kIdentifierEnd = 8;
  if (file.size() < kIdentifierEnd + sizeof(Footer)) {
    return refuse(why, kBad, "the file is too short for a model", "file", 0, file.size(),
                  kIdentifierEnd + sizeof(Footer));
  }
  if (std::memcmp(file.data() + 4, kFileIdentifier, 4) != 0) {
    return refuse(why, kBad, "this is not an Arenite model file", "identifier", 0, 0, 0);
  }
  std::memcpy(&footer, file.data() + file.size() - sizeof(Footer), sizeof(Footer));
  if (footer.magic != kFooterMagic) {
    return refuse(why, kBad, "the file is truncated, or has bytes appended", "footer.magic", 0,
                  footer.magic, kFooterMagic);
  }
  if (footer.format_version != kFormatVersion) {
    return refuse(why, Status::kVersionMismatch,
                  "the model is of another format version: convert it again", "footer.version", 0,
                  footer.format_version, kFormatVersion);
  }
  if (footer.file_bytes != file.size()) {
    return refuse(why, kBad, "the file is not as long as it says", "footer.file_bytes", 0,
                  footer.file_bytes, file.size());
  }
  if (footer.metadata_bytes < kIdentifierEnd ||
      footer.metadata_bytes > file.size() - sizeof(Footer) ||
      footer.metadata_bytes > kMetadataBytesMax) {
    return refuse(why, kBad, "the metadata does not fit the file", "footer.metadata_bytes", 0,
                  footer.metadata_bytes, file.size() - sizeof(Footer));
  }
  if (footer.reserved != 0) {
    return refuse(why, kBad, "a reserved field is not zero", "footer.reserved", 0, footer.reserved,
                  0);
  }
  return Status::kOk;
}

bool verify_counts(const ModelReader& model, const Refusal& refuse) {
  struct Limit {
    Message field;
    uint32_t found, least, most;
  };
  const Limit limits[] = {
      {"slots", model.slots(), 1, kSlotsMax},
      {"ops", model.ops(), 1, kOpsMax},
      {"tensors", model.tensors(), 0, kTensorsMax},
      {"caches", model.caches(), 0, kOpsMax},
      {"masks", model.masks(), 0, kMasksMax},
      {"packed", model.packed_count(), 1, kTargets},
      {"hidden_states", model.hidden_states(), 0, kHiddenStatesMax},
  };
  for (const Limit& limit : limits) {
    if (limit.found < limit.least) {
      return refuse("a list is too short", limit.field, 0, limit.found, limit.least);
    }
    if (limit.found > limit.most) {
      return refuse("a list is too long", limit.field, 0, limit.found, limit.most);
    }
  }
  return true;
}

}  // namespace

Status verify(std::span<const std::byte> file, Diagnostic* why, Checksums checksums) {
  Footer footer;
  const Status status = verify_footer(file, why, footer);
  if (status != Status::kOk) return status;

  const std::span<const std::byte> metadata =
      file.first(static_cast<size_t>(footer.metadata_bytes));
  const uint32_t crc = crc32c(metadata);
  if (crc != footer.metadata_crc32c) {
    return refuse(why, Status::kBadModel, "the metadata is damaged: its CRC-32C differs",
                  "footer.metadata_crc32c", 0, crc, footer.metadata_crc32c);
  }
  if (!is_well_formed(metadata)) {
    return refuse(why, Status::kBadModel, "the metadata is not a well-formed FlatBuffer",
                  "metadata");
  }
  const ModelReader model(file);
  const Refusal refuse(why);
  if (!verify_counts(model, refuse)) return Status::kBadModel;
  if (!verify_needs(file, refuse)) return Status::kUnsupported;
  const bool sound =
      verify_masks(model, refuse) && verify_tensors(model, refuse) && verify_slots(model, refuse) &&
      verify_flow(model, refuse) && verify_ops(model, refuse) &&
      verify_packed(model, file, metadata.size(), refuse) && verify_tokenizer(file, refuse);
  if (!sound) return Status::kBadModel;
  return checksums == Checksums::kSkip ? Status::kOk : verify_weights(file, why);
}

Status verify_weights(std::span<const std::byte> file, Diagnostic* why) {
  const bool whole = verify_segment_checksums(ModelReader(file), file, Refusal(why));
  return whole ? Status::kOk : Status::kBadModel;
}

}  // namespace arenite::format
