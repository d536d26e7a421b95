// SPDX-License-Identifier: Apache-2.0
// A fuzz target: loads and plans the metadata of a model file, with little work per input. The
// input is a word with the number of 64-byte units of weights, and the metadata.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "arenite/session.h"
#include "core/crc32c.h"
#include "format/file_layout.h"
#include "fuzz/cpu_limit.h"
#include "fuzz/metadata_file.h"
#include "fuzz/promises.h"
#include "fuzz/require.h"
#include "support/malloc_trap.h"
#include "support/random.h"

namespace arenite::test {
namespace {

// A plan for one sequence and one for many, and a load with all its tables.
constexpr uint64_t kBaseUs = 2000000;
constexpr uint64_t kByteUs = 20;

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

bool load(std::span<const std::byte> file) {
  const NoHeapScope no_heap;
  const CpuLimit limit(kBaseUs, kByteUs, file.size());
  Diagnostic why;
  const Result<Model> model = Model::load(file, &why, {.checksums = Checksums::kSkip});
  limit.check("loading takes time linear in the file");
  require(model.ok() || why.reason != nullptr, "a refusal says why");
  if (!model.ok()) return false;
  plan(*model, crc32c(file.last(sizeof(format::Footer))));
  limit.check("planning takes little time");
  return true;
}

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  uint32_t units;
  if (size <= sizeof(units) || size - sizeof(units) > kMetadataBytesMax) return 0;
  std::memcpy(&units, data, sizeof(units));
  const auto file = make_file({data + sizeof(units), size - sizeof(units)}, units);
  if (load(file)) check_promises(file);
  return 0;
}
