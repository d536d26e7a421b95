// SPDX-License-Identifier: Apache-2.0
// A fuzz target: a word of options, and any bytes as a model file, which is loaded, planned,
// created and run. The checksums and arena formulas are left as they are or repaired. The kernels
// are this CPU's best, those that a better set replaces, or stand-ins for those of all targets, and
// the arena holds other bytes before. A file whose checksums are right without repair counts as the
// converter's, and must give the same results on all kernels.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "format/reader.h"
#include "fuzz/c_calls.h"
#include "fuzz/choices.h"
#include "fuzz/guarded_region.h"
#include "fuzz/require.h"
#include "fuzz/session_driver.h"
#include "ops/integer_rows.h"
#include "support/hostile_tokenizer.h"
#include "support/repair.h"
#include "support/stand_in_kernels.h"

namespace arenite::test {
namespace {

constexpr size_t kFileBytesMax = size_t{1} << 17;
constexpr uint32_t kCallsMax = 12;
// Large scores amplify rounding: sums over images reach hundreds.
constexpr float kFloatTolerance = 2e-4f;
constexpr float kRoundedTolerance = 0.1f;

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
  constexpr uint32_t kSignallingNan = 0x7FA00000;
  const uint32_t fills[] = {choices.one_in(2) ? kSignallingNan : UINT32_MAX, 0};
  std::vector<uint32_t> given[std::size(fills)];
  for (size_t i = 0; i < std::size(fills); ++i) {
    Choices same = choices;
    SessionDriver driver(model, same, fills[i]);
    if (!driver.create()) return;
    if (same.one_in(2)) driver.compare_ways();
    for (uint32_t calls = same.below(kCallsMax + 1); calls > 0; --calls) driver.call();
    driver.check_memory();
    given[i] = driver.given();
  }
  require(given[0] == given[1], "the same, whatever the arena held");
}

// Forces test kernels for this input: for AVX2, for all targets, or none.
void choose_kernels(Choices& choices) {
  const uint32_t kind = choices.below(3);
  force_kernels(kind == 0 ? plain_avx2_set() : nullptr);
  force_stand_ins(kind == 1);
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

bool rounds_rows(const Model& model, const SessionOptions& options) {
  const format::ModelReader reader(model.file());
  bool rounds = kRowsAreIntegers || options.kv_cache == KvType::kInt8 ||
                (options.kv_cache == KvType::kOfModel && model.kv_cache() == TensorType::kInt8);
  for (uint32_t i = 0; i < reader.tensors(); ++i) {
    const TensorType type = reader.tensor(i).type;
    rounds = rounds || type == TensorType::kQ8 || type == TensorType::kQ4;
  }
  return rounds;
}

// Runs a file that nobody changed on two sets of kernels, which agree but for rounding.
void compare_targets(std::span<const std::byte> file, Choices& choices) {
  std::vector<float> outputs[2];
  bool rounds = false;
  for (const bool portable : {true, false}) {
    const Result<Model> model = Model::load(file, nullptr, {.force_target = portable});
    if (!model.ok()) return;
    Choices same = choices;
    SessionDriver driver(*model, same);
    if (!driver.create()) return;
    outputs[portable] = driver.run_ordinary();
    rounds = rounds_rows(*model, driver.options());
  }
  require(outputs[0].size() == outputs[1].size(), "as many results on any kernels");
  float largest = 0.0f;
  for (const float value : outputs[1]) largest = std::max(largest, std::fabs(value));
  // A number that lies between two steps of int8 may become either; then so may others after it.
  const float tolerance = (rounds ? kRoundedTolerance : kFloatTolerance) * (1.0f + largest);
  for (size_t i = 0; i < outputs[0].size(); ++i) {
    // Attention on rows of integers makes NaN of scores beyond 2^13.
    if (kRowsAreIntegers && std::isnan(outputs[0][i] + outputs[1][i])) continue;
    require(std::fabs(outputs[0][i] - outputs[1][i]) <= tolerance, "the same on any kernels");
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
  choose_kernels(choices);
  if (choices.one_in(2) && arenite::Model::load(file).ok()) {
    compare_targets(file, choices);
    return 0;
  }
  if (!choices.one_in(16)) repair_checksums_and_formulas(file);
  if (choices.one_in(8)) {
    call_c_interface(file, choices);
    return 0;
  }
  load_and_use(file, choices);
  return 0;
}
