// SPDX-License-Identifier: Apache-2.0
// Helpers that all subcommands share: they declare options and validate their values. A value that
// breaks a rule is bad usage: the program exits with code 2.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arenite/session.h"
#include "cli/commands.h"
#include "cli/facts.h"
#include "cli/help.h"
#include "cli/model_file.h"
#include "cli/process.h"
#include "cli/session_sizes.h"
#include "cli/text_table.h"
#include "convert/files/error.h"
#include "convert/files/output_files.h"

namespace arenite::tool {

inline constexpr uint32_t kThreadsMax = 256;

// A subcommand and the struct that its options fill in.
template <typename Arguments>
struct Command {
  CLI::App& app;
  Arguments& arguments;
};

// Declares a subcommand that calls `run` with the parsed arguments.
template <typename Arguments>
Command<Arguments> add_command(CLI::App& app, void (*run)(const Arguments&),
                               const std::string& name, const std::string& what,
                               const std::string& footer) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App& command = *app.add_subcommand(name, what)->footer(footer);
  command.callback([arguments, run] { run(*arguments); });
  return {command, *arguments};
}

// Declares the required positional argument `model`.
void add_model(CLI::App& command, std::filesystem::path& model,
               const std::string& what = "A model file");

CLI::Option* add_file(CLI::App& command, const std::string& names, std::filesystem::path& file,
                      const std::string& help);

// Declares an option that takes a word of `table` and stores the word's value in `choice`.
template <typename Value>
using Choice = std::pair<const char*, Value>;
template <typename Value, typename Chosen, size_t kRows>
CLI::Option* add_choice(CLI::App& command, const std::string& name, Chosen& choice,
                        const Choice<Value> (&table)[kRows], const std::string& help) {
  std::vector<std::string> words;
  for (const auto& [word, value] : table) words.emplace_back(word);
  return command
      .add_option_function<std::string>(
          name,
          [&choice, &table](const std::string& text) {
            choice = std::ranges::find(table, text, &Choice<Value>::first)->second;
          },
          help)
      ->check(CLI::IsMember(words));
}

// Declares an option that takes one file for each input of a model (see convert::files_of_inputs).
CLI::Option* add_input_files(CLI::App& command, const std::string& name,
                             std::vector<std::string>& files, const std::string& help);

// Lists these options under the title `group` in the help.
void put_in_group(CLI::App& command, const char* group, std::initializer_list<const char*> names);

// Accepts digits only, for a value from `min` to `max`.
CLI::Validator whole_number(uint64_t min, uint64_t max);

// Declares an option of a whole number or, if `number` is a list, of several with commas between.
template <typename Number>
CLI::Option* add_number(CLI::App& command, const std::string& names, Number& number,
                        const std::string& help, uint64_t min = 1, uint64_t max = UINT32_MAX) {
  CLI::Option* option = command.add_option(names, number, help)->check(whole_number(min, max));
  if constexpr (requires { number.size(); }) option->delimiter(',');
  return option;
}

// Declares an option that takes sequence lengths in the form of convert::lengths_of_inputs.
CLI::Option* add_lengths(CLI::App& command, const std::string& name,
                         std::vector<std::string>& lengths, const std::string& help);

// real_number accepts a finite decimal number from `min` (exclusive if `above_min`) to `max`;
// add_real declares an option with that check.
CLI::Validator real_number(double min, bool above_min, double max);
template <typename Number>
CLI::Option* add_real(CLI::App& command, const std::string& name, Number& number,
                      const std::string& help, double min, bool above_min, double max) {
  return command.add_option(name, number, help)->check(real_number(min, above_min, max));
}

// Accepts the lists that convert::parse_targets parses.
CLI::Validator target_names();

// Accepts the names that forced_target knows.
CLI::Validator kernel_set_or_target_name();

// Declares --json. `json` must outlive the command.
CLI::Option* add_json_option(CLI::App& command, bool& json);

// Declares --kernels and --threads. The variables must outlive the command.
void add_machine_options(CLI::App& command, std::string& kernels, uint32_t& threads);

// Declares --kv, the type of a session's KV cache. `kv_cache` must outlive the command.
void add_kv_option(CLI::App& command, KvType& kv_cache);

// Declares the options of session sizes and --kv. `sizes` must outlive the command.
void add_size_options(CLI::App& command, SizeOptions& sizes);

// Declares --report. A name that ends in neither .html nor .json is bad usage. `file` must outlive
// the command; it stays empty if the option is not given.
void add_report_option(CLI::App& command, std::filesystem::path& file);

// Throws CLI::ValidationError if `output` is a nonempty file in `model_folder`, unless it is a
// converted model: files that a conversion does not read still belong to the model.
void require_no_part_of(const std::filesystem::path& model_folder,
                        const std::filesystem::path& output);

// Formats a parse error as one line and says where to read more. CLI::App calls it.
std::string usage_message(const CLI::App* app, const CLI::Error& error);

}  // namespace arenite::tool
