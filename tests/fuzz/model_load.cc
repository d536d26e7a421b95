// SPDX-License-Identifier: Apache-2.0
// Metadata of a model file, which is where the meaning is: loaded and planned, as often as can be.
// The input is a word, the number of 64-byte units of weights, and the metadata; the weights are
// zeros, and footer, checksum and arena formulas are made right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "arenite/session.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "fuzz/cpu_limit.h"
#include "fuzz/require.h"
#include "support/malloc_trap.h"
#include "support/random.h"
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
constexpr size_t kMetadataBytesMax = size_t{64} << 10;
constexpr size_t kWeightUnitsMax = 1024;
constexpr size_t kFileBytesMax = kMetadataBytesMax + kWeightUnitsMax * kUnit + kUnit;
// A plan for one sequence and one for many, and a load with all its tables.
constexpr uint64_t kBaseUs = 2000000;
constexpr uint64_t kByteUs = 20;

alignas(kModelAlignment) std::byte memory[kFileBytesMax];

// Lays the file out in `memory`; what was there before is zero again.
std::span<std::byte> lay_out(std::span<const uint8_t> input) {
  static size_t used = 0;
  ASAN_UNPOISON_MEMORY_REGION(memory, sizeof(memory));
  std::fill_n(memory, used, std::byte{0});
  uint32_t units;
  std::memcpy(&units, input.data(), sizeof(units));
  const auto metadata = std::as_bytes(input.subspan(sizeof(units)));
  std::ranges::copy(metadata, memory);
  const size_t padded = (metadata.size() + kUnit - 1) / kUnit * kUnit;
  format::Footer footer{};
  used = padded + units % kWeightUnitsMax * kUnit + sizeof(footer);
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

void plan(const Model& model, uint64_t seed) {
  Random random(seed);
  SessionOptions options;
  options.positions_max = random.below(3) == 0 ? 0 : 1 + random.below(2000);
  options.tokens_max = random.below(2) == 0 ? 0 : 1 + random.below(options.positions_max + 1);
  options.sequences_max = 1 + random.below(4);
  options.outputs = random.below(2) == 0 ? Outputs::kLast : Outputs::kAll;
  options.kv_cache = static_cast<KvType>(random.below(3));
  Diagnostic why;
  const Result<ArenaPlan> arena = plan_arena(model, options, &why);
  if (!arena.ok()) return require(why.reason != nullptr, "a refusal says why");
  require(arena->total_bytes == arena->session_bytes + arena->kv_cache_bytes +
                                    arena->activation_bytes + arena->scratch_bytes,
          "the parts of an arena add up");
  require(arena->total_bytes % kArenaAlignment == 0, "an arena is a multiple of its alignment");
}

void load(std::span<const std::byte> file) {
  const NoHeapScope no_heap;
  const CpuLimit limit(kBaseUs, kByteUs, file.size());
  Diagnostic why;
  const Result<Model> model = Model::load(file, &why, {.checksums = Checksums::kSkip});
  limit.check("loading takes time linear in the file");
  if (!model.ok()) return require(why.reason != nullptr, "a refusal says why");
  plan(*model, crc32c(file.last(sizeof(format::Footer))));
  limit.check("planning takes little time");
}

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  if (size <= sizeof(uint32_t) || size > kMetadataBytesMax) return 0;
  const std::span<std::byte> file = lay_out({data, size});
  repair(file);
  load(file);
  return 0;
}
