// SPDX-License-Identifier: Apache-2.0
// A fuzz target for repacking: the input is 32 bits that choose targets, and a model file, whose
// checksums are repaired. A file that loads is repacked for these targets or refused, and loses its
// self-test; the result must load.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "arenite/model.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/error.h"
#include "convert/files/memory.h"
#include "fuzz/choices.h"
#include "fuzz/guarded_region.h"
#include "fuzz/require.h"
#include "support/repair.h"

namespace arenite::test {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 17;

std::vector<Target> any_targets(Choices& choices) {
  std::vector<Target> targets;
  for (uint32_t i = 0; i < kTargets; ++i) {
    if (choices.one_in(3)) targets.push_back(static_cast<Target>(i));
  }
  if (targets.empty()) targets.push_back(Target::kPortable);
  return targets;
}

void strip(std::span<const std::byte> file) {
  convert::AlignedBytes stripped(file.size());
  std::ranges::copy(file, stripped.data());
  convert::strip_self_test(stripped);
  const auto model = Model::load(stripped.span());
  require(model.ok(), "what is stripped loads");
  require(model->self_test_tokens() == 0, "what is stripped has no self-test");
}

void repack(std::span<const std::byte> file, Choices& choices) {
  const std::vector<Target> targets = any_targets(choices);
  try {
    const convert::RepackedModel repacked = convert::repack_model(file, targets, "'fuzz.arn'");
    for (const Target target : targets) {
      const auto model =
          Model::load(repacked.file.span(), nullptr, {.force_target = true, .target = target});
      require(model.ok() || model.status() == Status::kUnsupported, "what is packed loads");
    }
  } catch (const convert::InputError& error) {
    require(std::strncmp(error.what(), "'fuzz.arn'", 10) == 0, "a refusal names the file");
  }
}

}  // namespace
}  // namespace arenite::test

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::test;
  static GuardedRegion region(kFileBytesMax);
  uint32_t word;
  if (size < sizeof(word) || size - sizeof(word) > kFileBytesMax) return 0;
  std::memcpy(&word, data, sizeof(word));
  Choices choices({}, word);
  const std::span<std::byte> file = region.lend(size - sizeof(word), arenite::kModelAlignment);
  std::memcpy(file.data(), data + sizeof(word), file.size());
  repair_checksums_and_formulas(file);
  if (!arenite::Model::load(file).ok()) return 0;
  strip(file);
  repack(file, choices);
  return 0;
}
