// SPDX-License-Identifier: Apache-2.0
// CLI11 wants a validator to return what is wrong, or nothing.
#include "arenite/arguments.h"

#include <fmt/format.h>

#include <charconv>

#include "arenite/model_file.h"
#include "convert/convert.h"
#include "convert/error.h"

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

void add_machine_options(CLI::App& command, std::string& kernels, uint32_t& threads) {
  command.add_option("--kernels", kernels, "Force a kernel set: scalar, sse41, avx2, avx512, neon")
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

void require_other_file(const std::filesystem::path& output,
                        std::initializer_list<std::filesystem::path> inputs,
                        const std::string& option) {
  for (const std::filesystem::path& input : inputs) {
    std::error_code none;  // a file that is not there is no other file
    if (!std::filesystem::equivalent(input, output, none)) continue;
    throw CLI::ValidationError(option,
                               fmt::format("{} is an input of this command: expected another file",
                                           convert::quote(output.string())));
  }
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
