// SPDX-License-Identifier: Apache-2.0
// The program of the file is written again. That packing was undone is not believed but seen: the
// weights of each target that stays are packed anew and compared with what lies in the file.
#include "convert/check/repack_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "convert/check/check_session.h"
#include "convert/check/pack_model.h"
#include "convert/files/error.h"
#include "convert/program/writer.h"
#include "format/reader.h"

namespace arenite::convert {
namespace {

Target target_at(const format::ModelReader& reader, uint32_t index) {
  return static_cast<Target>(reader.packed(index).target);
}

// Whose weights are taken: the first target that stays or, where none does, the first one.
uint32_t source_of(const format::ModelReader& reader, const std::vector<Target>& targets) {
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    if (std::ranges::count(targets, target_at(reader, i)) != 0) return i;
  }
  return 0;
}

// Throws InputError unless the weights of `program`, which are those of target `source`, packed for
// target `index`, are what the file has for it.
void require_same_weights(const format::ModelReader& reader, const Program& program,
                          uint32_t source, uint32_t index, const std::string& path) {
  for (uint32_t i = 0; i < reader.tensors(); ++i) {
    const ProgramTensor& tensor = program.tensors[i];
    const Packing packing = reader.packed(index).packing(tensor.type);
    std::vector<std::byte> packed(
        static_cast<size_t>(format::stored_bytes(tensor.shape(), packing).value()));
    pack_weights(tensor, *tensor.packed, packing, packed);
    if (std::ranges::equal(packed, std::span(reader.weights(index, i).data, packed.size()))) {
      continue;
    }
    if (index == source) {
      throw InputError(
          "{}: tensor {} of target {}: its packing cannot be undone: between its numbers lie bytes "
          "other than zero, which no converter writes: convert the checkpoint again",
          path, quote(tensor.name), name(target_at(reader, index)));
    }
    throw InputError(
        "{}: tensor {}: targets {} and {} hold different weights, so that what the model is cannot "
        "be told: name one of the two with --target, or convert the checkpoint again",
        path, quote(tensor.name), name(target_at(reader, source)), name(target_at(reader, index)));
  }
}

// On each target of the file that this CPU runs. Throws InputError where the test does not pass.
std::vector<Target> require_self_test(const AlignedBytes& file, uint32_t tokens,
                                      const std::string& path) {
  const std::vector<Target> targets = runnable_targets(file);
  for (const Target target : targets) {
    CheckSession session(file, target, tokens, Outputs::kAll);
    Diagnostic why;
    const Result<SelfTest> test = session.session().self_test(&why);
    if (!test.ok()) {
      char text[256];
      describe(test.status(), why, text);
      throw InputError("{}: the self-test of the file cannot be run: {}", path, text);
    }
    if (test->passed) continue;
    throw InputError(
        "{}: the self-test of the file fails with kernels {}: {} of token {} differs by {:.2g}, "
        "where {:.2g} is allowed: the weights are not those that it was recorded with, or this "
        "machine computes wrongly: run arenite verify, or drop the test with arenite strip",
        path, kernel_set_name(target),
        test->op_index == format::ModelReader(file.span()).ops()
            ? "the output"
            : fmt::format("op {}", quote(test->op_name)),
        test->token, test->difference, test->tolerance);
  }
  return targets;
}

}  // namespace

RepackedModel repack_model(std::span<const std::byte> file, const std::vector<Target>& targets,
                           const std::string& path) {
  const format::ModelReader reader(file);
  const format::SelfTestView test = reader.self_test();
  const uint32_t source = source_of(reader, targets);
  const Program program = read_model(file, source);
  for (uint32_t i = 0; i < reader.packed_count(); ++i) {
    const bool stays = std::ranges::count(targets, target_at(reader, i)) != 0;
    if (stays || i == source) require_same_weights(reader, program, source, i, path);
  }
  RepackedModel repacked;
  repacked.source = target_at(reader, source);
  try {
    repacked.file = write_model(program, targets, test.tokens);
  } catch (const InputError& error) {
    throw InputError("{}: {}", path, error.what());
  }
  if (test.tokens == 0) return repacked;

  const std::span<const std::byte> stored = file.subspan(static_cast<size_t>(test.segment.begin()),
                                                         static_cast<size_t>(test.segment.bytes()));
  set_self_test(repacked.file, stored);
  repacked.tested = require_self_test(repacked.file, test.tokens, path);
  if (repacked.tested.empty()) {
    AlignedBytes scalar = write_model(program, {Target::kPortable}, test.tokens);
    set_self_test(scalar, stored);
    repacked.tested = require_self_test(scalar, test.tokens, path);
  }
  record_self_test(repacked.file, program);
  return repacked;
}

}  // namespace arenite::convert
