// SPDX-License-Identifier: Apache-2.0
// CLI11 wants a validator to return what is wrong, or nothing.
#include "cli/arguments.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>

#include "cli/model_file.h"
#include "convert/convert.h"
#include "convert/files/error.h"
#include "format/file_layout.h"

namespace arenite::tool {
namespace {

template <typename Parse>
std::string problem_of(const Parse& parse) {
  try {
    parse();
    return {};
  } catch (const convert::InputError& error) {
    return error.what();
  }
}

bool is_model_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  char start[8] = {};  // the FlatBuffer's root, then its identifier
  in.read(start, sizeof(start));
  return in && std::string_view(start + 4, 4) == format::kFileIdentifier;
}

}  // namespace

CLI::Validator whole_number(uint64_t min, uint64_t max) {
  const auto problem = [min, max](const std::string& text) {
    uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && stop == end && number >= min && number <= max) return std::string();
    return fmt::format("found {}, expected a whole number from {} to {}", convert::quote(text), min,
                       max);
  };
  return CLI::Validator(problem, "");
}

CLI::Validator real_number(double min, bool above_min, double max) {
  const auto problem = [min, above_min, max](const std::string& text) {
    double number = 0.0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const bool high_enough = above_min ? number > min : number >= min;  // not of NaN
    if (error == std::errc() && stop == end && high_enough && number <= max) return std::string();
    return fmt::format("found {}, expected a number {} {} {} {}", convert::quote(text),
                       above_min ? "above" : "from", min, above_min ? "and up to" : "to", max);
  };
  return CLI::Validator(problem, "");
}

void add_kv_option(CLI::App& command, KvType& kv_cache) {
  command
      .add_option_function<std::string>(
          "--kv",
          [&kv_cache](const std::string& name) {
            kv_cache = name == "int8" ? KvType::kInt8 : KvType::kF32;
          },
          "Type of the KV cache; the model file's by default")
      ->check(CLI::IsMember({"f32", "int8"}));
}

void add_machine_options(CLI::App& command, std::string& kernels, uint32_t& threads) {
  command.add_option("--kernels", kernels, "Force a kernel set: scalar, sse41, avx2, avx512, neon")
      ->type_name(kKernelsType)
      ->check(kernel_set_or_target_name());
  command.add_option("--threads", threads, "Threads")
      ->check(whole_number(1, kThreadsMax))
      ->capture_default_str();
}

CLI::Validator target_names() {
  return CLI::Validator(
      [](const std::string& text) { return problem_of([&] { convert::parse_targets(text); }); },
      "");
}

CLI::Validator kernel_set_or_target_name() {
  return CLI::Validator(
      [](const std::string& text) { return problem_of([&] { target_named(text); }); }, "");
}

void require_no_part_of(const std::filesystem::path& model_folder,
                        const std::filesystem::path& output) {
  std::error_code none;  // what is not there is no part of anything
  const std::filesystem::path parent = output.has_parent_path() ? output.parent_path() : ".";
  if (!std::filesystem::is_directory(model_folder, none) ||
      !std::filesystem::equivalent(parent, model_folder, none) ||
      !std::filesystem::exists(output, none) || std::filesystem::file_size(output, none) == 0 ||
      is_model_file(output)) {
    return;
  }
  throw CLI::ValidationError(
      "--output", fmt::format("{} is a file of the model's folder, and no converted model: "
                              "expected another file",
                              convert::quote(output.string())));
}

std::string usage_message(const CLI::App* app, const CLI::Error& error) {
  std::string command = "arenite";
  for (const CLI::App* subcommand : app->get_subcommands()) command += " " + subcommand->get_name();
  std::string problem = error.what();
  if (app->get_subcommands().empty() && app->remaining_size() > 0) {
    problem = fmt::format("there is no command {}", convert::quote(app->remaining().front()));
  }
  return fmt::format("{}: {}\nRun '{} --help' for what there is and an example.\n", command,
                     problem, command);
}

}  // namespace arenite::tool
