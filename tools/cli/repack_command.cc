// SPDX-License-Identifier: Apache-2.0
// arenite repack: packs a model file for other targets without its checkpoint.

#include "cli/arguments.h"
#include "cli/process.h"
#include "convert/check/pack_model.h"
#include "convert/convert.h"
#include "convert/files/progress.h"

namespace arenite::tool {
namespace {

struct RepackArguments {
  std::filesystem::path model;
  std::filesystem::path output;
  std::string targets;
  bool json = false;
};

bool holds(const format::ModelReader& reader, Target target) {
  return (reader.file_targets() & bit(target)) != 0;
}

std::vector<std::string> states() { return {"stays", "new", "dropped"}; }

// A target of the old or the new file.
struct RepackedTarget {
  Target target;
  uint64_t bytes = 0;
  OneOf<states> state;
  std::optional<std::string> from;  // source of a new target's weights
};

std::vector<RepackedTarget> targets_of(const format::ModelReader& before,
                                       const format::ModelReader& after, Target source) {
  std::vector<RepackedTarget> targets;
  for (uint32_t i = 0; i < after.packed_count(); ++i) {
    const Target target = static_cast<Target>(after.packed(i).target);
    const uint64_t bytes = after.packed(i).segment.bytes();
    if (holds(before, target)) {
      targets.push_back({target, bytes, {"stays"}, std::nullopt});
    } else {
      targets.push_back({target, bytes, {"new"}, name(source)});
    }
  }
  for (uint32_t i = 0; i < before.packed_count(); ++i) {
    const Target target = static_cast<Target>(before.packed(i).target);
    if (!holds(after, target)) targets.push_back({target, 0, {"dropped"}, std::nullopt});
  }
  return targets;
}

struct RepackFacts {
  WrittenPath output, source;
  std::vector<RepackedTarget> targets;
  std::optional<std::vector<std::string>> self_test;  // absent if the file has none
};

std::string describe_targets(const std::vector<RepackedTarget>& targets) {
  TextTable table({"target", ">bytes", ""});
  for (const RepackedTarget& target : targets) {
    table.add_row({name(target.target), grouped(target.bytes),
                   target.from ? fmt::format("new, from {}", *target.from) : target.state.text});
  }
  return table.text();
}

std::string describe_test(const convert::RepackedModel& repacked, uint32_t targets) {
  if (repacked.tested.empty()) return "none, as before";
  std::vector<std::string> kernels;
  bool is_of_file = true;
  for (const Target target : repacked.tested) {
    kernels.emplace_back(kernel_set_name(target));
    is_of_file = is_of_file && (targets & bit(target)) != 0;
  }
  return fmt::format("passed with kernels {}{}; recorded anew", fmt::join(kernels, ", "),
                     is_of_file ? "" : ", since this CPU runs no target of the file");
}

void run_repack(const RepackArguments& arguments) {
  const convert::OutputGuard guard({{"--output", arguments.output}});
  const VerifiedFile file(arguments.model);
  Progress progress("repacking " + file.name());
  const convert::ProgressListener listener(
      [&](const std::string& stage, double share) { progress.at(stage, share); });
  const convert::RepackedModel repacked = convert::repack_model(
      file.bytes(), convert::parse_targets(arguments.targets), convert::quote(file.name()));
  const VerifiedFile result(arguments.output.string(), repacked.file.span());
  convert::AtomicFile output(arguments.output);
  output.write(result.bytes());
  output.commit();
  progress.done();
  RepackFacts facts = {{arguments.output, result.bytes().size()},
                       {file.name(), file.bytes().size()},
                       targets_of(file.reader(), result.reader(), repacked.source),
                       std::nullopt};
  for (const Target target : repacked.tested) {
    if (!facts.self_test) facts.self_test.emplace();
    facts.self_test->push_back(kernel_set_name(target));
  }
  if (arguments.json) return print_json(facts);
  print_output("{}: {} bytes, where {} has {}\n", arguments.output.string(), output.bytes_written(),
               file.name(), file.bytes().size());
  print_output("{}", describe_targets(facts.targets));
  print_output("self-test  {}\n", describe_test(repacked, result.reader().file_targets()));
}

}  // namespace

template <>
constexpr auto kFacts<RepackedTarget> = std::tuple(
    Fact("name", [](const RepackedTarget& f) { return name(f.target); }),
    Fact("bytes", "0: dropped", &RepackedTarget::bytes), Fact("state", &RepackedTarget::state),
    Fact("from", "The target whose weights were packed anew", &RepackedTarget::from));

template <>
constexpr auto kFacts<RepackFacts> =
    std::tuple(Fact("output", &RepackFacts::output), Fact("source", &RepackFacts::source),
               Fact("targets", &RepackFacts::targets),
               Fact("self_test", "Kernel sets that passed the self-test; null: the file has none",
                    &RepackFacts::self_test));

Json repack_facts() { return schema_of<RepackFacts>(); }

void add_repack(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_repack, "repack", "Pack a model file's weights for other targets",
      "\nWrites what a conversion to these targets would write, and does not need the "
      "checkpoint. --target says all that the result is to have: native, all, or names "
      "with commas between, as arenite convert --help lists them. Other targets of the "
      "file are dropped. Weights of all types (f32, w8, q8, q4) are packed anew without "
      "loss; a file that was changed so that its packing cannot be undone is refused. "
      "The self-test of the file must pass with the new packing on the kernels of this "
      "machine; then it is recorded anew.\n"
      "\nExamples:\n"
      "  arenite repack intent.arn -o intent-pi.arn --target arm64,arm64-dot\n"
      "  arenite repack intent.arn -o intent-all.arn --target all\n");
  add_model(command, arguments.model);
  add_file(command, "-o,--output", arguments.output, "The model file to write")->required();
  command
      .add_option("--target", arguments.targets,
                  "Targets to pack for, such as arm64,portable; or all")
      ->type_name(kTargetType)
      ->check(target_names())
      ->required();
  add_json_option(command, arguments.json);
}

}  // namespace arenite::tool
