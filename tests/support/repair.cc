// SPDX-License-Identifier: Apache-2.0
// Repairs segments and formulas first, because they are part of the metadata.
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

void repair_segment(std::span<std::byte> file, const format::SegmentView& segment) {
  if (segment.begin() > file.size() || segment.bytes() > file.size() - segment.begin()) return;
  const uint32_t crc = crc32c(
      file.subspan(static_cast<size_t>(segment.begin()), static_cast<size_t>(segment.bytes())));
  overwrite(&segment.crc32c, crc);
}

void repair_formula(std::span<std::byte> file, uint32_t index) {
  const format::ModelReader reader(file);
  const format::PackedView& packed = reader.packed(index);
  if (packed.target >= kTargets) return;
  // Files that are refused before the verifier reads formulas need no repair of them.
  const format::Refusal refusal(nullptr);
  const size_t axes = reader.axes().size();
  const bool has_functions = reader.inputs() - 1 < kInputsMax &&
                             reader.functions() - 1 < format::kFunctionsMax &&
                             verify_functions(reader, refusal);
  if (!has_functions || axes == 0 || axes > kAxesMax || !verify_axes(reader, refusal) ||
      !verify_masks(reader, refusal)) {
    return;
  }
  ArenaFormula formula;
  // Where a size overflows there is no right formula.
  (void)derive_formula(reader, static_cast<Target>(packed.target), formula);
  overwrite(&packed.formula, formula);
}

enum Repairs { kChecksums = 1, kFormulas = 2 };

void repair(std::span<std::byte> file, int repairs) {
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
  const auto packed_count = [&] { return format::GetModel(metadata.data())->packed()->size(); };
  for (uint32_t i = 0; is_sound() && i < packed_count(); ++i) {
    if (repairs & kChecksums) repair_segment(file, format::ModelReader(file).packed(i).segment);
    if ((repairs & kFormulas) && is_sound() && i < packed_count()) repair_formula(file, i);
  }
  if (!(repairs & kChecksums)) return;
  if (is_sound()) {
    const auto* const test = format::GetModel(metadata.data())->self_test();
    repair_segment(file, reinterpret_cast<const format::SegmentView&>(test->segment()));
  }
  footer.metadata_crc32c = crc32c(metadata);
  std::memcpy(footer_at, &footer, sizeof(footer));
}

}  // namespace

void repair_checksums(std::span<std::byte> file) { repair(file, kChecksums); }
void repair_formulas(std::span<std::byte> file) { repair(file, kFormulas); }
void repair_checksums_and_formulas(std::span<std::byte> file) {
  repair(file, kChecksums | kFormulas);
}

}  // namespace arenite::test
