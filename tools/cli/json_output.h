// SPDX-License-Identifier: Apache-2.0
// What --json prints: one object, whose keys the folder `schemas` describes.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

namespace arenite::tool {

// Declares --json. The variable must outlive the command.
CLI::Option* add_json_option(CLI::App& command, bool& json);

// Texts that are no UTF-8, as names from a checkpoint may be, are shown as far as they are.
void print_json(const nlohmann::ordered_json& json);

}  // namespace arenite::tool
