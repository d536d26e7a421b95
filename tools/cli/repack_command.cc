// SPDX-License-Identifier: Apache-2.0
// arenite repack: a model file for other targets, where the checkpoint is not at hand.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/json_output.h"
#include "cli/model_file.h"
#include "cli/process.h"
#include "cli/text_table.h"
#include "convert/check/repack_model.h"
#include "convert/convert.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"
#include "convert/files/progress.h"

namespace arenite::tool {
namespace {

using Json = nlohmann::ordered_json;

struct RepackArguments {
  std::filesystem::path model;
  std::filesystem::path output;
  std::string targets;
  bool json = false;
};

bool holds(const format::ModelReader& reader, Target target) {
  return (reader.file_targets() & bit(target)) != 0;
}

// What became of each target.
std::string describe_targets(const format::ModelReader& before, const format::ModelReader& after,
                             Target source) {
  TextTable table({"target", ">bytes", ""});
  for (uint32_t i = 0; i < after.packed_count(); ++i) {
    const Target target = static_cast<Target>(after.packed(i).target);
    table.add_row({name(target), grouped(after.packed(i).segment.bytes()),
                   holds(before, target) ? "stays" : fmt::format("new, from {}", name(source))});
  }
  for (uint32_t i = 0; i < before.packed_count(); ++i) {
    const Target target = static_cast<Target>(before.packed(i).target);
    if (!holds(after, target)) table.add_row({name(target), "0", "dropped"});
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

Json file_json(const std::string& path, const VerifiedFile& file) {
  return {{"path", path}, {"bytes", file.bytes().size()}};
}

Json targets_json(const format::ModelReader& before, const format::ModelReader& after,
                  Target source) {
  Json json = Json::array();
  for (uint32_t i = 0; i < after.packed_count(); ++i) {
    const Target target = static_cast<Target>(after.packed(i).target);
    const bool stays = holds(before, target);
    json.push_back({{"name", name(target)},
                    {"bytes", after.packed(i).segment.bytes()},
                    {"state", stays ? "stays" : "new"},
                    {"from", stays ? Json(nullptr) : Json(name(source))}});
  }
  for (uint32_t i = 0; i < before.packed_count(); ++i) {
    const Target target = static_cast<Target>(before.packed(i).target);
    if (holds(after, target)) continue;
    json.push_back({{"name", name(target)}, {"bytes", 0}, {"state", "dropped"}, {"from", nullptr}});
  }
  return json;
}

Json test_json(const convert::RepackedModel& repacked) {
  if (repacked.tested.empty()) return nullptr;
  Json json = Json::array();
  for (const Target target : repacked.tested) json.push_back(kernel_set_name(target));
  return json;
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
  if (arguments.json) {
    return print_json({{"output", file_json(arguments.output.string(), result)},
                       {"source", file_json(file.name(), file)},
                       {"targets", targets_json(file.reader(), result.reader(), repacked.source)},
                       {"self_test", test_json(repacked)}});
  }
  fmt::print("{}: {} bytes, where {} has {}\n", arguments.output.string(), output.bytes_written(),
             file.name(), file.bytes().size());
  fmt::print("{}", describe_targets(file.reader(), result.reader(), repacked.source));
  fmt::print("self-test  {}\n", describe_test(repacked, result.reader().file_targets()));
}

}  // namespace

void add_repack(CLI::App& app) {
  const auto [command, arguments] = add_command(
      app, run_repack, "repack", "Pack a model file's weights for other targets",
      "\nWrites what a conversion to these targets would write, and does not need the\n"
      "checkpoint. --target says all that the result is to have: native, all, or names\n"
      "with commas between, as arenite convert --help lists them. Other targets of the\n"
      "file are dropped. Weights of all types (f32, w8, q8, q4) are packed anew without\n"
      "loss; a file that was changed so that its packing cannot be undone is refused.\n"
      "The self-test of the file must pass with the new packing on the kernels of this\n"
      "machine; then it is recorded anew.\n"
      "\nExamples:\n"
      "  arenite repack intent.arn -o intent-pi.arn --target arm64,arm64-dot\n"
      "  arenite repack intent.arn -o intent-all.arn --target all\n");
  command.add_option("model", arguments.model, "A model file")->type_name(kFileType)->required();
  command.add_option("-o,--output", arguments.output, "The model file to write")
      ->type_name(kFileType)
      ->required();
  command
      .add_option("--target", arguments.targets, "What to pack for: arm64,portable, say; or all")
      ->type_name(kTargetType)
      ->check(target_names())
      ->required();
  add_json_option(command, arguments.json);
}

}  // namespace arenite::tool
