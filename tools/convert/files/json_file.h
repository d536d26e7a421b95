// SPDX-License-Identifier: Apache-2.0
// Reads untrusted JSON files within fixed limits of size and depth.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace arenite::convert {

// Returns the value in `file`. Throws InputError for malformed text, a duplicate key in an object,
// deep nesting (kJsonDepthMax), and files that are too large.
nlohmann::json read_json_value(const std::filesystem::path& file);

// Like read_json_value, for a file that must hold an object.
nlohmann::json read_json_object(const std::filesystem::path& file);

// Parses `text` by the same rules, without the byte limit. `name` is for messages.
nlohmann::json parse_json(std::string_view text, const std::string& name);

// Formats `value` as JSON text for a message.
std::string show(const nlohmann::json& value);

}  // namespace arenite::convert
