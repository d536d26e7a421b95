// SPDX-License-Identifier: Apache-2.0
// A fuzz target: a valid exported program and a list of changes to it. The changed program is read,
// reduced, lowered, packed, loaded and run; each stage may refuse it.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "arenite/session.h"
#include "convert/check/check_session.h"
#include "convert/check/pack_model.h"
#include "convert/exported/exported_model.h"
#include "convert/exported/read/array.h"
#include "convert/exported/read/pt2_archive.h"
#include "convert/exported/sound/sound_program.h"
#include "convert/files/error.h"
#include "convert/program/program.h"
#include "convert/program/writer.h"
#include "fuzz/cpu_limit.h"
#include "fuzz/program_changes.h"

namespace arenite::fuzz {
namespace {

using namespace convert;

constexpr size_t kHeadBytes = 4;
constexpr uint32_t kContextMax = 16;
constexpr uint32_t kTokens = 5;
// Limits for most inputs, so that each takes little time; the converter's limits are a thousand
// times larger.
constexpr uint64_t kElementsMax = uint64_t{1} << 14;  // of an array
constexpr uint64_t kStepsMax = 20'000'000;
constexpr uint32_t kUnlimitedOneIn = 256;
// The graph is computed beside its program, which takes as long as all else.
constexpr uint32_t kComparedOneIn = 8;
constexpr uint32_t kSoundRate = 16'000;
constexpr uint32_t kSoundOneIn = 4;

// How far an input got.
enum Stage { kRead, kReduced, kLowered, kRun, kStages };
constexpr std::array<const char*, kStages> kStageNames = {
    "refused by the reader", "refused by the reducer", "refused by lowering", "run"};

// Counts inputs by stage for ledger.py, beside libFuzzer's own statistics. Prints them regularly,
// because a run that ends in a finding does not print them at its end.
class StageCounts {
 public:
  ~StageCounts() { print(); }
  void add(Stage stage) {
    ++counts_[stage];
    if (++inputs_ % kPrinted == 0) print();
  }

 private:
  static constexpr uint64_t kPrinted = 10'000;
  void print() const {
    for (size_t i = 0; i < kStages; ++i) {
      std::fprintf(stderr, "stage::%s: %llu\n", kStageNames[i],
                   static_cast<unsigned long long>(counts_[i]));
    }
  }
  std::array<uint64_t, kStages> counts_ = {};
  uint64_t inputs_ = 0;
};

void run(const AlignedBytes& file, const Program& program) {
  const uint32_t tokens = token_count_for(kTokens, program);
  const Model model = load_best(file);
  const ModelInput sequence = sequence_to_check(model, tokens);
  if (sequence.others.empty()) {
    CheckSession(file, Target::kPortable, tokens, Outputs::kAll).run(sequence);
    return;
  }
  const ConvertedSession session(model,
                                 options_for_functions(model, sequence.tokens_of_inputs(), tokens));
  (void)run_functions(*session, model, sequence, tokens, "x.pt2");
}

Stage go(const Pt2Archive& archive, std::span<const uint8_t, kHeadBytes> head, bool compares,
         uint32_t sound_rate) {
  Stage stage = kRead;
  ModelOptions options;
  options.context = head[3] % (kContextMax + 1);
  options.output_indices = {head[3] / (kContextMax + 1) % 8u};
  try {
    std::shared_ptr<const ExportedProgram> program =
        std::make_shared<ExportedProgram>(read_graph(archive, "x.pt2"));
    stage = kReduced;
    if (const auto sound = split_sound(*program, sound_rate)) program = sound->program;
    ExportedModel model = read_exported_model(program, options, {}, compares);
    stage = kLowered;
    const Program lowered = compile(std::move(model.graph), "x");
    check_format_limits(lowered);
    const AlignedBytes file = write_model(lowered, {Target::kPortable});
    run(file, lowered);
    return kRun;
  } catch (const InputError&) {
    return stage;
  }
}

}  // namespace
}  // namespace arenite::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace arenite::fuzz;
  static SeedPrograms seeds(ARENITE_READER_FIXTURES);
  static StageCounts counts;
  if (size < kHeadBytes) return 0;
  const auto head = std::span(data, size).first<kHeadBytes>();
  uint16_t number;
  std::memcpy(&number, head.data(), sizeof(number));
  arenite::convert::Pt2Archive& archive = seeds.program(number);
  ChangedProgram changed(archive, seeds);
  if (head[2] % 8 != 0) changed.end_after(head[2] / 8u * changed.nodes() / 32u);
  for (size_t at = kHeadBytes; at + sizeof(ProgramChange) <= size; at += sizeof(ProgramChange)) {
    ProgramChange change;
    std::memcpy(&change, data + at, sizeof(change));
    changed.apply(change);
  }
  const uint32_t kind = number / kUnlimitedOneIn;
  const bool compares = kind % kComparedOneIn == 0;
  const uint32_t rate = kind / kComparedOneIn % kSoundOneIn == 1 ? kSoundRate : 0;
  const arenite::test::CpuLimit time(20'000'000, 0, 0);
  if (number % kUnlimitedOneIn == 0) {
    counts.add(go(archive, head, compares, rate));
  } else {
    const arenite::convert::ElementLimit limit(kElementsMax);
    const arenite::convert::WorkBudget budget(kStepsMax);
    counts.add(go(archive, head, compares, rate));
  }
  time.check("a program takes at most 20 seconds");
  return 0;
}
