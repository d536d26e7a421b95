// SPDX-License-Identifier: Apache-2.0
#include "cli/json_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace arenite::tool {

CLI::Option* add_json_option(CLI::App& command, bool& json) {
  return command.add_flag("--json", json, "Print one JSON object");
}

void print_json(const nlohmann::ordered_json& json) {
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace arenite::tool
