// SPDX-License-Identifier: Apache-2.0
// Any bytes as a model file, loaded, planned, created and run; once as they are, and once with
// checksums and arena formulas made right.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/aligned_copy.h"
#include "support/hostile_file.h"
#include "support/repair.h"

namespace arenite::test {
namespace {

// Small arenas, so that there is time for many files.
constexpr size_t kArenaBytesMax = size_t{1} << 20;

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  const AlignedCopy copy({data, size});
  (void)load_and_run(copy.file(), kArenaBytesMax);
  repair_checksums_and_formulas(copy.file());
  (void)load_and_run(copy.file(), kArenaBytesMax);
  return 0;
}
