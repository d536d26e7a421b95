// SPDX-License-Identifier: Apache-2.0
// Segments and formulas first: what is written there is part of the metadata.
#include "support/repair.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/crc32c.h"
#include "format/file_layout.h"
#include "format/reader.h"
#include "format/verify.h"
#include "model_generated.h"

namespace arenite::test {
namespace {

template <typename T>
void overwrite(const T* place, const T& value) {
  std::memcpy(const_cast<T*>(place), &value, sizeof(value));
}

void repair_segment(std::span<std::byte> file, const format::Segment& segment) {
  if (segment.offset() > file.size() || segment.bytes() > file.size() - segment.offset()) return;
  const uint32_t crc = crc32c(
      file.subspan(static_cast<size_t>(segment.offset()), static_cast<size_t>(segment.bytes())));
  overwrite(&segment, format::Segment(segment.offset(), segment.bytes(), crc));
}

void repair_formula(std::span<std::byte> file, const format::Packed& packed) {
  if (packed.target() >= kTargets) return;
  ArenaFormula formula;
  // Where a size overflows there is no right formula.
  (void)derive_formula(format::ModelReader(file),
                       packing_of(static_cast<Target>(packed.target()), TensorType::kF32), formula);
  // Where parts lie over each other, what is written changes what could be read before.
  const auto* const groups = packed.cache_groups();
  const uint32_t groups_in_file = groups == nullptr ? 0 : groups->size();
  const auto* const first_group =
      groups == nullptr ? nullptr : reinterpret_cast<const format::CacheGroup*>(groups->Data());
  overwrite(packed.formula(), format::ArenaFormula(formula.activation_bytes_per_token,
                                                   formula.activation_bytes_per_output, formula.nr,
                                                   formula.score_rows));
  // Their number cannot change: where it would have to, the file stays wrong.
  for (uint32_t i = 0; i < std::min(formula.group_count, groups_in_file); ++i) {
    const CacheGroup& group = formula.groups[i];
    overwrite(first_group + i,
              format::CacheGroup(group.lookback, group.bytes_per_panel, group.bytes_per_page));
  }
}

void repair(std::span<std::byte> file, bool formulas) {
  format::Footer footer;
  if (file.size() < sizeof(footer)) return;
  std::byte* const footer_at = file.data() + file.size() - sizeof(footer);
  std::memcpy(&footer, footer_at, sizeof(footer));
  if (footer.metadata_bytes > file.size() - sizeof(footer)) return;
  const std::span<std::byte> metadata = file.first(static_cast<size_t>(footer.metadata_bytes));
  // In a hostile file, parts lie over each other: each repair may break what was sound before.
  const auto is_sound = [&] {
    flatbuffers::Verifier structure(reinterpret_cast<const uint8_t*>(metadata.data()),
                                    metadata.size());
    return format::VerifyModelBuffer(structure);
  };
  const format::Model* const model = format::GetModel(metadata.data());
  for (uint32_t i = 0; is_sound() && i < model->packed()->size(); ++i) {
    repair_segment(file, *model->packed()->Get(i)->segment());
    if (formulas && is_sound() && i < model->packed()->size()) {
      repair_formula(file, *model->packed()->Get(i));
    }
  }
  if (is_sound() && model->self_test() != nullptr) {
    repair_segment(file, model->self_test()->segment());
  }
  footer.metadata_crc32c = crc32c(metadata);
  std::memcpy(footer_at, &footer, sizeof(footer));
}

}  // namespace

void repair_checksums(std::span<std::byte> file) { repair(file, false); }
void repair_checksums_and_formulas(std::span<std::byte> file) { repair(file, true); }

}  // namespace arenite::test
