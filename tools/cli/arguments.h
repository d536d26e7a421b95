// SPDX-License-Identifier: Apache-2.0
// What the subcommands ask of their arguments. A value that breaks a rule is bad usage: exit
// code 2.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <string>

namespace arenite::tool {

inline constexpr uint32_t kThreadsMax = 256;

// Digits only, from `min` to `max`.
CLI::Validator whole_number(uint64_t min, uint64_t max);

// A finite decimal number from `min`, or above it, to `max`.
CLI::Validator real_number(double min, bool above_min, double max);

// What convert::parse_targets takes.
CLI::Validator target_names();

// What forced_target takes.
CLI::Validator kernel_set_or_target_name();

// Declares --kernels and --threads. The variables must outlive the command.
void add_machine_options(CLI::App& command, std::string& kernels, uint32_t& threads);

// Throws CLI::ValidationError if `output` is a file of the folder `model_folder` that holds no
// converted model: what a conversion does not read is still a part of the model.
void require_no_part_of(const std::filesystem::path& model_folder,
                        const std::filesystem::path& output);

// The line about a parse error, and where to read more; for CLI::App.
std::string usage_message(const CLI::App* app, const CLI::Error& error);

}  // namespace arenite::tool
