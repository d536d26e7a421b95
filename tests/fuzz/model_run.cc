// SPDX-License-Identifier: Apache-2.0
// A word that chooses what is done, and any bytes as a model file: loaded, planned, created and
// run, as they are or with checksums and arena formulas made right.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "fuzz/choices.h"
#include "fuzz/guarded_region.h"
#include "fuzz/require.h"
#include "fuzz/session_driver.h"
#include "support/hostile_tokenizer.h"
#include "support/repair.h"

namespace arenite::test {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 17;
constexpr uint32_t kCallsMax = 12;

LoadOptions load_options(Choices& choices) {
  LoadOptions options;
  options.force_target = choices.below(2) == 0;
  options.target = static_cast<Target>(choices.below(kTargets));
  return options;
}

void use(const Model& model, Choices& choices) {
  for (uint32_t i = 0; i < model.labels(); ++i) {
    require(std::strlen(model.label(i)) < SIZE_MAX, "labels end");
  }
  for (uint32_t i = 0; i < model.ops(); ++i) {
    require(std::strlen(model.op_name(i)) < SIZE_MAX, "names end");
  }
  if (choices.one_in(8)) (void)use_tokenizer(model);
  SessionDriver driver(model, choices);
  if (!driver.create()) return;
  if (choices.one_in(2)) driver.compare_ways();
  for (uint32_t calls = choices.below(kCallsMax + 1); calls > 0; --calls) driver.call();
  driver.check_memory();
}

void load_and_use(std::span<const std::byte> file, Choices& choices) {
  LoadOptions options = load_options(choices);
  Diagnostic why;
  const Result<Model> model = Model::load(file, &why, options);
  require(model.ok() || why.reason != nullptr, "a refusal says why");
  options.checksums = Checksums::kSkip;
  const Result<Model> unchecked = Model::load(file, nullptr, options);
  const bool is_whole = unchecked.ok() && unchecked->verify_checksums() == Status::kOk;
  require(model.ok() == is_whole, "checksums later find what checksums at once do");
  // Whatever the weights are, nothing depends on their checksums.
  if (unchecked.ok()) use(*unchecked, choices);
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
  std::ranges::copy(std::as_bytes(std::span(data, size).subspan(sizeof(word))), file.begin());
  const uint32_t repairs = choices.below(16);
  if (repairs != 0) repair_checksums_and_formulas(file);
  load_and_use(file, choices);
  return 0;
}
